"""The cells of an adaptive octree level by level, and the points at their corners and those of their children."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.octree.cells import root_keys

OUTSIDE = 0xFFFFFFFE
CLOSED, OPENING, OPENED, JUMP, SPLIT = range(5)
"""The states of a cell: JUMP is that of a leaf in which the sign jumps."""
FOR_SHEET = 2
"""The mark of a cell that is to be split for the sake of a sheet; the tolerance alone would not split it."""
LARGE = 1 << 23
"""Bytes of an array from which on cached memory is released before it grows."""

Arguments = dict[str, Any]
"""Arguments that several kernels share, by name."""


class GrowableTable:
    """Equally long arrays that grow together. Each is an attribute, cut to the current length.

    A column is (dtype, shape of an entry). New entries are undefined.
    """

    def __init__(self, backend: Backend, **columns: tuple[type, tuple[int, ...]]) -> None:
        self._xp, self._release_cached, self._memory = backend.xp, backend.release_cached, backend.memory
        self._room = {name: self._xp.empty((64, *shape), dtype) for name, (dtype, shape) in columns.items()}
        self._cut: dict[str, Array] = {}
        self.count = 0

    def __getattr__(self, name: str) -> Array:
        if name not in self._cut:
            self._cut[name] = self._room[name][: self.count]
        return self._cut[name]

    @property
    def args(self) -> Arguments:
        """The columns by name."""
        return {name: getattr(self, name) for name in self._room}

    @property
    def nbytes(self) -> int:
        """Bytes of all columns, and of their spare entries where these take memory."""
        taken = slice(None if self._memory.scarce else self.count)
        return sum(int(room[taken].nbytes) for room in self._room.values())

    def drop(self, *names: str) -> None:
        """Frees columns, of those names that there are."""
        self._cut.clear()
        for name in names:
            self._room.pop(name, None)

    def extend(self, more: int) -> int:
        """Adds entries; returns the number of the first."""
        self._cut.clear()
        first, self.count = self.count, self.count + more
        for name, old in self._room.items():
            if self.count > len(old):
                if self.count * old[:1].nbytes > LARGE:
                    self._release_cached()
                spare = self._memory.spare(len(old), old.nbytes)
                new = self._xp.empty((max(self.count, len(old) + spare), *old.shape[1:]), old.dtype)
                new[:first] = old[:first]
                self._room[name] = new
        return first


class Level:
    """The cells of one size, see octree/levels.h.

    cells     row (number among the opened cells, or NONE), state, asked (whether it is to be split), meets_finer
              (whether a neighbour is split).
    families  of eight cells each: parent, and its Morton key.
    rows      of opened cells: cell, child (number of the family, or NONE), around (the eight families among which all
              neighbours are, by the axes along which they lie beyond the cell's own one), points (27).
    """

    def __init__(self, backend: Backend) -> None:
        self.cells = GrowableTable(
            backend, row=(np.uint32, ()), state=(np.uint8, ()), asked=(np.uint8, ()), meets_finer=(np.uint8, ())
        )
        self.families = GrowableTable(backend, parent=(np.uint32, ()), key=(np.uint64, ()))
        self.rows = GrowableTable(
            backend,
            cell=(np.uint32, ()),
            child=(np.uint32, ()),
            around=(np.uint32, (8,)),
            points=(np.uint32, (27,)),
        )

    @property
    def args(self) -> Arguments:
        """All columns by name."""
        return {**self.families.args, **self.cells.args, **self.rows.args}

    @property
    def nbytes(self) -> int:
        """Bytes of the level."""
        return self.cells.nbytes + self.families.nbytes + self.rows.nbytes


class Octree:
    """The levels, and the points by number: the root's corners first.

    points  signed (distance), slot (of the nearest triangle), gradient, which devices with scarce memory compute each
            time, and clear where the surface has caps (see KnownSigns).
    value   (points,) float32: the field's values, see balance.py; hanging (points,) uint8. Both once it is grown.
    """

    def __init__(self, backend: Backend, depth: int, capped: bool) -> None:
        self.backend = backend
        self.levels = [Level(backend) for _ in range(depth + 1)]
        self.points = GrowableTable(
            backend,
            signed=(np.float32, ()),
            slot=(np.uint32, ()),
            **({} if backend.memory.scarce else {"gradient": (np.float32, (3,))}),
            **({"clear": (np.float32, ())} if capped else {}),
        )
        self.value: Array = None
        self.hanging: Array = None

    def place(self, level: int) -> Arguments:
        """Where the cells of a level lie, and which points are their corners: its columns, and those of the level above
        by the names above_NAME, None for the root."""
        own, above = self.levels[level].args, self.levels[level - 1].args if level else {}
        return {"level": level, **own, **{f"above_{name}": above.get(name) for name in own}}

    def neighbours(self, level: int, cells: Array) -> Array:
        """Those of opened cells (k,) uint32: (k, 27) uint32, x fastest; NONE where cells are coarser, OUTSIDE."""
        own, xp = self.levels[level], self.backend.xp
        at = np.arange(27)[:, None] // (1, 3, 9) % 3
        sides, toward = (self.backend.from_host(bits @ (1, 2, 4), np.uint32) for bits in (at != 1, at == 2))
        octant = cells[:, None] & np.uint32(7)
        beyond = sides & ~(octant ^ toward)
        family = xp.take_along_axis(own.rows.around[own.cells.row[cells]], beyond.astype(np.int64), axis=1)
        found = xp.where(family < OUTSIDE, 8 * family + (octant ^ sides), family)
        found[:, 13] = cells
        return found

    def point_keys(self) -> Array:
        """The points' keys (m,) uint64 on the lattice of 2^20."""
        key = self.backend.xp.empty(self.points.count, np.uint64)
        key[:8] = root_keys(self.backend)
        for level, own in enumerate(self.levels):
            self.backend.run("sdf_octree_keys", own.rows.count, point_key=key, **self.place(level))
        return key

    @property
    def depth(self) -> int:
        """The finest level with cells."""
        return sum(own.cells.count > 0 for own in self.levels) - 1

    @property
    def cell_counts(self) -> list[int]:
        """The number of cells on each level."""
        return [own.cells.count for own in self.levels]

    @property
    def jump_leaves(self) -> int:
        """The number of leaves that were left coarse because the sign jumps in them."""
        state = self.backend.xp.concatenate([own.cells.state for own in self.levels])
        return int((state == JUMP).sum())

    @property
    def sheet_leaves(self) -> int:
        """The number of leaves for the sake of sheets, without what balance adds."""
        split = [(own.cells.asked == FOR_SHEET) & (own.cells.state == SPLIT) for own in self.levels]
        return 7 * sum(int(each.sum()) for each in split)

    @property
    def nbytes(self) -> int:
        """Bytes of the grown octree."""
        grown = self.points.nbytes + sum(own.nbytes for own in self.levels)
        return grown + int(self.value.nbytes) + int(self.hanging.nbytes)
