"""Quantisation of a field's corner distances, by level.

A corner at the centre of an edge, a face or a cell of the level above is predicted by the mean of the corners around
it, and the residual is rounded to a multiple of a step. Predictions use restored distances, so errors do not
accumulate, and interpolated corners keep the mean. Progressive coding from coarse to fine, as in adaptively sampled
distance fields (Frisken et al. 2000, section 4).
"""

from __future__ import annotations

import numpy as np

from sdfcli.backend import Array, Backend, Group
from sdfcli.octree.corners import by_level

STEPS_PER_TOLERANCE = 8
LEAST_STEP = 2.0**-24
"""Minimum step, in domain edges: the resolution of float32 distances."""
LEAST_NORMAL = 1e-20
"""Minimum step: below, the last bits of distances are denormal, flushed to zero by devices but not by readers."""


def step_for(tolerance: float, length: float) -> float | None:
    """Quantisation step for a tolerance and a domain edge, all in mesh units; None: no quantisation."""
    step = max(tolerance / STEPS_PER_TOLERANCE, LEAST_STEP * length)
    return step if step >= LEAST_NORMAL else None


def restore(backend: Backend, corner_key: Array, residual: Array, step: float) -> Array:
    """Distances (m,) float32 from residuals (m,) int32 in steps, sorted by level: files of versions 2 and 3."""
    distance = backend.xp.empty(len(corner_key), np.float32)
    for first, level, corner in by_level(backend, corner_key):
        backend.run(
            "sdf_corner_restore",
            len(corner),
            own=corner_level_group(backend, corner_key, level, corner, step, distance),
            residual=residual[first:],
        )
    return distance


def corner_level_group(
    backend: Backend, corner_key: Array, level: int, corner: Array, step: float, value: Array
) -> Group:
    """Kernel arguments: one level's corners (k,) uint32; all corners' keys and values (m,)."""
    known = {"corners": len(corner_key), "corner_key": corner_key, "value": value}
    return backend.group("CornerLevel", level=level, corner=corner, step=step, **known)
