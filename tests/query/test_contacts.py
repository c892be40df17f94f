"""Contacts of a posed mesh with a field, against formulas and dense samples in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import backends
import oracle
import sdfcli
import sequences
import shapes
from sdfcli.backend import Backend
from sdfcli.errors import InputError, UsageError
from sdfcli.field.field import Field, lattice_position
from sdfcli.query import contacts as contacts_module
from sdfcli.query.contacts import VERDICTS, Contacts, contacts
from sdfcli.query.sphere_tree import SphereTree
from sdfcli.query.swallowed import pieces_of

backend = backends.backend

Numbers = oracle.Numbers
Distance = Callable[[Numbers], Numbers]

CLEAR, TOUCHING, PENETRATING = range(3)
SLACK = 0.25
"""How far the least bound may be above the least distance, in errors."""

SAMPLES = np.array([(i, j, 12 - i - j) for i in range(13) for j in range(13 - i)]) / 12
"""Weights of a triangle's corners, 91 points of it."""


def ball_distance(radius: float, middle: Any = (0, 0, 0)) -> Distance:
    return lambda points: np.linalg.norm(np.asarray(points) - middle, axis=1) - radius


def box_distance(half: Any) -> Distance:
    def distance(points: Numbers) -> Numbers:
        beyond = np.abs(points) - half
        return np.linalg.norm(np.maximum(beyond, 0), axis=1) + np.minimum(beyond.max(axis=1), 0)

    return distance


@cache
def ball() -> Field:
    """A field of the ball of radius 1: exact at its corners, and the error that it states is a proven one."""
    built = sdfcli.build(shapes.icosphere(3), device="cpu", tolerance=0.005, band=0.1)
    at = built.domain.origin + lattice_position(built.corner_key) * built.domain.length
    edge = built.domain.length * 0.5**built.leaf_level
    middle = built.domain.origin + lattice_position(built.leaf_key) * built.domain.length + edge[:, None] / 2
    off, half = np.linalg.norm(middle, axis=1), np.sqrt(0.75) * edge
    # A trilinear field misses by h^2 / 8 times the sum of the second derivatives along the axes, at most 2 / |p|.
    wrong = np.minimum(edge**2 / 4 / np.maximum(off - half, 1e-9), half)
    near = wrong / np.maximum(1, (np.abs(off - 1) - half) / (built.unit * 0.1))
    info = {**built.info, "max_error": near.max() / built.unit + 1e-6}
    assert 0.002 < info["max_error"] < 0.02
    return replace(built, distance=ball_distance(1.0)(at).astype(np.float32), info=info)


@cache
def box() -> Field:
    """The cube from -1 to 1, of the rounding of a field's distances."""
    return sdfcli.build(shapes.cube(), device="cpu", tolerance=0.005)


@cache
def placed_box() -> Field:
    """The same; the domain's faces are those of the cube to three sides."""
    return sdfcli.build(shapes.cube(), device="cpu", tolerance=0.005, domain=(-1, -1, -1, 2.5))


@cache
def absolute_box() -> Field:
    return sdfcli.build(shapes.cube(), device="cpu", tolerance=0.002, unit=10.0)


@cache
def grown_box() -> Field:
    """Of the octree of the thesis, whose errors are what they are."""
    return sdfcli.build(shapes.refined(shapes.refined(shapes.cube())), device="cpu", octree="bvh", depth=6)


BOX = box_distance(1.0)
FIELDS: dict[str, tuple[Callable[[], Field], Distance]] = {
    "ball": (ball, ball_distance(1.0)),
    "box": (box, BOX),
    "placed": (placed_box, BOX),
    "absolute": (absolute_box, BOX),
    "bvh": (grown_box, BOX),
}


def near_of(field: Field) -> float:
    parameters = field.info["parameters"]
    return field.unit * max(parameters["tolerance"], field.info["max_error"])


def error_at(field: Field, distance: Any) -> Numbers:
    """The error that a field states at true distances."""
    away = np.abs(distance) / (field.unit * field.info["parameters"]["band"])
    return np.asarray(near_of(field) * np.maximum(1, away))


def pose_of(turn: Any = None, move: Any = 0.0, scale: float = 1.0) -> Numbers:
    pose = np.eye(4)
    pose[:3, :3] = scale * np.asarray(np.eye(3) if turn is None else turn)
    pose[:3, 3] = move
    return pose


def random_poses(rng: np.random.Generator, count: int, reach: float = 1.5, scale: float = 1.0) -> Numbers:
    return np.array([pose_of(shapes.turn(rng), rng.uniform(-reach, reach, 3), scale) for _ in range(count)])


def placed(shape: shapes.Shape, pose: Numbers) -> Numbers:
    """Corners (f, 3, 3) of the triangles at a pose."""
    return np.asarray(shapes.triangles(shape) @ pose[:3, :3].T + pose[:3, 3])


