"""Octrees as sorted lists of the cells that are split: which leaves and corners there are, and whose they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.stages.order import LATTICE_BITS

NONE = 0xFFFFFFFF
POINTS = 27
"""Of a split cell: the corners of its children."""
KIN = 15
"""Rows of what is known of split cells, as in cells.h."""


@dataclass(frozen=True)
class Corners:
    """The corners of an octree, sorted by Morton codes on the lattice of 2^20.

    cell (s,) uint64: the split cells, as `split_cells` gives them.
    corner_key (m,) uint64, position (m, 3) float32: of the corners in the unit cube.
    by_level (m,) uint32: places of the corners, first of those of the domain and the root, then of those that the split
        cells of each level bring, cell by cell.
    ends: where in by_level those of each level end.
    near (m,) uint32: for each corner one of a level above nearby, 0xffffffff for those of the domain.
    point (s, 27) uint32: places among the corners of the points of the split cells, x fastest.
    """

    cell: Array
    corner_key: Array
    position: Array
    by_level: Array
    ends: list[int]
    near: Array
    point: Array


class SplitCells:
    """The cells above level `depth` in which two or more of sorted Morton codes (n,) uint64 lie.

    They are counted at once, and listed when they are asked for: in between there is time for other work, as the host
    waits for how many there are.

    A cell is its Morton code on the lattice, shifted by 4 bits, plus its level (see cells.h). A cell holds two codes
    where two neighbours among them have its prefix in common, so all levels are read off at once.
    """

    def __init__(self, backend: Backend, keys: Array, depth: int) -> None:
        self.depth, self.keys = depth, len(keys)
        self._backend, self._keys = backend, keys
        self._end = backend.xp.empty(max(0, len(keys) - 1), np.uint32)
        backend.run("sdf_split_count", len(self._end), keys=keys, depth=depth, count=self._end)
        backend.inclusive_scan(self._end)

    def cells(self) -> Array:
        """(s,) uint64, sorted."""
        count = self._backend.to_host(self._end[-1:]).sum()
        cell = self._backend.xp.empty(int(count), np.uint64)
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
    """Whose the points of split cells (s,) above level `depth` are.

    kin (15, s) uint32: each cell's neighbours towards the origin, its parent, and which points it owns (see cells.h).
    end (depth, s) uint32: how many points each cell owns in the row of its level, and 0 else, summed up row after row.
    Where each level ends is on its way when this is made.
    """

    def __init__(self, backend: Backend, cell: Array, depth: int) -> None:
        self.cell, self.depth = cell, depth
        self.kin, self.end = (backend.xp.empty((rows, len(cell)), np.uint32) for rows in (KIN, depth))
        backend.run("sdf_split_own", len(cell), depth=depth, cell=cell, kin=self.kin, count=self.end)
        backend.inclusive_scan(self.end.reshape(-1))
        self._ends = backend.later(self.end[:, -1:])

    def ends(self) -> list[int]:
        """How many points the split cells of each level own, and those of the levels above."""
        ends: list[int] = self._ends().ravel().tolist()
        return ends


def _corner_codes(backend: Backend, owned: OwnedPoints, count: int) -> tuple[Array, dict[str, Any]]:
    """The keys of the points that are owned, level by level and cell by cell, without their lowest bits: in 32 bits if
    possible, as they are sorted twice as fast then. And how kernels are told of them."""
    short = 3 * (owned.depth + 1) <= 32
    code = backend.xp.empty(count, np.uint32 if short else np.uint64)
    codes = {
        "low_bits": 3 * (LATTICE_BITS - owned.depth),
        "short_code": code if short else None,
        "code": None if short else code,
    }
    splits = len(owned.cell)
    arrays = {"cell": owned.cell, "kin": owned.kin, "end": owned.end}
    backend.run("sdf_split_corners", POINTS * splits, splits=splits, **arrays, **codes)
    return code, codes


def cell_corners(backend: Backend, cell: Array, depth: int) -> Array:
    """The keys (m,) uint64, sorted, of the corners of an octree with these split cells, none below level `depth`."""
    if len(cell) == 0:
        return backend.xp.arange(8, dtype=np.uint64) << np.uint64(3 * LATTICE_BITS)
    owned = OwnedPoints(backend, cell, depth)
    code, codes = _corner_codes(backend, owned, owned.ends()[-1])
    code.sort()
    return code.astype(np.uint64) << np.uint64(codes["low_bits"])


def corners_of(backend: Backend, owned: OwnedPoints) -> Corners:
    """The corners of an octree, from the points of its split cells."""
    xp, cell, splits = backend.xp, owned.cell, len(owned.cell)
    if splits == 0:
        position = backend.from_host(np.arange(8)[:, None] >> np.arange(3) & 1, np.float32)
        near, point = xp.full(8, NONE, np.uint32), xp.empty((0, POINTS), np.uint32)
        key = cell_corners(backend, cell, owned.depth)
        return Corners(cell, key, position, xp.arange(8, dtype=np.uint32), [8], near, point)
    ends = owned.ends()
    m = ends[-1]
    code, codes = _corner_codes(backend, owned, m)
    order = backend.sort(code)
    key, position, place = xp.empty(m, np.uint64), xp.empty((m, 3), np.float32), xp.empty(m, np.uint32)
    backend.run("sdf_corner_sorted", m, order=order, corner_key=key, place=place, position=position, **codes)
    del code, codes, order
    point, near = xp.empty((splits, POINTS), np.uint32), xp.empty(m, np.uint32)
    arrays = {"splits": splits, "cell": cell, "kin": owned.kin, "point": point, "near": near}
    backend.run("sdf_split_points", POINTS * splits, end=owned.end, place=place, **arrays)
    backend.run("sdf_split_near", 8 * splits, **arrays)
    return Corners(cell, key, position, place, ends, near, point)


def leaf_corners_of(backend: Backend, leaf_child: Array, point: Array) -> Array:
    """The places (n, 8) uint32 of the leaves' corners among the corners. leaf_child: (n,), as `leaves_of` gives it;
    point: of Corners."""
    if len(point) == 0:
        return backend.xp.arange(8, dtype=np.uint32)[None]
    leaf_corner = backend.xp.empty((len(leaf_child), 8), np.uint32)
    backend.run("sdf_split_leaf_corners", leaf_corner.size, leaf_child=leaf_child, point=point, leaf_corner=leaf_corner)
    return leaf_corner
