"""The k nearest triangles through MeshDistance, against float64 and against all triangles one by one."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import shapes
from sdfcli import MeshDistance
from sdfcli.backend import Backend
from sdfcli.backend.cpu import CpuBackend
from sdfcli.errors import InputError, UsageError
from sdfcli.mesh.load import make_mesh
from sdfcli.params import FORMS
from sdfcli.query import mesh_distance
from sdfcli.query.nearest_triangles import NearestTriangles, box_vectors, point_vectors
from sdfcli.scene import Scene
from surfaces import points_about

backend = backends.backend

ULP = 2.0**-24
NONE = 0xFFFFFFFF
Numbers = oracle.Numbers


def around(rng: np.random.Generator, shape: shapes.Shape, count: int) -> Numbers:
    """Points around the mesh, at its corners and middles of edges, where triangles are equally near, and far away."""
    low, high = shape[0].min(axis=0), shape[0].max(axis=0)
    middle, size = (low + high) / 2, (high - low).max()
    triangles = shapes.triangles(shape)[rng.integers(0, len(shape[1]), count)]
    far = rng.normal(size=(count // 4, 3)) * 10.0 ** rng.uniform(0, 4, (count // 4, 1))
    anywhere = middle + size * rng.uniform(-0.7, 0.7, (count, 3))
    return np.concatenate((anywhere, triangles[:, 0], (triangles[:, 0] + triangles[:, 1]) / 2, middle + size * far))


def one_by_one(scene: Scene, rng: np.random.Generator, points: Numbers, k: int) -> tuple[Numbers, Numbers]:
    """The k nearest, of all triangles in a random order, without a walk: distances and faces."""
    every = np.stack([rng.permutation(len(scene.order)) for _ in points]).astype(np.uint32)
    return NearestTriangles(scene).of_seeds(points, k, every)


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(sorted(shapes.ANY)),
    seed=st.integers(0, 2**32 - 1),
    k=st.sampled_from([1, 2, 7, 8, 9, 31, 32]),
    scale=st.sampled_from([1.0, 1e-9, 1e9]),
)
def test_against_float64(backend: Backend, kind: str, seed: int, k: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    shape = shapes.moved(shapes.ANY[kind](rng), scale)
    found_by, mesh = MeshDistance(shape, sign="none", device=backend.name), make_mesh(*shape)
    points = around(rng, shape, 12)
    distances, faces = found_by.nearest_triangles(points, k)
    assert (distances.dtype, faces.dtype) == (np.float64, np.int64)
    assert distances.shape == faces.shape == (len(points), k)
    count = min(k, len(mesh.faces))
    assert np.all(distances[:, count:] == np.inf)
    assert np.all(faces[:, count:] == -1)
    distances, faces = distances[:, :count], faces[:, :count]
    assert np.array_equal(distances[:, 0], found_by.distance(points))
    assert np.array_equal(faces[:, 0], found_by.closest(points)[1])
    assert np.all(np.diff(distances) >= 0)
    assert all(len(set(row)) == count for row in faces.tolist())
    at = (points - mesh.domain.origin) / mesh.domain.length
    # A face thinner than a thousandth of its length may be lost beside its edges: see tests/spatial/test_index.py.
    allowed = (1000 if kind == "zoo" else 10) * ULP * (1 + np.abs(at).max(axis=1, keepdims=True)) * mesh.domain.length
    true = oracle.distances(at, mesh.unit_triangles.reshape(-1, 3, 3)) * mesh.domain.length
    assert np.all(np.abs(np.take_along_axis(true, faces, axis=1) - distances) <= allowed)
    assert np.all(np.abs(np.sort(true, axis=1)[:, :count] - distances) <= allowed)


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(sorted(shapes.ANY)),
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(1, 32),
    seeds=st.integers(0, 5),
    around_each=st.sampled_from([0, 1, 16, NONE]),
    threads=st.sampled_from([1, 2]),
)
def test_the_start_does_not_matter(
    backend: Backend, kind: str, seed: int, k: int, seeds: int, around_each: int, threads: int
) -> None:
    """Nor do the device and its threads: the same bits as all triangles one by one."""
    rng = np.random.default_rng(seed)
    shape = shapes.ANY[kind](rng)
    mesh = make_mesh(*shape)
    points = mesh.domain.to_unit(around(rng, shape, 8)).astype(np.float32)
    on_cpu = Scene.of(mesh, "none", CpuBackend(threads))
    expected = one_by_one(on_cpu, rng, points, k)
    scene = Scene.of(mesh, "none", backend) if backend.xp is not np else on_cpu
    start = rng.integers(0, len(mesh.faces), (len(points), seeds)).astype(np.uint32)
    start[rng.random(start.shape) < 0.2] = NONE
    given = scene.backend.from_host(start) if seeds else None
    found = NearestTriangles(scene).exact(scene.backend.from_host(points), k, given, around_each)
    assert np.array_equal(scene.backend.to_host(found[0]).view(np.uint32), expected[0].view(np.uint32))
    assert np.array_equal(scene.backend.to_host(found[1]), expected[1])


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(sorted(shapes.WORSE)),
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(1, 32),
    count=st.integers(1, 400),
    ordered=st.booleans(),
)
def test_neighbouring_points_together(
    backend: Backend, kind: str, seed: int, k: int, count: int, ordered: bool
) -> None:
    """In any order: the same bits as all triangles one by one."""
    rng = np.random.default_rng(seed)
    mesh = make_mesh(*shapes.WORSE[kind](rng))
    points = points_about(rng, mesh.unit_triangles.astype(np.float32), count)
    if ordered:
        points = points[np.argsort(points[:, 0])]
    expected = one_by_one(Scene.of(mesh, "none", CpuBackend(2)), rng, points, k)
    found = NearestTriangles(Scene.of(mesh, "none", backend)).nearest(backend.from_host(points), k)
    assert np.array_equal(backend.to_host(found[0]).view(np.uint32), expected[0].view(np.uint32))
    assert np.array_equal(backend.to_host(found[1]), expected[1])


@pytest.mark.parametrize("k", [1, 8, 9, 16, 17, 32])
def test_threads_do_not_matter(k: int) -> None:
    """Each thread begins without an earlier point's triangles."""
    rng = np.random.default_rng(8)
    mesh = make_mesh(*shapes.joined(*[shapes.star(rng, 2)] * 2))
    points = points_about(rng, mesh.unit_triangles.astype(np.float32), 5000)
    scene = Scene.of(mesh, "none", CpuBackend(1))
    expected = NearestTriangles(scene).exact(points, k)
    for threads in (1, 2, 3):
        found = NearestTriangles(Scene.of(mesh, "none", CpuBackend(threads))).nearest(points, k)
        assert np.array_equal(found[0].view(np.uint32), expected[0].view(np.uint32))
        assert np.array_equal(found[1], expected[1])