def same(one: Contacts, two: Contacts) -> None:
    """The same bits."""
    for a, b in ((one, two), (one.manifold, two.manifold)):
        for name, value in vars(a).items():
            if name != "manifold":
                assert value.dtype == getattr(b, name).dtype
                assert value.tobytes() == getattr(b, name).tobytes(), name


def check(
    field: Field, truth: Distance, shape: shapes.Shape, poses: Numbers, found: Contacts, margin: float | None = None
) -> None:
    """Everything that contacts promise, by 91 points of each triangle."""
    assert len(found) == len(poses)
    low, high = found.low, found.high
    assert (low <= found.distance).all()
    assert (found.distance <= high).all()
    assert np.array_equal(found.verdict, np.where(low > 0, CLEAR, np.where(high < 0, PENETRATING, TOUCHING)))
    size = np.array([np.abs(placed(shape, pose)).max() + np.cbrt(np.linalg.det(pose[:3, :3])) for pose in poses])
    rounding = 1e-6 * (size * 10 + np.abs(field.domain.origin).max())
    domain = field.domain
    around = found.distance < np.minimum(0, field.sample(found.point))  # the field's solid; see test_swallowed.py
    inside = _within(domain, found.point) & ~around
    outside = ~inside & ~around
    assert np.array_equal(found.distance[inside], field.sample(found.point)[inside])
    assert (found.distance[outside] <= (field.sample(found.point) + near_of(field))[outside]).all()
    assert (truth(found.point) >= low)[~around].all()
    assert (truth(found.point) <= high + 1e-12 * size)[~around].all()
    length = np.linalg.norm(found.normal, axis=1)
    assert ((length == 0) | (np.abs(length - 1) < 1e-12)).all()
    manifold = found.manifold
    key = list(zip(manifold.pose.tolist(), manifold.triangle.tolist(), strict=True))
    assert key == sorted(set(key))
    if margin is None:
        assert not key
    for i, pose in enumerate(poses):
        corner = placed(shape, pose)
        assert oracle.distances(found.point[i : i + 1], corner[found.triangle[i], None]) <= rounding[i]
        if around[i]:
            assert np.abs(oracle.winding(pieces_of(field, field._home).point, corner)).max() > 0.5
            continue
        distance = truth((SAMPLES @ corner).reshape(-1, 3)).reshape(len(corner), -1).min(axis=1)  # of each triangle
        assert low[i] <= distance.min() + 1e-12 * size[i]
        # ... and not much less than needed: what is between them is twice the error there, slack and rounding.
        least = distance[distance.argmin()]
        spacing = max(np.linalg.norm(corner - np.roll(corner, 1, axis=1), axis=2).max(axis=1)) / 12
        if inside[i] and near_of(field) < 0.5 * field.unit * field.info["parameters"]["band"]:
            allowed = (2 + SLACK) * error_at(field, least) * 1.6 + rounding[i]
            assert low[i] >= least - spacing - allowed
        if margin is None:
            continue
        rows = manifold.pose == i
        numbers, values, points = (getattr(manifold, name)[rows] for name in ("triangle", "distance", "point"))
        assert (values <= margin).all()
        for number, point in zip(numbers, points, strict=True):
            assert oracle.distances(point[None], corner[number, None]) <= rounding[i]
        within = _within(domain, points)
        assert np.array_equal(values[within], field.sample(points[within]))
        # A triangle's distance is off by the error there and the slack; outside of the domain, by more, but too small.
        slack = 1.3 * (1 + SLACK) * error_at(field, distance) + rounding[i]
        assert np.isin(np.flatnonzero(distance <= margin - slack), numbers).all()
        assert (values <= distance[numbers] + slack[numbers]).all()
        if found.distance[i] <= margin:
            assert found.triangle[i] in numbers
            assert found.distance[i] <= values[within].min(initial=np.inf) + 1e-12 or not inside[i]


def _within(domain: Any, points: Numbers) -> Numbers:
    return np.asarray(((points >= domain.origin) & (points <= domain.origin + domain.length)).all(axis=1))


MESHES = sorted(set(shapes.ANY) - {"far", "tiny", "huge", "zoo"})


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(FIELDS)),
    kind=st.sampled_from(MESHES),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([1.0, 0.3, 0.03, 1e-4, 3.0, 100.0]),
    margin=st.sampled_from([None, -0.2, 0.0, 0.05, 0.4]),
)
@example(name="bvh", kind="cube", seed=113, scale=3.0, margin=None)  # around the solid, by a point within it
def test_bounds_hold(backend: Backend, name: str, kind: str, seed: int, scale: float, margin: float | None) -> None:
    rng = np.random.default_rng(seed)
    make, truth = FIELDS[name]
    shape = shapes.ANY[kind](rng)
    poses = random_poses(rng, 3, 1.5 * max(1.0, scale), scale)
    found = contacts(make(), shape, poses, margin=margin, device=backend.name)
    check(make(), truth, shape, poses, found, margin)


