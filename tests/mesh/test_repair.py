"""Faces are turned and counted so that inside and outside come out right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import shapes
import solids
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.mesh.repair import cones, holes, repair
from sdfcli.mesh.topology import connected
from sdfcli.query.mesh_distance import MeshDistance

CUBE = shapes.cube()
BALL = shapes.icosphere(2)
SMALL = shapes.moved(BALL, 0.3)


def mesh_of(*parts: shapes.Shape) -> Mesh:
    return make_mesh(*shapes.joined(*parts))


def check_inside(parts: shapes.Shape, solid: shapes.Shape, sign: str = "auto") -> MeshDistance:
    """The mesh has the inside of a clean one of the same surface."""
    index = MeshDistance(parts, sign=sign, device="cpu")
    low, high = index.mesh.bounds
    points = np.random.default_rng(1).uniform(low - 0.3, high + 0.3, (400, 3))
    points = points[oracle.distance(points, shapes.triangles(parts)) > 1e-4]
    inside = oracle.winding(points, shapes.triangles(solid)) > 0.5
    assert 0 < inside.sum() < len(points)
    assert np.array_equal(index.signed_distance(points) < 0, inside)
    return index


def scrambled(rng: np.random.Generator, shape: shapes.Shape) -> shapes.Shape:
    """Half of the faces the other way round."""
    flip = rng.random((len(shape[1]), 1)) < 0.5
    return shape[0], np.where(flip, shape[1][:, ::-1], shape[1])


# ---- Orientation ----


def starting_lowest(faces: oracle.Numbers) -> oracle.Numbers:
    """Each face from its lowest vertex on, in the same cyclic order."""
    return np.take_along_axis(faces, (np.argmin(faces, axis=1)[:, None] + np.arange(3)) % 3, axis=1)


@settings(max_examples=30, deadline=None)
@given(kind=st.sampled_from(sorted(set(shapes.CLOSED) - {"shells"})), seed=st.integers(0, 2**32 - 1))
def test_scrambled_faces_are_put_right(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vertices, faces = shapes.CLOSED[kind](rng)
    found = repair(make_mesh(*scrambled(rng, (vertices, faces))))
    assert found.left_out is None
    assert found.mesh.health.watertight
    assert np.array_equal(starting_lowest(found.mesh.faces), starting_lowest(faces))


def test_sound_faces_stay() -> None:
    for shape in (CUBE, BALL, shapes.torus(12, 7), shapes.shells(1)):
        mesh = make_mesh(*shape)
        found = repair(mesh)
        assert found.mesh is mesh
        assert (found.left_out, found.inverted, found.notes) == (None, 0, [])


def test_each_shell_is_turned_by_itself() -> None:
    away = shapes.moved(CUBE, offset=[5, 0, 0])
    found = repair(mesh_of(CUBE, shapes.inside_out(away), shapes.moved(CUBE, offset=[0, 5, 0])))
    assert found.inverted == 1
    assert found.notes == ["1 shell oriented inwards, turned"]
    assert (
        np.array_equal(found.mesh.faces, shapes.joined(CUBE, away, CUBE)[1][:, [0, 1, 2]])
        or found.mesh.health.watertight
    )
    check_inside(shapes.joined(CUBE, shapes.inside_out(away)), shapes.joined(CUBE, away))


def test_a_cavity_stays_a_cavity() -> None:
    hollow = shapes.joined(CUBE, shapes.inside_out(SMALL))
    assert repair(make_mesh(*hollow)).notes == []
    assert check_inside(hollow, hollow).sign.method == "pseudonormal"
    # All of it the other way round: the outside is turned, and the cavity with it.
    index = check_inside(shapes.inside_out(hollow), hollow)
    assert "turned" in index.sign.reason


@pytest.mark.parametrize("inverted", [False, True])
def test_a_cavity_that_reaches_as_far_as_its_solid(inverted: bool) -> None:
    """Their bounding boxes are equal."""
    corners = np.concatenate([np.eye(3), -np.eye(3)])
    faces = [(a, b, c) for a in (0, 3) for b in (1, 4) for c in (2, 5)]
    faces = np.array([face if sum(k > 2 for k in face) % 2 == 0 else face[::-1] for face in faces])
    hollow = shapes.joined(CUBE, shapes.inside_out((corners, faces)))
    index = MeshDistance(shapes.inside_out(hollow) if inverted else hollow, device="cpu")
    points = np.random.default_rng(9).uniform(-1.2, 1.2, (500, 3))
    inside = (np.abs(points) < 1).all(axis=1) & (np.abs(points).sum(axis=1) > 1)
    assert np.array_equal(index.signed_distance(points) < 0, inside)


def test_a_solid_in_a_solid_is_one_with_it() -> None:
    index = check_inside(shapes.joined(CUBE, SMALL), CUBE)
    assert index.sign.method == "winding"
    assert "1 shell in other solids" in index.sign.reason


def test_a_solid_in_a_cavity() -> None:
    # From outside to inside: cube, cavity, a ball in the cavity, and a cavity in the ball.
    nested = shapes.joined(
        shapes.moved(CUBE, 2), shapes.inside_out(shapes.moved(BALL, 1.8)), BALL, shapes.inside_out(SMALL)
    )
    assert repair(make_mesh(*nested)).notes == []
    check_inside(nested, nested)
    check_inside(shapes.inside_out(nested), nested)


def test_overlapping_solids_are_united() -> None:
    both = shapes.joined(CUBE, shapes.moved(CUBE, offset=[1, 1, 1]))
    index = check_inside(both, both)
    assert "faces cross others" in index.sign.reason
    # Though one of them is inside out.
    other = shapes.inside_out(shapes.moved(CUBE, offset=[1, 1, 1]))
    check_inside(shapes.joined(CUBE, other), both)


def test_open_shells_are_turned_where_they_hold_something() -> None:
    rng = np.random.default_rng(3)
    holed = shapes.holed(rng, BALL, 0.03)
    assert repair(make_mesh(*holed)).notes == []
    found = repair(make_mesh(*shapes.inside_out(holed)))
    assert found.notes == ["was oriented inwards, turned"]
    assert np.array_equal(found.mesh.faces, np.roll(shapes.inside_out(holed)[1][:, ::-1], 1, axis=1))


def test_bowls_hold_nothing() -> None:
    """Half a ball, whose mouth would be a third of the whole: it has no inside, whichever way it is oriented."""
    vertices, faces = BALL
    bowl = vertices, faces[vertices[faces].mean(axis=1)[:, 2] < 0]
    for shape in (bowl, shapes.inside_out(bowl)):
        found = repair(make_mesh(*shape))
        assert (found.encloses, found.notes) == (False, [])


def test_a_strip_with_one_side_has_no_sign() -> None:
    u = np.linspace(0, 2 * np.pi, 41)[:-1]
    rim = [
        np.stack([(1 + s * np.cos(u / 2)) * np.cos(u), (1 + s * np.cos(u / 2)) * np.sin(u), s * np.sin(u / 2)], 1)
        for s in (-0.3, 0.3)
    ]
    k = np.arange(40)
    after = (k + 1) % 40
    a, b = k, k + 40
    c, d = np.where(after == 0, after + 40, after), np.where(after == 0, after, after + 40)
    mesh = make_mesh(np.concatenate(rim), np.concatenate([np.stack([a, b, c], 1), np.stack([b, d, c], 1)]))
    assert mesh.health.inconsistent_edges == 1
    assert repair(mesh).notes == ["1 part that cannot be oriented"]
    assert MeshDistance(mesh, device="cpu").sign.method == "none"


def test_a_group_is_turned_as_one() -> None:
    """A hollow solid the other way round, beside a larger one that is right."""
    hollow = shapes.joined(CUBE, shapes.inside_out(SMALL))
    large = shapes.moved(CUBE, 3, [10, 0, 0])
    found = repair(mesh_of(large, shapes.inside_out(hollow)))
    assert found.notes == ["2 shells oriented inwards, turned"]
    check_inside(shapes.joined(large, shapes.inside_out(hollow)), shapes.joined(large, hollow))
    # And within a cavity.
    around = shapes.joined(shapes.moved(CUBE, 6), shapes.inside_out(shapes.moved(CUBE, 5)))
    check_inside(shapes.joined(around, shapes.inside_out(hollow)), shapes.joined(around, hollow))


def test_all_shells_are_looked_at() -> None:
    """Of hundreds, whichever are the other way round, and whichever have cavities that are right."""
    rng = np.random.default_rng(6)
    parts = []
    for place in np.argwhere(np.ones((8, 8, 8))) * 3.0:
        part = shapes.moved(CUBE, rng.uniform(0.5, 1), place)
        if rng.random() < 0.3:
            part = shapes.joined(part, shapes.inside_out(shapes.moved(CUBE, 0.3, place)))
        parts.append(part)
    inverted = [rng.random() < 0.7 for _ in parts]
    mixed = [shapes.inside_out(part) if turned else part for part, turned in zip(parts, inverted, strict=True)]
    check_inside(shapes.shuffled(rng, shapes.joined(*mixed)), shapes.joined(*parts))


def test_thin_plates_are_turned() -> None:
    plate = shapes.box([0, 0, 0], [1, 1, 2e-6])
    found = repair(make_mesh(*shapes.inside_out(plate)))
    assert found.notes == ["was oriented inwards, turned"]


@pytest.mark.parametrize("sides", [(2, 2, 2), (3, 3, 3)])
def test_shells_that_close_each_other_are_one(sides: tuple[int, int, int]) -> None:
    """Every other voxel: all edges within have four faces, and no face has a neighbour across one of two."""
    voxels = np.indices(sides).sum(axis=0) % 2 == 0
    rng = np.random.default_rng(7)
    vertices, faces = solids.surface(rng, voxels)
    found = repair(make_mesh(vertices, faces[:, ::-1]))
    assert found.mesh.health.watertight
    assert found.inverted > 0
    index = MeshDistance((vertices, faces[:, ::-1]), device="cpu")
    centres = np.argwhere(np.ones(sides)) + 0.5
    assert np.array_equal(index.signed_distance(centres) < 0, voxels.reshape(-1))


@pytest.mark.parametrize("inverted", [(1,), (0, 2), (0, 1, 2)])
def test_solids_that_share_walls(inverted: tuple[int, ...]) -> None:
    """Each has its own copy of them. They are no part of the union's surface, whichever solid is inside out."""
    row = [shapes.moved(CUBE, offset=[2.0 * k, 0, 0]) for k in range(3)]
    shape = shapes.joined(*[shapes.inside_out(part) if k in inverted else part for k, part in enumerate(row)])
    found = repair(make_mesh(*shape))
    x = shapes.triangles(shape)[..., 0]
    walls = np.flatnonzero((x == 1).all(axis=1) | (x == 3).all(axis=1))
    assert found.left_out is not None
    assert sorted(found.left_out) == walls.tolist()
    assert (found.edges.shells, found.edges.open, found.edges.inconsistent) == (1, 0, 0)
    check_inside(shape, shapes.box([-1, -1, -1], [5, 1, 1]))


