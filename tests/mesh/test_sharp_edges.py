"""Wedges between faces at edges found by position, against all pairs of half-edges in another formulation."""

from __future__ import annotations

import itertools
import math
import os

import numpy as np
import numpy.typing as npt
import pytest

import shapes
from sdfcli.mesh.load import load_mesh
from sdfcli.mesh.sharp_edges import wedges

Floats = npt.NDArray[np.float64]


def unshared(rng: np.random.Generator, shape: shapes.Shape, copies: int = 1) -> shapes.Shape:
    """Every triangle with vertices of its own, `copies` times, in random order, orientation and rotation."""
    corners = np.repeat(shapes.triangles(shape), copies, axis=0)
    corners = rng.permutation(corners)
    for k, triangle in enumerate(corners):
        corners[k] = np.roll(triangle, rng.integers(3), axis=0)[:: rng.choice((1, -1))]
    return corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3)


def brute_force(shape: shapes.Shape, angle: float) -> list[tuple[Floats, Floats]]:
    """Ends (2, 3) and ways (3,) of all wedges, from the angles of all faces at an edge, by a dictionary."""
    around: dict[tuple[tuple[float, ...], ...], list[Floats]] = {}
    for triangle in shapes.triangles(shape):
        for k in range(3):
            one, two, other = (tuple(triangle[(k + each) % 3]) for each in range(3))
            around.setdefault((min(one, two), max(one, two)), []).append(np.array(other))
    found = []
    for (low, high), others in around.items():
        start, end = np.array(low), np.array(high)
        axis = (end - start) / np.linalg.norm(end - start)
        frame = np.linalg.svd(axis[None])[2][1:]
        if frame[0] @ np.cross(frame[1], axis) < 0:
            frame = frame[::-1]
        turns = sorted(math.atan2(frame[1] @ (p - start), frame[0] @ (p - start)) for p in others)
        turns = [turn for k, turn in enumerate(turns) if k == 0 or turn - turns[k - 1] > 1e-6]
        if len(turns) > 1 and turns[0] + 2 * math.pi - turns[-1] < 1e-6:
            turns.pop()
        for turn, following in itertools.pairwise([*turns, turns[0] + 2 * math.pi]):
            if abs(math.pi - (following - turn)) > math.radians(angle):
                half = (turn + following) / 2
                found.append((np.array([start, end]), math.cos(half) * frame[0] + math.sin(half) * frame[1]))
    return found


def as_rows(ends: Floats, way: Floats, size: float) -> Floats:
    """One wedge as numbers: its middle, its length and its way."""
    return np.concatenate([ends.mean(axis=0) / size, [np.linalg.norm(ends[1] - ends[0]) / size], way])


def assert_same(shape: shapes.Shape, angle: float) -> int:
    found = wedges(load_mesh(shape), angle)
    size = float(np.abs(np.ptp(shape[0], axis=0)).max())
    ends = np.stack((found.start, found.end), axis=1)
    mine = np.array([as_rows(*each, size) for each in zip(ends, found.way, strict=True)]).reshape(-1, 7)
    other = np.array([as_rows(*each, size) for each in brute_force(shape, angle)]).reshape(-1, 7)
    assert len(mine) == len(other)
    for row in mine:
        assert np.abs(other - row).max(axis=1).min() < 1e-6
    for row in other:
        assert np.abs(mine - row).max(axis=1).min() < 1e-6
    return len(mine)


def random_corners(rng: np.random.Generator, count: int) -> shapes.Shape:
    """Triangles between few random points: edges with any number of faces."""
    points = rng.random((8, 3))
    return points, np.array([rng.choice(8, 3, replace=False) for _ in range(count)])


@pytest.mark.parametrize("angle", [1.0, 20.0, 60.0, 150.0])
def test_against_all_pairs(angle: float) -> None:
    rng = np.random.default_rng(int.from_bytes(os.urandom(4), "big"))
    total = 0
    for _ in range(5):
        total += assert_same(unshared(rng, random_corners(rng, 25), int(rng.integers(1, 3))), angle)
        total += assert_same(unshared(rng, shapes.soup(rng, 20, 0.3)), angle)
        total += assert_same(unshared(rng, shapes.star(rng, 1)), angle)
    assert total > 0


@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e20])
def test_a_cube_in_pieces(scale: float) -> None:
    """Two wedges at each of the twelve edges, whatever the rotation; none at the sides' diagonals."""
    rng = np.random.default_rng(int.from_bytes(os.urandom(4), "big"))
    for _ in range(5):
        cube = shapes.moved(unshared(rng, shapes.cube(), 3), scale, 0.0, shapes.turn(rng))
        found = wedges(load_mesh(cube), 30.0)
        assert len(np.unique(found.edge)) == 12
        assert len(found.edge) == 24
        assert np.sort(found.sine) == pytest.approx([0.5**0.5] * 12 + [1.0] * 12)
        length = np.linalg.norm(found.end - found.start, axis=1)
        assert length == pytest.approx(np.full(24, length[0]))


def test_the_angle_is_the_normals() -> None:
    """A roof over a gutter: the normals turn by twice the slope."""
    for slope in (5.0, 20.0, 44.0):
        x, y = math.cos(math.radians(slope)), math.sin(math.radians(slope))
        roof = np.array([[0, 0, 0], [0, 1, 0], [x, 0, -y], [-x, 0, -y]]), np.array([[0, 1, 2], [0, 3, 1]])
        for angle, count in ((2 * slope - 0.01, 2), (2 * slope + 0.01, 0)):
            found = wedges(load_mesh(roof), angle)
            ridge = (found.start[:, 0] == 0) & (found.end[:, 0] == 0)
            assert ridge.sum() == count


def test_faces_without_area_have_no_edges() -> None:
    flat = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]], float), np.array([[0, 1, 2], [0, 0, 1], [0, 1, 3]])
    assert len(np.unique(wedges(load_mesh(flat), 30.0).edge)) == 3