@cache
def field_of(kind: str, sign: str) -> tuple[Field, shapes.Shape]:
    shape = shapes.ANY[kind](np.random.default_rng(7))
    return sdfcli.build(shape, device="cpu", tolerance=0.005, sign=sign), shape


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(["tetrahedron", "turned cube", "octahedron", "torus", "shells", "soup", "zoo", "sheet"]),
    mesh=st.sampled_from(MESHES),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([1.0, 0.1, 0.01]),
    margin=st.sampled_from([None, 0.05]),
)
def test_bounds_hold_of_any_field(
    backend: Backend, kind: str, mesh: str, seed: int, scale: float, margin: float | None
) -> None:
    rng = np.random.default_rng(seed)
    closed = kind in shapes.CLOSED
    field, of = field_of(kind, "auto" if closed else "none")
    corner = shapes.triangles(of)

    def truth(points: Numbers) -> Numbers:
        away = oracle.distance(points, corner)
        return np.where(oracle.winding(points, corner) > 0.5, -away, away) if closed else away

    shape = shapes.ANY[mesh](rng)
    keep = rng.permutation(len(shape[1]))[:30]
    shape = shape[0], shape[1][keep]
    poses = random_poses(rng, 1, 1.2, scale)
    found = contacts(field, shape, poses, margin=margin, device=backend.name)
    if not closed:
        assert not (found.verdict == PENETRATING).any()
        assert (found.low >= 0).all()
    check(field, truth, shape, poses, found, margin)


BALLS = [0.0, 0.25, 0.9, 0.999, 1.0, 1.001, 1.3, 1.4, 1.6, 3.0, 50.0, 1e4, 1e8]


def test_a_small_ball_beside_a_ball(backend: Backend) -> None:
    # Its middle at a distance of r: nearest is the point of it nearest to the origin.
    rng, radius, field = np.random.default_rng(3), 0.2, ball()
    shape = shapes.moved(shapes.icosphere(2), radius)
    way = shapes.turn(rng)[0]
    poses = np.array([pose_of(shapes.turn(rng), r * way) for r in BALLS])
    found = contacts(field, shape, poses, device=backend.name)
    check(field, ball_distance(1.0), shape, poses, found)
    within = _within(field.domain, found.point)
    assert within[:5].all()
    assert not within[9:].any()
    for i, r in enumerate(BALLS[1:], 1):
        least = oracle.distance(np.zeros((1, 3)), placed(shape, poses[i]))[0] - 1
        assert found.low[i] <= least <= found.high[i]
        e = error_at(field, least)
        assert found.verdict[i] == (PENETRATING if least < -2 * e else CLEAR if least > 3 * e else found.verdict[i])
        if not within[i]:  # at least the distance to the cube in which the ball is
            cube = box_distance(1.0)((r - radius) * way[None])[0]
            assert 0.97 * cube - 0.05 <= found.low[i] <= found.distance[i] <= least * (1 + 1e-12)
            continue
        assert abs(found.distance[i] - least) <= (1 + SLACK) * e
        # Points at most 3 e above the least distance lie in a cap of the small ball.
        assert np.linalg.norm(found.point[i] - (least + 1) * way) <= 0.02 + np.sqrt(2 * 3 * e * radius)
        assert found.normal[i] @ found.point[i] > np.cos(np.radians(6)) * np.linalg.norm(found.point[i])


def test_a_ball_in_a_ball(backend: Backend) -> None:
    # All triangles tie.
    shape = shapes.moved(shapes.icosphere(3), 0.5)
    found = contacts(ball(), shape, np.eye(4), device=backend.name, margin=0.0)
    check(ball(), ball_distance(1.0), shape, np.eye(4)[None], found, 0.0)
    assert np.array_equal(found.manifold.triangle, np.arange(len(shape[1])))
    assert found.verdict == PENETRATING


@pytest.mark.parametrize("name", ["box", "placed", "absolute", "bvh"])
def test_a_box_beside_a_box(name: str, backend: Backend) -> None:
    # Of half edges 0.2, 0.3, 0.4, beside each face of the cube: the nearest point lies on the box's face towards it.
    field, half = FIELDS[name][0](), np.array([0.2, 0.3, 0.4])
    shape = shapes.box(-half, half)
    for axis in range(3):
        for side in (-1, 1):
            for gap in (-0.3, -0.05, 0.03, 0.3, 2.0):
                way = side * np.eye(3)[axis]
                pose = pose_of(move=(1 + gap + half[axis]) * way)
                found = contacts(field, shape, pose, device=backend.name)
                check(field, BOX, shape, pose[None], found)
                assert found.low <= gap <= found.high
                wide = 3 * error_at(field, gap)
                assert found.verdict == (CLEAR if gap > wide else PENETRATING if gap < -wide else found.verdict)
                assert found.point[0, axis] * side == pytest.approx(1 + gap, abs=1e-6)
                if name != "bvh" and gap < 0.04:
                    assert abs(found.distance - gap) <= error_at(field, gap)
                    assert found.normal[0] @ way > np.cos(np.radians(12))


