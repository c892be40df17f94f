"""`bench flood`: missed seeds against all seeds in float64, and the Voronoi diagram's growth."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import trimesh

import backends
import shapes
from commands import run
from sdfcli.apps.bench.flood import PICTURE_SEEDS, PICTURE_SIDE, growth, measure, picture, random_seeds
from sdfcli.apps.bench.jump_flood import ORDERS, Seeds, flood, plant
from sdfcli.backend import Backend
from sdfcli.errors import UsageError
from sdfcli.mesh.load import make_mesh
from sdfcli.scene import Scene

backend = backends.backend

NONE = 0xFFFFFFFF


def judged(backend: Backend, seeds: Seeds, depth: int, order: str) -> tuple[float, float, float, float]:
    """Missed share, largest and root mean square excess in spacings, and unreached share, from all pairs."""
    side = 2**depth + 1
    at = np.array([[x, y, z] for z in range(side) for y in range(side) for x in range(side)]) / (side - 1)
    position = backend.to_host(seeds.position).astype(np.float64)
    pairs = np.linalg.norm(at[:, None] - position[None], axis=2)
    carried = backend.to_host(flood(backend, seeds, depth, order)).astype(np.int64)
    reached = carried != NONE
    own = np.take_along_axis(pairs, np.where(reached, carried, 0)[:, None], axis=1)[:, 0]
    excess = (own - pairs.min(axis=1))[reached] * (side - 1)
    missed = np.where(reached, own > pairs.min(axis=1) * (1 + 1e-6), True).mean()
    return float(missed), float(excess.max()), float(np.sqrt((excess**2).mean())), float(1 - reached.mean())


def test_every_row(backend: Backend) -> None:
    mesh = make_mesh(*shapes.torus(36, 18))
    rows = list(measure(mesh, backend, 4, repeat=1))
    index = Scene.of(mesh, "none", backend).index
    assert [(row.order, row.planted) for row in rows[:6]] == [(order, "mesh") for order in ORDERS]
    assert [(row.order, row.seeds) for row in rows[6:]] == [("JFA", 10**k) for k in range(4)]
    for row in rows:
        seeds = plant(backend, index, 4) if row.planted == "mesh" else random_seeds(backend, 4, row.seeds)
        assert (row.depth, row.nodes, row.seeds) == (4, 17**3, len(seeds))
        assert row.passes == {"JFA+1": 5, "1+JFA": 5, "JFA+2": 6, "JFA^2": 8}.get(row.order, 4)
        found = (row.missed, row.excess_max, row.excess_rms, row.unreached)
        assert found == pytest.approx(judged(backend, seeds, 4, row.order), rel=1e-6, abs=1e-6)
        assert row.milliseconds > 0
    missed = {row.order: row.missed for row in rows[:6]}
    assert missed["doubling"] > 0.4 > 0.1 > missed["JFA"] > missed["JFA+1"] >= missed["JFA^2"]


def test_grid_sizes(cpu: Backend) -> None:
    rows = [row for row in measure(make_mesh(*shapes.cube()), cpu, 5, repeat=1) if row.planted == "mesh"]
    assert [(row.order, row.depth) for row in rows] == [("JFA", 4), *((order, 5) for order in ORDERS)]


@pytest.mark.parametrize("depth", [3, 11])
def test_impossible_depths(cpu: Backend, depth: int) -> None:
    with pytest.raises(UsageError, match=f"--depth {depth}"):
        next(measure(make_mesh(*shapes.cube()), cpu, depth))


def test_growth(backend: Backend) -> None:
    """From seeds alone to the diagram: by halving steps nearly all nodes have their nearest seed."""
    y, x = np.divmod(np.arange(PICTURE_SIDE**2), PICTURE_SIDE)
    share = {}
    for order in ("JFA", "doubling"):
        node, states = growth(backend, order)
        assert [state.shape for state in states] == [(64, 64)] * 7
        away = np.hypot(x[:, None] - x[node], y[:, None] - y[node])
        assert len(set(node.tolist())) == PICTURE_SEEDS
        assert np.flatnonzero(states[0].ravel() != NONE).tolist() == sorted(node)
        counts = [int((state != NONE).sum()) for state in states]
        assert counts == sorted(counts)
        assert counts[-1] == 64 * 64
        for state in states:
            assert (state.ravel()[node] == np.arange(PICTURE_SEEDS)).all()
        chosen = np.take_along_axis(away, states[-1].astype(np.int64).reshape(-1, 1), axis=1)[:, 0]
        share[order] = float((chosen > away.min(axis=1) + 1e-9).mean())
    assert 4 * share["JFA"] < share["doubling"] < 0.01


def test_picture(cpu: Backend) -> None:
    node, states = growth(cpu, "JFA")
    drawn = picture(cpu)
    assert drawn.shape == (2 * 256 + 8, 7 * 256 + 6 * 8, 3)
    for k, state in enumerate(states):
        panel = drawn[:256, 264 * k : 264 * k + 256][2::4, 2::4][::-1].reshape(-1, 3)
        assert not panel[node].any()
        others = np.setdiff1d(np.arange(64 * 64), node)
        owner = state.ravel()[others]
        assert ((panel[others] == 255).all(axis=1) == (owner == NONE)).all()
        for seed in set(owner.tolist()) - {NONE}:
            assert len(np.unique(panel[others][owner == seed], axis=0)) == 1
        assert len(np.unique(panel[others][owner != NONE], axis=0)) == len(set(owner.tolist()) - {NONE})
    assert np.array_equal(drawn[:256, :256], drawn[264:, :256])  # doubling begins with the same seeds
    assert not np.array_equal(drawn[:256, -256:], drawn[264:, -256:])


def test_command(tmp_path: Path) -> None:
    ball = tmp_path / "ball.ply"
    trimesh.creation.icosphere(subdivisions=2).export(ball)
    words = ("bench", "flood", ball, "--depth", 4, "--repeat", 1, "--device", "cpu")
    done = run(*words, "--picture", tmp_path / "v.png")
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("orders of passes", "JFA by grid size", "JFA by random seeds", "doubling", "JFA^2", "ns/node/pass"):
        assert word in done.stdout
    assert (tmp_path / "v.png").stat().st_size > 1000
    (report,) = map(json.loads, run(*words, "--json").stdout.splitlines())
    assert [row["order"] for row in report["rows"][:6]] == list(ORDERS)
    assert run(*words, "--picture", tmp_path / "v.png").returncode == 2  # exists


@pytest.mark.gpu
def test_the_picture_on_a_gpu(cpu: Backend, gpu: Backend) -> None:
    assert np.array_equal(picture(cpu), picture(gpu))
