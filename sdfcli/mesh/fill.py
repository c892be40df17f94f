"""Triangulations of closed loops in space with the least area (Barequet and Sharir 1995)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdfcli.mesh.arrays import Bools, Floats, Ints

MOST_CORNERS = 256
"""Corners of the largest loop with the least area; larger ones are cut at short chords first."""
CHORDS = 64
"""Corners of a larger loop at which chords are tried."""
FLAT = 1e-6
"""Maximum height of a triangle that counts as degenerate, as a fraction of its longest side."""
REFUSED = 16.0
"""Added to the area for an edge that other faces have, and for a degenerate triangle; loops fit the unit cube."""
BATCH = 1 << 20
"""Triangles compared at once."""


def filled(loops: list[Ints], vertices: Floats, taken: Ints) -> list[Ints]:
    """Triangles (n - 2, 3) for each loop (n,) of distinct vertices, in the loop's direction.

    taken: (t,) `pair_keys` of existing edges. Triangles avoid these as chords, and pairs of vertices that several loops
    have.
    """
    shared = np.bincount(np.concatenate(loops), minlength=len(vertices)) > 1
    parts = [(owner, part) for owner, loop in enumerate(loops) for part in _small(loop, vertices)]
    found: list[list[Ints]] = [[] for _ in loops]
    sizes = np.array([len(part) for _, part in parts])
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        for some in np.array_split(chosen, -(-len(chosen) * size**2 // BATCH)):
            corners = np.stack([parts[each][1] for each in some])
            a, b = corners[:, :, None], corners[:, None, :]
            avoided = np.isin(pair_keys(a, b, len(vertices)), taken) | (shared[a] & shared[b])
            triangles = least_area(vertices[corners], avoided)
            for each, loop, local in zip(some, corners, triangles, strict=True):
                found[parts[each][0]].append(loop[local])
    return [np.concatenate(each) for each in found]


def pair_keys(a: Ints, b: Ints, vertices: int) -> Ints:
    """A number per pair of vertices, in either order."""
    return np.asarray(np.minimum(a, b) * vertices + np.maximum(a, b))


def least_area(points: Floats, taken: Bools) -> Ints:
    """The triangles (l, n - 2, 3) with the least total area of loops (l, n, 3), by dynamic programming over their
    chords. Ties: the smallest corner.

    taken: (l, n, n) pairs of corners that are avoided as chords.
    """
    loops, n, _ = points.shape
    low, high = points.min(axis=1, keepdims=True), points.max(axis=1, keepdims=True)
    x, y, z = np.moveaxis((points - low) / (high - low).max(axis=2, keepdims=True), 2, 0)
    least, apex = np.zeros((loops, n, n)), np.zeros((loops, n, n), np.int64)
    for span in range(2, n):
        first = np.arange(n - span)[:, None]
        last, middle = first + span, first + np.arange(1, span)
        total = least[:, first, middle] + least[:, middle, last]
        total += _cost(*((k[:, first], k[:, middle], k[:, last]) for k in (x, y, z)))
        best = total.argmin(axis=2)
        first, last = first[:, 0], last[:, 0]
        apex[:, first, last] = first + 1 + best
        chord = taken[:, first, last] & (span < n - 1)
        least[:, first, last] = np.take_along_axis(total, best[:, :, None], axis=2)[:, :, 0] + REFUSED * chord
    return np.stack([_triangles(each) for each in apex])


def _cost(x: tuple[Floats, ...], y: tuple[Floats, ...], z: tuple[Floats, ...]) -> Floats:
    """Areas of triangles, from their corners' coordinates, and REFUSED more for degenerate ones."""
    ux, uy, uz = (b - a for a, b, _ in (x, y, z))
    vx, vy, vz = (c - a for a, _, c in (x, y, z))
    wx, wy, wz = (c - b for _, b, c in (x, y, z))
    nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    longest = np.maximum(ux * ux + uy * uy + uz * uz, vx * vx + vy * vy + vz * vz)
    longest = np.maximum(longest, wx * wx + wy * wy + wz * wz)
    double = np.sqrt(nx * nx + ny * ny + nz * nz)
    return np.asarray(0.5 * double + np.where(double <= FLAT * longest, REFUSED, 0.0))


def _triangles(apex: Ints) -> Ints:
    """Triangles (n - 2, 3) of corners, from the third corner (n, n) over each chord."""
    found, left = [], [(0, len(apex) - 1)]
    while left:
        first, last = left.pop()
        if last - first > 1:
            middle = int(apex[first, last])
            found.append((first, middle, last))
            left += [(first, middle), (middle, last)]
    return np.array(found)


def _small(loop: Ints, vertices: Floats) -> Iterator[Ints]:
    """Loops of at most MOST_CORNERS corners, into which chords cut a loop: the shortest one that leaves a quarter of
    the corners on either side, first."""
    left = [loop]
    while left:
        loop = left.pop()
        n = len(loop)
        if n <= MOST_CORNERS:
            yield loop
            continue
        start = np.arange(CHORDS)[:, None] * n // CHORDS
        end = start + np.arange(n // 4, n - n // 4)
        away = vertices[loop[end % n]] - vertices[loop[start]]
        best = np.argmin((away**2).sum(axis=2))
        one, other = int(start.ravel()[best // end.shape[1]]), int(end.ravel()[best])
        around = np.roll(loop, -one)
        left += [around[: other - one + 1], np.append(around[other - one :], around[0])]
