"""The flood, against a flood fill of a dense grid with float64 distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import shapes
from sdfcli.backend import Backend, select_backend
from sdfcli.mesh.load import make_mesh
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.solid.solidify import GAP, Solid, solid_of
from sdfcli.solid.surface import SLOPE, WALL, moved_back, outward
from surfaces import CLOSED, topology

backend = backends.backend
RADIUS = 0.05
"""In units of the shapes, which are about 2 wide."""
UNIT = RADIUS / GAP


def slotted(width: float) -> shapes.Shape:
    """A cube of panels that overlap nowhere, with a slot of this width in its lid."""
    vertices, faces = shapes.cube()
    lid = [[-1, -1, 1], [-width / 2, -1, 1], [-width / 2, 1, 1], [-1, 1, 1]]
    other = [[width / 2, -1, 1], [1, -1, 1], [1, 1, 1], [width / 2, 1, 1]]
    halves = [(np.array(each, np.float64), np.array([[0, 1, 2], [0, 2, 3]])) for each in (lid, other)]
    return shapes.joined((vertices, faces[:-2]), *halves)


def doubled(shape: shapes.Shape) -> shapes.Shape:
    return shapes.joined(shape, shapes.inside_out(shape), shape)


SOUPS = {
    "closed": shapes.cube(),
    "doubled": doubled(shapes.octahedron()),
    "walls in walls": shapes.joined(shapes.cube(), shapes.moved(shapes.cube(), 0.6), shapes.moved(shapes.cube(), 0.3)),
    "narrow slot": slotted(1.2 * RADIUS),
    "wide slot": slotted(5 * RADIUS),
    "sheet": shapes.sheet(np.random.default_rng(1), 3),
    "screws": shapes.joined(shapes.cube(), *(shapes.moved(shapes.cube(), 0.1, [x, 0, 1.5]) for x in (-0.8, 0, 0.8))),
    "triangles": shapes.moved(shapes.soup(np.random.default_rng(2), 16, 0.2), 2.0),
}


def made(shape: shapes.Shape, gap: float | str = GAP, device: Backend | None = None, unit: float = UNIT) -> Solid:
    return solid_of(make_mesh(*shape), gap, unit, device or select_backend("cpu"))


def dense(shape: shapes.Shape, radius: float, cells: int = 44) -> tuple[Any, Any, Any]:
    """Points of a grid, their distances from the shape, and which of them the ball's centre reaches from a corner."""
    low, high = shape[0].min(axis=0) - 4 * radius, shape[0].max(axis=0) + 4 * radius
    axis = [np.linspace(a, b, cells) for a, b in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*axis, indexing="ij"), axis=-1).reshape(-1, 3)
    distance = np.concatenate([oracle.distance(part, shapes.triangles(shape)) for part in np.array_split(points, 20)])
    free = np.pad((distance > radius).reshape(cells, cells, cells), 1)
    reached = np.zeros_like(free)
    reached[1, 1, 1] = True
    while True:
        grown = reached.copy()
        for k in range(3):
            for step in (-1, 1):
                grown |= np.roll(reached, step, axis=k)
        grown &= free
        if np.array_equal(grown, reached):
            return points, distance, reached[1:-1, 1:-1, 1:-1].ravel()
        reached = grown


def check(solid: Solid) -> None:
    """Closed, oriented, manifold, each shell outwards, none within another."""
    found = topology(solid)  # type: ignore[arg-type]
    assert {name: getattr(found, name) for name in CLOSED} == CLOSED
    manifold3d = pytest.importorskip("manifold3d")
    mesh = manifold3d.Mesh(solid.vertices.astype(np.float32), solid.faces.astype(np.uint32))
    whole = manifold3d.Manifold(mesh)
    assert whole.status() == manifold3d.Error.NoError
    assert len(whole.decompose()) == solid.shells
    assert np.isclose(whole.volume(), solid.volume, rtol=1e-3)


@pytest.mark.parametrize("name", SOUPS)
def test_inside_is_what_the_dense_flood_does_not_reach(name: str) -> None:
    shape = SOUPS[name]
    solid = made(shape)
    check(solid)
    points, distance, reached = dense(shape, RADIUS)
    signed = MeshDistance((solid.vertices, solid.faces), device="cpu").signed_distance(points)
    certain = distance > 1.3 * RADIUS
    assert certain.sum() > 500
    wrong = certain & ((signed < 0) == reached)
    assert wrong.mean() < 1e-4


