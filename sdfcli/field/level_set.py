"""A field from a level set: trilinear between its voxels, in one leaf where they are constant."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sdfcli.backend import any_backend
from sdfcli.errors import InputError
from sdfcli.field.field import Field, lattice_key, lattice_position
from sdfcli.field.store import FAULTS, MOST_LEAVES
from sdfcli.mesh.mesh import Domain
from sdfcli.octree.corners import corner_keys
from sdfcli.runtime.memory import unreadable
from sdfcli.spatial.morton import LATTICE_BITS
from sdfcli.vdb import nanovdb, openvdb
from sdfcli.vdb.level_set import LEAF, LOWER, UPPER, LevelSet

Ints = npt.NDArray[np.int64]

OUTSIDE, INSIDE = -1, -2
"""In place of a block's index: a tile."""
PIECE = 1 << 12
"""Cell blocks at a time."""
CHILDREN = np.indices((2, 2, 2)).reshape(3, -1).T
"""A cube's eight corners, or its children's places, (8, 3)."""


def load_level_set(path: Path) -> Field:
    """The field for the level set in an OpenVDB or NanoVDB file. Raises InputError for a damaged file or one without a
    float level set, DeviceError without the package for its compression, OutOfMemoryError."""
    try:
        data = path.read_bytes()
        with np.errstate(all="ignore"):  # any bits may stand for numbers
            return field_of_level_set((openvdb if data.startswith(openvdb.MAGIC) else nanovdb).read(data))
    except FAULTS as error:
        raise unreadable(path, "not an intact level set", error) from error


def field_of_level_set(level_set: LevelSet) -> Field:
    """The field whose values at the voxels are the level set's, in a cube around its blocks.

    Beyond the band distances are the band's half width, and grow outside the cube alone. Raises InputError for a level
    set with more than 2^20 voxels along an axis, or too many cells.
    """
    voxels = _Voxels(level_set)
    size, position = _leaves(voxels)
    if len(size) >= MOST_LEAVES:
        raise InputError(f"more cells than {MOST_LEAVES - 1:,}")
    key = lattice_key(position << LATTICE_BITS - voxels.log2)
    order = np.argsort(key)
    key, level = key[order], (voxels.log2 - size[order]).astype(np.uint8)
    corner = corner_keys(any_backend(), key, level)
    at = (lattice_position(corner) * 2.0**voxels.log2).astype(np.int64)
    origin = level_set.origin + level_set.spacing * voxels.base
    domain = Domain(origin, level_set.spacing * 2.0**voxels.log2)
    return Field(domain, key, level, corner, voxels.values(at))


class _Voxels:
    """A level set's values at integer positions (n, 3), relative to a lower corner.

    base  (3,) that corner's voxel, a multiple of 8.
    log2  log2 edge, in voxels, for the cube that contains all blocks.
    """

    def __init__(self, level_set: LevelSet) -> None:
        self.level_set = level_set
        block = level_set.block.astype(np.int64)
        self.base = block.min(axis=0) - (1 << LEAF)
        extent = int((block.max(axis=0) - self.base).max()) + (1 << LEAF)
        self.log2 = max(LEAF, math.ceil(math.log2(extent)))
        if self.log2 > LATTICE_BITS:
            raise InputError(f"more than {1 << LATTICE_BITS:,} voxels along an axis")
        keys = _key(block - self.base >> LEAF)
        self._order = np.argsort(keys)
        self._keys = keys[self._order]
        self._tiles = {}
        for log2 in (LEAF, LOWER, UPPER):
            tile = (level_set.tile[level_set.tile_log2 == log2].astype(np.int64) >> log2) - (self.base >> log2)
            near = ((tile >= 0) & (tile <= (1 << self.log2 - min(log2, self.log2)) + 1)).all(axis=1)
            self._tiles[log2] = np.sort(_key(tile[near]))

    def blocks(self, place: Ints) -> Ints:
        """Indices (n,) for the blocks at places (n, 3), in blocks from the lower corner, or OUTSIDE or INSIDE."""
        found, at = _found(self._keys, _key(place))
        result = np.where(found, self._order[at], OUTSIDE)
        missing = np.flatnonzero(~found)
        voxel = (place[missing] << LEAF) + self.base
        inside = np.zeros(len(missing), np.bool_)
        for log2, keys in self._tiles.items():
            inside |= _found(keys, _key((voxel >> log2) - (self.base >> log2)))[0]
        result[missing[inside]] = INSIDE
        return result

    def values(self, at: Ints) -> npt.NDArray[np.float32]:
        """Values (n,) at voxels (n, 3)."""
        block, low = self.blocks(at >> LEAF), at & 7
        return self._of(block, (low[:, 0] << 6) + (low[:, 1] << 3) + low[:, 2])

    def _of(self, block: Ints, voxel: Ints) -> npt.NDArray[np.float32]:
        background = self.level_set.background
        tile = np.where(block == INSIDE, -background, background)
        return np.where(block < 0, tile, self.level_set.value[np.maximum(block, 0), voxel])

    def cells(self, place: Ints) -> npt.NDArray[np.float32]:
        """Values (n, 9, 9, 9) at the cells' corners, in blocks (n, 3)."""
        around = self.blocks((place[:, None] + CHILDREN).reshape(-1, 3)).reshape(-1, 8)
        result = np.empty((len(place), 9, 9, 9), np.float32)
        for (i, j, k), block in zip(CHILDREN.tolist(), around.T, strict=True):
            part = self._of(block[:, None], np.arange(512)).reshape(-1, 8, 8, 8)
            mine = tuple(slice(8, 9) if far else slice(8) for far in (i, j, k))
            its = tuple(slice(1) if far else slice(8) for far in (i, j, k))
            result[(slice(None), *mine)] = part[(slice(None), *its)]
        return result

    def candidates(self) -> Ints:
        """Places (n, 3), sorted, of blocks whose cells may have several values: beside the level set's blocks, and
        beside tiles with both signs."""
        block = (self.level_set.block.astype(np.int64) - self.base) >> LEAF
        tile = self.level_set.tile[self.level_set.tile_log2 == LEAF].astype(np.int64) - self.base >> LEAF
        beside = _below(tile)
        beside = _unique(beside[((beside >= 0) & (beside < 1 << self.log2 - LEAF)).all(axis=1)])
        around = self.blocks((beside[:, None] + CHILDREN).reshape(-1, 3)).reshape(-1, 8)
        beside = beside[(around.max(axis=1) < 0) & (around.min(axis=1) < around.max(axis=1))]
        return _unique(np.concatenate((_below(block), beside)))


