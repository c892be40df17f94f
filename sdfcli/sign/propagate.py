"""Propagation of signs between points without a surface in between.

Where the sum of two points' distances exceeds the distance between them, no surface lies between: their empty balls
overlap. A link goes from a point to such a neighbour farther from the surface, so links have no cycles. Winding numbers
are computed for points without a link, and propagated against the links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sdfcli.backend import Array, Backend, C
from sdfcli.sign.caps import Caps

UNKNOWN = C.SIGN_UNKNOWN
"""A sign that is not known yet; 0 is outside, 1 inside."""


class CellPoints(Protocol):
    """The corners of an octree; see octree.corners.Corners."""

    @property
    def cell(self) -> Array:
        """Split cells (s,) uint64."""

    @property
    def point(self) -> Array:
        """Corners (s, 27) uint32 at their points."""

    @property
    def position(self) -> Array:
        """Positions (m, 3) float32 of the corners in the unit cube."""


@dataclass(frozen=True)
class KnownSigns:
    """The signs of an octree's older points, for new points of the same cells.

    first   index of the first new point.
    row     (m,) uint32: the opened cell of each new point, an index into points.
    points  (rows, 27) uint32: the points of opened cells.
    step    distance between adjacent points of a cell, in the unit cube.
    signed  (p,) float32: signed distances of all points; undefined for new ones.
    clear   (p,) float32: radius around points within which the sign changes at the surface only; written for new ones.
            None for a surface without caps.
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
    """Signs (m,) uint8 of new points (m, 3) of an octree, propagated from points of the same cell, else UNKNOWN; and
    (m,) uint64, 0 where UNKNOWN. A second pass propagates from new points, too."""
    xp, m = backend.xp, len(position)
    if known is None:
        return backend.filled(m, UNKNOWN, np.uint8), xp.zeros(m, np.uint64)
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
    """Links (m,) uint64 between the corners of an octree, 0 for none. distance: (m,), unsigned; room: (m,), radius
    around corners within which the sign changes at the surface only, None: unlimited."""
    link = backend.xp.zeros(len(distance), np.uint64)
    cells = {"cell": corners.cell, "point": corners.point}
    backend.run("sdf_sign_links", len(corners.cell), distance=distance, clear=room, link=link, **cells)
    return link


def spread(backend: Backend, link: Array, winding: Array, distance: Array) -> None:
    """Makes distances (m,) negative in place where the winding number (m,) at the end of a corner's links is above
    0.5."""
    backend.run("sdf_sign_spread", len(distance), link=link, winding=winding, distance=distance)


def link_along(backend: Backend, points: Array, distance: Array) -> Array:
    """For each of points (m, 3) along a curve the point (m,) uint32 at the end of its links; itself without a link.
    distance: (m,), to the nearest position where the sign changes."""
    xp = backend.xp
    link = xp.empty(len(points), np.uint32)
    backend.run("sdf_sign_link", len(points), points=points, distance=distance, link=link)
    while True:
        further = link[link]
        if len(xp.flatnonzero(further != link)) == 0:
            return link
        link = further
