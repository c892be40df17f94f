"""Octrees as sorted lists of the cells that are split: which leaves and corners there are, and whose they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.stages.order import LATTICE_BITS

NONE = 0xFFFFFFFF
POINTS = 27
"""Of a split cell: the corners of its children."""


@dataclass(frozen=True)
class Leaves:
    """The leaves of an octree and their corners, all sorted by Morton codes on the lattice of 2^20.

    leaf_key (n,) uint64, leaf_level (n,) uint8, leaf_child (n,) uint32: 8 x split cell + octant.
    cell (s,) uint64: the split cells, as `split_cells` gives them.
    corner_key (m,) uint64, position (m, 3) float32: of the corners in the unit cube.
    level (m,) uint8: the first whose cells have a corner.
    near (m,) uint32: for each corner one of a level above nearby, 0xffffffff for those of the domain.
    point (s, 27) uint32: places among the corners of the points of the split cells, x fastest.
    depth: no leaf is below this level.
    """

    leaf_key: Array
    leaf_level: Array
    leaf_child: Array
    cell: Array
    corner_key: Array
    position: Array
    level: Array
    near: Array
    point: Array
    depth: int


class SplitCells:
    """The cells above level `depth` in which two or more of sorted Morton codes (n,) uint64 lie.

    They are counted at once, and listed when they are asked for: in between there is time for other work.

    A cell is its Morton code on the lattice, shifted by 4 bits, plus its level (see cells.h). A cell holds two codes
    where two neighbours among them have its prefix in common, so all levels are read off at once.
    """

    def __init__(self, backend: Backend, keys: Array, depth: int) -> None:
        self.depth, self.keys = depth, len(keys)
        self._backend, self._keys = backend, keys
        self._end = backend.xp.empty(max(0, len(keys) - 1), np.uint32)
        backend.run("sdf_split_count", len(self._end), keys=keys, depth=depth, count=self._end)
        backend.inclusive_scan(self._end)
        self._count = backend.later(self._end[-1:])

    def cells(self) -> Array:
        """(s,) uint64, sorted."""
        cell = self._backend.xp.empty(int(self._count().sum()), np.uint64)
        arrays = {"keys": self._keys, "end": self._end, "cell": cell}
        self._backend.run("sdf_split_cells", len(self._end), depth=self.depth, **arrays)
        return cell


def split_cells(backend: Backend, keys: Array, depth: int) -> Array:
    """`SplitCells` without anything in between."""
    return SplitCells(backend, keys, depth).cells()


def leaves_of(backend: Backend, cell: Array) -> tuple[Array, Array, Array]:
    """The leaves of an octree with these split cells, along the Morton curve: their keys (n,) uint64 on the lattice,
    their levels (n,) uint8, and which children they are (n,) uint32: 8 x split cell + octant."""
    xp = backend.xp
    n = 7 * len(cell) + 1
    new = xp.empty if len(cell) else xp.zeros  # the root alone
    key, level, child = new(n, np.uint64), new(n, np.uint8), new(n, np.uint32)
    backend.run(
        "sdf_split_leaves",
        8 * len(cell),
        splits=len(cell),
        cell=cell,
        leaf_key=key,
        leaf_level=level,
        leaf_child=child,
    )
    return key, level, child


class OwnedPoints:
    """Whose the points of split cells (s,) are.

    neighbour (13, s), parent (s,), mask (s,) uint32: each cell's neighbours towards the origin, its parent, and which
    points it owns, as sdf_split_own has them; end (s,) uint32: the running sums of how many these are.
    count: of all of them, on its way when this is made.
    """

    def __init__(self, backend: Backend, cell: Array) -> None:
        xp, splits = backend.xp, len(cell)
        self.neighbour = xp.empty((13, splits), np.uint32)
        self.parent, self.mask, self.end = (xp.empty(splits, np.uint32) for _ in range(3))
        arrays = {"neighbour": self.neighbour, "parent": self.parent, "mask": self.mask, "count": self.end}
        backend.run("sdf_split_own", splits, cell=cell, **arrays)
        backend.inclusive_scan(self.end)
        self._count = backend.later(self.end[-1:])

    def count(self) -> int:
        """Of all the points together."""
        return int(self._count().sum())


def cell_corners(backend: Backend, cell: Array) -> Array:
    """The keys (m,) uint64, sorted, of the corners of an octree with these split cells."""
    if len(cell) == 0:
        return backend.xp.arange(8, dtype=np.uint64) << np.uint64(3 * LATTICE_BITS)
    key, _ = _unsorted_corners(backend, cell, OwnedPoints(backend, cell), LATTICE_BITS)
    key.sort()
    return key


def corners_of(
    backend: Backend, cell: Array, owned: OwnedPoints, depth: int
) -> tuple[Array, Array, Array, Array, Array]:
    """The corners of an octree with these split cells and no leaf below level `depth`: corner_key, position, level,
    near and point of Leaves."""
    xp, splits = backend.xp, len(cell)
    if splits == 0:
        position = backend.from_host(np.arange(8)[:, None] >> np.arange(3) & 1, np.float32)
        level, near, point = xp.zeros(8, np.uint8), xp.full(8, NONE, np.uint32), xp.empty((0, POINTS), np.uint32)
        return cell_corners(backend, cell), position, level, near, point
    unsorted, short = _unsorted_corners(backend, cell, owned, depth)
    m = len(unsorted)
    order = backend.sort_order(unsorted if short is None else short)
    del short
    key, level, place = xp.empty(m, np.uint64), xp.empty(m, np.uint8), xp.empty(m, np.uint32)
    position = xp.empty((m, 3), np.float32)
    backend.run(
        "sdf_corner_sorted",
        m,
        corner_key=unsorted,
        order=order,
        sorted_key=key,
        place=place,
        position=position,
        level=level,
    )
    del unsorted, order
    point, near = xp.empty((splits, POINTS), np.uint32), xp.empty(m, np.uint32)
    backend.run(
        "sdf_split_points",
        POINTS * splits,
        splits=splits,
        neighbour=owned.neighbour,
        mask=owned.mask,
        end=owned.end,
        place=place,
        point=point,
        near=near,
    )
    arrays = {"parent": owned.parent, "mask": owned.mask, "point": point, "near": near}
    backend.run("sdf_split_near", 8 * splits, cell=cell, **arrays)
    return key, position, level, near, point


def _unsorted_corners(backend: Backend, cell: Array, owned: OwnedPoints, depth: int) -> tuple[Array, Array | None]:
    """The keys (m,) uint64 of the points that are owned, cell by cell; and in 32 bits, where that is possible for an
    octree down to level `depth`: they are sorted twice as fast."""
    xp, m = backend.xp, owned.count()
    key, short = xp.empty(m, np.uint64), xp.empty(m, np.uint32) if 3 * (depth + 1) <= 32 else None
    backend.run(
        "sdf_split_corners",
        POINTS * len(cell),
        low_bits=3 * (LATTICE_BITS - depth),
        cell=cell,
        mask=owned.mask,
        end=owned.end,
        corner_key=key,
        short_key=short,
    )
    return key, short


def leaf_corners_of(backend: Backend, tree: Leaves) -> Array:
    """The places (n, 8) uint32 of the leaves' corners among the corners."""
    if len(tree.cell) == 0:
        return backend.xp.arange(8, dtype=np.uint32)[None]
    leaf_corner = backend.xp.empty((len(tree.leaf_child), 8), np.uint32)
    backend.run(
        "sdf_split_leaf_corners",
        leaf_corner.size,
        leaf_child=tree.leaf_child,
        point=tree.point,
        leaf_corner=leaf_corner,
    )
    return leaf_corner