@pytest.mark.parametrize(
    ("name", "shells", "volume"),
    [
        ("closed", 1, 8.0),
        ("doubled", 1, 4 / 3),
        ("walls in walls", 1, 8.0),
        ("narrow slot", 1, 8.0),
        ("screws", 4, 8.024),
    ],
)
def test_volume_and_shells(name: str, shells: int, volume: float) -> None:
    solid = made(SOUPS[name])
    assert solid.shells == shells
    half = solid.thickness / 2
    assert half == pytest.approx(0.2 * RADIUS)
    assert volume < solid.volume < volume * (1 + 2 * half) ** 3 * 1.01


def test_a_wide_slot_lets_the_outside_in_and_is_reported() -> None:
    wide = made(SOUPS["wide slot"])
    assert wide.volume < 1.0
    assert wide.leak is not None
    assert made(SOUPS["wide slot"], wide.leak / UNIT).volume > 7.0
    assert made(SOUPS["narrow slot"]).leak is None
    assert made(SOUPS["closed"]).leak is None


def test_auto_finds_the_gap() -> None:
    found = made(SOUPS["wide slot"], "auto")
    assert 1.5 * RADIUS < found.gap < 4 * RADIUS
    assert found.volume > 7.0
    check(found)
    assert made(SOUPS["closed"], "auto").gap == pytest.approx(RADIUS)


def test_a_larger_gap_keeps_the_detail() -> None:
    """Concave edges stay where the default radius has them."""
    step = shapes.joined(shapes.cube(), shapes.moved(shapes.cube(), 0.5, [0, 0, 1.4]))
    solid = made(step, 6 * GAP)
    near = MeshDistance((solid.vertices, solid.faces), "none", "cpu").distance([[0.5, 0, 1.0], [0, 0.5, 1.0]])
    assert (near < 1.5 * RADIUS).all()
    check(solid)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_any_soup_is_closed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [shapes.soup(rng, 12, 0.3), shapes.holed(rng, shapes.star(rng, 2), 0.3), shapes.moved(shapes.cube(), 0.3)]
    check(made(shapes.joined(*parts), unit=float(rng.choice([8, 12, 20]))))


@pytest.mark.parametrize("name", ["walls in walls", "triangles", "wide slot"])
def test_any_thread_count_and_device_gives_the_same_bits(name: str, backend: Backend) -> None:
    one = made(SOUPS[name], 2 * GAP, select_backend("cpu", 1))
    two = made(SOUPS[name], 2 * GAP, backend)
    assert one.vertices.tobytes() == two.vertices.tobytes()
    assert one.faces.tobytes() == two.faces.tobytes()
    assert (one.leak, one.volume, one.shells) == (two.leak, two.volume, two.shells)


@pytest.mark.parametrize("count", [600, 2000])
def test_fewer_faces_stay_closed(count: int) -> None:
    pytest.importorskip("manifold3d")
    for name in ("walls in walls", "screws"):
        solid = solid_of(make_mesh(*SOUPS[name]), GAP, UNIT, select_backend("cpu"), faces=count)
        check(solid)
        assert count / 2 < len(solid.faces) <= count
        assert solid.volume == pytest.approx(8.0, rel=0.1)


def test_specks_are_dropped() -> None:
    cpu = select_backend("cpu")
    one, speck = shapes.cube(), shapes.moved(shapes.cube(), 0.1, 3.0)
    both = make_mesh(*shapes.joined(one, speck))
    assert len(outward(both, cpu, least=0.007).faces) == 24
    assert len(outward(both, cpu, least=0.009).faces) == 12


def test_vertices_move_back_along_their_ways(backend: Backend) -> None:
    """Towards a plane: to the distance of the formula, from either side."""
    rng = np.random.default_rng()
    turn = shapes.turn(rng)
    plane = np.array([[-9, -9, 0], [9, -9, 0], [0, 9, 0]]) @ turn.T, np.array([[0, 1, 2]])
    height = rng.choice([-1, 1], 200) * rng.uniform(0.01, 3, 200)
    foot = np.column_stack((rng.uniform(-1, 1, (len(height), 2)), np.zeros(len(height))))
    vertices = (foot + height[:, None] * [0, 0, 1]) @ turn.T
    given = vertices.copy()
    moved = moved_back(vertices, MeshDistance(plane, "none", backend.name), 1.0, 0.2, backend)
    assert np.array_equal(vertices, given)
    way = np.abs(height)
    there = np.sign(height) * (0.2 * (1 + SLOPE * (way - 1)) + np.maximum(way - WALL, 0))
    assert moved == pytest.approx((foot + there[:, None] * [0, 0, 1]) @ turn.T, abs=1e-5)
