"""Gaps open at the ball's diameter, whatever their direction and place."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

import backends
import shapes
from sdfcli.backend import Backend, select_backend
from sdfcli.mesh.load import make_mesh
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.solid.passages import takes
from sdfcli.solid.solidify import GAP, solid_of

backend = backends.backend
RADIUS = 0.05


def rectangle(low: tuple[float, float], high: tuple[float, float], z: float = 1.0) -> shapes.Shape:
    (a, b), (c, d) = low, high
    return np.array([[a, b, z], [c, b, z], [c, d, z], [a, d, z]]), np.array([[0, 1, 2], [0, 2, 3]])


def box_with(*lid: shapes.Shape) -> shapes.Shape:
    vertices, faces = shapes.cube()
    return shapes.joined((vertices, faces[:-2]), *lid)


def slot(width: float) -> shapes.Shape:
    """A cube with a slot across its lid."""
    half = width / 2
    return box_with(rectangle((-1, -1), (-half, 1)), rectangle((half, -1), (1, 1)))


def duct(width: float) -> shapes.Shape:
    """A slot whose walls reach eight radii into the cube."""
    wall, faces = rectangle((-8 * RADIUS, -1), (0, 1), 0)
    walls = [(wall[:, [2, 1, 0]] + [x, 0, 1], faces) for x in (-width / 2, width / 2)]
    return shapes.joined(slot(width), *walls)


def hole(width: float) -> shapes.Shape:
    """A cube with a square hole in its lid."""
    half = width / 2
    across = [rectangle((-1, -1), (1, -half)), rectangle((-1, half), (1, 1))]
    return box_with(*across, rectangle((-1, -half), (-half, half)), rectangle((half, -half), (1, half)))


@pytest.mark.parametrize("shape", [slot, duct, hole])
def test_a_gap_opens_at_the_diameter(shape: Callable[[float], shapes.Shape]) -> None:
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed", seed)
    rng = np.random.default_rng(seed)
    for width, is_open in ((rng.uniform(1.0, 1.9), False), (rng.uniform(2.1, 2.6), True)):
        placed = shapes.moved(shape(width * RADIUS), turn=shapes.turn(rng), offset=rng.normal(size=3))
        made = solid_of(make_mesh(*placed), GAP, RADIUS / GAP, select_backend("cpu"), measured=False)
        assert (made.volume < 2) == is_open, width
        assert is_open or made.volume > 7.9


def test_a_ball_between_plates(backend: Backend) -> None:
    """Points at `offset` from the middle of two plates 2 apart; balls of radius 0.95 and 1.05."""
    rng = np.random.default_rng()
    turn = shapes.turn(rng)
    plates = shapes.joined(*(shapes.moved(rectangle((-9, -9), (9, 9), z), 1.0, 0.0, turn) for z in (-1.0, 1.0)))
    offset = rng.uniform(-0.8, 0.8, 500)
    offset = offset[np.abs(np.abs(offset) - 0.4) > 1e-6]
    points = np.column_stack((rng.uniform(-1, 1, (len(offset), 2)), offset)) @ turn.T
    distances, given = MeshDistance(plates, "none", backend.name), backend.from_host(points)
    found = backend.to_host(takes(given, distances, 0.95, 0.4, backend))
    assert np.array_equal(found > 0, np.abs(offset) <= 0.4)
    assert not backend.to_host(takes(given, distances, 1.05, 0.4, backend)).any()


def test_corners_beside_passages(backend: Backend) -> None:
    """The kernel against float64, for random leaves."""
    rng = np.random.default_rng()
    value, level = rng.uniform(0.2, 1.0, 400).astype(np.float32), rng.integers(0, 3, 300).astype(np.uint8)
    corner = rng.integers(0, 400, (300, 8)).astype(np.uint32)
    bits = np.arange(8) >> np.arange(3)[:, None] & 1
    rise = value[corner].astype(float) @ (2 * bits - 1).T / 4 * 2.0 ** level[:, None]
    flat = np.linalg.norm(rise, axis=1)
    slope = np.median(flat)
    near = (value > 0.4) & (value <= 0.9)
    expected = np.zeros(400, bool)
    expected[corner[flat < slope * 0.9999]] = True
    possible = expected.copy()
    possible[corner[flat < slope * 1.0001]] = True
    beside = backend.filled(400, 0, np.uint8)
    given = {"leaf_corner": corner, "leaf_level": level, "value": value}
    arrays = {name: backend.from_host(each) for name, each in given.items()}
    limits = {"low": 0.4, "high": 0.9, "slope": float(slope), "length": 1.0}
    backend.run("sdf_passage_corners", 300, beside=beside, **limits, **arrays)
    found = backend.to_host(beside) > 0
    assert (found >= (expected & near)).all()
    assert (found <= (possible & near)).all()