def test_a_solid_with_others_on_all_but_two_sides() -> None:
    """Its outside is two flat shells: only together with the walls between them do they have an inside."""
    parts = [shapes.moved(CUBE, offset=[2.0 * x, 2.0 * y, 0]) for x in (-1, 0, 1) for y in (-1, 0, 1)]
    shape = shapes.joined(*parts[:4], shapes.inside_out(parts[4]), *parts[5:])
    found = repair(make_mesh(*shape))
    assert (found.inverted, found.edges.shells, found.edges.open) == (1, 1, 0)
    check_inside(shape, shapes.box([-3, -3, -1], [3, 3, 1]))


@pytest.mark.parametrize("inverted", [False, True])
def test_a_solid_in_a_solid_that_shares_a_side_with_it(inverted: bool) -> None:
    """Their copies of it have one direction, as those of a solid beside one that is inside out."""
    large = solids.surface(np.random.default_rng(1), np.ones((3, 3, 3), bool), odd := np.ones((3, 4, 4, 4), bool))
    low = np.zeros((3, 3, 3), bool)
    low[0, 1, 1] = True
    shape = shapes.joined(large, solids.surface(np.random.default_rng(1), low, odd))
    check_inside(shapes.inside_out(shape) if inverted else shape, large)


# ---- Degenerate faces ----


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(sorted(set(shapes.CLOSED) - {"shells"})), seed=st.integers(0, 2**32 - 1))
def test_degenerate_faces_take_no_part(kind: str, seed: int) -> None:
    """Faces of which two corners are one vertex, or all three, change no edge, no shell and no turn."""
    rng = np.random.default_rng(seed)
    vertices, faces = shapes.CLOSED[kind](rng)
    if rng.random() < 0.5:
        faces = faces[:, ::-1]
    some = faces[rng.integers(0, len(faces), len(faces))]
    flat = np.take_along_axis(some, rng.integers(0, 2, (len(some), 3)), axis=1)
    clean, mixed = make_mesh(vertices, faces), make_mesh(vertices, np.concatenate([faces, flat]))
    for name in ("shells", "open_edges", "non_manifold_edges", "inconsistent_edges"):
        assert getattr(mixed.health, name) == getattr(clean.health, name)
    turned, of_clean = repair(mixed), repair(clean)
    assert np.array_equal(turned.mesh.faces[: len(faces)], of_clean.mesh.faces)
    assert turned.inverted == of_clean.inverted


