"""Sign propagation between points without a surface in between.

If the sum of two points' distances exceeds the distance between them, no surface lies between: their empty balls
overlap. A link goes from a point to such a neighbour farther from the surface, so links have no cycles. Winding numbers
are computed at points without a link, and propagated against the links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sdfcli.backend import Array, Backend, C
from sdfcli.sign.caps import Caps

UNKNOWN = C.SIGN_UNKNOWN
"""Sign not known yet; 0 is outside, 1 inside."""


class CellPoints(Protocol):
    """An octree's corners; see octree.corners.Corners."""

    @property
    def cell(self) -> Array:
        """Split cells (s,) uint64."""

    @property
    def point(self) -> Array:
        """Corners (s, 27) uint32 at the cells' points."""

    @property
    def position(self) -> Array:
        """Corner positions (m, 3) float32 in the unit cube."""


@dataclass(frozen=True)
class KnownSigns:
    """Signs at an octree's older points, for new points in the same cells.

    first   index of the first new point.
    row     (m,) uint32: each new point's opened cell, an index into points.
    points  (rows, 27) uint32: the opened cells' points.
    step    distance between adjacent points in a cell, in the unit cube.
    signed  (p,) float32: signed distances at all points; undefined at new ones.
    clear   (p,) float32: radius around points within which the sign changes only at the surface; written at new ones.
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
    """Signs (m,) uint8 at an octree's new points (m, 3), propagated from points in the same cell, else UNKNOWN; and
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
    """Links (m,) uint64 between an octree's corners, 0 for none. distance: (m,), unsigned. room: (m,), radius around
    corners within which the sign changes only at the surface; None: unlimited."""
    link = backend.xp.zeros(len(distance), np.uint64)
    cells = {"cell": corners.cell, "point": corners.point}
    backend.run("sdf_sign_links", len(corners.cell), distance=distance, clear=room, link=link, **cells)
    return link


def spread(backend: Backend, link: Array, winding: Array, distance: Array) -> None:
    """Negates distances (m,) in place where the winding number (m,) at the end of a corner's links is above 0.5."""
    backend.run("sdf_sign_spread", len(distance), link=link, winding=winding, distance=distance)


def link_along(backend: Backend, points: Array, distance: Array) -> Array:
    """For points (m, 3) along a curve, the index (m,) uint32 of the point at the end of their links; a point without a
    link has its own. distance: (m,), to the nearest position where the sign changes."""
    xp = backend.xp
    link = xp.empty(len(points), np.uint32)
    backend.run("sdf_sign_link", len(points), points=points, distance=distance, link=link)
    while True:
        further = link[link]
        if len(xp.flatnonzero(further != link)) == 0:
            return link
        link = further
