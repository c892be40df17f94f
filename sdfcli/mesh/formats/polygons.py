"""Triangulation of polygons: fans and ear clipping."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Bools, Floats, Ints
from sdfcli.runtime.memory import require

MOST_CORNERS = 10_000
"""Maximum corners in a concave polygon; up to this size, an ear takes little longer than in a small polygon."""
MOST_ROUNDS = 4
"""Maximum corners per vertex in a polygon: bridges between holes and outline repeat some vertices."""
PIECE = 1 << 18
"""Polygon corners per batch."""
WORKING = 200
"""Working bytes per corner in a batch."""

FEW, VECTOR = 256, 32
"""Maximum corners for clipping the first ear first, and minimum corners for a vectorised test by NumPy."""


@dataclass(frozen=True)
class Polygons:
    """Polygons in one array.

    corner  (c,) vertices of all polygons.
    count   (p,) corner count per polygon, at least 3.
    """

    corner: Ints
    count: Ints

    @staticmethod
    def of(rows: list[Any]) -> Polygons:
        """From a list of vertices per polygon."""
        count = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        corner = np.fromiter((vertex for row in rows for vertex in row), np.int64, int(count.sum()))
        return Polygons(corner, count)


def triangulated(vertices: Floats, polygons: Polygons) -> Ints:
    """Triangles (f, 3) from polygons, in the polygons' order and orientation. vertices: (v, 3).

    A convex polygon becomes a fan around its first corner; others are ear-clipped (Meisters 1975), projected along the
    main axis of their normal. Triangles of a self-intersecting polygon are arbitrary.

    Raises InputError for a concave polygon with over MOST_CORNERS corners, and for one with more corners than the
    vertices explain; OutOfMemoryError.
    """
    first = np.cumsum(polygons.count) - polygons.count
    if (polygons.count == 3).all():
        return polygons.corner.reshape(-1, 3)
    most = int(polygons.count.max())
    if most > max(MOST_ROUNDS * len(vertices), FEW):
        raise InputError(
            f"a face of {most:,} corners, but there are {len(vertices):,} vertices: it names them many times"
        )
    needed = 24 * len(polygons.corner) + WORKING * max(PIECE, most)
    if len(polygons.corner) > PIECE:  # the check takes a millisecond, longer than small polygons
        require(needed, "cutting faces into triangles")
    fans = polygons.count - 2
    start = np.cumsum(fans) - fans
    triangles = np.empty((int(fans.sum()), 3), np.int64)
    for chosen in _alike(polygons.count):
        size = int(polygons.count[chosen[0]])
        corner = polygons.corner[first[chosen, None] + np.arange(size)]
        place = start[chosen, None] + np.arange(size - 2)
        triangles[place] = np.stack([np.broadcast_to(corner[:, :1], place.shape), corner[:, 1:-1], corner[:, 2:]], 2)
        if size > 3:
            flat, convex = _flattened(vertices[corner])
            if size > MOST_CORNERS and not convex.all():
                raise InputError(f"a concave face of {size:,} corners; cut it into faces of {MOST_CORNERS:,} at most")
            for k in np.flatnonzero(~convex):
                triangles[place[k]] = corner[k][_Ears(flat[k]).triangles()]
    return triangles


def _alike(count: Ints) -> Iterator[Ints]:
    """Batches of polygons with equal corner counts: up to PIECE corners in total, or a single polygon."""
    order = np.argsort(count, kind="stable")
    sizes, starts = np.unique(count[order], return_index=True)
    for size, same in zip(sizes.tolist(), np.split(order, starts[1:]), strict=True):
        step = max(1, PIECE // size)
        yield from (same[k : k + step] for k in range(0, len(same), step))


def _flattened(corners: Floats) -> tuple[Floats, Bools]:
    """Counter-clockwise projections (p, n, 2) of polygons (p, n, 3), and (p,) whether they are convex."""
    corners = corners - corners[:, :1]
    scale = np.abs(corners).max(axis=(1, 2), keepdims=True)
    corners = corners / np.where(scale > 0, scale, 1.0)
    after = np.roll(corners, -1, axis=1)
    normal = np.cross(corners, after).sum(axis=1)
    # Drop the coordinate with the largest normal component; swap the others if it is negative.
    axis = np.abs(normal).argmax(axis=1)
    row = np.arange(len(corners))
    u, v = (axis + 1) % 3, (axis + 2) % 3
    down = normal[row, axis] < 0
    u, v = np.where(down, v, u), np.where(down, u, v)
    flat = np.stack([corners[row, :, u], corners[row, :, v]], axis=2)
    side = np.roll(flat, -1, axis=1) - flat
    nextside = np.roll(side, -1, axis=1)
    turn = side[..., 0] * nextside[..., 1] - side[..., 1] * nextside[..., 0]
    convex: Bools = np.all(turn >= -1e-12, axis=1)
    return flat, convex


class _Ears:
    """Ear clipping for a counter-clockwise polygon (n, 2). An ear is a corner whose triangle contains no other corner.

    Only corners without a left turn can lie in an ear's triangle, and an ear itself turns left, so clipping affects
    only its two neighbours: a corner is tested again when a neighbour is clipped, against the corners in its triangle's
    range along one axis.
    """

    def __init__(self, flat: Floats) -> None:
        self.flat, self.n = flat, len(flat)
        self.x: list[float] = flat[:, 0].tolist()
        self.y: list[float] = flat[:, 1].tolist()
        self.before, self.after = [self.n - 1, *range(self.n - 1)], [*range(1, self.n), 0]
        self.blocks = [self._turn(k) <= 0 for k in range(self.n)]
        self._sort()

    def triangles(self) -> list[list[int]]:
        """Triangles (n - 2, 3) as corner indices. Up to FEW corners, the first ear is clipped first; above, ears are
        clipped in turn around the polygon, to keep them small."""
        many = self.n > FEW
        waiting, gone, first = list(range(self.n)), [False] * self.n, 0  # sorted, hence a heap
        found: list[list[int]] = []
        for left in range(self.n, 3, -1):
            while gone[first]:
                first += 1
            k = self.after[first]  # a self-intersecting polygon may have no ear
            while waiting:
                corner = heapq.heappop(waiting)
                if not gone[corner % self.n] and self._is_ear(corner % self.n):
                    k = corner % self.n
                    break
            a, b = self.before[k], self.after[k]
            found.append([a, k, b])
            gone[k], self.blocks[k], self.after[a], self.before[b] = True, False, b, a
            if left & (left - 1) == 0:
                self._sort()
            for neighbour in (a, b):
                self.blocks[neighbour] = self._turn(neighbour) <= 0
                heapq.heappush(waiting, neighbour + (corner - corner % self.n + self.n if many else 0))
        while gone[first]:
            first += 1
        return [*found, [first, self.after[first], self.before[first]]]

    def _sort(self) -> None:
        """Sorts the corners that may lie in ears along both axes."""
        corners = [k for k in range(self.n) if self.blocks[k]]
        self.orders = [sorted(corners, key=along.__getitem__) for along in (self.x, self.y)]
        self.along = [[self.x[k] for k in self.orders[0]], [self.y[k] for k in self.orders[1]]]
        self.arrays = [np.array(order, np.int64) for order in self.orders]

    def _turn(self, k: int) -> float:
        return self._area(self.before[k], k, self.after[k])

    def _area(self, a: int, b: int, c: int) -> float:
        """Twice a triangle's area, positive if counter-clockwise."""
        x, y = self.x, self.y
        return (x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a])

    def _is_ear(self, k: int) -> bool:
        a, c = self.before[k], self.after[k]
        if self._area(a, k, c) <= 0:
            return False
        spans = []
        for place, along in zip((self.x, self.y), self.along, strict=True):
            reach = (place[a], place[k], place[c])
            spans.append((bisect_left(along, min(reach)), bisect_right(along, max(reach))))
        axis = 0 if spans[0][1] - spans[0][0] < spans[1][1] - spans[1][0] else 1
        start, end = spans[axis]
        others = self.orders[axis][start:end]
        if len(others) > VECTOR:
            others = self._within(a, k, c, self.arrays[axis][start:end])
        ends = [(self.x[corner], self.y[corner]) for corner in (a, k, c)]
        return not any(
            self.blocks[other]
            and self._area(a, k, other) >= 0
            and self._area(k, c, other) >= 0
            and self._area(c, a, other) >= 0
            and (self.x[other], self.y[other]) not in ends  # a bridge to a hole has each end twice
            for other in others
        )

    def _within(self, a: int, b: int, c: int, others: Ints) -> list[int]:
        """Corners inside a triangle."""
        x, y = self.flat[others].T
        inside = np.ones(len(others), bool)
        for p, q in ((a, b), (b, c), (c, a)):
            inside &= (self.x[q] - self.x[p]) * (y - self.y[p]) - (self.y[q] - self.y[p]) * (x - self.x[p]) >= 0
        found: list[int] = others[inside].tolist()
        return found