# ---- Doubled faces ----


def test_faces_that_are_there_twice_count_once() -> None:
    vertices, faces = BALL
    twice = (vertices, np.concatenate([faces, np.roll(faces[:50], 1, axis=1)]))
    found = repair(make_mesh(*twice))
    assert found.notes == ["50 doubled faces not counted"]
    assert found.left_out is not None
    assert sorted(found.left_out.tolist()) == list(range(len(faces), len(faces) + 50))
    index = check_inside(twice, BALL)
    assert "closed then" in index.sign.reason


def test_a_wall_within_a_solid_does_not_count() -> None:
    # Two boxes side by side, with both of their sides where they meet: one box, in whose middle there is a wall.
    wall = shapes.joined(CUBE, shapes.moved(CUBE, offset=[2, 0, 0]))
    vertices, faces = wall
    facing = np.isclose(shapes.triangles(wall)[:, :, 0], 1).all(axis=1)
    turned = np.flatnonzero(facing)[2:]
    corners = shapes.triangles(wall).reshape(-1, 3)
    # Make the second wall from the corners of the first, so that the triangles are the same two.
    same = np.arange(len(corners)).reshape(-1, 3)
    corners[same[turned]] = corners[same[np.flatnonzero(facing)[:2]][:, ::-1]]
    found = repair(make_mesh(corners, same))
    assert found.notes == ["4 doubled faces not counted"]
    check_inside((corners, same), (vertices, faces))