def test_what_lies_wholly_inside_is_penetrating(backend: Backend) -> None:
    shape = shapes.moved(shapes.octahedron(), 0.2)
    poses = np.array([np.eye(4), pose_of(move=(0.3, 0.2, -0.4), scale=0.01), pose_of(scale=1e-9)])
    for name, (make, truth) in FIELDS.items():
        if name == "bvh":
            continue
        found = contacts(make(), shape, poses, device=backend.name)
        check(make(), truth, shape, poses, found)
        assert (found.verdict == PENETRATING).all()


def test_a_field_that_surrounds_the_mesh(backend: Backend) -> None:
    # The wall of a room: inside of the wall is outside of the room. A ball in its middle is 0.5 away from all sides.
    room = shapes.hollow(shapes.moved(shapes.cube(), 1.5), shapes.cube())
    field = sdfcli.build(room, device="cpu", tolerance=0.005)

    def truth(points: Numbers) -> Numbers:
        return np.maximum(box_distance(1.5)(points), -BOX(points))

    shape = shapes.moved(shapes.icosphere(2), 0.5)
    poses = np.array([pose_of(move=(x, 0, 0)) for x in (0.0, 0.3, 0.7, 1.25, 2.4)])
    found = contacts(field, shape, poses, device=backend.name)
    check(field, truth, shape, poses, found)
    assert [VERDICTS[each] for each in found.verdict] == ["clear", "clear", "penetrating", "penetrating", "clear"]


def test_normals_where_the_slope_vanishes(backend: Backend) -> None:
    shape = np.array([[0.0, 0, 0], [1e-3, 0, 0], [0, 1e-3, 0]]), np.array([[0, 1, 2]])
    found = contacts(ball(), shape, np.eye(4), device=backend.name)
    assert abs(np.linalg.norm(found.normal) - 1) < 1e-12


# What meshes and poses may be.


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), margin=st.sampled_from([None, 0.1]))
def test_degenerate_triangles(backend: Backend, seed: int, margin: float | None) -> None:
    rng = np.random.default_rng(seed)
    shape = shapes.zoo(rng, 40)
    poses = random_poses(rng, 3, 1.3, rng.choice([1.0, 0.2]))
    found = contacts(box(), shape, poses, margin=margin, device=backend.name)
    check(box(), BOX, shape, poses, found, margin)


COUNTS = [1, 2, 7, 8, 9, 63, 64, 65, 72, 511, 512, 513, 514, 530, 4096, 4097, 4105]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("scale", [1.0, 0.01, 1e-4, 1e-9])
def test_each_number_of_triangles(count: int, scale: float, backend: Backend) -> None:
    # Small meshes, beside the error: nothing but the nearest centre is followed.
    rng = np.random.default_rng(count)
    tree = SphereTree(shapes.soup(rng, count, 0.3), backend.name)
    shape = tree.mesh.vertices, tree.mesh.faces
    poses = random_poses(rng, 60, 1.1, scale)
    found = contacts(box(), tree, poses)
    assert len(found) == len(poses)
    check(box(), BOX, shape, poses[:2], _rows(found, slice(0, 2)))
    least = np.array([BOX(placed(shape, pose).reshape(-1, 3)).min() for pose in poses])
    assert (found.low <= least).all()


def _rows(found: Contacts, rows: slice) -> Contacts:
    return replace(found, **{name: value[rows] for name, value in vars(found).items() if name != "manifold"})


def test_copies_of_a_triangle(backend: Backend) -> None:
    rng = np.random.default_rng(5)
    vertices, faces = shapes.soup(rng, 20, 0.3)
    several = vertices, np.tile(faces, (5, 1))
    poses = random_poses(rng, 40, 1.2)
    once = contacts(box(), (vertices, faces), poses, margin=0.3, device=backend.name)
    found = contacts(box(), several, poses, margin=0.3, device=backend.name)
    for name in ("distance", "low", "high", "verdict", "point", "normal", "triangle"):  # the first of equal ones
        assert np.array_equal(getattr(once, name), getattr(found, name)), name
    assert len(found.manifold) == 5 * len(once.manifold)
    first = found.manifold.triangle < 20
    for name in ("pose", "triangle", "distance", "point", "normal"):
        assert np.array_equal(getattr(once.manifold, name), getattr(found.manifold, name)[first])


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("offset", [0.0, 5e6])
def test_tiny_huge_and_far_coordinates(size: float, offset: float, backend: Backend) -> None:
    # Field and mesh in metres, in UTM coordinates, of atoms, of planets.
    rng = np.random.default_rng(2)
    middle = np.array([offset, -offset, 0.3 * offset]) * size
    field = sdfcli.build(shapes.moved(shapes.cube(), size, middle), device="cpu", tolerance=0.005)
    shape = shapes.moved(shapes.star(rng, 1), 0.5 * size, middle)
    poses = []
    for _ in range(6):
        turn = shapes.turn(rng)
        poses.append(pose_of(turn, middle - turn @ middle + size * rng.uniform(-2, 2, 3)))
    found = contacts(field, shape, np.array(poses), margin=0.3 * size, device=backend.name)
    check(field, lambda points: BOX((points - middle) / size) * size, shape, np.array(poses), found, 0.3 * size)
    assert len(set(found.verdict)) > 1