def _leaves(voxels: _Voxels) -> tuple[npt.NDArray[np.uint8], Ints]:
    """The octree's leaves: log2 edges in voxels (n,), and lower corners (n, 3)."""
    sizes, positions, fine = [], [], []
    candidate = voxels.candidates()
    for first in range(0, len(candidate), PIECE):
        place = candidate[first : first + PIECE]
        low, high = (_pooled(voxels.cells(place), least, overlap=True) for least in (np.minimum, np.maximum))
        leaf = np.ones(low.shape, np.bool_)
        for log2 in range(LEAF):
            low, high = _pooled(low, np.minimum), _pooled(high, np.maximum)
            alike = low == high  # so is all within: one leaf, on this level or above
            block, *at = np.nonzero(leaf & ~np.kron(alike, np.ones((1, 2, 2, 2), np.bool_)))
            positions.append((place[block] << LEAF) + (np.stack(at, axis=1) << log2))
            sizes.append(np.full(len(block), log2, np.uint8))
            leaf = alike
        fine.append(place[~leaf[:, 0, 0, 0]])
    split = np.concatenate([np.empty((0, 3), np.int64), *fine])
    for log2 in range(LEAF, voxels.log2):
        above = _unique(split >> 1)
        children = (2 * above[:, None] + CHILDREN).reshape(-1, 3)
        whole = ~_found(np.sort(_key(split)), _key(children))[0]
        positions.append(children[whole] << log2)
        sizes.append(np.full(np.count_nonzero(whole), log2, np.uint8))
        split = above
    if not len(split):
        positions, sizes = [np.zeros((1, 3), np.int64)], [np.full(1, voxels.log2, np.uint8)]
    return np.concatenate(sizes), np.concatenate(positions)


def _pooled(value: npt.NDArray[np.float32], least: np.ufunc, overlap: bool = False) -> npt.NDArray[np.float32]:
    """The least, or greatest, of each 2 x 2 x 2 values along the last three axes of (n, m, m, m); overlap: of all
    neighbours, m - 1 per axis."""
    for axis in (1, 2, 3):
        value = np.moveaxis(value, axis, 0)
        pair = (value[:-1], value[1:]) if overlap else (value[::2], value[1::2])
        value = np.moveaxis(least(*pair), 0, axis)
    return value


def _below(place: Ints) -> Ints:
    """The eight places (8 n, 3) at and below each of (n, 3)."""
    return np.asarray((place[:, None] - CHILDREN).reshape(-1, 3))


def _key(place: Ints) -> Ints:
    """One number for a place (n, 3) of up to 2^21 per axis."""
    return np.asarray((place[:, 0] << 42) + (place[:, 1] << 21) + place[:, 2])


def _unique(place: Ints) -> Ints:
    keys = np.unique(_key(place))
    return np.stack((keys >> 42, keys >> 21 & 0x1FFFFF, keys & 0x1FFFFF), axis=1)


def _found(keys: Ints, wanted: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Whether sorted keys have the wanted ones, and where."""
    if not len(keys):
        return np.zeros(len(wanted), np.bool_), np.zeros(len(wanted), np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return keys[at] == wanted, at
