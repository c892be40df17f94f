"""Limits and Grown: input and output of both octree builders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array
from sdfcli.octree.quantise import step_for
from sdfcli.params import BuildParams

Busy = Callable[[], object]
"""Called while the host waits for the device."""
Progress = Callable[[str], None]
"""Called with a short description when a stage begins."""


class LeafNames(NamedTuple):
    """Leaves by key (k,) uint64 and level (k,) uint8, as in Field."""

    key: npt.NDArray[np.uint64]
    level: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Limits:
    """Octree limits. Lengths are in domain edges, except `length`, the domain's edge, and `step`.

    depth        finest level for the tolerance.
    tolerance    maximum error within `band` of the surface; outside it grows with the distance.
    thin         thickness down to which sheets keep both sides, up to level `thin_depth`; 0: no such criterion.
    step         quantisation step of the distances, in mesh units; None: no quantisation.
    most_memory  maximum bytes on the device, above which OutOfMemoryError is raised; None: no limit.
    why          return the leaves' causes (adaptive octree only).
    splits       leaves to split once no test requests more, then once more, and so on, each time with the splits that
                 tests then request (adaptive octree only).
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
    splits: tuple[LeafNames, ...] = ()

    @staticmethod
    def of(
        params: BuildParams, diagonal: float, length: float, most_memory: int | None = None, why: bool = False
    ) -> Limits:
        """Limits for a mesh diagonal and a domain edge `length`."""
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
    """An octree with signed distances, on the device that built it.

    arrays         leaf_key, leaf_level, corner_key, distance, nearest as in Field; leaf_corner (n, 8) uint32; with
                   Limits.why, leaf_cause (n,) uint8: see causes.py.
    step, parts    as in Field.
    queries        exact distances measured.
    working_bytes  the octree's peak bytes, without the trees over the triangles.
    jump_leaves    leaves left coarse at a sign jump.
    sheet_leaves   leaves for sheets.
    thinnest_kept  minimum thickness of kept sheets, in domain edges; None if not tested.
    """

    arrays: dict[str, Array]
    queries: int
    working_bytes: int
    step: float | None = None
    parts: int = 1
    jump_leaves: int = 0
    sheet_leaves: int = 0
    thinnest_kept: float | None = None