def test_rounding_of_far_coordinates_is_in_the_bounds(backend: Backend) -> None:
    # Near the middle of its sides, a cube's field has no error; rounding at 2^39 is some ten thousandths.
    info = {**box().info, "max_error": 0.0, "parameters": {**box().info["parameters"], "tolerance": 1e-7}}
    field, middle, rng = replace(box(), info=info), 2**39, np.random.default_rng(4)
    shape = shapes.moved(shapes.octahedron(), 0.5, middle)
    turn = np.array([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1.0]])
    for move in rng.uniform(-0.02, 0.02, (20, 3)):
        pose = pose_of(turn, np.array([1.5, 0, 0]) + move - turn @ np.full(3, middle))
        found = contacts(field, shape, pose, device=backend.name)
        x = [Fraction(float(pose[0, 3])) + sum(map(_product, pose[0, :3].tolist(), v)) for v in shape[0].tolist()]
        assert found.low <= float(min(x) - 1) <= found.high


def test_rounding_of_a_large_mesh_is_in_the_bounds(backend: Backend) -> None:
    # Triangles 10^7 times as large as the ball, flat before it: their centroids in float32 lie beside them.
    corners = np.random.default_rng(0).uniform(-1, 1, (4000, 3, 3))
    middle, length = (corners.max(axis=1) + corners.min(axis=1)) / 2, np.ptp(corners, axis=1).max(axis=1) * 1.05
    unit = ((corners - middle[:, None]) / length[:, None, None] + 0.5).astype(np.float32)
    normal = np.cross(unit[:, 1] - unit[:, 0], unit[:, 2] - unit[:, 0]).astype(float)
    size = np.linalg.norm(normal, axis=1)
    off = (((unit[:, 0] + unit[:, 1] + unit[:, 2]) / np.float32(3) - unit.astype(float).mean(axis=1)) * normal).sum(
        axis=1
    ) / size
    for i in np.argsort(-np.abs(off) * (size > 0.2))[:20]:
        away = -np.sign(off[i]) * normal[i] / size[i]  # from the ball
        beside = np.cross(away, [0.3, 0.5, 0.8]) / np.linalg.norm(np.cross(away, [0.3, 0.5, 0.8]))
        turn = np.array([away, beside, np.cross(away, beside)])
        shape = corners[i] - corners[i].mean(axis=0), np.array([[0, 1, 2]])
        found = contacts(ball(), shape, pose_of(turn, np.array([1.6, 0, 0]), 1e7), device=backend.name)
        assert found.low <= 0.6 <= found.high


def test_an_error_that_grows_as_fast_as_the_distance(backend: Backend) -> None:
    # What a field of zeros says of distances with such an error: nothing.
    info = {**box().info, "max_error": 0.0, "parameters": {**box().info["parameters"], "tolerance": 0.1, "band": 0.1}}
    field = replace(box(), distance=np.zeros_like(box().distance), info=info)
    found = contacts(field, shapes.octahedron(), pose_of(scale=1e-6), device=backend.name)
    assert found.high >= 1


def _product(a: float, b: float) -> Fraction:
    return Fraction(a) * Fraction(b)


# What is refused.


def test_what_is_refused(backend: Backend) -> None:
    shape, pose = shapes.cube(), np.eye(4)
    with pytest.raises(UsageError, match="margin nan: use a finite distance"):
        contacts(box(), shape, pose, margin=float("nan"), device=backend.name)
    with pytest.raises(UsageError, match="margin inf"):
        contacts(box(), shape, pose, margin=float("inf"), device=backend.name)
    with pytest.raises(InputError, match=r"pose 1: the mesh lies .* edges of the field's domain away"):
        contacts(box(), shape, [pose, pose_of(move=(1e12, 0, 0))], device=backend.name)
    with pytest.raises(InputError, match="pose 0: the mesh lies"):
        contacts(box(), shape, pose_of(scale=1e12), device=backend.name)
    for info in ({}, {"parameters": {}}, {"parameters": {"tolerance": 1e-3, "band": 0.02}}):
        with pytest.raises(InputError, match="the field does not state its error"):
            contacts(replace(box(), info=info), shape, pose, device=backend.name)
    for bad in (-1.0, float("nan"), float("inf")):
        info = {**box().info, "max_error": bad, "parameters": {**box().info["parameters"], "tolerance": bad}}
        with pytest.raises(InputError, match="states an error of"):
            contacts(replace(box(), info=info), shape, pose, device=backend.name)
    with pytest.raises(UsageError, match="device"):
        contacts(box(), shape, pose, device="nowhere")
    with pytest.raises(InputError):
        contacts(box(), "there/is/no.ply", pose, device=backend.name)


