"""Axis-parallel lines through closed triangle meshes: inward and outward crossings balance regardless of rounding.

Seen along the axis, an edge has a line on its left or on its right. Its two faces decide this by the same product with
opposite signs, so they agree; a line through an edge or a corner counts as slightly shifted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sdfcli.mesh.arrays import Floats, Ints, pieces
from sdfcli.mesh.mesh import face_normals

PAIRS = 1 << 19
"""Approximate number of pairs per batch."""


class Lines(NamedTuple):
    """Lines: a point (n, 3) on each, and its axis (n,)."""

    point: Floats
    axis: Ints


class Hits(NamedTuple):
    """Intersections between lines and triangles.

    line      (h,) line index.
    triangle  (h,) triangle index.
    height    (h,) coordinate along the axis.
    way       (h,) 1 where the axis exits through the surface's front, -1 where it enters.
    """

    line: Ints
    triangle: Ints
    height: Floats
    way: Ints


def lines_through(triangles: Floats, of: Ints, parts: Ints) -> Lines:
    """One line per part in `parts` (n,), ascending: through the part's largest triangle, along the axis closest to its
    normal. triangles: (t, 3, 3). of: (t,) each triangle's part."""
    normal = face_normals(triangles.reshape(-1, 9))
    order = np.lexsort(((normal**2).sum(axis=1), of))
    largest = order[np.searchsorted(of[order], parts, side="right") - 1]
    # An unusual barycentric point: corners and midpoints often lie on lattices.
    return Lines(np.array([0.397, 0.331, 0.272]) @ triangles[largest], np.abs(normal[largest]).argmax(axis=1))


def hits(point: Floats, triangles: Floats, axis: int, of: Ints | None = None) -> Hits:
    """Intersections between triangles (t, 3, 3) and lines along `axis` through points (n, 3). of: (t,) the single line
    to test each triangle against; None: all lines."""
    plane = [(axis + 1) % 3, (axis + 2) % 3]
    low, high = triangles.min(axis=1), triangles.max(axis=1)
    none = np.empty(0, np.int64)
    found = [Hits(none, none, np.empty(0), none)]
    if of is None:
        pairs: Iterator[tuple[Ints, Ints]] = _points_in_boxes(point[:, plane], low[:, plane], high[:, plane])
    else:
        number = np.arange(len(of))
        pairs = ((of[part], number[part]) for part in pieces(len(of)))
    for line, triangle in pairs:
        u, v = np.moveaxis(triangles[triangle][..., plane] - point[line][:, None, plane], -1, 0)
        after_u, after_v = np.roll(u, -1, axis=1), np.roll(v, -1, axis=1)
        upwards = after_v > 0  # direction of an edge that crosses v = 0, the line's coordinate
        area = u * after_v - v * after_u
        right = ((v > 0) != upwards) & np.where(upwards, area > 0, area < 0)
        way = np.where(right, np.where(upwards, 1, -1), 0).sum(axis=1)
        crossed = np.flatnonzero(way)
        hit, weight = triangle[crossed], np.roll(area[crossed], -1, axis=1)
        total = weight.sum(axis=1, keepdims=True)
        weight = np.where(total == 0, 1 / 3, weight / np.where(total == 0, 1.0, total))
        height = np.clip((weight * triangles[hit, :, axis]).sum(axis=1), low[hit, axis], high[hit, axis])
        found.append(Hits(line[crossed], hit, height, way[crossed]))
    return Hits(*map(np.concatenate, zip(*found, strict=True)))


def middles(line: Ints, height: Floats, way: Ints, lines: int) -> Floats:
    """Midpoint (lines,) of each line's longest inside interval between hits (h,); inf without one."""
    order = np.lexsort((height, line))
    line, height, way = line[order], height[order], way[order]
    inside = (np.cumsum(way)[:-1] != 0) & (line[1:] == line[:-1])
    length = np.where(inside, np.diff(height), 0.0)
    longest = np.lexsort((length, line[:-1]))
    longest = longest[length[longest] > 0]
    middle = np.full(lines, np.inf)
    middle[line[longest]] = (height[longest] + height[longest + 1]) / 2  # the last assignment wins
    return middle


def boxes_within(low: Floats, high: Floats) -> tuple[Ints, Ints]:
    """Index pairs (p,) of boxes (n, 3) where the first lies inside the second."""
    found = [np.empty((2, 0), np.int64)]
    centre = low + (high - low) / 2
    # The two axes with the fewest centres in boxes.
    met = [np.diff(_places(np.sort(centre[:, k]), low[:, k], high[:, k]), axis=0).sum() for k in range(3)]
    plane = np.argsort(met, kind="stable")[:2]
    for inner, outer in _points_in_boxes(centre[:, plane], low[:, plane], high[:, plane]):
        within = ((low[outer] <= low[inner]) & (high[outer] >= high[inner])).all(axis=1) & (inner != outer)
        found.append(np.stack([inner[within], outer[within]]))
    inner, outer = np.concatenate(found, axis=1)
    return inner, outer


def _places(values: Floats, low: Floats, high: Floats) -> Ints:
    """Half-open index ranges (2, m) of the ascending values within closed intervals (m,)."""
    return np.stack([np.searchsorted(values, low, "left"), np.searchsorted(values, high, "right")])


def _points_in_boxes(point: Floats, low: Floats, high: Floats) -> Iterator[tuple[Ints, Ints]]:
    """Batches of index pairs (p,): a point (n, 2) and a box (m, 2) that contains it. No other pairs are tested.

    A range tree: in a binary tree over the points sorted by their first coordinate, an interval covers at most two
    nodes per level; within each node, points are sorted by their second coordinate.
    """
    count = len(point)
    order = np.argsort(point[:, 0], kind="stable")
    by_second = np.argsort(point[order, 1], kind="stable")
    first, last = _places(point[order, 0], low[:, 0], high[:, 0])
    least, most = _places(point[order[by_second], 1], low[:, 1], high[:, 1])
    box, level = np.arange(len(low)), 0
    rank = np.empty(count, np.int64)
    rank[by_second] = np.arange(count)
    while True:
        left = (first < last) & (least < most)
        box, first, last, least, most = (each[left] for each in (box, first, last, least, most))
        if len(box) == 0:
            return
        key = (np.arange(count) >> level) * count + rank
        place = np.argsort(key)
        key = key[place]
        for odd, node in ((first & 1, first), (last & 1, last - 1)):
            some = np.flatnonzero(odd)
            begin, end = (np.searchsorted(key, node[some] * count + bound[some]) for bound in (least, most))
            for number, k in ranges(begin, end):
                yield order[place[k]], box[some[number]]
        first, last, level = first + 1 >> 1, last >> 1, level + 1


def ranges(begin: Ints, end: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Range index and value (p,) for every value in half-open ranges from begin (n,) to end (n,), in batches of about
    PAIRS."""
    sums = np.cumsum(end - begin)
    start = 0
    while start < len(begin):
        before = sums[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(sums, before + PAIRS, side="right")))
        count = (end - begin)[start:stop]
        number = np.repeat(np.arange(start, stop), count)
        yield number, np.arange(len(number)) + np.repeat(begin[start:stop] - (sums[start:stop] - count - before), count)
        start = stop
