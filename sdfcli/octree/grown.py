"""What both octrees are asked for, and what they come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sdfcli.backend import Array
from sdfcli.octree.corners import step_for
from sdfcli.params import BuildParams

Progress = Callable[[str], None]
"""Called with a few words whenever something new begins."""


@dataclass(frozen=True)
class Limits:
    """Where an octree ends. Lengths are in edges of the domain, but for `length`, its edge, and `step`.

    depth       the finest level for the tolerance's sake.
    tolerance   the largest error within `band` of the surface; outside it grows with the distance.
    thin        the thickness down to which sheets keep both sides, as far as level `thin_depth`; 0: tolerance alone.
    step        distances are stored as whole numbers of such steps, in the mesh's units; None: as they are.
    most_memory bytes on the device at which building ends with OutOfMemoryError; None: no such limit.
    """

    depth: int
    tolerance: float
    band: float
    thin: float = 0.0
    thin_depth: int = 0
    length: float = 1.0
    step: float | None = None
    most_memory: int | None = None

    @staticmethod
    def of(params: BuildParams, diagonal: float, length: float, most_memory: int | None = None) -> Limits:
        """For a mesh with this diagonal in a domain with this edge."""
        scale = diagonal / length
        return Limits(
            depth=params.depth_limit(scale),
            tolerance=params.tolerance * scale,
            band=params.band * scale,
            thin=params.thin_limit * scale,
            thin_depth=params.thin_depth(scale),
            length=length,
            step=step_for(params.tolerance * diagonal, length),
            most_memory=most_memory,
        )


@dataclass(frozen=True)
class Grown:
    """An octree with signed distances, on the device where it was built.

    arrays         leaf_key, leaf_level, corner_key, distance, nearest of a Field; leaf_corner (n, 8) uint32; and, where
                   step is not None, steps (m,) int32: what `octree.corners.quantise` stores of the distances.
    step, parts    those of the Field.
    queries        exact distances that were measured.
    working_bytes  what the octree took at most, beside the trees over the triangles.
    jump_leaves    leaves that were left coarse because the sign jumps in them.
    sheet_leaves   leaves for the sake of sheets.
    thinnest_kept  the thickness from which on sheets are kept, in edges of the domain; None where none are looked for.
    """

    arrays: dict[str, Array]
    queries: int
    working_bytes: int
    step: float | None = None
    parts: int = 1
    jump_leaves: int = 0
    sheet_leaves: int = 0
    thinnest_kept: float | None = None