def test_no_poses(backend: Backend) -> None:
    found = contacts(box(), shapes.cube(), np.zeros((0, 4, 4)), margin=0.1, device=backend.name)
    some = contacts(box(), shapes.cube(), np.eye(4), margin=0.1, device=backend.name)
    assert len(found) == len(found.manifold) == 0
    for one, other in ((found, some), (found.manifold, some.manifold)):
        for name, value in vars(one).items():
            if name != "manifold":
                assert value.shape[1:] == getattr(other, name).shape[1:]
                assert value.dtype == getattr(other, name).dtype


def test_shapes_and_types() -> None:
    found = contacts(box(), shapes.cube(), np.eye(4, dtype=np.float32), margin=3.0, device="cpu")
    types = {name: (value.dtype.str, value.shape) for name, value in vars(found).items() if name != "manifold"}
    assert types == {
        "distance": ("<f8", (1,)),
        "low": ("<f8", (1,)),
        "high": ("<f8", (1,)),
        "verdict": ("|u1", (1,)),
        "point": ("<f8", (1, 3)),
        "normal": ("<f8", (1, 3)),
        "triangle": ("<i8", (1,)),
        "outside_domain": ("|b1", (1,)),
        "proven": ("|b1", (1,)),
    }
    types = {name: (value.dtype.str, value.shape) for name, value in vars(found.manifold).items()}
    assert types == {
        "pose": ("<i8", (12,)),
        "triangle": ("<i8", (12,)),
        "distance": ("<f8", (12,)),
        "point": ("<f8", (12, 3)),
        "normal": ("<f8", (12, 3)),
    }


# Fields of other kinds.


def test_a_sequence_between_its_frames(tmp_path: Path, backend: Backend) -> None:
    # A ball that moves: the mesh between two frames is the ball between both.
    steps = [0.0, 0.1, 0.2]
    frames = [shapes.moved(shapes.icosphere(3), 1.0, (x, 0, 0)) for x in steps]
    path = sequences.write(tmp_path / "ball.h5", frames, [0.0, 1.0, 2.0], tolerance=0.005)
    rng = np.random.default_rng(6)
    shape, poses = shapes.moved(shapes.star(rng, 1), 0.3), random_poses(rng, 20, 1.8)
    frames_of = sdfcli.load_sequence(path)
    for time in (0.0, 0.5, 1.25, 2.0):
        field = frames_of.at_time(time)
        corner = shapes.triangles(shapes.moved(shapes.icosphere(3), 1.0, (0.1 * time, 0, 0)))
        chord = 1 - np.linalg.norm(corner.mean(axis=1) - (0.1 * time, 0, 0), axis=1).min()
        found = contacts(field, shape, poses, device=backend.name)
        for i, pose in enumerate(poses):  # the ball of flat triangles lies between two balls
            points = (SAMPLES @ placed(shape, pose)).reshape(-1, 3)
            assert found.low[i] <= (ball_distance(1.0, (0.1 * time, 0, 0))(points) + chord).min()
            assert found.high[i] >= ball_distance(1.0, (0.1 * time, 0, 0))(found.point[i : i + 1])[0]
    assert near_of(frames_of.at_time(0.5)) > near_of(frames_of.at(0)) + 0.04


def test_a_mix_of_frames_with_other_faces_states_no_error(tmp_path: Path) -> None:
    frames = [shapes.icosphere(1), shapes.icosphere(2)]
    path = sequences.write(tmp_path / "other.h5", frames, [0.0, 1.0], tolerance=0.02)
    with pytest.raises(InputError, match="no error is known"):
        contacts(sdfcli.load_sequence(path).at_time(0.5), shapes.cube(), np.eye(4), device="cpu")


def test_outside_of_a_domain_that_is_negative_at_its_faces(backend: Backend) -> None:
    # Sheets on top of each other have winding numbers above one half all the way down.
    square, faces = shapes.sheet(np.random.default_rng(0), 3)
    stack = shapes.joined(*[(square + np.array([0, 0, 0.01 * k]), faces) for k in range(12)])
    field = sdfcli.build(stack, device="cpu", sign="winding", tolerance=0.01)
    middle, shape = stack[0].mean(axis=0), shapes.moved(shapes.octahedron(), 0.01)
    poses = np.array([pose_of(move=middle + way * d) for way in np.eye(3) for d in (-4, -2, -1, -0.7, 0.7, 1, 2, 4)])
    outside = ~_within(field.domain, middle + (poses[:, :3, 3] - middle) * 0.9)
    assert outside.sum() > 10
    assert field.sample(poses[outside][:, :3, 3]).min() < 0
    found = contacts(field, shape, poses, device=backend.name)
    corner = shapes.triangles(stack)
    truth = np.array([oracle.distance((SAMPLES @ placed(shape, pose)).reshape(-1, 3), corner).min() for pose in poses])
    assert (found.verdict[outside] == CLEAR).all()
    assert (found.low[outside] <= truth[outside]).all()
    assert (found.high[outside] >= truth[outside] - 0.02).all()
    assert (found.low <= found.high).all()


