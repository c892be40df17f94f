"""Sparse grids for Newton and PhysX: a coarse grid, and blocks with 8^3 cells where the surface is near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.cook.part import Part
from sdfcli.cook.plan import Plan, area_of
from sdfcli.errors import InputError
from sdfcli.export.lattice import Distances, check_fits

SIZE = 8
"""Cells along a block's edge; a block has SIZE + 1 values along it."""
VALUES = (SIZE + 1) ** 3
LINEAR = 1 / 128
"""Maximum deviation, in cells, at which a block is left to the coarse grid's interpolation."""
MOST_SIDE = 1 << 10
"""Blocks along a texture's side: slots have 10 bits per axis."""
FAR = 2.0**20
"""Maximum distance from the origin, in cells: readers compute positions in float32, here to a sixteenth of a cell."""
PIECE = 1 << 10
"""Blocks evaluated at a time."""

Ints = npt.NDArray[np.int64]
Values = npt.NDArray[np.float32]


@dataclass(frozen=True)
class SparseGrid:
    """Distances at origin + cell * (i, j, k), in metres.

    origin  (3,) float64, float32 numbers, as cell is: readers compute with them.
    blocks  blocks along x, y, z.
    coarse  (bx + 1, by + 1, bz + 1) float32: values at blocks' corners.
    block   (m, 3): the fine blocks, x fastest.
    value   (m, 9, 9, 9) float32: their values [i, j, k]; neighbours repeat the shared ones.
    linear  (l, 3): blocks in the band that the coarse grid's interpolation gives.
    """

    origin: npt.NDArray[np.float64]
    cell: float
    blocks: tuple[int, int, int]
    coarse: Values
    block: Ints
    value: Values
    linear: Ints


