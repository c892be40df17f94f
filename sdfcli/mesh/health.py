"""Fault counts of a mesh."""

from __future__ import annotations

from dataclasses import dataclass

FLAT_FACE = 1e-7
"""Maximum height of a degenerate face, as a fraction of its longest side; about the rounding error of its corners."""


@dataclass(frozen=True)
class Health:
    """Fault counts of a mesh, after welding vertices at equal positions.

    A shell is a set of faces connected across edges with two faces. An edge is open if its two directions have
    different use counts: a mesh without open edges has integer winding numbers everywhere. Faces with two corners at
    one vertex have no edges.
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
        """Faults that make pseudonormals unsafe, in words; empty for a clean closed mesh."""
        names = ("open_edges", "non_manifold_edges", "degenerate_faces", "duplicate_faces")
        return [count_text(getattr(self, name), name) for name in names if getattr(self, name)]


def count_text(count: int, name: str) -> str:
    """`3 open edges` for 3 and `open_edges`."""
    words = name.replace("_", " ")
    return f"{count:,} {words[:-1] if count == 1 else words}".replace("non manifold", "non-manifold")
