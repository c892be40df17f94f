"""Octrees as sorted lists of split cells: leaves and point ownership."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import Array, Backend, C

NONE = C.NONE
POINTS = 27
"""Points per split cell: its children's corners."""
KIN = C.CENTRE + 2
"""Links per split cell, as in octree/cells.h."""


class SplitCells:
    """Cells above level `depth` that contain two or more of sorted Morton codes (n,) uint64.

    Construction starts the count and `cells` reads it, so other work can overlap.

    A cell is its Morton code on the lattice, shifted by 4 bits, plus its level (geometry/lattice.h). A cell contains
    two codes if two adjacent codes share its prefix, so one pass finds all levels.
    """

    def __init__(self, backend: Backend, keys: Array, depth: int) -> None:
        self.depth, self.keys = depth, len(keys)
        self._backend, self._keys = backend, keys
        self._end = backend.xp.empty(max(0, len(keys) - 1), np.uint32)
        backend.run("sdf_split_count", len(self._end), keys=keys, depth=depth, count=self._end)
        backend.inclusive_scan(self._end)
        self._count = backend.copy_async(self._end[-1:])

    def cells(self) -> Array:
        """Sorted split cells (s,) uint64."""
        cell = self._backend.xp.empty(int(self._count().sum()), np.uint64)
        arrays = {"keys": self._keys, "end": self._end, "cell": cell}
        self._backend.run("sdf_split_cells", len(self._end), depth=self.depth, **arrays)
        return cell


def split_cells(backend: Backend, keys: Array, depth: int) -> Array:
    """Split cells (s,) uint64; see `SplitCells`."""
    return SplitCells(backend, keys, depth).cells()


def leaves_of(backend: Backend, cell: Array) -> tuple[Array, Array, Array]:
    """An octree's leaves from its split cells, in Morton order: keys (n,) uint64 on the lattice, levels (n,) uint8, and
    child indices (n,) uint32: 8 x split cell + octant."""
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
    """Ownership of the split cells' 27 points; cells (s,) above level `depth`.

    kin  (15, s) uint32: each cell's neighbours towards the origin, parent, and owned points (octree/cells.h).
    end  (depth, s) uint32: prefix sums, over all rows, of owned points per cell, in the row of its level. Construction
         starts copying the levels' ends.
    """

    def __init__(self, backend: Backend, cell: Array, depth: int) -> None:
        self.cell, self.depth = cell, depth
        self.kin, self.end = (backend.xp.empty((rows, len(cell)), np.uint32) for rows in (KIN, depth))
        backend.run("sdf_split_own", len(cell), depth=depth, cell=cell, kin=self.kin, count=self.end)
        backend.inclusive_scan(self.end.reshape(-1))
        self._ends = backend.copy_async(self.end[:, -1:])

    def ends(self) -> list[int]:
        """Cumulative owned point counts by split cells' level."""
        ends: list[int] = self._ends().ravel().tolist()
        return ends
