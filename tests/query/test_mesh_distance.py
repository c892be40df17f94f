"""Exact distances from a mesh through MeshDistance, in the mesh's own units."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import shapes
from sdfcli import MeshDistance
from sdfcli.backend import Backend
from sdfcli.errors import InputError, UsageError
from sdfcli.mesh.load import make_mesh

backend = backends.backend

ULP = 2.0**-24

Numbers = oracle.Numbers


class Truth:
    """Float64 answers for a mesh, and how far float32 in the unit cube may be from them."""

    def __init__(self, shape: shapes.Shape) -> None:
        mesh = make_mesh(*shape)
        self.origin, self.length = mesh.domain.origin, mesh.domain.length
        # Near the origin and of unit size, so that the oracle itself loses nothing to a large offset.
        self.unit = mesh.unit_triangles.reshape(-1, 3, 3)

    def distance(self, points: Numbers) -> Numbers:
        return oracle.distance(self.place(points), self.unit) * self.length

    def inside(self, points: Numbers) -> Numbers:
        return oracle.winding(self.place(points), self.unit) > 0.5

    def place(self, points: Numbers) -> Numbers:
        return np.asarray((points - self.origin) / self.length)

    def allowed(self, points: Numbers) -> Numbers:
        """The corners and the point are each rounded to float32, and the distance has six such roundings more."""
        reach = 1 + np.abs(self.place(points)).max(axis=1)
        return np.asarray(10 * ULP * reach * self.length)


def around(rng: np.random.Generator, shape: shapes.Shape, count: int) -> Numbers:
    """Points around the mesh, on its surface, and far away."""
    low, high = shape[0].min(axis=0), shape[0].max(axis=0)
    middle, size = (low + high) / 2, (high - low).max()
    triangles = shapes.triangles(shape)[rng.integers(0, len(shape[1]), count)]
    on = np.einsum("nk,nkx->nx", rng.dirichlet((1, 1, 1), count), triangles)
    far = rng.normal(size=(count // 4, 3)) * 10.0 ** rng.uniform(0, 4, (count // 4, 1))
    return np.concatenate((middle + size * rng.uniform(-0.7, 0.7, (count, 3)), on, middle + size * far))


KINDS = sorted(set(shapes.ANY) - {"soup", "zoo", "small soup", "one", "two", "far", "tiny", "huge"})


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([1.0, 1e-9, 1e9]),
    offset=st.sampled_from([0.0, 1e7]),
)
def test_signed_distances(backend: Backend, kind: str, seed: int, scale: float, offset: float) -> None:
    rng = np.random.default_rng(seed)
    shape = shapes.moved(shapes.ANY[kind](rng), scale, offset * scale)
    method = "winding" if kind == "overlapping" else "auto"
    mesh_index, truth = MeshDistance(shape, sign=method, device=backend.name), Truth(shape)
    points = around(rng, shape, 30)
    true, allowed = truth.distance(points), truth.allowed(points)
    found = mesh_index.distance(points)
    signed = mesh_index.signed_distance(points)
    assert (found.dtype, found.shape, signed.dtype, signed.shape) == (np.float64, true.shape, np.float64, true.shape)
    assert np.all(np.abs(found - true) <= allowed)
    assert np.array_equal(np.abs(signed), found)
    if mesh_index.sign.method == "none":
        assert kind in ("sheet", "holed torus")  # of which little may be left
        assert signed.min() >= 0
        return
    winding = oracle.winding(truth.place(points), truth.unit)
    sided = (true > 10 * allowed) & (np.abs(winding - 0.5) > 1e-5)
    has_inside = mesh_index.sign.method != "none"  # a sheet encloses nothing, but is bent around some points
    assert np.array_equal(signed[sided] < 0, (winding[sided] > 0.5) & has_inside)


@settings(max_examples=30, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1))
def test_closest_points(backend: Backend, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = shapes.ANY[kind](rng)
    mesh_index, truth = MeshDistance(shape, device=backend.name), Truth(shape)
    points = around(rng, shape, 30)
    closest, face = mesh_index.closest(points)
    assert (closest.dtype, closest.shape, face.dtype, face.shape) == (
        np.float64,
        points.shape,
        np.int64,
        points.shape[:1],
    )
    allowed = truth.allowed(points)
    # Each lies on the face that comes with it, as far from the point as the distance says.
    to_face = np.array(
        [oracle.distance(truth.place(q)[None], truth.unit[f][None])[0] for q, f in zip(closest, face, strict=True)]
    )
    assert np.all(to_face * truth.length <= allowed)
    assert np.all(
        np.abs(np.linalg.norm(closest - points, axis=1) - mesh_index.distance(points)) <= allowed * slack(kind)
    )
    assert np.all(np.linalg.norm(closest - points, axis=1) <= truth.distance(points) + 2 * allowed * slack(kind))


def slack(kind: str) -> float:
    """Triangles thinner than a thousandth of their length are common in the zoo; see tests/spatial/test_index.py."""
    return 100.0 if kind == "zoo" else 1.0


def test_a_cube_by_hand(backend: Backend) -> None:
    cube = MeshDistance(shapes.moved(shapes.cube(), 2.0, [10, 20, 30]), device=backend.name)
    points = np.array([[10, 20, 30], [10, 20, 33], [15, 20, 30], [13, 23, 30], [13, 23, 33], [11.5, 20, 30.5]])
    expected = [-2, 1, 3, 2**0.5, 3**0.5, -0.5]
    assert np.allclose(cube.signed_distance(points), expected, rtol=0, atol=1e-6)
    closest, _ = cube.closest(points[1:])
    nearest = [[10, 20, 32], [12, 20, 30], [12, 22, 30], [12, 22, 32], [12, 20, 30.5]]
    assert np.allclose(closest, nearest, rtol=0, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1))
def test_signs_that_are_handed_on(backend: Backend, kind: str, seed: int) -> None:
    # Clouds so dense that most points take over the sign of the one before, near the surface, in the holes of open
    # meshes, and so far away that rounding is larger than the mesh.
    rng = np.random.default_rng(seed)
    shape = shapes.ANY[kind](rng)
    found = MeshDistance(shape, sign="winding", device=backend.name)
    middle = around(rng, shape, 12)
    clouds = middle[:, None] + 10.0 ** -rng.uniform(1, 4, (len(middle), 1, 1)) * rng.normal(size=(1, 30, 3))
    far = np.array([[1e8, 0, 0]]) + rng.normal(size=(30, 3)) * 10.0 ** rng.uniform(-3, 3, (30, 1))
    points = rng.permutation(np.concatenate((clouds.reshape(-1, 3), far)))
    domain = found.mesh.domain
    at = backend.from_host((points - domain.origin) / domain.length, np.float32)
    one_by_one = backend.to_host(found._scene.signer.inside(at, found._scene.index.nearest(at)[1]))
    distance = found.signed_distance(points)
    assert np.array_equal(np.signbit(distance), one_by_one)


def test_face_numbers_are_those_of_the_mesh(backend: Backend) -> None:
    rng = np.random.default_rng(1)
    shape = shapes.shuffled(rng, shapes.star(rng, 2))
    mesh_index = MeshDistance(shape, device=backend.name)
    middles = shapes.triangles(shape).mean(axis=1)
    _, face = mesh_index.closest(middles)
    assert face.tolist() == list(range(len(middles)))


def test_answers_come_in_the_order_of_the_points(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    shape = shapes.star(rng, 2)
    mesh_index = MeshDistance(shape, device=backend.name)
    points = rng.uniform(-1, 1, (500, 3))
    alone = [mesh_index.signed_distance(point[None])[0] for point in points]
    closest, faces = mesh_index.closest(points)
    order = rng.permutation(500)
    for batch in (500, 100, 499):
        monkeypatch.setattr(mesh_index._scene.index, "batch", batch)
        assert mesh_index.signed_distance(points).tolist() == alone
        assert mesh_index.signed_distance(points[order]).tolist() == np.array(alone)[order].tolist()
        shuffled, shuffled_faces = mesh_index.closest(points[order])
        assert np.array_equal(shuffled, closest[order])
        assert np.array_equal(shuffled_faces, faces[order])


def test_points_on_the_device(backend: Backend) -> None:
    mesh_index = MeshDistance(shapes.cube(), device=backend.name)
    points = np.random.default_rng(3).uniform(-2, 2, (50, 3))
    there = backend.from_host(points)
    for question in (mesh_index.distance, mesh_index.signed_distance, lambda p: mesh_index.closest(p)[0]):
        answer = question(there)
        assert type(answer) is type(there)
        assert isinstance(question(points), np.ndarray)
        assert np.array_equal(backend.to_host(answer), question(points))


def test_far_away(backend: Backend) -> None:
    shape = shapes.star(np.random.default_rng(4), 1)
    mesh_index, truth = MeshDistance(shape, device=backend.name), Truth(shape)
    way = np.random.default_rng(5).normal(size=(40, 3))
    points = way * np.geomspace(1e2, 1e15, 40)[:, None]
    true = truth.distance(points)
    assert np.all(np.abs(mesh_index.distance(points) - true) <= 10 * ULP * true)


@pytest.mark.parametrize("sign", ["pseudonormal", "winding"])
@pytest.mark.parametrize("far", [1e1, 1e3, 1e6, 1e9, 1e15])
def test_far_away_is_outside(backend: Backend, sign: str, far: float) -> None:
    # From far away float32 sees all triangles at one distance: which of them is the nearest is left to chance.
    mesh_index = MeshDistance(shapes.star(np.random.default_rng(6), 2), sign=sign, device=backend.name)
    way = np.random.default_rng(7).normal(size=(500, 3))
    assert mesh_index.signed_distance(far * way / np.linalg.norm(way, axis=1, keepdims=True)).min() > 0


@pytest.mark.parametrize("far", [1e20, 1e40, 1e300])
def test_absurdly_far_away(backend: Backend, far: float) -> None:
    # Beyond what float32 can square there is no telling the nearest triangle: a right answer, or none.
    mesh_index = MeshDistance(shapes.cube(), device=backend.name)
    try:
        found = mesh_index.distance([[far, 0, 0]])
    except InputError:
        return
    assert np.allclose(found, far, rtol=1e-5)


def test_no_points(backend: Backend) -> None:
    mesh_index = MeshDistance(shapes.cube(), device=backend.name)
    assert mesh_index.signed_distance(np.zeros((0, 3))).shape == (0,)
    assert mesh_index.distance(np.zeros((0, 3))).shape == (0,)
    closest, faces = mesh_index.closest(np.zeros((0, 3)))
    assert (closest.shape, faces.shape) == ((0, 3), (0,))


@pytest.mark.parametrize(
    "points",
    [np.zeros((4, 2)), None, "points", [["a", "b", "c"]], np.full((2, 3), np.nan), [[0, 0, -np.inf]]],
)
@pytest.mark.parametrize("question", ["distance", "signed_distance", "closest"])
def test_unusable_points(points: Any, question: str) -> None:
    mesh_index = MeshDistance(shapes.cube(), device="cpu")
    with pytest.raises(InputError, match="points"):
        getattr(mesh_index, question)(points)


def test_unusable_requests() -> None:
    with pytest.raises(InputError, match="no such file"):
        MeshDistance("missing.stl", device="cpu")
    for wrong in ({"sign": "best"}, {"device": "tpu"}, {"threads": 0}):
        with pytest.raises(UsageError):
            MeshDistance(shapes.cube(), **{"device": "cpu", **wrong})


def test_unsigned_distances_need_no_signer(backend: Backend) -> None:
    shape = shapes.holed(np.random.default_rng(9), shapes.icosphere(2), 0.1)
    found, points = MeshDistance(shape, device=backend.name), np.random.default_rng(10).normal(size=(50, 3))
    before = found.distance(points)
    found.closest(points)
    assert not found._scene.settled
    assert np.array_equal(np.abs(found.signed_distance(points)), before)
    assert found._scene.settled
    assert np.array_equal(found.distance(points), before)
    assert found.sign.method == "winding"


def test_signs_that_are_asked_for(backend: Backend) -> None:
    middle = [[0.0, 0.0, 0.0]]
    for sign, expected in (("none", 1), ("pseudonormal", -1), ("winding", -1), ("auto", -1)):
        found = MeshDistance(shapes.cube(), sign=sign, device=backend.name).signed_distance(middle)
        assert np.allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-30, 1e-5, 1.0])
@pytest.mark.parametrize("away", [1e12, 1e160, 1e304, 1.7e308])
def test_points_beyond_squares(backend: Backend, scale: float, away: float) -> None:
    """The mesh is a point from there, and nothing overflows on the way."""
    vertices, faces = shapes.icosphere(2)
    found_by = MeshDistance((vertices * scale, faces), device=backend.name)
    for axis in np.eye(3):
        found = found_by.signed_distance(np.array([axis * away, -axis * away]))
        assert np.allclose(found, away, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.float64])
def test_points_of_any_type(backend: Backend, dtype: type) -> None:
    index = MeshDistance(shapes.icosphere(2), device=backend.name)
    points = np.random.default_rng(4).integers(-3, 4, (50, 3)) / (1 if dtype is np.int64 else 4)
    given = points.astype(dtype)
    for ask in (index.signed_distance, index.distance):
        assert np.array_equal(ask(given), ask(points))
    assert np.array_equal(index.closest(given)[1], index.closest(points)[1])
    assert np.array_equal(index.distance(np.asfortranarray(given)), index.distance(points))


@pytest.mark.parametrize("sign", ["auto", "winding", "none"])
def test_copies_and_pickles_answer_the_same(sign: str, backend: Backend) -> None:
    rng = np.random.default_rng(3)
    shape = shapes.star(rng, 2)
    points = around(rng, shape, 200)
    made = MeshDistance(shape, sign, backend.name)
    expected = made.signed_distance(points)  # used before it is copied
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert np.array_equal(other.signed_distance(points), expected)
        assert all(map(np.array_equal, other.closest(points), made.closest(points)))


@pytest.mark.parametrize("sign", ["pseudonormal", "winding"])
def test_pickles_answer_in_other_processes(sign: str, backend: Backend) -> None:
    rng = np.random.default_rng(8)
    shape = shapes.holed(rng, shapes.star(rng, 2), 0.1)
    points = around(rng, shape, 200)
    made = MeshDistance(shape, sign, backend.name)
    expected = made.signed_distance(points)
    sent = pickle.dumps((made, points))
    code = "import pickle, sys; made, points = pickle.load(sys.stdin.buffer); "
    code += "sys.stdout.buffer.write(made.signed_distance(points).tobytes())"
    answer = subprocess.run([sys.executable, "-c", code], input=sent, stdout=subprocess.PIPE, check=True).stdout
    assert answer == expected.tobytes()
