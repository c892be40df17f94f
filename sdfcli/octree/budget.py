"""Memory that an octree needs, checked before it runs out; and the size of a whole octree, from a sample of it."""

from __future__ import annotations

from sdfcli.backend import Array, Backend
from sdfcli.errors import OutOfMemoryError
from sdfcli.octree.levels import Octree

PIECE = 1 << 15
"""Cells whose points are made together."""

POINT_BYTES, ROW_BYTES, CELL_BYTES = 63, 370, 64
"""Bytes of a new point, an opened cell and a new cell at most, with spare room and copies while arrays grow."""
END_BYTES = 53
"""Bytes of each point after growth: the field's arrays, and those of the measured error."""
NEW_BYTES = 72
"""Temporary bytes of a new point of a piece: position, candidate slots, results."""


def check_room(backend: Backend, more: int, limit: int | None, contents: str, remedy: str) -> None:
    """Raises OutOfMemoryError where `more` bytes on the device, added to those in use, exceed the limit."""
    if limit is not None and backend.memory_used() + more > limit:
        raise OutOfMemoryError(f"the octree does not fit into {limit / 1e9:.3g} GB: {contents}; try {remedy}")


class Budget:
    """The memory of an adaptive octree while it grows. limit: bytes on the device; None: no limit."""

    def __init__(self, octree: Octree, limit: int | None) -> None:
        self._octree, self._limit = octree, limit

    def reserve(self, points: int = 0, cells: int = 0, rows: int = 0) -> None:
        """Raises OutOfMemoryError where there is no room for new points, cells and opened cells."""
        octree = self._octree
        more = POINT_BYTES * points + CELL_BYTES * cells + ROW_BYTES * rows + NEW_BYTES * min(points, 19 * PIECE)
        more += END_BYTES * octree.points.count
        finest = len(octree.levels) - 1
        contents = f"{octree.points.count:,} points at level {octree.depth} of {finest}"
        remedy = "a larger --tolerance, a smaller --depth, or more --max-memory"
        check_room(octree.backend, more, self._limit, contents, remedy)


class Sample:
    """The cells that are followed to estimate an octree's size (Knuth 1975). most: of a level; None: all of them."""

    def __init__(self, most: int | None) -> None:
        self._most, self._shares = most, [1.0]

    @property
    def whole(self) -> bool:
        """Whether all cells are followed."""
        return self._most is None

    @property
    def share(self) -> float:
        """The share of the finest level's cells that are there."""
        return self._shares[-1]

    def of(self, level: int, cells: Array) -> Array:
        """Those of cells (k,) that are to be split whose children are followed."""
        if self._most is None:
            return cells
        step = max(1, -(-len(cells) // self._most))
        self._shares.append(self._shares[level] / step)
        return cells[::step].copy()

    def estimated_cells(self, octree: Octree) -> int:
        """The number of cells of the whole octree."""
        return round(sum(count / share for count, share in zip(octree.cell_counts, self._shares, strict=False)))
