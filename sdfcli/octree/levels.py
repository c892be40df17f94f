"""Adaptive octree cells by level, and the points at the corners of cells and their children."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend, C, Group
from sdfcli.backend.arguments import CHECK, argument_group
from sdfcli.octree.corners import root_keys

OUTSIDE = C.OUTSIDE
CLOSED, OPENING, OPENED, JUMP, SPLIT = range(5)
"""Cell states; JUMP: a leaf at a sign jump."""
PIECE = 1 << 15
"""Minimum cells per chunk of new points."""
OPENED_SHARE = 3
"""Expanded children reserved per split cell."""
LARGE = 1 << 23
"""Minimum array size in bytes for releasing cached memory before it grows."""


class GrowableTable:
    """Arrays of equal length that grow together; each is an attribute, a view of the current length.

    A column is (dtype, entry shape). New entries are uninitialised. Growth reserves capacity for `spare` more entries,
    which a kernel may add; the first allocation reserves twice that.

    count   entry count.
    room    capacity in entries.
    groups  kernel arguments that hold columns; cleared before columns move or are freed.
    """

    def __init__(
        self, backend: Backend, groups: dict[str, Group], spare: int, **columns: tuple[type, tuple[int, ...]]
    ) -> None:
        self.groups, self._names, self._spare = groups, tuple(columns), spare
        self._backend, self._memory = backend, backend.memory
        self._kinds = columns
        self._room: dict[str, Array] = {}  # created with the first entries
        self._cut: dict[str, Array] = {}
        self.count, self.room = 0, 0

    def __getattr__(self, name: str) -> Array:
        if name not in self._cut:
            dtype, shape = self._kinds[name]
            self._cut[name] = (
                self._room[name][: self.count] if self._room else self._backend.xp.empty((0, *shape), dtype)
            )
        return self._cut[name]

    def whole(self, name: str) -> Array:
        """A column at full capacity."""
        return self._room[name][: self.room]

    def columns(self) -> dict[str, Array | None]:
        """The columns by name; None: dropped, or not created yet. At full capacity unless lengths are checked, as
        slicing takes time."""
        if CHECK:
            return {name: getattr(self, name) if name in self._room else None for name in self._names}
        return {name: self._room.get(name) for name in self._names}

    @property
    def nbytes(self) -> int:
        """Bytes of all columns, with spare entries where these take memory."""
        if self._memory.scarce:
            return sum(int(room.nbytes) for room in self._room.values())
        return sum(int(room[: self.count].nbytes) for room in self._room.values())

    def has(self, name: str) -> bool:
        """Whether a column exists and was not dropped."""
        return name in self._kinds

    def drop(self, *names: str) -> None:
        """Frees columns, ignoring unknown names."""
        self._cut.clear()
        self.groups.clear()
        for name in names:
            self._kinds.pop(name, None)
            self._room.pop(name, None)

    def extend(self, more: int) -> int:
        """Adds entries; returns the first one's index."""
        first = self.count
        if first + more > self.room:
            self.reserve(more + self._spare)
        self.counted(first + more)
        return first

    def reserve(self, more: int) -> None:
        """Reserves capacity for more entries."""
        count = self.count + more
        if count <= self.room:
            return
        self._cut.clear()
        self.groups.clear()
        for name, (dtype, shape) in self._kinds.items():
            old: Array | None = self._room.get(name)
            size = max(64, 2 * self._spare, count)
            if old is not None:
                if count <= len(old):
                    continue
                size = max(size, len(old) + self._memory.spare(len(old), old.nbytes))
                if count * (old.nbytes // len(old)) > LARGE:
                    self._backend.release_cached()
                self._room[name] = self._backend.grown(old, size, self.count)
            else:
                self._room[name] = self._backend.xp.empty((size, *shape), dtype)
        self.room = min(len(room) for room in self._room.values())

    def counted(self, count: int) -> None:
        """Sets the entry count after a kernel added entries."""
        self._cut.clear()
        if CHECK:  # groups hold array lengths only where these are checked
            self.groups.clear()
        self.count = count


class Level:
    """Cells of one level; see octree/levels.h.

    cells     row (index among the opened cells, or NONE), state, split_request (a Cause).
    families  sibling groups of eight cells: parent, its Morton key, and stale (see balance.py).
    rows      opened cells: cell, child (family of its children, or NONE), around (the eight families that contain all
              neighbours, indexed by the axes along which they differ from the cell's own), points (27).
    """

    def __init__(self, backend: Backend, number: int, spare: int = 0) -> None:
        """number: the level; 0: root. spare: as for Octree."""
        self._backend, self._number = backend, number
        self._groups: dict[str, Group] = {}
        self.cells = GrowableTable(
            backend,
            self._groups,
            8 * spare,
            row=(np.uint32, ()),
            state=(np.uint8, ()),
            split_request=(np.uint8, ()),
        )
        self.families = GrowableTable(
            backend, self._groups, spare, parent=(np.uint32, ()), key=(np.uint64, ()), stale=(np.uint8, ())
        )
        self.rows = GrowableTable(
            backend,
            self._groups,
            OPENED_SHARE * spare,
            cell=(np.uint32, ()),
            child=(np.uint32, ()),
            around=(np.uint32, (8,)),
            points=(np.uint32, (27,)),
        )

    @property
    def args(self) -> Group:
        """The level's kernel arguments."""
        if not self._groups:
            columns = {**self.families.columns(), **self.cells.columns(), **self.rows.columns()}
            self._groups["level"] = self._backend.group("Level", level=self._number, **columns)
        return self._groups["level"]

    @property
    def nbytes(self) -> int:
        """The level's bytes."""
        return self.cells.nbytes + self.families.nbytes + self.rows.nbytes


class Octree:
    """All levels and their points, the root's corners first.

    points   signed (distance), slot (of the nearest triangle), gradient (where memory is scarce: only for few points),
             and clear if the surface has caps (see KnownSigns).
    values   value (the field's) and hanging (1: hanging corner), for the points that balance.py has processed.
    """

    def __init__(
        self, backend: Backend, depth: int, capped: bool, spare: int = 0, gradients: int = 0, most_piece: int = 0
    ) -> None:
        """spare: capacity to reserve, in cells to split; see growth.py. gradients: maximum points with stored
        gradients where memory is scarce; for more points they are recomputed on each use. most_piece: see budget.py."""
        self.backend, self.capped, self.spare = backend, capped, spare
        self._gradients, self.most_piece = gradients, most_piece
        self.levels = [Level(backend, number, spare) for number in range(depth + 1)]
        self.points = GrowableTable(
            backend,
            {},
            C.OWN_POINTS * OPENED_SHARE * spare,
            signed=(np.float32, ()),
            slot=(np.uint32, ()),
            gradient=(np.float32, (3,)),
            **({"clear": (np.float32, ())} if capped else {}),
        )
        self._known: tuple[bytes, Any] = b"", None  # table of all levels, and its kernel arguments
        self.values = GrowableTable(backend, {}, 0, value=(np.float32, ()), hanging=(np.uint8, ()))

    def piece(self, cells: int) -> int:
        """Cells per chunk of new points, for `cells` cells in all: keeps temporary memory a fraction of stored data."""
        piece: int = max(PIECE, min(self.most_piece, cells // C.PIECES))
        return piece

    def add_to_points(self, more: int) -> None:
        """Called before points are added."""
        if self.backend.memory.scarce and self.points.count + more > self._gradients:
            self.points.drop("gradient")

    def place(self, level: int) -> dict[str, Group | None]:
        """Kernel arguments for cell positions and corner points: the level, and the level above (None for the root)."""
        return {"own": self.levels[level].args, "above": self.levels[level - 1].args if level else None}

    @property
    def all_levels(self) -> Group:
        """All levels in their current state, for kernels over all cells or rows."""
        entries, cells, rows = [bytes(argument_group("LevelEntry").size)], 0, 0
        for own in self.levels:
            held = own.args if own.cells.count else None
            entries.append(self.backend.group("LevelEntry", own=held, cells=cells, rows=rows).data)
            cells, rows = cells + own.cells.count, rows + own.rows.count
        table = b"".join(entries)
        if self._known[0] != table:
            level = self.backend.from_host(np.frombuffer(table, np.uint64))
            self._known = table, self.backend.group("AllLevels", levels=len(self.levels), level=level)
        found: Group = self._known[1]
        return found

    def neighbours(self, level: int, cells: Array) -> Array:
        """Neighbours (k, 27) uint32 of opened cells (k,) uint32, x fastest; NONE: coarser; OUTSIDE: off the domain."""
        own, xp = self.levels[level], self.backend.xp
        at = np.arange(27)[:, None] // (1, 3, 9) % 3
        sides, toward = (self.backend.from_host(bits @ (1, 2, 4), np.uint32) for bits in (at != 1, at == 2))
        octant = cells[:, None] & np.uint32(7)
        beyond = sides & ~(octant ^ toward)
        family = xp.take_along_axis(own.rows.around[own.cells.row[cells]], beyond.astype(np.int64), axis=1)
        found = xp.where(family < OUTSIDE, 8 * family + (octant ^ sides), family)
        found[:, C.CENTRE] = cells
        return found

    def point_keys(self) -> Array:
        """The points' keys (m,) uint64 on the lattice of 2^20."""
        key = self.backend.xp.empty(self.points.count, np.uint64)
        key[:8] = root_keys(self.backend)
        rows = sum(own.rows.count for own in self.levels)
        self.backend.run("sdf_octree_keys", rows, point_key=key, octree=self.all_levels)
        return key

    @property
    def depth(self) -> int:
        """Finest level with cells."""
        return sum(own.cells.count > 0 for own in self.levels) - 1

    @property
    def cell_counts(self) -> list[int]:
        """Cell counts by level."""
        return [own.cells.count for own in self.levels]

    def jump_and_sheet_leaves(self) -> Callable[[], tuple[int, int]]:
        """Starts counting leaves left coarse at a sign jump, and leaves for sheets, without splits for their balance.
        The returned function waits for both counts."""
        counts = self.backend.xp.zeros(2, np.uint32)
        self.backend.run("sdf_octree_counts", sum(self.cell_counts), octree=self.all_levels, counts=counts)
        counted = self.backend.copy_async(counts)

        def numbers() -> tuple[int, int]:
            jumps, split = counted().tolist()
            return jumps, 7 * split

        return numbers

    @property
    def nbytes(self) -> int:
        """The grown octree's bytes."""
        return self.points.nbytes + self.values.nbytes + sum(own.nbytes for own in self.levels)
