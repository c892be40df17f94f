"""Bounds of Hausdorff distances, attacked: no point of a mesh is farther than the upper bound, and one is as far as the
lower bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import sdfcli
import shapes
from sdfcli.backend import Backend
from sdfcli.errors import InputError, UsageError
from sdfcli.quality import hausdorff
from sdfcli.quality.comparison import Comparison, Deviation, compare
from sdfcli.quality.hausdorff import FLOOR, SLACK, Directed, Frame, Located, directed
from shapes import Shape

Floats = npt.NDArray[np.float64]

FEW: dict[str, Any] = {"samples": 2000, "device": "cpu", "threads": 2}
CLIMBS = 3
PAIRS = {
    **{f"{name} to a star": (make, lambda rng: shapes.star(rng, 2)) for name, make in shapes.ANY.items()},
    **{f"a star to {name}": (lambda rng: shapes.star(rng, 2), make) for name, make in shapes.ANY.items()},
    "one's shape in other faces": (shapes.icosphere(2), shapes.refined(shapes.icosphere(2))),
    "a coarse sphere": (shapes.icosphere(1), shapes.icosphere(3)),
    "coplanar faces": (shapes.cube(), shapes.moved(shapes.refined(shapes.refined(shapes.cube())), offset=1e-3)),
    "turned cubes": (shapes.cube(), shapes.moved(shapes.cube(), turn=shapes.turn(np.random.default_rng(1)))),
    "smallest": (shapes.moved(shapes.icosphere(1), 1e-29), shapes.moved(shapes.cube(), 1e-29)),
    "largest": (shapes.moved(shapes.icosphere(1), 3e29), shapes.moved(shapes.cube(), 3e29)),
    "a small one far inside": (shapes.moved(shapes.cube(), 1e-7, 0.3), shapes.icosphere(2)),
    "far apart": (shapes.cube(), shapes.moved(shapes.cube(), 1.0, 1e9)),
}


def shape_of(made: Any) -> Shape:
    return made(np.random.default_rng(3)) if callable(made) else made


def attack(shape: Shape, other: Shape, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Points (k, 3) of a shape that are far from another, found by ascent from random points, and distances (k,)."""
    corners, target = shapes.triangles(shape), shapes.triangles(other)
    if len(target) * len(corners) > 1 << 16:
        corners = corners[rng.choice(len(corners), max(1, (1 << 16) // len(target)), replace=False)]
    face = np.tile(np.arange(len(corners)), -(-256 // len(corners)))
    weight = rng.dirichlet([0.6, 0.6, 0.6], len(face))

    def distances(weight: Floats) -> tuple[Floats, Floats]:
        points = (corners[face] * weight[:, :, None]).sum(axis=1)
        parts = np.array_split(points, max(1, len(points) * len(target) >> 20))
        return points, np.concatenate([oracle.distances(part, target).min(axis=1) for part in parts])

    points, distance = distances(weight)
    spread = 0.3
    for _ in range(CLIMBS):
        tried = np.abs(weight + spread * rng.normal(size=weight.shape))
        tried /= tried.sum(axis=1, keepdims=True)
        there, found = distances(tried)
        better = found > distance
        weight[better], points[better], distance[better] = tried[better], there[better], found[better]
        spread /= 2.5
    return points, distance


def check(found: Directed, shape: Shape, other: Shape, within: float, diagonal: float) -> None:
    """Asserts what a direction's bounds promise."""
    near = SLACK * 8 * diagonal
    _, distance = attack(shape, other, np.random.default_rng(5))
    assert distance.max() <= found.upper + 1e-14 * diagonal
    at, target = np.array([found.point]), shapes.triangles(other)
    assert found.lower - 1e-14 * diagonal <= oracle.distances(at, target).min() <= found.lower + near
    assert oracle.distances(at, shapes.triangles(shape)[found.face][None])[0, 0] <= near
    assert oracle.distances(np.array([found.nearest]), target[found.nearest_face][None])[0, 0] <= near
    assert abs(np.linalg.norm(np.subtract(found.point, found.nearest)) - found.lower) <= near
    assert found.lower <= found.upper <= max(found.lower * (1 + within), found.lower + FLOOR * diagonal) + near


@pytest.mark.parametrize("name", PAIRS)
def test_no_point_is_farther(name: str) -> None:
    a, b = map(shape_of, PAIRS[name])
    within = (0.01, 0.2)[len(name) % 2]
    found = compare(a, b, within=within, sign="none", **FEW)
    check(found.a_to_b, a, b, within, found.diagonal)
    check(found.b_to_a, b, a, within, found.diagonal)
    assert found.lower == max(found.a_to_b.lower, found.b_to_a.lower)
    assert found.upper == max(found.a_to_b.upper, found.b_to_a.upper)


@pytest.mark.parametrize("name", shapes.ANY)
def test_a_mesh_equals_itself(name: str) -> None:
    """With other numbers for vertices and faces, too."""
    shape = shapes.ANY[name](np.random.default_rng(2))
    for other in (shape, shapes.shuffled(np.random.default_rng(4), shape)):
        found = compare(shape, other, **FEW)
        assert found.lower == 0
        assert found.upper <= 2 * FLOOR * found.diagonal


def test_equal_closed_meshes_have_the_distance_zero() -> None:
    for shape in (shapes.cube(), shapes.icosphere(3), shapes.torus(30, 20), shapes.tetrahedron()):
        found = compare(shape, shapes.shuffled(np.random.default_rng(4), shape), max_distance=0.0, **FEW)
        assert (found.lower, found.upper, found.passed, found.decided) == (0.0, 0.0, True, True)


lengths = st.floats(1e-4, 10.0)


@settings(max_examples=25, deadline=None)
@given(lengths, st.integers(0, 2**32 - 1))
def test_a_moved_plate_is_as_far_as_the_way(way: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    turn = shapes.turn(rng)
    plate = (np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float) @ turn.T, np.array([[0, 1, 2], [0, 2, 3]]))
    found = compare(plate, (plate[0] + way * turn[:, 2], plate[1][::-1]), within=1e-6, **FEW)
    assert found.lower <= way * (1 + 1e-14) + 1e-15
    assert found.upper >= way * (1 - 1e-14) - 1e-15
    assert found.upper - found.lower <= 2 * FLOOR * found.diagonal
    for each in (found.a_to_b, found.b_to_a):
        assert each.mean == pytest.approx(way, rel=1e-5, abs=1e-6)
        assert each.rms == pytest.approx(way, rel=1e-5, abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-3, 3))
def test_distances_are_symmetric_and_scale(seed: int, power: float) -> None:
    rng, factor = np.random.default_rng(seed), 2.0 ** round(power)
    a, b = shapes.star(rng, 1), shapes.soup(rng, 20, 0.5)
    one, other = compare(a, b, sign="none", **FEW), compare(b, a, sign="none", **FEW)
    assert (one.lower, one.upper) == (other.lower, other.upper)
    assert one.a_to_b == other.b_to_a
    scaled = compare(shapes.moved(a, factor), shapes.moved(b, factor), sign="none", **FEW)
    assert scaled.lower == pytest.approx(factor * one.lower, rel=0.011)


def test_a_sphere_around_a_sphere() -> None:
    a, b = shapes.icosphere(4), shapes.moved(shapes.icosphere(4), 1.5)
    found = compare(a, b, **FEW)
    assert found.lower <= 0.5 <= found.upper * 1.001
    assert found.a_to_b.outside == 0
    assert found.a_to_b.inside == pytest.approx(0.5, rel=0.01)
    assert found.b_to_a.inside == 0
    assert found.b_to_a.outside == pytest.approx(0.5, rel=0.01)
    for each in (found.a_to_b, found.b_to_a):
        assert each.mean == pytest.approx(0.5, rel=0.01)
        assert each.rms_error < 1e-3


def test_the_mean_is_within_its_error() -> None:
    """Of a triangle's distances to its longest edge's line: a third of the height, and its square's root 1 / 6."""
    plate = (np.array([[0, 0, 0], [1, 0, 0], [0.5, 0.8, 0]], float), np.array([[0, 1, 2]]))
    line = (np.array([[-1, 0, 0], [2, 0, 0], [0.5, 0, 0]], float), np.array([[0, 1, 2]]))
    found = compare(plate, line, samples=20_000, device="cpu").a_to_b
    assert abs(found.mean - 0.8 / 3) < 4 * found.mean_error < 0.01
    assert abs(found.rms - 0.8 / np.sqrt(6)) < 4 * found.rms_error < 0.01
    assert found.outside is None
    assert found.inside is None
    assert (found.lower, found.upper) == pytest.approx((0.8, 0.8), rel=0.01)


@pytest.mark.parametrize("share", [0.5, 0.99, 0.9999, 1.0, 1.0001, 1.003, 1.5])
def test_bounds_decide(share: float) -> None:
    rng = np.random.default_rng(0)
    a, b = shapes.star(rng, 2), shapes.star(rng, 2)
    exact = compare(a, b, within=1e-6, **FEW)
    found = compare(a, b, max_distance=share * exact.lower, within=0.5, **FEW)
    if share == 1.0:
        assert found.decided == (found.upper <= found.max_distance or found.lower > found.max_distance)
        assert found.upper - found.lower <= 2 * FLOOR * found.diagonal
        return
    assert found.decided
    assert found.passed == (share > 1)
    assert found.passed == (found.upper <= found.max_distance)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks, and a small pool of parts: other bounds, as valid."""
    a, b = shapes.icosphere(1), shapes.icosphere(3)
    monkeypatch.setattr(hausdorff, "CHUNK", 256)
    monkeypatch.setattr(hausdorff, "POINTS", 256)
    monkeypatch.setattr(hausdorff, "MOST_OPEN", 600)
    found = compare(a, b, sign="none", **FEW)
    check(found.a_to_b, a, b, 0.01, found.diagonal)
    check(found.b_to_a, b, a, 0.01, found.diagonal)


def triangles_near(rng: np.random.Generator, corners: Floats, n: int) -> Floats:
    """Triangles (n, 3, 3) of all sizes around a mesh's corners (k, 3, 3), some of them segments."""
    size = 10.0 ** rng.uniform(-2.5, 0.5, (n, 1, 1))
    made = corners[rng.integers(len(corners), size=n), 0][:, None] + size * rng.normal(size=(n, 3, 3))
    made[::7, 2] = made[::7, 1]
    return np.asarray(made)


def inside(rng: np.random.Generator, triangles: Floats, n: int) -> Floats:
    """Random points (t, n, 3) of triangles (t, 3, 3)."""
    weight = rng.dirichlet([0.5, 0.5, 0.5], (len(triangles), n))
    return np.asarray(weight @ triangles)


@pytest.mark.parametrize("limit", [0.0, 0.05, 10.0])
@pytest.mark.parametrize("name", ["star", "soup", "one"])
def test_no_point_exceeds_its_parts_bound(cpu: Backend, name: str, limit: float) -> None:
    """By faces near the centroid or the corners, or any others."""
    rng = np.random.default_rng(0)
    shape = shapes.ANY[name](rng)
    target = Located(sdfcli.MeshDistance(shape, sign="none", device="cpu"), Frame(np.zeros(3), 1.0, 1.0))
    corners = target.mesh.vertices[target.mesh.faces]
    n, count = 140, len(target.face)
    made = triangles_near(rng, corners, n)
    farthest = np.array([oracle.distances(each, corners).min(axis=1).max() for each in inside(rng, made, 40)])
    at_corners = target.nearest(made.reshape(-1, 3)).reshape(n, 3)
    at_centre = target.nearest(made.mean(axis=1))
    others = rng.integers(count, size=(n, 2)).astype(np.uint32)
    for near, found in ((at_corners, None), (np.column_stack((at_centre, others)), np.empty(n)), (others, np.empty(n))):
        bound, size = np.empty(n), np.empty(n)
        given = {"corner": made.reshape(-1, 9), "near": np.ascontiguousarray(near), "above": None, "limit": limit}
        out = {"found": found, "bound": bound, "size": size, "target": target.target}
        cpu.run("sdf_patch_bound", n, candidates=near.shape[1], **given, **out)
        assert (farthest <= bound).all()
        np.testing.assert_allclose(size, np.linalg.norm(made - np.roll(made, 1, axis=1), axis=2).max(axis=1))
        if found is not None and near.shape[1] == 3:
            true = [oracle.distances(each[None], corners).min() for each in made.mean(axis=1)]
            np.testing.assert_allclose(found, true, atol=1e-6)


def test_parts_and_the_closed_piece_cover_the_whole(cpu: Backend) -> None:
    rng = np.random.default_rng(0)
    face = np.array([[0.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.2, 0.7, 0.1]])
    target = Located(sdfcli.MeshDistance((face, [[0, 1, 2]]), sign="none", device="cpu"), Frame(np.zeros(3), 1.0, 1.0))
    made = face.mean(axis=0) + rng.uniform(-1, 1, (400, 3, 2)) @ (face[1:] - face[0]) + [0, 0, 0.01]
    n = len(made)
    part, count, closed = np.empty((n, 9, 9)), np.empty(n, np.uint32), np.empty(n)
    given = {"corner": made.reshape(-1, 9), "near": np.zeros((n, 2), np.uint32), "target": target.target, "limit": 0.1}
    cpu.run("sdf_patch_split", n, part=part, count=count, closed=closed, **given)
    assert len(np.unique(count)) > 4
    for points, parts, k, bound in zip(inside(rng, made, 60), part.reshape(n, 9, 3, 3), count, closed, strict=True):
        away = oracle.distances(points, parts[:k]).min(axis=1) if k else np.ones(len(points))
        assert ((away < 1e-12) | (oracle.distances(points, face[None])[:, 0] <= bound)).all()


def test_every_division_makes_progress(cpu: Backend) -> None:
    """No part is as large as the whole, even for segments along a face's edge, on either side of it by rounding."""
    rng = np.random.default_rng(0)
    face = np.array([[0.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.2, 0.7, 0.1]])
    target = Located(sdfcli.MeshDistance((face, [[0, 1, 2]]), sign="none", device="cpu"), Frame(np.zeros(3), 1.0, 1.0))
    share = rng.uniform(-0.3, 1.3, (400, 2))
    ends = face[0] + share[:, :, None] * (face[1] - face[0])
    ends = np.concatenate((ends, ends[:, 1:] + 1e-16 * rng.normal(size=(400, 1, 3))), axis=1)
    around = face.mean(axis=0) + rng.uniform(-1, 1, (400, 3, 2)) @ (face[1:] - face[0])
    corner = np.concatenate((ends, around + 0.01 * rng.normal(size=around.shape))).reshape(-1, 9)
    n = len(corner)
    part, count, closed = np.empty((n, 9, 9)), np.empty(n, np.uint32), np.empty(n)
    given = {"corner": corner, "near": np.zeros((n, 2), np.uint32), "target": target.target, "limit": 0.1}
    cpu.run("sdf_patch_split", n, part=part, count=count, closed=closed, **given)
    assert (count <= 9).all()
    assert (closed <= 0.1).all()
    assert len(np.unique(count)) > 3  # both kinds
    for whole, parts, made in zip(corner.reshape(n, 3, 3), part.reshape(n, 9, 3, 3), count, strict=True):
        span = np.ptp(whole, axis=0).max()
        lost = [np.abs(np.sort(each, axis=0) - np.sort(whole, axis=0)).max() for each in parts[:made]]
        assert min(lost, default=1.0) > 1e-10 * span


def test_slivers_in_other_faces() -> None:
    """As in scans: rows of thin triangles, each split into four."""
    rng = np.random.default_rng(0)
    vertices, faces = shapes.torus(40, 12)
    thin = (vertices * [1.0, 1.0, 1e-3] + 1e-6 * rng.normal(size=vertices.shape), faces)
    found = compare(thin, shapes.refined(thin), sign="none", **FEW)
    assert found.upper <= 2 * FLOOR * found.diagonal


def test_unused_vertices_do_not_count() -> None:
    vertices, faces = shapes.cube()
    assert compare((np.append(vertices, [[9.0, 9.0, 9.0]], axis=0), faces), (vertices, faces), **FEW).upper == 0


def test_degenerate_faces_count() -> None:
    """A face without area is a segment or a point of the mesh."""
    vertices, faces = shapes.cube()
    more = np.append(vertices, [[0.5, 0.5, 3.0], [0.5, 0.5, 4.0]], axis=0)
    n = len(vertices)
    hair = (more, np.append(faces, [[n, n + 1, n], [n, n, n]], axis=0))
    there = compare(hair, (vertices, faces), **FEW)
    top = vertices[:, 2].max()
    assert there.a_to_b.lower == pytest.approx(4.0 - top, rel=1e-6)
    assert there.b_to_a.upper == 0
    check(there.a_to_b, hair, (vertices, faces), 0.01, there.diagonal)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_distance": -1.0}, "--max-distance -1.0: use a finite distance, 0 or more"),
        ({"max_distance": np.nan}, "--max-distance nan: use a finite distance, 0 or more"),
        ({"within": 0.0}, "--within 0.0: use a fraction from 1e-06 to 1"),
        ({"samples": 1}, "--samples 1: use a whole number, 2 or more"),
        ({"seed": -1}, "--seed -1: use a whole number, 0 or more"),
        ({"scale": -1.0}, "--scale -1.0: use a factor above 0, as 0.001 for millimetres to metres"),
    ],
)
def test_wrong_parameters(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        compare(shapes.cube(), shapes.cube(), **options)
    assert str(error.value) == message


def test_an_empty_mesh_is_an_error() -> None:
    with pytest.raises(InputError, match="no faces"):
        compare(shapes.cube(), (np.zeros((3, 3)), np.zeros((0, 3), int)))


def test_results_have_their_types() -> None:
    found = sdfcli.compare(shapes.cube(), shapes.icosphere(2), max_distance=1e-3, **FEW)
    assert isinstance(found, Comparison)
    assert isinstance(found.a_to_b, Deviation)
    assert repr(found) == f"<Comparison: {found.lower:.4g} to {found.upper:.4g}, failed>"


def bounds_on(backend: Backend, a: Shape, b: Shape) -> list[Directed]:
    device = backend.name
    meshes = [sdfcli.MeshDistance(shape, sign="none", device=device) for shape in (a, b)]
    frame = Frame.around(*(each.mesh for each in meshes))
    here, there = (Located(each, frame) for each in meshes)
    return [directed(*way, 0.01, None, lambda _: None) for way in ((here, there), (there, here))]


@pytest.mark.gpu
@pytest.mark.parametrize(
    "name", ["zoo to a star", "a star to huge", "a coarse sphere", "coplanar faces", "turned cubes"]
)
def test_a_gpu_gives_the_same_bits(cpu: Backend, gpu: Backend, name: str) -> None:
    a, b = map(shape_of, PAIRS[name])
    assert bounds_on(cpu, a, b) == bounds_on(gpu, a, b)