@pytest.mark.parametrize("scale", [1e9, 1e3, 1e-30, 0.0])
def test_far_points_and_equal_points(backend: Backend, scale: float) -> None:
    rng = np.random.default_rng(9)
    mesh = make_mesh(*shapes.star(rng, 2))
    points = np.concatenate((rng.normal(size=(40, 3)) * scale, np.full((40, 3), 0.3))).astype(np.float32)
    expected = one_by_one(Scene.of(mesh, "none", CpuBackend(2)), rng, points, 12)
    found = NearestTriangles(Scene.of(mesh, "none", backend)).nearest(backend.from_host(points), 12)
    assert np.array_equal(backend.to_host(found[0]).view(np.uint32), expected[0].view(np.uint32))
    assert np.array_equal(backend.to_host(found[1]), expected[1])


def test_equal_triangles_by_number(backend: Backend) -> None:
    rng = np.random.default_rng(1)
    vertices, faces = shapes.cube()
    order = rng.permutation(36)
    index = MeshDistance((vertices, np.tile(faces, (3, 1))[order]), sign="none", device=backend.name)
    original = np.tile(np.arange(12), 3)[order]
    for face in range(12):
        point = vertices[faces[face]].mean(axis=0)[None] * 1.5
        assert index.nearest_triangles(point, 3)[1].tolist() == [np.flatnonzero(original == face).tolist()]


