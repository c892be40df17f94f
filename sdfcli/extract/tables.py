"""The 256 marching cubes cases (Lorensen and Cline 1987), derived from one rule for a cell's faces.

A cell's corner c lies at (c & 1, c >> 1 & 1, c >> 2). Bit c in a case: corner c is inside. The surface crosses edges
with one end inside. On each face, one segment cuts off every run of inside corners along the border: on an ambiguous
face (two inside corners on a diagonal) the inside corners are separated. Segments depend only on the face, so adjacent
cells have the same ones, and the surface is closed. Around the cell, segments form loops, and each loop is
triangulated.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

MOST_TRIANGLES = 5
ROW = 3 * MOST_TRIANGLES + 1
"""Bytes per case: triangle count, then three edges per triangle."""

Edge = tuple[int, int]
"""An edge's lower corner and axis."""


@functools.cache
def triangle_table() -> npt.NDArray[np.uint8]:
    """Table (256, 16) uint8: triangle count and the triangles' edges by case, 8 x axis + lower corner each.

    Triangles are counter-clockwise seen from outside.
    """
    table = np.zeros((256, ROW), np.uint8)
    for case in range(256):
        triangles = [triangle for loop in _loops(case) for triangle in _filled(loop)]
        table[case, 0] = len(triangles)
        edges = [8 * axis + corner for triangle in triangles for corner, axis in triangle]
        table[case, 1 : 1 + len(edges)] = edges
    return table


def _faces() -> Iterator[list[int]]:
    """Each face's four corners, counter-clockwise seen from outside the cell."""
    for axis in range(3):
        u, v = 1 << (axis + 1) % 3, 1 << (axis + 2) % 3
        yield [0, v, u | v, u]
        yield [corner | 1 << axis for corner in (0, u, u | v, v)]


def _edge(a: int, b: int) -> Edge:
    return min(a, b), (a ^ b).bit_length() - 1


def _loops(case: int) -> list[list[Edge]]:
    """Loops of crossed edges, counter-clockwise seen from outside the surface."""
    following: dict[Edge, Edge] = {}
    for face in _faces():
        crossings = []  # along the face's border: the edge, and whether it enters the inside
        for k in range(4):
            start, end = face[k], face[(k + 1) % 4]
            if (case >> start ^ case >> end) & 1:
                crossings.append((_edge(start, end), bool(case >> end & 1)))
        for k, (edge, entered) in enumerate(crossings):
            if entered:  # the next crossing ends the run of inside corners
                following[edge] = crossings[(k + 1) % len(crossings)][0]
    loops = []
    while following:
        loop = [min(following)]
        while loop[-1] in following:
            loop.append(following.pop(loop[-1]))
        loops.append(loop[:-1])
    return loops


def _filled(loop: list[Edge]) -> list[tuple[Edge, Edge, Edge]]:
    """The loop's triangles, without inner edges in cell faces.

    The neighbouring cell could have the same edge in a shared face, and four triangles would meet at it.
    """
    if len(loop) < 3:
        return []  # one of the loop's edges
    for k in range(2, len(loop)):  # the third corner of the triangle at the loop's first edge
        sides = [(loop[1], loop[k])] * (k > 2) + [(loop[k], loop[0])] * (k < len(loop) - 1)
        if any(_share_a_face(*side) for side in sides):
            continue
        try:
            return [(loop[0], loop[1], loop[k]), *_filled(loop[1 : k + 1]), *_filled([loop[0], *loop[k:]])]
        except ValueError:
            continue
    raise ValueError("every triangulation of this loop has a side in a face")


def _share_a_face(a: Edge, b: Edge) -> bool:
    ends = [{corner, corner | 1 << axis} for corner, axis in (a, b)]
    return any(ends[0] | ends[1] <= set(face) for face in _faces())
