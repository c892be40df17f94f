"""A narrow-band level set: distances near a surface in blocks with 8^3 voxels, and all others' signs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError, OutOfMemoryError
from sdfcli.runtime.memory import free_memory

Ints = npt.NDArray[np.int64]

LEAF, LOWER, UPPER = 3, 7, 12
"""Log2 of the nodes' edges in voxels: leaves 8, lower inner nodes 128, upper ones 4096, as in OpenVDB's usual tree."""
VOXELS = 1 << 3 * LEAF
"""Voxels per block."""
NAME = "surface"
"""Grid name that Blender and Houdini give level sets."""


@dataclass(frozen=True)
class LevelSet:
    """A signed distance field on a regular grid: voxel (i, j, k) lies at origin + spacing x (i, j, k).

    origin      (3,) float64.
    spacing     the same along all axes.
    background  the band's half width, in the distances' unit: the value outside the blocks, negative inside.
    block       (n, 3) int32: the blocks' lower corners, multiples of 8, sorted by `tree_order`.
    value       (n, 512) float32: the blocks' voxels, k fastest.
    active      (n, 512) bool: whether a voxel is in the band.
    tile        (m, 3) int32: lower corners: cubes without blocks that are inside.
    tile_log2   (m,) uint8: their log2 edges: LEAF, LOWER or UPPER.
    """

    origin: npt.NDArray[np.float64]
    spacing: float
    background: np.float32
    block: npt.NDArray[np.int32]
    value: npt.NDArray[np.float32]
    active: npt.NDArray[np.bool_]
    tile: npt.NDArray[np.int32]
    tile_log2: npt.NDArray[np.uint8]

    @property
    def voxels(self) -> int:
        """Active voxel count."""
        return int(np.count_nonzero(self.active))

    @cached_property
    def boxes(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Each block's lowest and highest active voxel (n, 3); for blocks without any, their voxels 7 and 0."""
        low, high = np.empty_like(self.block), np.empty_like(self.block)
        active = self.active.reshape(-1, 8, 8, 8)
        for axis in range(3):
            met = np.asarray(active.any(axis=tuple(1 + k for k in range(3) if k != axis)))  # (n, 8)
            found = np.any(met, axis=1)
            low[:, axis] = np.where(found, met.argmax(axis=1), 7)
            high[:, axis] = np.where(found, 7 - met[:, ::-1].argmax(axis=1), 0)
        return self.block + low, self.block + high

    @property
    def box(self) -> npt.NDArray[np.int32]:
        """Lowest and highest active voxel (2, 3)."""
        low, high = self.boxes
        return np.stack((low.min(axis=0), high.max(axis=0)))


MOST = 1 << 30
"""Maximum voxel coordinate in a file, apart from the sign."""
CLAMPED = 1e-3
"""Relative difference between a tile's value and the background, which half precision may cause."""


def check_blocks(count: int) -> None:
    """Raises OutOfMemoryError if so many blocks from a file do not fit into memory."""
    if count * VOXELS * 8 > free_memory():
        raise OutOfMemoryError("the level set does not fit into memory")


def inside_tiles(value: npt.NDArray[np.float32], background: np.float32) -> npt.NDArray[np.bool_]:
    """Which of a file's tiles (n,) are inside. Raises InputError unless all have the background's value, or minus it:
    a level set has no other distances without voxels."""
    if not 0 < background < math.inf:
        raise InputError("its background is impossible")
    if not (np.abs(np.abs(value) - background) <= CLAMPED * background).all():
        raise InputError("its tiles have other values than the background: not a level set")
    return np.asarray(value < 0)


def checked(level_set: LevelSet) -> LevelSet:
    """A file's level set, in tree order. Raises InputError for impossible values and for nodes at the same place."""
    if not (np.isfinite(level_set.origin).all() and level_set.spacing * MOST < math.inf):
        raise InputError("its transform is impossible")
    if not len(level_set.block):
        raise InputError("it has no voxels")
    if not np.isfinite(level_set.value).all():
        raise InputError("its values are not finite")
    for corner, edge in ((level_set.block, np.uint8(LEAF)), (level_set.tile, level_set.tile_log2[:, None])):
        if not ((corner >= -MOST) & (corner <= MOST) & (corner >> edge << edge == corner)).all():
            raise InputError("it is damaged: nodes at impossible places")
    order = tree_order(level_set.block)
    block = level_set.block[order]
    if (block[1:] == block[:-1]).all(axis=1).any():
        raise InputError("it is damaged: two nodes at one place")
    if (np.diff(order) < 0).any():
        level_set = replace(level_set, value=level_set.value[order], active=level_set.active[order])
    return replace(level_set, block=block)


