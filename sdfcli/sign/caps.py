"""What closes an open surface's holes, as the signs of an octree's corners need it (see sign/caps.h)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.mesh.arrays import Floats

GROUPS = 64
BOX_MARGIN = 2.0**-20
"""As in geometry/boxes.h: more than the rounding of a distance to a box."""
SMALL = 0.45
"""A winding number of the caps that leaves the sign to the surface."""


def reach_sq(caps: Floats) -> Floats:
    """For triangles (n, 3, 3) the squares (n,) of distances: by that of their sum the winding number of all of them
    stays below SMALL, as a solid angle is at most area / distance^2."""
    side = np.cross(caps[:, 1] - caps[:, 0], caps[:, 2] - caps[:, 0])
    return np.asarray(0.5 * np.linalg.norm(side, axis=1) / (4 * np.pi * SMALL))


@dataclass(frozen=True)
class CapGroups:
    """Groups of caps that are close to each other.

    box (k, 6) float32: around each group. area (k,) float32: the sum of its triangles' `reach_sq`.
    """

    box: Array
    area: Array

    @staticmethod
    def of(backend: Backend, triangles: Floats) -> CapGroups:
        """Groups of triangles (n, 9) in the order of a curve."""
        caps = triangles.reshape(-1, 3, 3)
        groups = min(GROUPS, len(caps))
        first = len(caps) * np.arange(groups) // groups
        low = np.minimum.reduceat(caps.min(axis=1), first) - BOX_MARGIN
        high = np.maximum.reduceat(caps.max(axis=1), first) + BOX_MARGIN
        area = np.add.reduceat(reach_sq(caps), first)
        box = np.concatenate([low, high], axis=1)
        return CapGroups(backend.from_host(box, np.float32), backend.from_host(area, np.float32))

    def room(self, backend: Backend, points: Array) -> Array:
        """(m,) float32: how far around points (m, 3) the caps' winding number stays below SMALL at least; negative
        where it may be more."""
        room = backend.xp.empty(len(points), np.float32)
        groups = {"groups": len(self.area), "box": self.box, "area": self.area}
        backend.run("sdf_sign_clear", len(points), points=points, clear=room, **groups)
        return room