def sparse_grid(field: Distances, plan: Plan) -> SparseGrid:
    """A plan's grid. All points within the band lie in fine or linear blocks. Raises OutOfMemoryError, InputError for
    a place beyond float32's reach."""
    cell = float(np.float32(plan.cell))
    far = float(np.abs((plan.low, plan.high)).max())
    if far > FAR * cell:
        raise InputError(
            f"the mesh lies {far:.3g} m from its frame's origin, too far for float32 and cells of {cell:.3g} m; "
            "move it, or use a larger --tolerance"
        )
    origin = np.nextafter(plan.low.astype(np.float32), np.float32(-np.inf)).astype(np.float64)
    blocks = np.maximum(np.ceil((plan.high - origin) / (SIZE * cell)), 1).astype(np.int64)

    def at(index: Ints) -> npt.NDArray[np.float64]:
        found: npt.NDArray[np.float64] = field.sample(origin + cell * index)
        return found

    def counted(shape: Ints) -> Ints:
        check_fits(8 * 8 * int(shape.prod()))
        return np.stack(np.unravel_index(np.arange(int(shape.prod())), shape[::-1]), axis=1)[:, ::-1]  # x fastest

    corners = counted(blocks + 1)
    coarse = np.empty(blocks + 1, np.float32)
    coarse[tuple(corners.T)] = _in_pieces(lambda part: at(SIZE * part), corners, PIECE * VALUES)
    every = counted(blocks)
    # A point within the band is at most half a block's diagonal from its block's centre.
    reach = plan.band + plan.tolerance + np.sqrt(3) / 2 * SIZE * cell
    centre = _in_pieces(lambda part: at(SIZE * part + SIZE // 2), every, PIECE * VALUES)
    near = every[np.abs(centre) <= reach]
    check_fits(4 * VALUES * len(near) * 3)
    kept, values = [near[:0]], [np.empty((0, *3 * [SIZE + 1]), np.float32)]
    bent = np.ones(len(near), np.bool_)
    for first in range(0, len(near), PIECE):
        part = near[first : first + PIECE]
        value = field.sample(_positions(origin, cell, part))
        fine = np.abs(value - _interpolated(coarse, part)).max(axis=(1, 2, 3)) > LINEAR * cell
        bent[first : first + PIECE] = fine
        kept.append(part[fine])
        values.append(value[fine].astype(np.float32))
    sides = int(blocks[0]), int(blocks[1]), int(blocks[2])
    return SparseGrid(origin, cell, sides, coarse, np.concatenate(kept), np.concatenate(values), near[~bent])


def _positions(origin: npt.NDArray[np.float64], cell: float, block: Ints) -> npt.NDArray[np.float64]:
    """Where the values of blocks (m, 3) lie: (m, 9, 9, 9, 3)."""
    found = np.empty((len(block), *3 * [SIZE + 1], 3))
    for axis, index in enumerate(SIZE * block.T[:, :, None] + np.arange(SIZE + 1)):
        along = np.moveaxis(found[..., axis], axis + 1, -1)
        along[:] = (origin[axis] + cell * index)[:, None, None]
    return found


def _in_pieces(function: Any, index: Ints, piece: int) -> npt.NDArray[np.float64]:
    return np.concatenate([function(index[first : first + piece]) for first in range(0, len(index), piece)])


def _interpolated(coarse: Values, block: Ints) -> npt.NDArray[np.float64]:
    """The coarse grid's trilinear values (m, 9, 9, 9) in blocks (m, 3)."""
    t = np.arange(SIZE + 1) / SIZE
    index = block[:, None] + np.array(list(np.ndindex(2, 2, 2)))
    value = coarse[tuple(index.reshape(-1, 3).T)].astype(np.float64).reshape(-1, 2, 2, 2)
    value = value[:, :, :, :1] * (1 - t) + value[:, :, :, 1:] * t
    value = value[:, :, :1] * (1 - t)[:, None] + value[:, :, 1:] * t[:, None]
    return np.asarray(value[:, :1] * (1 - t)[:, None, None] + value[:, 1:] * t[:, None, None])


def sides_for(count: int) -> tuple[int, int, int]:
    """Blocks along a texture's sides: nearly a cube, as PhysX has it. Newton has a cube. Raises InputError."""
    most = 1
    while most**3 < count:
        most += 1
    if most > MOST_SIDE:
        raise InputError(f"{count} blocks near the surface, and textures hold 2^30; use a larger --tolerance")
    rows = -(-count // most)
    return min(most, count), min(most, rows), min(most, -(-rows // most))


def packed(value: npt.NDArray[Any], sides: tuple[int, int, int]) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint32]]:
    """A texture (9 sz, 9 sy, 9 sx) with blocks [i, j, k], x fastest, and the blocks' slots: x | y << 10 | z << 20."""
    x, y, z = np.unravel_index(np.arange(len(value)), sides, order="F")
    side = SIZE + 1
    texture = np.zeros((sides[2], side, sides[1], side, sides[0], side), value.dtype)
    texture[z, :, y, :, x, :] = value.transpose(0, 3, 2, 1)
    return texture.reshape([side * n for n in sides[::-1]]), (x | y << 10 | z << 20).astype(np.uint32)


def quantised(value: Values, dtype: npt.DTypeLike) -> tuple[npt.NDArray[Any], float, float]:
    """Values as normalised integers, rounded; their minimum, and their range: float32 numbers. As they are, 0 and 1,
    for float32."""
    if np.dtype(dtype) == np.float32 or not len(value):
        return value, 0.0, 1.0
    low = np.float32(value.min())
    span = max(np.nextafter(np.float32(value.max() - low), np.float32(np.inf)), np.finfo(np.float32).tiny)
    steps = value - np.float64(low)
    steps *= np.iinfo(dtype).max / np.float64(span)
    return np.rint(steps, out=steps).astype(dtype), float(low), float(span)


def predicted_blocks(plan: Plan, part: Part) -> float:
    """Estimated fine block count: the volume near the surface, but never more than all."""
    edge = SIZE * plan.cell
    reach = plan.band + plan.tolerance + np.sqrt(3) / 2 * edge
    return float(min(2 * reach * area_of(part) / edge**3 + 8, (plan.cells(SIZE) // SIZE).prod()))
