"""Memory checks during an octree's growth, and size estimates from sample cells."""

from __future__ import annotations

from collections.abc import Callable

from sdfcli.backend import Array, Backend, C
from sdfcli.backend.overflow import has_room, least_limit, room_elsewhere
from sdfcli.errors import OutOfMemoryError
from sdfcli.octree.levels import Octree

SAMPLE = 2000
"""Cells followed per level to estimate an octree's size; more are more accurate and slower."""
BALANCE, BYTES_PER_CELL = 1.2, 140
"""Actual per estimated cells, as the estimate lacks splits for balance and hanging corners; bytes per cell."""

PEAK_BYTES = 280
"""Bytes per estimated cell within which an octree grows without overflow, with what it reserves: 165 to 225 measured,
and 27 % for the estimate of the cells."""

LIMIT_STEP = 10_000_000
"""Bytes to whose multiple a suggested memory limit is rounded up."""

POINT_BYTES, ROW_BYTES, CELL_BYTES = 63, 370, 64
"""Maximum bytes per new point, opened cell and new cell, with spare capacity and copies while arrays grow."""
END_BYTES = 53
"""Bytes per point after growth: arrays for the field and the error measurement."""
MOST_POINTS = 0xFFFFFF00
"""Maximum points, points in cells opened together, and neighbours of cells split together: indices have 32 bits."""
NEW_BYTES = 72
"""Temporary bytes per new point in a chunk: position, candidate slots, results."""
MOST_PIECE, PIECE_SHARE = 1 << 18, 32
"""Maximum cells per chunk of new points on a GPU, where many small launches are slower; a chunk's temporary bytes take
at most 1 / PIECE_SHARE of its memory."""


def most_piece(backend: Backend, limit: int | None) -> int:
    """Maximum cells per chunk of new points (see Octree.piece). limit: bytes on the device; None: no limit."""
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
    """Raises OutOfMemoryError if `more` bytes on the device, plus the bytes in use, exceed the limit, and arrays cannot
    be placed elsewhere; see `has_room`. remedy: ends with `more --max-memory`, which names the amount if a larger limit
    lets arrays overflow."""
    if limit is not None and not has_room(backend, more, limit, whole):
        least, files = least_limit(backend), ""
        elsewhere = 0 if least is None else room_elsewhere(backend, 0, least)
        if least is not None and least <= limit:
            files = f" and {elsewhere / 1e9:.3g} GB of scratch files" if elsewhere else ""
        elif least is not None and (whole() if whole else more) <= elsewhere:
            remedy = remedy.replace("more --max-memory", f"{limit_text(least)} or more")
        raise OutOfMemoryError(f"the octree does not fit into {limit / 1e9:.3g} GB{files}: {contents}; try {remedy}")


def limit_text(least: int) -> str:
    """The option for a memory limit of at least `least` bytes, in MB."""
    return f"--max-memory {-(-least // LIMIT_STEP) * (LIMIT_STEP // 1_000_000)}M"


class Budget:
    """Memory budget for a growing adaptive octree.

    limit: bytes on the device; None: no limit. whole: estimates the grown octree's bytes.
    """

    def __init__(self, octree: Octree, limit: int | None, whole: Callable[[], int]) -> None:
        self._octree, self._limit, self._whole = octree, limit, whole

    def reserve(self, points: int = 0, cells: int = 0, rows: int = 0) -> None:
        """Raises OutOfMemoryError if new points, cells and opened cells do not fit."""
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
    """Cells followed to estimate an octree's size (Knuth 1975). most: maximum per level; None: all cells."""

    def __init__(self, most: int | None) -> None:
        self._most, self._shares = most, [1.0]

    @property
    def whole(self) -> bool:
        """Whether all cells are followed."""
        return self._most is None

    @property
    def share(self) -> float:
        """The finest level's sampled share."""
        return self._shares[-1]

    def of(self, level: int, cells: Array) -> Array:
        """Selects, from cells (k,) to split, the ones whose children are followed."""
        if self._most is None:
            return cells
        step = max(1, -(-len(cells) // self._most))
        self._shares.append(self._shares[level] / step)
        return cells[::step].copy()

    def estimated_cells(self, octree: Octree) -> int:
        """The whole octree's estimated cell count."""
        return round(
            BALANCE * sum(count / share for count, share in zip(octree.cell_counts, self._shares, strict=False))
        )
