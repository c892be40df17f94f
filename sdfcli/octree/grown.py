"""Limits and Grown: input and result of both octrees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sdfcli.backend import Array
from sdfcli.octree.quantise import step_for
from sdfcli.params import BuildParams

Busy = Callable[[], object]
"""Called now and then when the device is busy for a while, and the host is not."""
Progress = Callable[[str], None]
"""Called with a short description when a stage begins."""


@dataclass(frozen=True)
class Limits:
    """Limits of an octree. Lengths are in edges of the domain, except `length`, its edge, and `step`.

    depth        finest level for the tolerance.
    tolerance    maximum error within `band` of the surface; outside it grows with the distance.
    thin         thickness down to which sheets keep both sides, up to level `thin_depth`; 0: no such criterion.
    step         quantisation step of the distances, in the mesh's units; None: no quantisation.
    most_memory  maximum bytes on the device, above which OutOfMemoryError is raised; None: no limit.
    why          whether the leaves' causes are returned, which the adaptive octree knows.
    """

    depth: int
    tolerance: float
    band: float
    thin: float = 0.0
    thin_depth: int = 0
    length: float = 1.0
    step: float | None = None
    most_memory: int | None = None
    why: bool = False

    @staticmethod
    def of(
        params: BuildParams, diagonal: float, length: float, most_memory: int | None = None, why: bool = False
    ) -> Limits:
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
            why=why,
        )


@dataclass(frozen=True)
class Grown:
    """An octree with signed distances, on the device where it was built.

    arrays         leaf_key, leaf_level, corner_key, distance, nearest of a Field; leaf_corner (n, 8) uint32; and, where
                   step is not None, steps (m,) int32: what `octree.quantise.quantise` stores of the distances; with
                   Limits.why, leaf_cause (n,) uint8: see causes.py.
    step, parts    those of the Field.
    queries        number of exact distances.
    working_bytes  peak bytes of the octree, without the trees over the triangles.
    jump_leaves    number of leaves left coarse at a jump of the sign.
    sheet_leaves   number of leaves for sheets.
    thinnest_kept  minimum thickness of kept sheets, in edges of the domain; None where they are not tested.
    """

    arrays: dict[str, Array]
    queries: int
    working_bytes: int
    step: float | None = None
    parts: int = 1
    jump_leaves: int = 0
    sheet_leaves: int = 0
    thinnest_kept: float | None = None
