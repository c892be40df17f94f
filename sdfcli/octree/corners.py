"""A field's corners: which ones its leaves have, and their distances as small whole numbers.

A corner in the middle of an edge, a face or a cell of the level above is foretold by the mean of the corners around it,
and what it differs by is rounded to a multiple of a step. The distance kept is the one that is read back, so nothing is
lost later, and corners that others interpolate stay what these say. Progressive coding from coarse to fine, as in the
adaptively sampled distance fields of Frisken et al. (2000), section 4.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend, Group
from sdfcli.octree.cells import cell_corners, split_cells
from sdfcli.spatial.morton import LATTICE_BITS, MORTON_BITS

STEPS_PER_TOLERANCE = 8
LEAST_STEP = 2.0**-24
"""In edges of the domain: float32 knows distances no better."""
LEAST_NORMAL = 1e-20
"""Below, the last bits of distances would be denormal, which devices flush to zero and readers do not."""


def corner_keys(backend: Backend, leaf_key: Array, leaf_level: Array) -> Array:
    """The keys (m,) uint64 of the corners of an octree's leaves, sorted."""
    keys = leaf_key << np.uint64(3 * (MORTON_BITS - LATTICE_BITS))
    depth = int(leaf_level.max())
    return cell_corners(backend, split_cells(backend, keys, depth), depth)


def leaf_corners(backend: Backend, leaf_key: Array, leaf_level: Array, corner_key: Array) -> Array:
    """The places (n, 8) uint32 of the leaves' corners among the sorted keys; NONE where one is not there."""
    leaf_corner = backend.xp.empty((len(leaf_key), 8), np.uint32)
    backend.run(
        "sdf_field_corners",
        len(leaf_key),
        corners=len(corner_key),
        leaf_key=leaf_key,
        leaf_level=leaf_level,
        corner_key=corner_key,
        leaf_corner=leaf_corner,
    )
    return leaf_corner


def unique(xp: Any, ordered: Array) -> Array:
    """Each value of a sorted array once."""
    first = xp.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def step_for(tolerance: float, length: float) -> float | None:
    """The step for a tolerance and a domain's edge, both in the mesh's units; None where distances are kept as they
    are."""
    step = max(tolerance / STEPS_PER_TOLERANCE, LEAST_STEP * length)
    return step if step >= LEAST_NORMAL else None


def quantise(
    backend: Backend, corner_key: Array, distance: Array, step: float, hanging: Array | None = None
) -> tuple[Array, Array]:
    """The distances (m,) float32 that can be read back, and what is stored of them: (m,) int32, by level.

    hanging: (m,) uint8, 1 where a corner takes the mean of those around it. The others keep their sign, and change by
    half a step at most, or less than one where that would turn the sign.
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
    """The distances (m,) float32, from what `quantise` stored."""
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
    """Corners (k,) uint32 of one level, and of all corners (m,) keys and values, as kernels read them."""
    known = {"corners": len(corner_key), "corner_key": corner_key, "value": value}
    return backend.group("CornerLevel", level=level, corner=corner, step=step, **known)


def corner_order(backend: Backend, corner_key: Array) -> tuple[Array, list[int]]:
    """The numbers (m,) uint32 of corners with these sorted keys level by level, in Morton order on each, and where each
    level ends. A corner's level is the first whose cells have it."""
    level = backend.xp.empty(len(corner_key), np.uint8)
    backend.run("sdf_corner_level", len(corner_key), corner_key=corner_key, level=level)
    return backend.counting_sort(level, LATTICE_BITS + 1)


def by_level(backend: Backend, corner_key: Array) -> Iterator[tuple[int, int, Array]]:
    """The corners' numbers (k,) uint32 level by level: how many come before, the level, the numbers in Morton order."""
    order, ends = corner_order(backend, corner_key)
    for level, (first, last) in enumerate(itertools.pairwise([0, *ends])):
        if last > first:
            yield first, level, order[first:last]
