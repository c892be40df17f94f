"""Faults of a mesh, counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdfcli.mesh.arrays import Floats, pieces


@dataclass(frozen=True)
class Health:
    """Counts of what is wrong with a mesh, after welding vertices at equal positions.

    A shell is connected across edges of two faces. An edge is open where its uses in the two directions differ: a mesh
    without open edges bounds a volume, and its winding number is a whole number everywhere.
    """

    triangles: int
    vertices: int
    shells: int
    open_edges: int
    non_manifold_edges: int
    inconsistent_edges: int
    degenerate_faces: int
    duplicate_faces: int

    @property
    def watertight(self) -> bool:
        """No open edges."""
        return self.open_edges == 0

    @property
    def faults(self) -> list[str]:
        """What keeps pseudonormals from being safe, in words; empty for a clean closed mesh."""
        names = ("open_edges", "non_manifold_edges", "degenerate_faces", "duplicate_faces")
        return [count_text(getattr(self, name), name) for name in names if getattr(self, name)]


def count_text(count: int, name: str) -> str:
    """`3 open edges` from 3 and `open_edges`."""
    words = name.replace("_", " ")
    return f"{count:,} {words[:-1] if count == 1 else words}".replace("non manifold", "non-manifold")


def degenerate_faces(triangles: Floats, normals: Floats) -> int:
    """How many of triangles (m, 9), with normals (m, 3), have no direction of their own: their height is below the
    rounding of their corners."""
    count = 0
    for part in pieces(len(triangles)):
        t = np.ascontiguousarray(triangles[part].T)
        sides = t[3:6] - t[0:3], t[6:9] - t[3:6], t[0:3] - t[6:9]
        longest = np.maximum.reduce([(side * side).sum(axis=0) for side in sides])
        count += int(np.sum((normals[part].T ** 2).sum(axis=0) <= (1e-7**2) * longest))
    return count
