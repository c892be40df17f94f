"""Lines along an axis through closed triangles, which they cross as often inwards as outwards, whatever is rounded.

Seen along the axis, an edge lies on one side of a line or on the other, for both of its faces alike: the same product
decides, with the other sign, and a line through an edge or a corner counts as one that was moved a little.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sdfcli.mesh.arrays import Floats, Ints, pieces
from sdfcli.mesh.mesh import face_normals

PAIRS = 1 << 19
"""Pairs that are made at a time, about."""


class Lines(NamedTuple):
    """Lines: a point (n, 3) of each, and its axis (n,)."""

    point: Floats
    axis: Ints


class Hits(NamedTuple):
    """Where lines cross triangles.

    line      (h,) the line.
    triangle  (h,) the triangle.
    height    (h,) the coordinate along the axis.
    way       (h,) 1 where the axis leaves the surface at its front, -1 where it enters.
    """

    line: Ints
    triangle: Ints
    height: Floats
    way: Ints


def lines_through(triangles: Floats, of: Ints, parts: Ints) -> Lines:
    """A line for each of some parts (n,), ascending, through the largest of its triangles (t, 3, 3), along the axis
    that is closest to their normal. of: (t,) the part of each triangle."""
    normal = face_normals(triangles.reshape(-1, 9))
    order = np.lexsort(((normal**2).sum(axis=1), of))
    largest = order[np.searchsorted(of[order], parts, side="right") - 1]
    # No point that others would choose: most corners and middles lie on lattices.
    return Lines(np.array([0.397, 0.331, 0.272]) @ triangles[largest], np.abs(normal[largest]).argmax(axis=1))


def hits(point: Floats, triangles: Floats, axis: int, of: Ints | None = None) -> Hits:
    """Where lines along an axis through points (n, 3) cross triangles (t, 3, 3). of: (t,) the line that each triangle
    is asked about; None: all of them."""
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
        upwards = after_v > 0  # an edge, where it crosses the height of the line
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
    """The middle (lines,) of the longest piece of each line between hits (h,) where it is inside; inf where it is
    nowhere."""
    order = np.lexsort((height, line))
    line, height, way = line[order], height[order], way[order]
    inside = (np.cumsum(way)[:-1] != 0) & (line[1:] == line[:-1])
    length = np.where(inside, np.diff(height), 0.0)
    longest = np.lexsort((length, line[:-1]))
    longest = longest[length[longest] > 0]
    middle = np.full(lines, np.inf)
    middle[line[longest]] = (height[longest] + height[longest + 1]) / 2  # the last one stays
    return middle


def boxes_within(low: Floats, high: Floats) -> tuple[Ints, Ints]:
    """Pairs (p,) of boxes (n, 3), of which the first lies in the second."""
    found = [np.empty((2, 0), np.int64)]
    centre = low + (high - low) / 2
    # The two axes along which fewest centres lie in boxes.
    met = [np.diff(_places(np.sort(centre[:, k]), low[:, k], high[:, k]), axis=0).sum() for k in range(3)]
    plane = np.argsort(met, kind="stable")[:2]
    for inner, outer in _points_in_boxes(centre[:, plane], low[:, plane], high[:, plane]):
        within = ((low[outer] <= low[inner]) & (high[outer] >= high[inner])).all(axis=1) & (inner != outer)
        found.append(np.stack([inner[within], outer[within]]))
    inner, outer = np.concatenate(found, axis=1)
    return inner, outer


def _places(values: Floats, low: Floats, high: Floats) -> Ints:
    """From which to which (2, m) of ascending values lie between bounds (m,), these included."""
    return np.stack([np.searchsorted(values, low, "left"), np.searchsorted(values, high, "right")])


def _points_in_boxes(point: Floats, low: Floats, high: Floats) -> Iterator[tuple[Ints, Ints]]:
    """Pairs (p,) of a point (n, 2) and a box (m, 2) that contains it, some at a time, and no others are looked at.

    In a binary tree over the points in the order of their first coordinate, those between bounds are two nodes a level,
    at most; in each node, points are in the order of their second coordinate.
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
    """The number of each range (n,) and the values in it, for all values from its begin to its end, PAIRS or so at a
    time."""
    sums = np.cumsum(end - begin)
    start = 0
    while start < len(begin):
        before = sums[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(sums, before + PAIRS, side="right")))
        count = (end - begin)[start:stop]
        number = np.repeat(np.arange(start, stop), count)
        yield number, np.arange(len(number)) + np.repeat(begin[start:stop] - (sums[start:stop] - count - before), count)
        start = stop