def test_a_hole_that_the_sign_closed_is_no_wall(backend: Backend) -> None:
    # An open box: no verdict "clear" where triangles cross.
    vertices, faces = shapes.refined(shapes.refined(shapes.cube()))
    lid = (vertices[faces][:, :, 2] > 0.99).all(axis=1)
    field = sdfcli.build((vertices, faces[~lid]), device="cpu", sign="winding", tolerance=0.005)
    assert field.info["jump_leaves"] > 0
    rng = np.random.default_rng(8)
    shape, poses = shapes.moved(shapes.octahedron(), 0.4), random_poses(rng, 200, 1.5)
    corner = shapes.triangles((vertices, faces[~lid]))
    found = contacts(field, shape, poses, device=backend.name)
    for i in np.flatnonzero(found.verdict == CLEAR):
        points = (SAMPLES @ placed(shape, poses[i])).reshape(-1, 3)
        assert oracle.distance(points, corner).min() >= found.low[i]


# The same bits.


def many() -> tuple[Field, SphereTree, Numbers]:
    rng = np.random.default_rng(11)
    tree = SphereTree(shapes.moved(shapes.star(rng, 3), 0.4), "cpu")
    return box(), tree, random_poses(rng, 300, 1.3)


def test_any_number_of_threads() -> None:
    field, tree, poses = many()
    same(
        contacts(field, SphereTree(tree.mesh, "cpu", 1), poses, margin=0.02),
        contacts(field, SphereTree(tree.mesh, "cpu", 2), poses, margin=0.02),
    )
    same(
        contacts(field, tree.mesh, poses[:50], margin=0.02, device="cpu", threads=1),
        contacts(field, (tree.mesh.vertices, tree.mesh.faces), poses[:50], margin=0.02, device="cpu", threads=3),
    )


@pytest.mark.parametrize("margin", [None, 0.02])
def test_batches_of_any_size(margin: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    field, tree, poses = many()
    usual = contacts(field, tree, poses, margin=margin)
    assert np.ptp(usual.manifold.pose) > 250 if margin else not len(usual.manifold)
    for batch, most in ((1, 1 << 24), (77, 1 << 24), (256, 1 << 11)):
        monkeypatch.setattr(contacts_module, "POSES", batch)
        monkeypatch.setattr(contacts_module, "MOST_PAIRS", most)
        same(usual, contacts(field, tree, poses, margin=margin))


def test_a_pose_alone() -> None:
    field, tree, poses = many()
    usual = contacts(field, tree, poses, margin=0.02)
    for i in range(0, 300, 7):
        alone = contacts(field, tree, poses[i], margin=0.02)
        same(_rows(replace(usual, manifold=alone.manifold), slice(i, i + 1)), alone)
        rows = usual.manifold.pose == i
        assert np.array_equal(usual.manifold.triangle[rows], alone.manifold.triangle)
        assert np.array_equal(usual.manifold.point[rows], alone.manifold.point)


def test_a_path_and_the_order_of_axes(tmp_path: Path) -> None:
    field, tree, poses = many()
    import trimesh

    path = tmp_path / "star.ply"
    trimesh.Trimesh(tree.mesh.vertices, tree.mesh.faces, process=False).export(path, vertex_normal=False)
    again = SphereTree(path, "cpu")
    same(contacts(field, again, poses[:20], margin=0.02), contacts(field, path, poses[:20], margin=0.02, device="cpu"))
    fortran = np.asfortranarray(poses[:20])
    same(contacts(field, tree, poses[:20], margin=0.02), contacts(field, tree, fortran, margin=0.02))


@pytest.mark.gpu
def test_gpus_have_the_bits_of_the_cpu() -> None:
    field, tree, poses = many()
    for margin in (None, 0.02):
        on_cpu = contacts(field, tree.mesh, poses, margin=margin, device="cpu")
        same(on_cpu, contacts(field, tree.mesh, poses, margin=margin, device="cuda"))
    for make, _ in FIELDS.values():
        for scale in (1.0, 1e-3, 1e-30, 1e4):
            scaled = poses.copy()
            scaled[:, :3, :3] *= scale
            on_cpu = contacts(make(), tree.mesh, scaled, margin=0.01, device="cpu")
            same(on_cpu, contacts(make(), tree.mesh, scaled, margin=0.01, device="cuda"))


@pytest.mark.gpu
def test_cupy_in_cupy_out() -> None:
    import cupy

    field, tree, poses = many()
    found = contacts(field, tree.mesh, cupy.asarray(poses), margin=0.02)
    for of in (found, found.manifold):
        assert all(isinstance(value, cupy.ndarray) for name, value in vars(of).items() if name != "manifold")
    manifold = replace(found.manifold, **{name: value.get() for name, value in vars(found.manifold).items()})
    host = {name: value.get() for name, value in vars(found).items() if name != "manifold"}
    same(contacts(field, tree, poses, margin=0.02), Contacts(**host, manifold=manifold))
    with pytest.raises(InputError, match="the SphereTree is on cpu"):
        contacts(field, tree, cupy.asarray(poses))


# Laws.


def bounds_of(found: Contacts) -> list[Any]:
    return [found.distance, found.low, found.high, found.point]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), power=st.integers(-6, 6))