def test_a_surface_with_two_sides_counts_once() -> None:
    vertices, faces = BALL
    doubled = (vertices, np.concatenate([faces[:, ::-1], faces]))
    found = repair(make_mesh(*doubled))
    assert found.notes == ["the two sides of each face counted once", "was oriented inwards, turned"]
    check_inside(doubled, BALL)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=30))
def test_what_counts_of_any_faces(rows: list[tuple[int, int, int]]) -> None:
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1.0]])
    rows = [(0, 1, 2), *rows]
    found = repair(make_mesh(vertices, np.array(rows)))
    if found.left_out is None:
        assert len({tuple(sorted(row)) for row in rows}) == len(rows) or not found.notes
        return
    kept = [tuple(sorted(row)) for row in np.delete(rows, found.left_out, axis=0)]
    assert len(kept) == len(set(kept))
    assert set(kept) <= {tuple(sorted(row)) for row in rows}


# ---- Parts ----


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 60), joins=st.integers(0, 80), seed=st.integers(0, 2**32 - 1))
def test_connected_components(count: int, joins: int, seed: int) -> None:
    pairs = np.random.default_rng(seed).integers(0, count, (joins, 2))
    group = list(range(count))
    for a, b in pairs.tolist():
        old, new = max(group[a], group[b]), min(group[a], group[b])
        group = [new if g == old else g for g in group]
    assert connected(count, pairs).tolist() == group


def test_a_long_chain_is_connected() -> None:
    n = 200_000
    order = np.random.default_rng(1).permutation(n)
    assert connected(n, np.stack([order[:-1], order[1:]], axis=1)).max() == 0


def test_cones_close_a_hole() -> None:
    vertices, _ = CUBE
    rim = np.array([[0, 1], [1, 3], [3, 2], [2, 0]])
    closing = cones(holes(rim), vertices[rim[:, 0]], vertices[rim[:, 1]])
    assert np.allclose(closing[:, :3], [0, 0, -1])
    assert cones(holes(rim[:0]), vertices[:0], vertices[:0]).shape == (0, 9)


@pytest.mark.parametrize("count", [1, 300])
def test_soup_is_left_alone(count: int) -> None:
    mesh = make_mesh(*shapes.soup(np.random.default_rng(4), count, 0.2))
    assert repair(mesh).mesh is mesh
