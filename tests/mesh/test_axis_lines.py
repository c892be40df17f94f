"""Lines along an axis cross closed surfaces as winding numbers say, also through edges and corners."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import shapes
from sdfcli.mesh import axis_lines
from sdfcli.mesh.axis_lines import boxes_within, hits, middles


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(sorted(shapes.CLOSED)))
def test_crossings_are_winding_numbers(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    shape = shapes.moved(shapes.CLOSED[kind](rng), turn=shapes.turn(rng))
    triangles, points = shapes.triangles(shape), rng.uniform(-1, 1, (20, 3))
    winding = np.rint(oracle.winding(points, triangles))
    for axis in range(3):
        found = hits(points, triangles, axis)
        above = found.height > points[found.line, axis]
        assert np.array_equal(np.bincount(found.line[above], found.way[above], len(points)), winding)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), axis=st.integers(0, 2))
def test_lines_through_edges_and_corners(seed: int, axis: int) -> None:
    """They leave what they enter, at the two sides of a block whose faces are all cut alike."""
    rng = np.random.default_rng(seed)
    triangles = shapes.triangles(shapes.moved(shapes.refined(shapes.refined(shapes.cube())), turn=np.eye(3)))
    points = rng.integers(-4, 5, (50, 3)) / 4.0
    found = hits(points, triangles, axis)
    assert np.all(np.bincount(found.line, found.way, len(points)) == 0)
    plane = [(axis + 1) % 3, (axis + 2) % 3]
    within = (np.abs(points[:, plane]) < 1).all(axis=1)
    crossed = np.bincount(found.line, minlength=len(points))
    assert np.all(crossed[within] == 2)
    assert np.all(np.isin(crossed, (0, 2)))
    assert np.all(np.abs(found.height) == 1)
    assert np.all(middles(found.line, found.height, found.way, len(points))[within] == 0)
    assert np.all(np.isinf(middles(found.line, found.height, found.way, len(points))[crossed == 0]))


def test_the_middle_of_the_longest_piece() -> None:
    line = np.array([0, 0, 0, 0, 2, 2])
    height = np.array([0.0, 1.0, 5.0, 8.0, -1.0, 0.0])
    way = np.array([-1, 1, -1, 1, 1, -1])
    assert middles(line, height, way, 4).tolist() == [6.5, np.inf, -0.5, np.inf]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 150),
    spread=st.tuples(*[st.sampled_from([1, 3, 12, 10**6])] * 3),
    outliers=st.integers(0, 3),
    pairs=st.sampled_from([7, 1 << 19]),
)
def test_boxes_within_boxes(seed: int, count: int, spread: tuple[int, ...], outliers: int, pairs: int) -> None:
    """Anywhere, in rows, or but for some far away; they share sides and places."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, spread, (count, 3)) * 1.0
    low[:outliers] *= rng.integers(-(10**9), 10**9, 3)
    high = low + rng.integers(0, 6, (count, 3)) ** 2
    inside = (low[:, None] >= low).all(axis=2) & (high[:, None] <= high).all(axis=2) & ~np.eye(count, dtype=bool)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(axis_lines, "PAIRS", pairs)
        found = boxes_within(low, high)
    assert sorted(zip(*found, strict=True)) == [tuple(row) for row in np.argwhere(inside)]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), axis=st.integers(0, 2))
def test_lines_that_are_asked_about_some_triangles(seed: int, axis: int) -> None:
    """They cross them where they do among all."""
    rng = np.random.default_rng(seed)
    triangles, points = shapes.triangles(shapes.zoo(rng, 20)), rng.uniform(-1, 1, (10, 3))
    of = rng.integers(0, len(points), len(triangles))
    among_all = hits(points, triangles, axis)
    mine = of[among_all.triangle] == among_all.line
    found = hits(points, triangles, axis, of)
    for one, other in zip(found, among_all, strict=True):
        assert np.array_equal(one[np.argsort(found.triangle)], other[mine][np.argsort(among_all.triangle[mine])])
