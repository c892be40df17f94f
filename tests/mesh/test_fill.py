"""Triangulations of loops, against all triangulations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdfcli.mesh.fill import MOST_CORNERS, filled, least_area, pair_keys

Triangle = tuple[int, int, int]
NONE = np.empty(0, np.int64)


def triangulations(first: int, last: int) -> Iterator[list[Triangle]]:
    """All triangulations of the polygon first .. last."""
    if last - first < 2:
        yield []
        return
    for middle in range(first + 1, last):
        for one in triangulations(first, middle):
            for two in triangulations(middle, last):
                yield [(first, middle, last), *one, *two]


def area(points: npt.NDArray[np.float64], triangles: npt.ArrayLike) -> float:
    a, b, c = np.moveaxis(points[np.asarray(triangles)], 1, 0)
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()) / 2


def chords(triangles: npt.ArrayLike, n: int) -> set[tuple[int, int]]:
    sides = np.sort(np.asarray(triangles)[:, [[0, 1], [1, 2], [0, 2]]].reshape(-1, 2), axis=1)
    return {(a, b) for a, b in sides.tolist() if b - a != 1 and (a, b) != (0, n - 1)}


def closes(loop: npt.NDArray[np.int64], triangles: npt.NDArray[np.int64]) -> bool:
    """Whether the triangles' boundary is the loop, in its direction."""
    half = [(int(t[k]), int(t[(k + 1) % 3])) for t in triangles for k in range(3)]
    left = sorted(set(half) - {(b, a) for a, b in half})
    return left == sorted(zip(loop.tolist(), np.roll(loop, -1).tolist(), strict=True)) and len(set(half)) == len(half)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(3, 8), st.sampled_from([1e-30, 1.0, 1e25]))
def test_least_area_of_all_triangulations(seed: int, n: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(3, n, 3)) + rng.normal(size=(3, 1, 3))
    free = np.zeros((3, n, n), bool)
    for each, found in zip(points, least_area(points * scale, free), strict=True):
        best = min(area(each, all_) for all_ in triangulations(0, n - 1))
        assert len(found) == n - 2
        assert area(each, found) <= best * (1 + 1e-9)
        assert closes(np.arange(n), found)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_taken_chords_are_avoided_where_possible(seed: int) -> None:
    rng, n = np.random.default_rng(seed), 7
    points = rng.normal(size=(1, n, 3))
    taken = np.triu(rng.random((n, n)) < 0.4)
    taken |= taken.T
    (found,) = least_area(points, taken[None])
    fewest = min(sum(taken[c] for c in chords(each, n)) for each in triangulations(0, n - 1))
    assert sum(taken[c] for c in chords(found, n)) == fewest


def test_straight_sides_give_no_degenerate_triangles() -> None:
    t = np.linspace(-1, 1, 9)[:-1]
    square = np.concatenate([np.stack((t, -1 + 0 * t), 1), np.stack((1 + 0 * t, t), 1)])
    square = np.concatenate((square, -square))
    points = np.pad(square, ((0, 0), (0, 1)))
    (found,) = filled([np.arange(len(points))], points, NONE)
    sizes = [area(points, [each]) for each in found]
    assert min(sizes) > 1e-3
    assert sum(sizes) == pytest.approx(4)  # an overlap would add to it


@pytest.mark.parametrize("corners", [MOST_CORNERS + 1, 1500])
def test_large_loops(corners: int) -> None:
    """A wavy ring and small ones; the ring's triangles have little more than a disk's area."""
    rng = np.random.default_rng()
    angle = np.sort(rng.random(corners)) * 2 * np.pi
    ring = np.stack((np.cos(angle), np.sin(angle), 0.05 * np.sin(5 * angle)), 1)
    vertices = np.concatenate((ring, rng.normal(size=(8, 3))))
    order = rng.permutation(len(vertices))
    vertices[order] = vertices.copy()
    loops = [order[:corners], order[corners : corners + 3], order[corners + 3 :]]
    triangles = filled(loops, vertices, NONE)
    for loop, found in zip(loops, triangles, strict=True):
        assert len(found) == len(loop) - 2
        assert closes(loop, found)
    assert area(vertices, triangles[0]) < 1.05 * np.pi


def test_pair_keys() -> None:
    a, b = np.array([3, 5, 0]), np.array([5, 3, 9])
    assert pair_keys(a, b, 10).tolist() == [35, 35, 9]
