"""Thickness of a mesh's walls and gaps, and the share of the surface where a field has lost them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sdfcli.backend import C
from sdfcli.field.field import Field
from sdfcli.mesh.arrays import Bools, Floats, Ints
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import WIDEST_SHEET, depth_for_sheet
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.verify.accuracy import face_directions, surface_samples

SAMPLES, SEED = 5_000, 30_000
HALVINGS = 16
"""Halvings of the ball, down to widths of 1e-4 tolerances: by default, the resolution of float32."""
OPPOSED, EMPTY = C.OPPOSED, 0.9
"""Maximum cosine between the directions to the two sides of a sheet, as in octree/sheets.h; minimum distance from the
centre of an empty ball to the surface, in radii."""
FREE = 0.75
"""Minimum distance from a sheet's middle to the surface, in half widths; 0.8 where the sides meet at 37 degrees."""
SPARED = 0.01
"""Share of the lost sheets, the thinnest, that the remedy may miss: the edge of a blade has no thickness."""


@dataclass(frozen=True)
class Sheets:
    """Walls and gaps at random points of a surface, uniform by area.

    samples  number of points.
    sample   (k,) index of the point; one may have a wall on one side and a gap on the other.
    width    (k,) thickness in the mesh's units.
    middle   (k, 3) midpoint between the two sides.
    wall     (k,) True for walls, False for gaps.
    """

    samples: int
    sample: Ints
    width: Floats
    middle: Floats
    wall: Bools

    @staticmethod
    def unknown() -> dict[str, Any]:
        """The report where nothing was measured."""
        return {"thinnest": None, "lost": None, "needed_thin": None, "needed_depth": None}

    def lost(self, field: Field) -> Bools:
        """Whether the field has the wrong sign at the midpoint, (k,)."""
        return np.asarray((field.sample(self.middle) < 0) != self.wall)

    def report(self, lost: Bools | None, mesh: Mesh) -> dict[str, Any]:
        """The `sheets` of a field's info (docs/reference/file.md). Lengths are fractions of the diagonal.

        lost: (k,) whether the field has lost a wall or gap; None without signs.
        """
        width = self.width / mesh.unit
        found = self.unknown()
        if lost is not None:
            found["lost"] = len(set(self.sample[lost].tolist())) / self.samples
            if self.wall.any():
                found["thinnest"] = float(width[self.wall].min())
            if lost.any():
                needed = float(f"{0.95 * np.quantile(width[lost], SPARED):.1e}")  # two digits, rounded down
                found["needed_thin"] = needed
                found["needed_depth"] = depth_for_sheet(needed, mesh.unit / mesh.domain.length)
        return found


def spots(mesh: Mesh) -> tuple[Floats, Floats]:
    """The points (n, 3) of the surface at which thickness is measured, and their unit normals (n, 3)."""
    return surface_samples(mesh, SAMPLES, np.random.default_rng(SEED))


def find_sheets(index: MeshDistance, point: Floats, normal: Floats, tolerance: float) -> Sheets:
    """The walls and gaps at points of the surface that are thinner than WIDEST_SHEET tolerances.

    On both sides of each point, a ball tangent to the surface is halved until it is empty. Where the surface nearest to
    its centre lies opposite, the two are the sides of a sheet. Where the centre lies beyond a sheet much thinner than
    the ball, the distance is almost the radius, but the nearest face has the opposite normal.
    """
    sample = np.tile(np.arange(len(point)), 2)
    way, found = np.concatenate([-normal, normal]), []
    radius = WIDEST_SHEET * tolerance * index.mesh.unit / 2
    for _ in range(HALVINGS):
        centre = point[sample] + radius * way
        nearest, face = index.closest(centre)
        to_nearest = nearest - centre
        distance, onward = np.linalg.norm(to_nearest, axis=1), np.einsum("nx,nx->n", to_nearest, way)
        width, opposite = radius + onward, (-onward < OPPOSED * distance) & (distance < radius)
        middle = _middle(point[sample[opposite]], width[opposite], way[opposite])
        opposite[opposite] = index.distance(middle) >= FREE / 2 * width[opposite]  # or it is another sheet's side
        found.append((sample[opposite], width[opposite], way[opposite]))
        beyond = np.einsum("nx,nx->n", face_directions(index.mesh, face), normal[sample]) < OPPOSED
        smaller = ~opposite & (beyond | (distance < EMPTY * radius))
        sample, way, radius = sample[smaller], way[smaller], radius / 2
        if len(sample) == 0:
            break
    sample, width, way = (np.concatenate(parts) for parts in zip(*found, strict=True))
    middle = _middle(point[sample], width, way)
    return Sheets(len(point), sample, width, middle, index.signed_distance(middle) < 0)


def _middle(point: Floats, width: Floats, way: Floats) -> Floats:
    return np.asarray(point + (width / 2)[:, None] * way)
