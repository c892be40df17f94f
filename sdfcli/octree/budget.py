"""Memory that an octree needs, checked before it runs out; and the size of a whole octree, from a sample of it."""

from __future__ import annotations

from collections.abc import Callable

from sdfcli.backend import Array, Backend, C
from sdfcli.backend.overflow import has_room, room_elsewhere
from sdfcli.errors import OutOfMemoryError
from sdfcli.octree.levels import Octree

SAMPLE = 2000
"""Cells of a level that are followed to estimate an octree's size; more are more accurate and slower."""
BALANCE, BYTES_PER_CELL = 1.2, 140
"""Cells of an octree for each of the estimate, which lacks those for balance and hanging corners; and their bytes."""

POINT_BYTES, ROW_BYTES, CELL_BYTES = 63, 370, 64
"""Bytes of a new point, an opened cell and a new cell at most, with spare room and copies while arrays grow."""
END_BYTES = 53
"""Bytes of each point after growth: the field's arrays, and those of the measured error."""
MOST_POINTS = 0xFFFFFF00
"""Maximum points, points of cells that open together, and neighbours of those that are split together: their numbers
have 32 bits."""
NEW_BYTES = 72
"""Temporary bytes of a new point of a piece: position, candidate slots, results."""
MOST_PIECE, PIECE_SHARE = 1 << 18, 32
"""Maximum cells whose points are made together on a GPU, where many small launches take longer, if their temporary
bytes are no more than this part of its memory."""


def most_piece(backend: Backend, limit: int | None) -> int:
    """Maximum cells whose points are made together, of very many (see Octree.piece). limit: bytes on the device; None:
    no limit."""
    if not backend.memory.scarce:
        return 0
    return MOST_PIECE if limit is None else min(MOST_PIECE, limit // (PIECE_SHARE * NEW_BYTES * C.OWN_POINTS))


def check_room(
    backend: Backend,
    more: int,
    limit: int | None,
    contents: str,
    remedy: str,
    whole: Callable[[], int] | None = None,
) -> None:
    """Raises OutOfMemoryError where `more` bytes on the device, added to those in use, exceed the limit, and arrays may
    not lie elsewhere; see `has_room`."""
    if limit is not None and not has_room(backend, more, limit, whole):
        elsewhere = room_elsewhere(backend, 0, limit)
        files = f" and {elsewhere / 1e9:.3g} GB of scratch files" if elsewhere else ""
        raise OutOfMemoryError(f"the octree does not fit into {limit / 1e9:.3g} GB{files}: {contents}; try {remedy}")


class Budget:
    """The memory of an adaptive octree while it grows.

    limit: bytes on the device; None: no limit. whole: estimates the bytes of the grown octree.
    """

    def __init__(self, octree: Octree, limit: int | None, whole: Callable[[], int]) -> None:
        self._octree, self._limit, self._whole = octree, limit, whole

    def reserve(self, points: int = 0, cells: int = 0, rows: int = 0) -> None:
        """Raises OutOfMemoryError where there is no room for new points, cells and opened cells."""
        octree = self._octree
        more = POINT_BYTES * points + CELL_BYTES * cells + ROW_BYTES * rows + END_BYTES * octree.points.count
        more += NEW_BYTES * min(points, C.OWN_POINTS * octree.piece(2 * points // C.OWN_POINTS))
        finest = len(octree.levels) - 1
        contents = f"{octree.points.count:,} points at level {octree.depth} of {finest}"
        remedy = "a larger --tolerance, a smaller --depth, or more --max-memory"
        if octree.points.count + points > MOST_POINTS or 27 * max(rows, cells // 8) > MOST_POINTS:
            raise OutOfMemoryError(f"the octree has {contents}, and no numbers for more; try a larger --tolerance")
        check_room(octree.backend, more, self._limit, contents, remedy, self._whole)


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
        return round(
            BALANCE * sum(count / share for count, share in zip(octree.cell_counts, self._shares, strict=False))
        )
