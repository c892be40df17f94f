"""Random points on a shape's sharp edges, between faces that are seen from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.mesh import Mesh
from sdfcli.mesh.sharp_edges import Wedges, wedges
from sdfcli.mesh.vectors import length
from sdfcli.query.mesh_distance import MeshDistance

PIECE = 1 / 64
"""Maximum length of the pieces of an edge that are seen or hidden as a whole, in diagonals."""
BATCH = 1 << 14
"""Edges that are cut and tested at a time."""
REACH = 3e-5
"""Distance from an edge at which its outside is tested, in diagonals: far above the distances' rounding."""
SEEN = 1.25
"""The same for a flooded solid, in radii of the ball: beyond the corner of two walls at a right angle, which the ball
leaves filled."""
CLEAR = 0.75
"""Share of the distance that a test point would have from its own two faces, above which nothing else is between."""
NARROW = 0.05
"""Sine of half the narrowest wedge that is tested, 6 degrees: below it, rounding decides."""
FLANK = 0.5**0.5
"""Sine of the angle between flanks and faces: where an edge lies on another face, that face bars a flank."""


class Outside(NamedTuple):
    """The outside of a mesh, and how edges are tested for it.

    solid      exact signed distances: positive outside.
    mesh       exact distances to the mesh that has the edges.
    reach      distance between an edge and its test points, in the mesh's units.
    thickness  distance between the solid's surface and the mesh; 0 if the solid is the mesh.
    """

    solid: MeshDistance
    mesh: MeshDistance
    reach: float
    thickness: float

    @classmethod
    def of_mesh(cls, mesh: MeshDistance) -> Outside:
        """The outside of a mesh as given, by its own signs."""
        return cls(mesh, mesh, REACH * mesh.mesh.diagonal, 0.0)


@dataclass(frozen=True)
class OuterEdges:
    """Pieces of sharp edges (k,) that are seen from outside; `count`: how many edges they belong to."""

    pieces: Wedges
    count: int

    @classmethod
    def of(cls, mesh: Mesh, angle: float, outside: Outside) -> OuterEdges:
        """The edges between whose outer faces the normals turn by more than `angle`, in degrees."""
        found = wedges(mesh, angle)
        batches = (slice(first, first + BATCH) for first in range(0, max(1, len(found.edge)), BATCH))
        parts = [_seen(found.at(batch), mesh, outside) for batch in batches]
        pieces = Wedges(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
        return cls(pieces, len(np.unique(pieces.edge)))

    def drawn(self, count: int, outside: Outside, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Random points (n, 3) on the solid's surface at the edges, uniform by length, and unit normals (n, 3): the
        mean of both faces' normals. n: `count`, or 0 without edges."""
        pieces = self.pieces
        if not len(pieces.edge):
            return np.empty((0, 3)), np.empty((0, 3))
        sums = np.cumsum(length(pieces.end - pieces.start))
        chosen = np.minimum(np.searchsorted(sums, rng.random(count) * sums[-1], side="right"), len(sums) - 1)
        share = rng.random((count, 1))
        points = pieces.start[chosen] * (1 - share) + pieces.end[chosen] * share
        way = pieces.way[chosen]
        if outside.thickness:
            points, _ = outside.solid.closest(points + outside.thickness * way)
        return points, way


def _seen(found: Wedges, mesh: Mesh, outside: Outside) -> Wedges:
    """The pieces of wedges that are seen from outside."""
    pieces = _cut(found, PIECE * mesh.diagonal)
    middle, free = (pieces.start + pieces.end) / 2, pieces.sine > NARROW
    for way, sine in ((pieces.way, pieces.sine), *((pieces.flank[:, k], FLANK * pieces.sine) for k in (0, 1))):
        test = middle[free] + outside.reach * way[free]
        clear = outside.mesh.distance(test) > CLEAR * outside.reach * sine[free]
        clear[clear] = outside.solid.signed_distance(test[clear]) > 0
        free[free] = clear
    return pieces.at(free)


def _cut(found: Wedges, longest: float) -> Wedges:
    """Wedges of equal pieces of the edges, none longer than `longest`."""
    many = np.maximum(1, np.ceil(length(found.end - found.start) / longest)).astype(np.int64)
    source = np.repeat(np.arange(len(many)), many)
    number = np.arange(len(source)) - np.repeat(np.cumsum(many) - many, many)
    cut = found.at(source)
    low, high = (number / many[source])[:, None], ((number + 1) / many[source])[:, None]
    return cut._replace(start=cut.start * (1 - low) + cut.end * low, end=cut.start * (1 - high) + cut.end * high)