@pytest.mark.parametrize("approximate", [None, *FORMS])
def test_one_face(backend: Backend, approximate: str | None) -> None:
    index = MeshDistance((np.eye(3), [[0, 1, 2]]), sign="none", device=backend.name)
    distances, faces = index.nearest_triangles([[0, 0, 0], [2, 0, 0]], 3, approximate)
    assert np.allclose(distances[:, 0], [3**-0.5, 1], atol=1e-6)
    assert np.all(distances[:, 1:] == np.inf)
    assert faces.tolist() == [[0, -1, -1]] * 2


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(sorted(shapes.ANY)),
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(1, 32),
    form=st.sampled_from(FORMS),
)
def test_approximate_distances_are_exact(backend: Backend, kind: str, seed: int, k: int, form: str) -> None:
    """For the triangles that are found; where a window holds all of them, they are those with the nearest boxes."""
    rng = np.random.default_rng(seed)
    shape = shapes.ANY[kind](rng)
    index = MeshDistance(shape, sign="none", device=backend.name)
    points = around(rng, shape, 12)
    distances, faces = index.nearest_triangles(points, k, form)
    assert np.all(distances[:, 1:] >= distances[:, :-1])
    assert np.array_equal(faces == -1, np.broadcast_to(np.arange(k) >= len(index.mesh.faces), faces.shape))
    if k >= len(index.mesh.faces):
        exact = index.nearest_triangles(points, k)
        assert np.array_equal(distances, exact[0])
        assert np.array_equal(faces, exact[1])
    mesh = index.mesh
    at = (points - mesh.domain.origin) / mesh.domain.length
    allowed = (1000 if kind == "zoo" else 10) * ULP * (1 + np.abs(at).max(axis=1, keepdims=True)) * mesh.domain.length
    true = oracle.distances(at, mesh.unit_triangles.reshape(-1, 3, 3)) * mesh.domain.length
    there = faces >= 0
    off = np.abs(np.take_along_axis(true, np.where(there, faces, 0), axis=1) - distances)
    assert np.all(off[there] <= np.broadcast_to(allowed, off.shape)[there])


