"""Propagation: points that take over the sign of a neighbour, as no surface lies between the two.

Where the distances of two points are together more than the way between them, no surface lies between. A link leads
from a point to such a neighbour that is farther from the surface, so links lead in no circle. Points without a link,
and points whose links end at them, have their own winding number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.sign.caps import Caps

UNKNOWN = 2
"""Of a sign: neither outside (0) nor inside (1) yet."""


class CellPoints(Protocol):
    """The corners of an octree: see octree.cells.Corners."""

    @property
    def cell(self) -> Array:
        """(s,) uint64: the split cells."""

    @property
    def point(self) -> Array:
        """(s, 27) uint32: their points, as numbers of corners."""

    @property
    def position(self) -> Array:
        """(m, 3) float32: the corners in the unit cube."""


@dataclass(frozen=True)
class KnownSigns:
    """The signs of an octree's older points, for new points of the same cells.

    first   the number of the first new point.
    row     (m,) uint32: the row of a cell of each new point, in points (rows, 27) uint32.
    step    the distance between neighbouring points of a cell, in the unit cube.
    signed  (p,) float32: the signed distances of all points, of new ones undefined.
    clear   (p,) float32: how far around points the sign changes at the surface alone; filled in for the new ones. None
            for a surface without caps.
    """

    first: int
    row: Array
    points: Array
    step: float
    signed: Array
    clear: Array | None


def inherited(
    backend: Backend, position: Array, distance: Array, known: KnownSigns | None, caps: Caps | None
) -> tuple[Array, Array]:
    """The signs of new points (m, 3) of an octree that points of the same cell have: (m,) uint8, UNKNOWN for the rest;
    and (m,) uint64, 0 for these. The second of two passes asks new points, too."""
    xp, m = backend.xp, len(position)
    if known is None:
        return xp.full(m, UNKNOWN, np.uint8), xp.zeros(m, np.uint64)
    link, inside = xp.empty(m, np.uint64), None
    for _ in range(2):
        before, inside = inside, xp.empty(m, np.uint8)
        backend.run(
            "sdf_sign_inherit",
            m,
            first=known.first,
            point_row=known.row,
            points=known.points,
            step=known.step,
            signed_distance=known.signed,
            distance=distance,
            before=before,
            position=position,
            caps=caps.groups if caps else None,
            clear=known.clear,
            inside=inside,
            link=link,
        )
    return inside, link


def link_corners(backend: Backend, corners: CellPoints, distance: Array, room: Array | None) -> Array:
    """(m,) uint64: links between the corners of an octree, 0 for those that have none. distance: (m,), unsigned; room:
    (m,), how far around corners the sign changes at the surface alone, None: everywhere."""
    link = backend.xp.zeros(len(distance), np.uint64)
    cells = {"cell": corners.cell, "point": corners.point}
    backend.run("sdf_sign_links", len(corners.cell), distance=distance, clear=room, link=link, **cells)
    return link


def spread(backend: Backend, link: Array, winding: Array, distance: Array) -> None:
    """Makes distances (m,) negative in place where the winding number (m,) at the end of a corner's links is above
    0.5."""
    backend.run("sdf_sign_spread", len(distance), link=link, winding=winding, distance=distance)


def link_along(backend: Backend, points: Array, distance: Array) -> Array:
    """(m,) uint32: for each of points (m, 3) along a curve the one at the end of its links, itself where it has none.
    distance: (m,), to the nearest place where a sign changes."""
    xp = backend.xp
    link = xp.empty(len(points), np.uint32)
    backend.run("sdf_sign_link", len(points), points=points, distance=distance, link=link)
    while True:
        further = link[link]
        if len(xp.flatnonzero(further != link)) == 0:
            return link
        link = further