def test_field_and_mesh_moved_together(seed: int, power: int) -> None:
    # By powers of two, nothing is rounded: the same bits, moved.
    rng = np.random.default_rng(seed)
    field, scale = ball(), 2.0**power
    info = {**field.info, "parameters": {**field.info["parameters"], "unit": field.unit * scale}}
    domain = replace(field.domain, origin=field.domain.origin * scale, length=field.domain.length * scale)
    larger = replace(field, domain=domain, distance=field.distance * np.float32(scale), info=info)
    shape, poses = shapes.star(rng, 1), random_poses(rng, 3, 1.5, 0.3)
    usual = contacts(field, shape, poses, device="cpu")
    scaled = poses.copy()
    scaled[:, :3] *= scale
    found = contacts(larger, shape, scaled, device="cpu")
    for one, other in zip(bounds_of(usual), bounds_of(found), strict=True):
        assert np.array_equal(one * scale, other)
    assert np.array_equal(usual.verdict, found.verdict)
    assert np.array_equal(usual.normal, found.normal)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_mesh_in_another_frame(seed: int) -> None:
    # Its vertices turned, and the pose turned back: only rounding differs, and what it decides.
    rng = np.random.default_rng(seed)
    shape, poses, turn = shapes.star(rng, 1), random_poses(rng, 3, 1.5, 0.3), shapes.turn(rng)
    one = contacts(box(), shape, poses, device="cpu")
    back = np.eye(4)
    back[:3, :3] = turn.T
    other = contacts(box(), shapes.moved(shape, turn=turn), poses @ back, device="cpu")
    slack = 2 * SLACK * error_at(box(), one.distance) + 1e-6
    assert (np.abs(one.distance - other.distance) <= slack + 2 * near_of(box())).all()
    assert (one.low <= other.high).all()
    assert (other.low <= one.high).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_some_triangles_are_not_nearer_than_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vertices, faces = shapes.star(rng, 2)
    some = vertices, faces[rng.permutation(len(faces))[:40]]
    poses = random_poses(rng, 5, 1.5, 0.3)
    all_of, of_some = (contacts(box(), shape, poses, device="cpu") for shape in ((vertices, faces), some))
    assert (all_of.low <= of_some.high).all()
    assert (all_of.distance <= of_some.distance + (1 + SLACK) * error_at(box(), of_some.distance)).all()
    assert not ((all_of.verdict == CLEAR) & (of_some.verdict == PENETRATING)).any()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), margin=st.floats(-0.3, 0.3), more=st.floats(0.0, 0.3))
def test_a_larger_margin_has_all_contacts_of_a_smaller(seed: int, margin: float, more: float) -> None:
    rng = np.random.default_rng(seed)
    shape, poses = shapes.star(rng, 2), random_poses(rng, 3, 1.2, 0.4)
    more += 3 * SLACK * near_of(ball())  # a triangle's distance is its least to a slack
    small, large = (contacts(ball(), shape, poses, margin=m, device="cpu").manifold for m in (margin, margin + more))
    keys = [{*zip(each.pose.tolist(), each.triangle.tolist(), strict=True)} for each in (small, large)]
    assert keys[0] <= keys[1]


def wavy(level: int, seed: int) -> Field:
    """Large leaves, whose distances bend within them: sums of waves with slopes of at most 0.5, and no error stated but
    a small one."""
    built = sdfcli.build(shapes.cube(), device="cpu", depth=level, tolerance=0.3 / level**4, thin=0)
    rng = np.random.default_rng(seed)
    at = lattice_position(built.corner_key)
    value = sum(0.05 / 3 * np.sin(at @ rng.uniform(-9, 9, 3) + rng.uniform(0, 6)) for _ in range(3))
    parameters = {**built.info["parameters"], "tolerance": 1e-4, "band": 0.9}
    distance = (built.domain.length * value).astype(np.float32)
    return replace(built, distance=distance, info={**built.info, "max_error": 1e-4, "parameters": parameters})


@pytest.mark.parametrize("level", [1, 3])
def test_triangles_within_a_leaf_lose_nothing(backend: Backend, level: int) -> None:
    """A leaf's polynomial bounds parts of a triangle: where that is too high, the least distance is missed."""
    rng, weights = np.random.default_rng(level), np.random.default_rng(0).dirichlet([0.7] * 3, 20_000)
    for seed in range(12):
        field = wavy(level, seed)
        corners = field.domain.origin + field.domain.length * rng.uniform(0.02, 0.98, (3, 3))
        found = contacts(field, (corners, np.array([[0, 1, 2]])), np.eye(4), device=backend.name)
        least = field.sample(weights @ corners).min()
        assert found.distance[0] <= least + SLACK * near_of(field) + 1e-6
