"""From polygons with any number of corners to triangles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Polygons:
    """corner (c,): the vertices of all polygons, one after the other; count (p,): how many each has, at least 3."""

    corner: Ints
    count: Ints

    @staticmethod
    def of(rows: list[Any]) -> Polygons:
        """From one list of vertices each."""
        count = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        corner = np.fromiter((vertex for row in rows for vertex in row), np.int64, int(count.sum()))
        return Polygons(corner, count)


def triangulated(vertices: Floats, polygons: Polygons) -> Ints:
    """Triangles (f, 3) that cover the polygons, in their order and orientation; vertices (v, 3).

    A convex polygon becomes a fan around its first corner, another one is cut along ears (Meisters 1975) in the plane
    to which it is closest. One that crosses itself has no right answer; it becomes a fan, too.
    """
    first = np.cumsum(polygons.count) - polygons.count
    if (polygons.count == 3).all():
        return polygons.corner.reshape(-1, 3)
    fans = polygons.count - 2
    start = np.cumsum(fans) - fans
    triangles = np.empty((int(fans.sum()), 3), np.int64)
    for size in np.unique(polygons.count).tolist():
        chosen = np.flatnonzero(polygons.count == size)
        corner = polygons.corner[first[chosen, None] + np.arange(size)]
        place = start[chosen, None] + np.arange(size - 2)
        triangles[place] = np.stack([np.broadcast_to(corner[:, :1], place.shape), corner[:, 1:-1], corner[:, 2:]], 2)
        if size > 3:
            flat, convex = _flattened(vertices[corner])
            for k in np.flatnonzero(~convex):
                triangles[place[k]] = corner[k][_ears(flat[k])]
    return triangles


def _flattened(corners: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Polygons (p, n, 3) seen along their normals, counter-clockwise: (p, n, 2), and (p,) whether they are convex."""
    corners = corners - corners[:, :1]
    scale = np.abs(corners).max(axis=(1, 2), keepdims=True)
    corners = corners / np.where(scale > 0, scale, 1.0)
    after = np.roll(corners, -1, axis=1)
    normal = np.cross(corners, after).sum(axis=1)
    # The coordinates across the normal's longest component, swapped where it points down.
    axis = np.abs(normal).argmax(axis=1)
    row = np.arange(len(corners))
    u, v = (axis + 1) % 3, (axis + 2) % 3
    down = normal[row, axis] < 0
    u, v = np.where(down, v, u), np.where(down, u, v)
    flat = np.stack([corners[row, :, u], corners[row, :, v]], axis=2)
    side = np.roll(flat, -1, axis=1) - flat
    nextside = np.roll(side, -1, axis=1)
    turn = side[..., 0] * nextside[..., 1] - side[..., 1] * nextside[..., 0]
    convex: npt.NDArray[np.bool_] = np.all(turn >= -1e-12, axis=1)
    return flat, convex


def _ears(flat: Floats) -> list[list[int]]:
    """The triangles (n - 2, 3), by number of the corner, of a polygon (n, 2) that is counter-clockwise."""
    left = list(range(len(flat)))
    triangles = []
    while len(left) > 3:
        k = next((k for k in range(len(left)) if _is_ear(flat, left, k)), 1)
        triangles.append([left[k - 1], left[k], left[(k + 1) % len(left)]])
        del left[k]
    return [*triangles, left]


def _is_ear(flat: Floats, left: list[int], k: int) -> bool:
    a, b, c = flat[left[k - 1]], flat[left[k]], flat[left[(k + 1) % len(left)]]
    if _area(a, b, c) <= 0:
        return False
    ends = {left[k - 1], left[k], left[(k + 1) % len(left)]}
    others = flat[[vertex for vertex in left if vertex not in ends]]
    within = (_area(a, b, others) >= 0) & (_area(b, c, others) >= 0) & (_area(c, a, others) >= 0)
    corner = (others[:, None] == np.stack([a, b, c])).all(axis=2).any(axis=1)  # a bridge to a hole comes back to it
    return not bool((within & ~corner).any())


def _area(a: Floats, b: Floats, c: Floats) -> Any:
    """Twice the area of a triangle, positive where it is counter-clockwise."""
    return (b[0] - a[0]) * (c[..., 1] - a[1]) - (b[1] - a[1]) * (c[..., 0] - a[0])
