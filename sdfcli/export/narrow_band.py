"""Narrow bands around surfaces: only blocks with 8^3 voxels near them are evaluated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import any_backend
from sdfcli.errors import InputError, UsageError
from sdfcli.export.lattice import Distances, Lattice, check_fits
from sdfcli.extract.sources import leaves_met
from sdfcli.field.field import Field, lattice_position
from sdfcli.mesh.arrays import Floats
from sdfcli.params import HALF_WIDTH, real
from sdfcli.vdb.level_set import LEAF, LOWER, UPPER, VOXELS, LevelSet, around, slot_corners, slots, tree_order

Ints = npt.NDArray[np.int64]
Corners = npt.NDArray[np.int32]

LEAST_HALF_WIDTH = 2.0
"""Minimum half width in voxels: the corners of a cell with the surface lie within sqrt(3) of it."""
BYTES = 3 * 4 * VOXELS
"""Working bytes per block: its values, a copy in the file's format, and masks."""
PIECE = 1 << 11
"""Blocks evaluated at a time."""
MARGIN = 1e-5
"""Relative margin of bounds, for rounding."""
DESCENT = (LOWER, 5, LEAF)
"""Log2 of the edges of cubes that are divided by distance."""


def narrow_band(field: Distances, lattice: Lattice, half_width: float | None = None) -> LevelSet:
    """The level set with all lattice points less than `half_width` spacings from the surface; default: 3.

    Elsewhere, signs are evaluated once per block, or per larger cube without blocks: where neither the band nor a
    change in sign can be, they are constant.

    Raises UsageError for an impossible half width, InputError without such points, OutOfMemoryError.
    """
    width = HALF_WIDTH if half_width is None else real(half_width)
    if not LEAST_HALF_WIDTH <= width < math.inf:
        raise UsageError(f"--half-width {half_width}: use a number of voxels from {LEAST_HALF_WIDTH:g}")
    with np.errstate(over="ignore", under="ignore"):
        background = np.float32(width * lattice.spacing)
    if not np.finfo(np.float32).tiny <= background < math.inf:
        raise InputError(f"a band of {width * lattice.spacing:.3g} is beyond float32's range; scale the mesh")
    wide = float(background)
    block = _near_leaves(field, lattice, wide) if isinstance(field, Field) else _near_cubes(field, lattice, wide)
    block = block[tree_order(block)]
    check_fits(BYTES * len(block))
    value, kept = np.empty((len(block), VOXELS), np.float32), 0
    offset, number = slot_corners(0, LEAF), []
    for first in range(0, len(block), PIECE):
        voxel = block[first : first + PIECE, None] + offset
        found = _sampled(field, lattice, voxel.reshape(-1, 3)).reshape(-1, VOXELS)
        inside = found < 0
        active = (np.abs(found) < background) & (voxel < lattice.shape).all(axis=2)
        found = np.where(active, found, np.where(inside, -background, background))
        keep = active.any(axis=1) | (inside.any(axis=1) & ~inside.all(axis=1))
        value[kept : kept + np.count_nonzero(keep)] = found[keep]
        number.append(np.flatnonzero(keep) + first)
        kept += len(number[-1])
    block, value = block[np.concatenate([*number, np.empty(0, np.int64)])], value[:kept]
    active = np.abs(value) < background
    if not active.any():
        raise InputError(f"no surface within {width:g} voxels of the grid's points: nothing to write")
    tile, log2 = _inside(field, lattice, block)
    return LevelSet(lattice.origin, lattice.spacing, background, block, value, active, tile, log2)


def facts_of(band: LevelSet) -> dict[str, Any]:
    """Half width in voxels, and active voxel count, to report."""
    return {"half_width": round(float(band.background) / band.spacing, 6), "active_voxels": band.voxels}


def _sampled(field: Distances, lattice: Lattice, voxel: Corners) -> npt.NDArray[np.float32]:
    made: npt.NDArray[np.float32] = field.sample(lattice.origin + lattice.spacing * voxel).astype(np.float32)
    return made


def _inside(field: Distances, lattice: Lattice, block: Corners) -> tuple[Corners, npt.NDArray[np.uint8]]:
    """Lower corners (m, 3) and log2 edges for cubes without blocks that are inside."""
    tiles, sizes = [], []
    children = block
    for log2, above in ((LEAF, LOWER), (LOWER, UPPER)):
        parents = np.unique(around(children, above), axis=0)
        free = np.ones((len(parents), 1 << 3 * (above - log2)), np.bool_)
        rank = {tuple(each): k for k, each in enumerate(parents.tolist())}
        owner = [rank[tuple(each)] for each in around(children, above).tolist()]
        free[owner, slots(children, log2, above)] = False
        row, slot = np.nonzero(free)
        tiles.append(_kept_inside(field, lattice, parents[row] + slot_corners(log2, above)[slot]))
        sizes.append(np.full(len(tiles[-1]), log2, np.uint8))
        children = parents
    known = {tuple(each) for each in children.tolist()}
    free_roof = [each for each in _cubes(lattice, UPPER).tolist() if tuple(each) not in known]
    roof = np.array(free_roof, np.int32).reshape(-1, 3)
    tiles.append(_kept_inside(field, lattice, roof))
    sizes.append(np.full(len(tiles[-1]), UPPER, np.uint8))
    return np.concatenate(tiles), np.concatenate(sizes)


