"""Queries that start from an earlier frame: the same fields, with less to look at."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import backends
import oracle
import sdfcli
import shapes
from commands import run
from sdfcli.backend import Array, Backend
from sdfcli.errors import InputError
from sdfcli.field.from_octree import field_of
from sdfcli.mesh.load import make_mesh
from sdfcli.octree.density import bvh_octree
from sdfcli.octree.grown import Limits
from sdfcli.octree.kinds import OCTREES
from sdfcli.params import QUERIES, BuildParams
from sdfcli.query.warm_start import WarmStart
from sdfcli.scene import Scene
from trees import visits

backend = backends.backend


def frame(time: float) -> shapes.Shape:
    """A star that turns, swells and bends a little with time, so that its domain changes too."""
    vertices, faces = shapes.star(np.random.default_rng(1), 3)
    angle = 0.05 * time
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    moved = vertices @ turn.T * (1 + 0.03 * time)
    return moved + 0.02 * time * np.sin(moved[:, [2, 0, 1]]), faces


@pytest.mark.parametrize("octree", ["adaptive", "bvh"])
@pytest.mark.parametrize("query", QUERIES)
def test_the_field_is_the_same(backend: Backend, octree: str, query: str) -> None:
    options = {"device": backend.name, "octree": octree, "depth": 5, "tolerance": 0.01}
    before = sdfcli.build(frame(0), nearest=True, **options)
    plain = sdfcli.build(frame(1), nearest=True, **options)
    started = sdfcli.build(frame(1), nearest=True, previous=before, query=query, **options)
    assert started.run["previous"]
    assert not plain.run["previous"]
    assert started.content_sha256 == plain.content_sha256 != before.content_sha256
    assert started.info == plain.info
    assert started.nearest is not None
    assert np.array_equal(started.nearest, plain.nearest)


def test_kept_triangles_are_the_nearest(backend: Backend) -> None:
    shape = frame(0)
    field = sdfcli.build(shape, device=backend.name, depth=4, tolerance=0.02, nearest=True, octree="bvh")
    index = sdfcli.MeshDistance(shape, device=backend.name)
    points = field.domain.origin + field.domain.length * oracle.lattice(field.corner_key) / 2**oracle.LATTICE_BITS
    _, faces = index.closest(points)
    distance = index.distance(points)
    assert np.allclose(np.abs(field.distance), distance, atol=1e-6)
    assert np.mean(faces == field.nearest) > 0.99  # rounding decides between equally near ones


@pytest.mark.parametrize("query", QUERIES[1:])
def test_fewer_visits(backend: Backend, query: str) -> None:
    before = sdfcli.build(frame(0), device=backend.name, depth=6, tolerance=0.01, nearest=True)
    mesh = make_mesh(*frame(1))
    scene = Scene.of(mesh, "none", backend, query)
    bvh, start = scene.bvh, WarmStart.of(before, scene)
    assert start is not None
    points = bvh_octree(backend, bvh.order, 6).position
    seeds = start.seeds(points)
    assert seeds.shape == (len(points), 1)
    plain, started = (visits(backend, bvh, points, seed, query) for seed in (None, seeds))
    for without, with_seeds in zip(plain, started, strict=True):
        assert int(with_seeds.sum()) < int(without.sum())


def test_from_the_arrays_of_a_frame_in_the_same_domain(backend: Backend) -> None:
    """The same seeds as from its field, and mostly the nearest triangles of its own corners."""
    mesh = make_mesh(*frame(0))
    scene = Scene.of(mesh, "none", backend)
    grown = OCTREES["bvh"].build(scene, Limits.of(BuildParams(octree="bvh", depth=5), mesh.diagonal, 1.0))
    arrays = dict(grown.arrays)
    field, _, arrived = field_of(grown, backend, mesh.domain, keep_nearest=True, concurrent=True)
    arrived.get()
    field.info["mesh"] = {"triangles": len(mesh.faces)}
    corners = bvh_octree(backend, scene.order, 5)
    starts = WarmStart.from_arrays(backend, scene.order, arrays), WarmStart.of(field, scene)
    seeds = [backend.to_host(start.seeds(corners.position))[:, 0] for start in starts if start]
    assert np.array_equal(*seeds)
    assert np.mean(seeds[0] == backend.to_host(scene.nearest(corners.position)[1])) > 0.5


@pytest.mark.parametrize("pays", [False, True])
@pytest.mark.parametrize("octree", OCTREES)
def test_nothing_is_looked_up_where_it_does_not_pay(
    backend: Backend, octree: str, pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counted:
        asked = 0

        def seeds(self, points: Array) -> Array:
            self.asked += len(points)
            return backend.xp.zeros((len(points), 1), np.uint32)

    mesh, params = make_mesh(*frame(0)), BuildParams(depth=4, tolerance=0.02)
    scene = Scene.of(mesh, "none", backend)
    monkeypatch.setattr(type(scene.index), "coherent", pays)
    monkeypatch.setattr(backend, "grids", False)  # whose kernels know no earlier frame
    scene.warm_start = start = Counted()
    grown = OCTREES[octree].build(scene, Limits.of(params, mesh.diagonal, 1.0))
    assert start.asked == (grown.queries if pays else 0)


def test_another_number_of_triangles_is_not_used(cpu: Backend) -> None:
    options = {"device": "cpu", "depth": 4, "tolerance": 0.02}
    before = sdfcli.build(shapes.icosphere(1), nearest=True, **options)
    field = sdfcli.build(frame(0), previous=before, **options)
    assert not field.run["previous"]
    assert field.content_sha256 == sdfcli.build(frame(0), **options).content_sha256


def test_a_field_without_nearest_triangles(cpu: Backend) -> None:
    before = sdfcli.build(frame(0), device="cpu", depth=4, tolerance=0.02)
    assert before.nearest is None
    with pytest.raises(InputError, match="--nearest"):
        sdfcli.build(frame(1), previous=before, device="cpu", depth=4, tolerance=0.02)


@pytest.mark.parametrize("mesh", [{"triangles": 1280.5}, {}, None, "mesh", 7])
def test_an_earlier_field_that_says_nothing_of_its_mesh(cpu: Backend, mesh: object) -> None:
    options = {"device": "cpu", "depth": 3, "tolerance": 0.05}
    before = sdfcli.build(frame(0), nearest=True, **options)
    before.info["mesh"] = mesh
    assert not sdfcli.build(frame(1), previous=before, **options).run["previous"]


def test_an_earlier_field_with_faces_that_are_not_there(cpu: Backend) -> None:
    options = {"device": "cpu", "depth": 3, "tolerance": 0.05}
    before = sdfcli.build(frame(0), nearest=True, **options)
    assert before.nearest is not None
    nearest = before.nearest.copy()
    nearest[5] = 2**31
    assert not sdfcli.build(frame(1), previous=dataclasses.replace(before, nearest=nearest), **options).run["previous"]


def test_frames_on_the_command_line(tmp_path: Path) -> None:
    for number in range(3):
        vertices, faces = frame(number)
        lines = [f"v {x} {y} {z}" for x, y, z in vertices] + [f"f {a} {b} {c}" for a, b, c in faces + 1]
        (tmp_path / f"frame{number}.obj").write_text("\n".join(lines))
    common = ["--device", "cpu", "--depth", "5", "--tolerance", "0.01", "--json"]
    run("build", "frame0.obj", "--nearest", *common, cwd=tmp_path)
    for number in (1, 2):
        done = run("build", f"frame{number}.obj", "--previous", f"frame{number - 1}.h5", *common, cwd=tmp_path)
        assert json.loads(done.stdout)["previous_used"]
    plain = json.loads(run("build", "frame2.obj", "-o", "plain.h5", *common, cwd=tmp_path).stdout)
    assert plain["content_sha256"] == sdfcli.load(tmp_path / "frame2.h5").content_sha256
    assert sdfcli.load(tmp_path / "plain.h5").nearest is None
    done = run("build", "frame0.obj", "--previous", "plain.h5", "-o", "x.h5", *common, cwd=tmp_path)
    assert done.returncode == 3
    assert "--nearest" in done.stdout + done.stderr