@pytest.mark.parametrize("form", FORMS)
def test_boxes_as_vectors(backend: Backend, form: str) -> None:
    """Squared distances by hand; those of `ball` are half those of `minmax`."""
    rng = np.random.default_rng(2)
    triangles, points = rng.random((50, 3, 3)).astype(np.float32), rng.random((20, 3)).astype(np.float32)
    vectors = backend.to_host(box_vectors(backend, backend.from_host(triangles.reshape(-1, 9)), form))
    asked = backend.to_host(point_vectors(backend.from_host(points), form))
    assert vectors.dtype == asked.dtype == np.float32
    assert vectors.shape[1] == asked.shape[1] == (4 if form == "ball" else 6)
    assert vectors.min() >= 0
    assert vectors.max() <= 1
    low, high = triangles.astype(np.float64).min(axis=1), triangles.astype(np.float64).max(axis=1)
    to_low, to_high = (((points[:, None] - corner) ** 2).sum(axis=2) for corner in (low, high))
    diagonal = ((high - low) ** 2).sum(axis=1)
    expected = {"minmax": to_low + to_high, "size": to_low + diagonal, "ball": (to_low + to_high) / 2}[form]
    assert np.allclose(((asked[:, None] - vectors) ** 2).sum(axis=2), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_most_near_triangles_are_found(backend: Backend, form: str) -> None:
    rng = np.random.default_rng(3)
    shape = shapes.icosphere(4)
    index = MeshDistance(shape, sign="none", device=backend.name)
    points = rng.normal(size=(500, 3))
    points *= rng.uniform(0.99, 1.01, (500, 1)) / np.linalg.norm(points, axis=1, keepdims=True)
    exact, found = index.nearest_triangles(points, 8)[1], index.nearest_triangles(points, 8, form)[1]
    common = [len(set(a) & set(b)) for a, b in zip(exact.tolist(), found.tolist(), strict=True)]
    assert np.mean(common) > 4  # by chance: 0.01


@pytest.mark.parametrize("approximate", [None, "size"])
def test_answers_come_in_the_order_of_the_points(
    backend: Backend, approximate: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    index = MeshDistance(shapes.star(rng, 2), sign="none", device=backend.name)
    points = rng.uniform(-1, 1, (300, 3))
    expected = index.nearest_triangles(points, 9, approximate)
    order = rng.permutation(300)
    for chunk in (mesh_distance.CHUNK, 100, 299, 1):
        monkeypatch.setattr(mesh_distance, "CHUNK", chunk)
        found = index.nearest_triangles(points[order], 9, approximate)
        assert all(np.array_equal(a, b[order]) for a, b in zip(found, expected, strict=True))


def test_points_on_the_device(backend: Backend) -> None:
    index = MeshDistance(shapes.icosphere(1), device=backend.name)
    points = np.random.default_rng(5).uniform(-2, 2, (50, 3))
    there = backend.from_host(points)
    for approximate in (None, "ball"):
        found = index.nearest_triangles(there, 4, approximate)
        assert all(type(each) is type(there) for each in found)
        expected = index.nearest_triangles(points, 4, approximate)
        assert all(np.array_equal(backend.to_host(a), b) for a, b in zip(found, expected, strict=True))


def test_no_points(backend: Backend) -> None:
    index = MeshDistance(shapes.cube(), device=backend.name)
    for approximate in (None, *FORMS):
        distances, faces = index.nearest_triangles(np.zeros((0, 3)), 5, approximate)
        assert distances.shape == faces.shape == (0, 5)


@pytest.mark.parametrize("far", [1e12, 1e160, 1e304])
def test_points_beyond_squares(backend: Backend, far: float) -> None:
    index = MeshDistance(shapes.icosphere(2), device=backend.name)
    for approximate in (None, *FORMS):
        distances, faces = index.nearest_triangles([[far, 0, 0], [0, -far, 0]], 32, approximate)
        assert np.allclose(distances, far, rtol=1e-6)
        assert all(len(set(row)) == 32 for row in faces.tolist())


def test_copies_and_pickles_answer_the_same(backend: Backend) -> None:
    rng = np.random.default_rng(6)
    made = MeshDistance(shapes.star(rng, 2), device=backend.name)
    points = rng.uniform(-1, 1, (200, 3))
    expected = [made.nearest_triangles(points, 8, approximate) for approximate in (None, *FORMS)]
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        for approximate, answer in zip((None, *FORMS), expected, strict=True):
            assert all(map(np.array_equal, other.nearest_triangles(points, 8, approximate), answer))


def test_a_scene_that_is_there(cpu: CpuBackend) -> None:
    scene = Scene.of(make_mesh(*shapes.cube()), "none", cpu)
    points = np.random.default_rng(7).uniform(-2, 2, (50, 3))
    expected = MeshDistance(shapes.cube(), sign="none", device="cpu").nearest_triangles(points, 12)
    assert all(map(np.array_equal, MeshDistance._of(scene).nearest_triangles(points, 12), expected))


def test_unusable_requests() -> None:
    index = MeshDistance(shapes.cube(), device="cpu")
    for k in (0, 33, -1):
        with pytest.raises(UsageError, match=f"k {k}: use 1 to 32"):
            index.nearest_triangles(np.zeros((1, 3)), k)
    with pytest.raises(UsageError, match="approximate box: use minmax, size, ball"):
        index.nearest_triangles(np.zeros((1, 3)), 8, "box")
    with pytest.raises(InputError, match="points"):
        index.nearest_triangles(np.zeros((1, 2)), 8)
