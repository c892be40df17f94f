"""Counts of a mesh's faults."""

from __future__ import annotations

from dataclasses import dataclass

FLAT_FACE = 1e-7
"""Maximum height of a degenerate face, about the rounding of its corners, as a fraction of its longest side."""


@dataclass(frozen=True)
class Health:
    """Counts of a mesh's faults, with vertices at equal positions welded.

    A shell is a set of faces connected across edges of two faces. An edge is open where it has different numbers of
    uses in its two directions: a mesh without open edges has integer winding numbers everywhere. Faces of which two
    corners are one vertex have no edges.
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
        """Faults for which pseudonormals are unsafe, in words; empty for a clean closed mesh."""
        names = ("open_edges", "non_manifold_edges", "degenerate_faces", "duplicate_faces")
        return [count_text(getattr(self, name), name) for name in names if getattr(self, name)]


def count_text(count: int, name: str) -> str:
    """`3 open edges` from 3 and `open_edges`."""
    words = name.replace("_", " ")
    return f"{count:,} {words[:-1] if count == 1 else words}".replace("non manifold", "non-manifold")
