"""Quantisation of a field's distances at corners, by level.

A corner in the middle of an edge, a face or a cell of the level above is predicted by the mean of the corners around
it, and the residual is rounded to a multiple of a step. Predictions use restored distances, so errors do not add up,
and interpolated corners keep the mean. Progressive coding from coarse to fine, as in the adaptively sampled distance
fields of Frisken et al. (2000), section 4.
"""

from __future__ import annotations

import numpy as np

from sdfcli.backend import Array, Backend, Group
from sdfcli.octree.corners import by_level

STEPS_PER_TOLERANCE = 8
LEAST_STEP = 2.0**-24
"""Minimum step, in edges of the domain: the resolution of distances in float32."""
LEAST_NORMAL = 1e-20
"""Minimum step: below, the last bits of distances would be denormal, which devices flush to zero and readers do not."""


def step_for(tolerance: float, length: float) -> float | None:
    """The quantisation step for a tolerance and a domain's edge, in the mesh's units; None: no quantisation."""
    step = max(tolerance / STEPS_PER_TOLERANCE, LEAST_STEP * length)
    return step if step >= LEAST_NORMAL else None


def quantise(
    backend: Backend, corner_key: Array, distance: Array, step: float, hanging: Array | None = None
) -> tuple[Array, Array]:
    """The quantised distances (m,) float32, and their residuals (m,) int32 in steps, sorted by level.

    hanging: (m,) uint8, 1 where a corner takes the mean of those around it. Others keep their sign, and change by at
    most half a step, or by less than one step where rounding would change the sign.
    """
    xp = backend.xp
    result, residual = distance.copy(), xp.empty(len(corner_key), np.int32)
    if hanging is None:
        hanging = xp.zeros(len(corner_key), np.uint8)
    for first, level, corner in by_level(backend, corner_key):
        backend.run(
            "sdf_corner_quantise",
            len(corner),
            own=corner_level_group(backend, corner_key, level, corner, step, result),
            hanging=hanging,
            residual=residual[first:],
        )
    return result, residual


def restore(backend: Backend, corner_key: Array, residual: Array, step: float) -> Array:
    """The distances (m,) float32 from the residuals (m,) int32 of `quantise`."""
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
    """Kernel arguments: corners (k,) uint32 of one level; keys and values (m,) of all corners."""
    known = {"corners": len(corner_key), "corner_key": corner_key, "value": value}
    return backend.group("CornerLevel", level=level, corner=corner, step=step, **known)
