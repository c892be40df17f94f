"""Queries that several devices share: whoever answers, the bits are the same."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import backends
import sdfcli
import shapes
from commands import run
from sdfcli.backend import Array, Backend
from sdfcli.backend.cpu import CpuBackend
from sdfcli.batch.messages import Settings
from sdfcli.batch.pool import Plan
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.octree import growth
from sdfcli.params import BuildOptions, BuildParams
from sdfcli.pipeline import build_field
from sdfcli.query.helper import DeviceHelper
from sdfcli.scene import Scene
from sdfcli.spatial.index import DistanceIndex
from sdfcli.spatial.packets import PacketIndex
from sdfcli.spatial.query_pool import Answer, Helper, QueryPool

backend = backends.backend


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for index in (DistanceIndex, PacketIndex):
        monkeypatch.setattr(index, "least_piece", 50)
    monkeypatch.setattr(growth, "WIDE", 0)  # so that it is not kernels that ask


class Counted:
    """A helper that counts the points it answers, and fails where it is told to."""

    def __init__(self, helper: Helper, fails: str = "") -> None:
        self._helper, self._fails, self.points, self.asked = helper, fails, 0, 0

    def __call__(self, backend: Backend, points: Array, seed: Array) -> Callable[[], Answer]:
        self.asked += 1
        if self._fails == "at once":
            raise OSError("gone")
        self.points += len(points)
        return self._lose if self._fails else self._helper(backend, points, seed)

    def _lose(self) -> Answer:
        raise OSError("gone")


@pytest.mark.parametrize("kind", sorted(shapes.ANY))
def test_pieces_of_points(backend: Backend, kind: str) -> None:
    rng = np.random.default_rng(3)
    mesh = make_mesh(*shapes.ANY[kind](rng))
    scene = Scene.of(mesh, "auto", backend)
    index = scene.index
    helpers = [Counted(DeviceHelper(each, scene.mesh)) for each in (CpuBackend(1), backend)]
    lost = [Counted(helpers[0], fails) for fails in ("at once", "later")]
    shared = QueryPool([*helpers, *lost])
    for count in (0, 1, 99, 100, 199, 1000, 1003):
        points = backend.from_host(rng.random((count, 3)), np.float32)
        candidates = backend.from_host(rng.integers(0, len(scene.order), (count, max(1, index.seeds))), np.uint32)
        for seed in (None, candidates):
            expected = index.nearest(points, seed)
            before = [each.points for each in helpers]
            found = shared.nearest(index, points, seed)
            for one, other in zip(found, expected, strict=True):
                assert np.array_equal(backend.to_host(one), backend.to_host(other))
            assert (helpers[0].points > before[0]) == (count >= 100)
            assert (helpers[1].points > before[1]) == (count >= 150)
    assert [each.asked for each in lost] == [1, 1]


@pytest.mark.parametrize("kind", ["star", "holed star", "soup", "zoo", "far"])
def test_builds_with_helpers(backend: Backend, kind: str) -> None:
    shape = shapes.ANY[kind](np.random.default_rng(5))
    parameters: dict[str, Any] = {"device": backend.name, "depth": 6, "tolerance": 5e-3}
    plain = sdfcli.build(shape, **parameters)
    made: list[Counted] = []

    def helpers(mesh: Mesh) -> list[Helper]:
        made.extend(Counted(DeviceHelper(each, mesh)) for each in (CpuBackend(1), backend))
        made.append(Counted(made[0], "later"))
        return list(made)

    params = BuildParams(depth=6, tolerance=5e-3)
    found = build_field(shape, params, BuildOptions(backend.name), helpers=helpers)
    assert found.content_sha256 == plain.content_sha256
    assert found.info == plain.info
    assert all(each.points > 0 for each in made[:2])


@pytest.mark.gpu
def test_one_mesh_on_two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    backends.two_gpus()
    shape, asked, nearest = shapes.torus(60, 30), Counter[str](), PacketIndex.nearest
    plain = sdfcli.build(shape, device="cuda:0", tolerance=5e-4)

    def counted(index: PacketIndex, points: Array, seed: Array | None = None) -> Answer:
        asked[index.backend.name] += len(points)
        return nearest(index, points, seed)

    monkeypatch.setattr(PacketIndex, "nearest", counted)
    found = sdfcli.build(shape, device="cuda:0,1", tolerance=5e-4)
    assert found.content_sha256 == plain.content_sha256
    assert found.info == plain.info
    assert 0.4 < asked["cuda:1"] / asked["cuda:0"] < 1


@pytest.fixture
def torus(tmp_path: Path) -> Path:
    path = tmp_path / "torus.ply"
    trimesh.Trimesh(*shapes.torus(60, 30), process=False).export(path)
    return path


def test_a_cluster_on_this_machine_shares_a_mesh(torus: Path) -> None:
    pytest.importorskip("distributed")
    found = []
    for words in ([], ["--scheduler", "local", "--jobs", 2]):
        output = torus.with_name(f"{len(words)}.h5")
        done = run("build", torus, "-o", output, "--tolerance", "1e-3", "--device", "cpu", *words)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        found.append(output.read_bytes())
    assert found[0] == found[1]


def test_workers_that_share_a_mesh_are_killed(torus: Path) -> None:
    distributed = pytest.importorskip("distributed")
    from sdfcli.batch import cluster

    plain = sdfcli.build(torus, device="cpu", tolerance=1e-3)
    plan = Plan([Settings(device="cpu", threads=1)], 1)
    answered = []
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as local,
        distributed.Client(local) as client,
        cluster.query_pool(local.scheduler_address, plan) as make,
    ):
        victims = client.run(os.getpid).values()

        def helpers(mesh: Mesh) -> list[Helper]:
            def ask(backend: Backend, points: Array, seed: Array) -> Callable[[], Answer]:
                if len(answered) == 1:
                    for victim in victims:
                        os.kill(victim, signal.SIGKILL)
                found = own(backend, points, seed)()
                answered.append(len(points))
                return lambda: found

            own, *others = make(mesh)
            return [ask, *others]

        found = build_field(torus, BuildParams(tolerance=1e-3), BuildOptions("cpu"), helpers=helpers)
    assert found.content_sha256 == plain.content_sha256
    assert found.info == plain.info
    assert len(answered) > 1