def uniform_spacing(scale: npt.NDArray[np.float64]) -> float:
    """The edge for voxels with edges (3,). Raises InputError unless they are cubes."""
    if not (np.isfinite(scale).all() and (scale > 0).all() and np.ptp(scale) <= 1e-6 * scale.max()):
        raise InputError("its voxels are no cubes along the axes; resample it")
    return float(scale[0])


@dataclass(frozen=True)
class Nodes:
    """Inner nodes with one size, in tree order.

    corner  (n, 3) int32: lower corners.
    first   (n + 1,): node i's children, one level below, are first[i] to first[i + 1] - 1.
    slot    (children,): each child's place in its node's table; see `slots`.
    inside  (n, slots per node) bool: whether a slot without a child is a tile that is inside.
    """

    corner: npt.NDArray[np.int32]
    first: Ints
    slot: Ints
    inside: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.corner)


@dataclass(frozen=True)
class Tree:
    """Inner nodes over a level set's blocks. roof: (t, 3) lower corners: tiles with edge 4096 that are inside."""

    upper: Nodes
    lower: Nodes
    roof: npt.NDArray[np.int32]


def slots(corner: npt.NDArray[np.int32], log2: int, above: int) -> Ints:
    """Places (n,) for cubes with edge 2^log2, in the tables in their nodes, with edge 2^above; k fastest."""
    along = (corner.astype(np.int64) & ((1 << above) - 1)) >> log2
    bits = above - log2
    return np.asarray(((along[:, 0] << bits | along[:, 1]) << bits) | along[:, 2])


def slot_corners(log2: int, above: int) -> npt.NDArray[np.int32]:
    """A node's slots: lower corners (slots, 3), relative to the node's."""
    return (np.indices((1 << (above - log2),) * 3).reshape(3, -1).T << log2).astype(np.int32)


def around(corner: npt.NDArray[np.int32], log2: int) -> npt.NDArray[np.int32]:
    """Lower corners (n, 3) for the cubes with edge 2^log2 that contain voxels."""
    return corner >> log2 << log2


def tree_order(block: npt.NDArray[np.int32]) -> Ints:
    """A permutation (n,) that sorts blocks depth first: by upper node, by lower node in it, by place in that."""
    upper = around(block, UPPER)
    order = slots(block, LOWER, UPPER) << 3 * (LOWER - LEAF) | slots(block, LEAF, LOWER)
    return np.lexsort((order, upper[:, 2], upper[:, 1], upper[:, 0]))


def make_tree(level_set: LevelSet) -> Tree:
    """The inner nodes over a level set's blocks, with its tiles."""
    lower = _nodes(level_set, level_set.block, LEAF, LOWER)
    upper = _nodes(level_set, lower.corner, LOWER, UPPER)
    roof = level_set.tile[level_set.tile_log2 == UPPER]
    return Tree(upper, lower, roof[np.lexsort(roof.T[::-1])])


def _nodes(level_set: LevelSet, child: npt.NDArray[np.int32], log2: int, above: int) -> Nodes:
    """The nodes with edge 2^above over children with edge 2^log2, which are in tree order."""
    node = around(child, above)
    new = np.append(True, (node[1:] != node[:-1]).any(axis=1))
    first = np.append(np.flatnonzero(new), len(node))
    corner = node[new]
    inside = np.zeros((len(corner), 1 << 3 * (above - log2)), np.bool_)
    tile = level_set.tile[level_set.tile_log2 == log2]
    number = {tuple(each): k for k, each in enumerate(corner.tolist())}
    rows = [number[tuple(each)] for each in around(tile, above).tolist()]
    inside[rows, slots(tile, log2, above)] = True
    return Nodes(corner, first, slots(child, log2, above), inside)