def _kept_inside(field: Distances, lattice: Lattice, corner: Corners) -> Corners:
    """The corners that are lattice points inside."""
    corner = corner[(corner < lattice.shape).all(axis=1)]
    chunks = [corner[first : first + PIECE * VOXELS] for first in range(0, len(corner), PIECE * VOXELS)]
    return np.concatenate([np.empty((0, 3), np.int32), *(each[_sampled(field, lattice, each) < 0] for each in chunks)])


def _cubes(lattice: Lattice, log2: int) -> Corners:
    """Lower corners (n, 3) for all cubes with edge 2^log2 and lattice points."""
    return (np.indices([-(-n // (1 << log2)) for n in lattice.shape]).reshape(3, -1).T << log2).astype(np.int32)


def _near_cubes(field: Distances, lattice: Lattice, width: float) -> Corners:
    """Blocks that may have points nearer than `width`, for exact distances, which change by no more than the length
    moved."""
    corner = _cubes(lattice, LOWER)
    for log2, below in zip(DESCENT, (*DESCENT[1:], None), strict=True):
        half = ((1 << log2) - 1) / 2
        reach = (width + math.sqrt(3) * half * lattice.spacing) * (1 + MARGIN)
        distance = np.abs(field.sample(lattice.origin + lattice.spacing * (corner + half)))
        corner = corner[distance < reach]
        if below is not None:
            corner = (corner[:, None] + slot_corners(below, log2)).reshape(-1, 3)
            corner = corner[(corner < lattice.shape).all(axis=1)]
    return corner


def _near_leaves(field: Field, lattice: Lattice, width: float) -> Corners:
    """Blocks with points in leaves where the field may be nearer to 0 than `width`, or change sign: in a leaf, it is
    between the corner values."""
    backend = any_backend()
    corner, value = field._leaf_values(backend)
    value = value if corner is None else value[corner]
    low, high = value.min(axis=1), value.max(axis=1)
    wide = width * (1 + MARGIN)
    near = (low < wide) & (high > -wide)
    near[leaves_met(backend, field, np.float32(0))] = True
    start = lattice_position(field.leaf_key)
    edge = 0.5 ** field.leaf_level.astype(np.float64)[:, None]
    # Outside the domain, values grow by the distance from it.
    borders = (start == 0, start + edge == 1)
    beyond = (low < wide) & (borders[0].any(axis=1) | borders[1].any(axis=1))
    chosen = np.flatnonzero(near | beyond)
    start, edge = start[chosen], edge[chosen]
    reach = np.where(beyond[chosen], wide - np.minimum(low[chosen], 0), 0)[:, None]
    first = field.domain.origin + field.domain.length * start - np.where(borders[0][chosen], reach, 0)
    last = field.domain.origin + field.domain.length * (start + edge) + np.where(borders[1][chosen], reach, 0)
    block = _blocks_of(lattice, first, last)
    parts = [block[k : k + PIECE * VOXELS // 8] for k in range(0, len(block), PIECE * VOXELS // 8)]
    return np.concatenate([block[:0], *(each[~_apart(field, lattice, each, wide)] for each in parts)])


def _apart(field: Field, lattice: Lattice, block: Corners, width: float) -> npt.NDArray[np.bool_]:
    """Whether blocks (n,) are within a leaf, and the values at their corners, which bound the others, not within the
    band."""
    corners = lattice.origin + lattice.spacing * (block[:, None] + 7 * slot_corners(0, 1))
    value, leaf = field._evaluate(corners, "result", "leaf_of")
    alone = (leaf == leaf[:, :1]).all(axis=1) & ~field.domain.excludes(corners.reshape(-1, 3)).reshape(-1, 8).any(
        axis=1
    )
    return np.asarray(alone & ((value > width).all(axis=1) | (value < -width).all(axis=1)))


def _blocks_of(lattice: Lattice, first: Floats, last: Floats) -> Corners:
    """The blocks with lattice points in closed boxes, from `first` to `last` (n, 3), or within rounding of them."""
    most = np.array(lattice.shape) - 1.0
    slack = MARGIN + 8 * np.finfo(np.float64).eps * (np.abs(lattice.origin) / lattice.spacing + most)
    low = np.ceil(np.clip((first - lattice.origin) / lattice.spacing - slack, 0, most + 1))
    high = np.floor(np.clip((last - lattice.origin) / lattice.spacing + slack, -1, most))
    met = (low <= high).all(axis=1)
    low, high = (each[met].astype(np.int64) >> LEAF for each in (low, high))
    many = high - low + 1
    total = many.prod(axis=1)
    box = np.repeat(np.arange(len(low)), total)
    check_fits(8 * 8 * len(box))
    rest = np.arange(len(box)) - np.repeat(np.cumsum(total) - total, total)
    rest, k = np.divmod(rest, many[box, 2])
    i, j = np.divmod(rest, many[box, 1])
    at = low[box] + np.stack((i, j, k), axis=1)
    side = np.array([-(-n >> LEAF) + 1 for n in lattice.shape])
    found = np.unique((at[:, 0] * side[1] + at[:, 1]) * side[2] + at[:, 2])
    rest, k = np.divmod(found, side[2])
    return (np.stack((*np.divmod(rest, side[1]), k), axis=1) << LEAF).astype(np.int32)
