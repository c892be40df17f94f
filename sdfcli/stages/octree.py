"""(c) The adaptive octree, grown level by level, with exact signed distances at its points."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.errors import OutOfMemoryError
from sdfcli.stages.bvh import NONE, Bvh
from sdfcli.stages.distance import nearest
from sdfcli.stages.order import LATTICE_BITS
from sdfcli.stages.sign import Signer, WindingSigner
from sdfcli.timing import Stages

OUTSIDE = 0xFFFFFFFE
CENTRE = 13
JUMP = 3  # the state of a leaf in which the sign jumps
INHERIT_PASSES = 2
SAFETY = 0.8
"""The tests' share of the tolerance. The rest is for what 27 samples of a cell do not see, and for hanging corners."""
PIECE = 1 << 18
"""Cells whose points are made at a time."""

POINT_BYTES, CELL_BYTES = 120, 320
"""What a new point and a new cell need at most, with what is needed for a while only, and the arrays' spare room."""

JUMP_EDGE = 4.0
"""Cells are split down to this many tolerances where the sign jumps at the hole of an open surface."""

PATIENCE, FARTHEST, MARGINAL = 8, 64, 0.8
"""Rounds of splits for hanging corners before a wave of them is met; how far away, in leaves, at most; and from which
part of the tolerance on a leaf counts as one that only just meets it."""

Progress = Callable[[int, int], None]
"""Called with the level that was split and the number of leaves so far."""

Find = Callable[[Array, Array | None], tuple[Array, Array]]
"""`nearest` of points (m, 3), with slots (m, 8) to start from."""


def _parent_direction() -> Any:
    """(8, 27): in which direction the parent of a child's neighbour lies from the child's own parent."""
    table = np.empty((8, 27), np.int64)
    for octant in range(8):
        for direction in range(27):
            at = [(octant >> k & 1) + direction // 3**k % 3 - 1 for k in range(3)]
            table[octant, direction] = sum((0 if c < 0 else 2 if c > 1 else 1) * 3**k for k, c in enumerate(at))
    return table


PARENT_DIRECTION = _parent_direction()


class Columns:
    """Equally long arrays that grow together, doubling their room. Each is an attribute, cut to the current length.

    A column is (dtype, shape of an entry, what new entries hold); None where whoever adds entries fills them in.
    """

    def __init__(self, backend: Backend, **columns: tuple[type, tuple[int, ...], int | None]) -> None:
        self._xp = backend.xp
        self._room = {name: self._xp.empty((64, *shape), dtype) for name, (dtype, shape, _) in columns.items()}
        self._fill = {name: fill for name, (_, _, fill) in columns.items() if fill is not None}
        self.count = 0

    def __getattr__(self, name: str) -> Array:
        return self._room[name][: self.count]

    @property
    def nbytes(self) -> int:
        """What the columns' room takes."""
        return sum(int(room.nbytes) for room in self._room.values())

    def drop(self, *names: str) -> None:
        """Frees columns."""
        for name in names:
            del self._room[name]

    def extend(self, more: int) -> int:
        """Adds entries; returns the number of the first."""
        first, self.count = self.count, self.count + more
        for name, old in self._room.items():
            if self.count > len(old):
                new = self._xp.empty((max(self.count, 2 * len(old)), *old.shape[1:]), old.dtype)
                new[:first] = old[:first]
                self._room[name] = new
        for name, fill in self._fill.items():
            self._room[name][first : self.count] = fill
        return first


class Octree:
    """Cells by level, and the points at their corners and those of their children.

    levels[l]: key, parent, child (first of eight, or NONE), corner (8 points), neighbour and points (27 each, see
    octree.h), state (2: opened, its 27 points are there). Cells of the finest level have only the first four.
    points: key on the lattice of 2^20, cell that brought it, position in the unit cube, distance, nearest slot, sign.
    """

    def __init__(
        self,
        backend: Backend,
        bvh: Bvh,
        signer: Signer,
        *,
        depth: int,
        tolerance: float,
        band: float,
        stages: Stages,
        find: Find | None = None,
        most_memory: int | None = None,
        sample: int | None = None,
    ) -> None:
        """most_memory: bytes on the device at which growing ends with OutOfMemoryError.

        sample: of so many cells a level at most the children are looked at, and nothing is balanced: `estimated_cells`
        is then a guess of the whole tree's size.
        """
        self.backend, self.bvh, self.signer, self.stages = backend, bvh, signer, stages
        self.most_memory, self.sample, self.share = most_memory, sample, [1.0]
        self.depth, self.tolerance, self.band = depth, SAFETY * tolerance, band
        self.find = find or partial(nearest, backend, bvh)
        self.levels = [self._empty_level(level) for level in range(depth + 1)]
        self.points = Columns(
            backend,
            key=(np.uint64, (), None),
            cell=(np.uint32, (), None),
            position=(np.float32, (3,), None),
            distance=(np.float32, (), None),
            slot=(np.uint32, (), None),
            inside=(np.uint8, (), 2),
            clear=(np.float32, (), None),
            signed=(np.float32, (), None),
            gradient=(np.float32, (3,), None),
            value=(np.float32, (), None),
            tight=(np.uint8, (), 0),
            hanging=(np.uint8, (), 0),
        )
        self._pending: dict[int, list[Array]] = {}

    def _empty_level(self, level: int) -> Columns:
        inner = 27 if level < self.depth else 0
        return Columns(
            self.backend,
            key=(np.uint64, (), None),
            parent=(np.uint32, (), None),
            child=(np.uint32, (), NONE),
            corner=(np.uint32, (8,), None),
            neighbour=(np.uint32, (inner,), None),
            points=(np.uint32, (inner,), NONE),
            state=(np.uint8, (), 0),
            meets_finer=(np.uint8, (), 0),
        )

    def grow(self, progress: Progress | None = None) -> None:
        """Splits cells until none wishes to be split."""
        self._plant()
        self._settle(progress)
        rounds = 0
        while self.sample is None:
            self._constrain()
            if self._pending:
                rounds += 1
                self._run_ahead(rounds)
                self._settle(progress)
            elif not self._tighten():
                return

    def _settle(self, progress: Progress | None) -> None:
        while self._pending:
            level = min(self._pending)
            self._split(level, self.backend.xp.concatenate(self._pending.pop(level)))
            if progress:
                progress(level, sum(cells.count for cells in self.levels))

    def _plant(self) -> None:
        """The root: one cell, its eight corners."""
        xp, points, root = self.backend.xp, self.points, self.levels[0]
        corner = np.array([[c & 1, c >> 1 & 1, c >> 2] for c in range(8)])
        points.extend(8)
        points.key[:] = self.backend.from_host(
            np.array([sum(int(b) << (3 * LATTICE_BITS + k) for k, b in enumerate(c)) for c in corner], np.uint64)
        )
        points.position[:] = self.backend.from_host(corner, np.float32)
        self._measure(0, None, None)
        root.extend(1)
        root.key[:], root.parent[:] = 0, NONE
        root.corner[:] = xp.arange(8, dtype=np.uint32)
        root.neighbour[:] = OUTSIDE
        root.neighbour[0, 13] = 0
        self._consider(0, xp.zeros(1, np.uint32))

    def _consider(self, level: int, cells: Array) -> None:
        """Finds out which of the new cells wish to be split."""
        if level == self.depth:
            return
        self._probe(level, cells)
        opened = self._screened(level, cells)
        self._open(level, opened)
        more = self._peeked(level, cells[self.levels[level].state[cells] == 0])
        self._open(level, more)
        cells = self._tested(level, self.backend.xp.concatenate([opened, more]))
        if self.sample is not None:
            step = -(-len(cells) // self.sample)
            self.share.append(self.share[level] / max(1, step))
            cells = cells[::step] if step > 1 else cells
        if len(cells):
            self._pending.setdefault(level, []).append(cells)

    @property
    def estimated_cells(self) -> int:
        """How many cells the whole tree would have, if `sample` left some out (Knuth 1975)."""
        return round(sum(cells.count / share for cells, share in zip(self.levels, self.share, strict=False)))

    def _need(self, points: int, cells: int = 0) -> None:
        """Makes sure that there is room for more. Raises OutOfMemoryError otherwise, before memory runs out."""
        more = POINT_BYTES * points + CELL_BYTES * cells
        if self.most_memory is not None and self.backend.memory_used() + more > self.most_memory:
            levels = sum(level.count > 0 for level in self.levels) - 1
            raise OutOfMemoryError(
                f"the octree does not fit into {self.most_memory / 1e9:.3g} GB: {self.points.count:,} points at level "
                f"{levels} of {self.depth}; try a larger --tolerance, a smaller --depth, or more --max-memory"
            )

    def _probe(self, level: int, cells: Array) -> None:
        """Gives cells their centre."""
        if len(cells):
            self._make_points(level, cells, self.backend.xp.full(len(cells), 1 << CENTRE, np.uint32))

    def _open(self, level: int, cells: Array) -> None:
        """Gives cells that have their centre the rest of their 27 points."""
        if len(cells) == 0:
            return
        backend, own = self.backend, self.levels[level]
        mask, count = (backend.xp.empty(len(cells), np.uint32) for _ in range(2))
        own.state[cells] = 1
        shared = {
            "cells": cells,
            "neighbour": own.neighbour,
            "state": own.state,
            "cell_points": own.points,
            "mask": mask,
        }
        backend.run("sdf_octree_own", len(cells), count=count, **shared)
        self._make_points(level, cells, mask, count)
        backend.run("sdf_octree_share", len(cells), **shared)
        own.state[cells] = 2

    def _make_points(self, level: int, cells: Array, mask: Array, count: Array | None = None) -> None:
        """Makes the points of each cell's mask (one each, unless counted), and measures their distances.

        In pieces, which bound what is needed for a while; each point is measured by itself, so they change nothing.
        """
        for first in range(0, len(cells), PIECE):
            piece = slice(first, first + PIECE)
            self._make_piece(level, cells[piece], mask[piece], None if count is None else count[piece])

    def _make_piece(self, level: int, cells: Array, mask: Array, count: Array | None) -> None:
        xp, own, points = self.backend.xp, self.levels[level], self.points
        last = xp.arange(1, len(cells) + 1, dtype=np.uint32) if count is None else xp.cumsum(count, dtype=np.uint32)
        self._need(int(last[-1]))
        first = points.extend(int(last[-1]))
        seed = xp.empty((points.count - first, 8), np.uint32)
        self.backend.run(
            "sdf_octree_points",
            len(cells),
            level=level,
            first=first,
            cells=cells,
            key=own.key,
            corner=own.corner,
            mask=mask,
            offset=last - (np.uint32(1) if count is None else count) + np.uint32(first),
            slot=points.slot,
            cell_points=own.points,
            point_key=points.key,
            point_cell=points.cell,
            position=points.position,
            seed=seed,
        )
        self._measure(first, seed, own.points)

    def _measure(self, first: int, seed: Array | None, cell_points: Array | None) -> None:
        """Exact signed distances of the points from number `first` on."""
        backend, points = self.backend, self.points
        position = points.position[first:]
        with self.stages("query", backend):
            points.distance[first:], points.slot[first:] = self.find(position, seed)
        with self.stages("sign", backend):
            if isinstance(self.signer, WindingSigner):
                self._winding_signs(self.signer, first, cell_points)
            else:
                points.inside[first:] = self.signer.inside(position, points.slot[first:])
        distance = points.distance[first:]
        points.signed[first:] = backend.xp.where(points.inside[first:] == 1, -distance, distance)
        backend.run(
            "sdf_gradient",
            len(position),
            points=position,
            slot=points.slot[first:],
            inside=points.inside[first:],
            triangle=self.bvh.order.triangle,
            gradient=points.gradient[first:],
        )

    def _winding_signs(self, signer: WindingSigner, first: int, cell_points: Array | None) -> None:
        """Signs handed on from points of the same cell where that is safe, winding numbers for the rest."""
        backend, xp, points = self.backend, self.backend.xp, self.points
        unknown = xp.arange(first, points.count, dtype=np.uint32)
        for _ in range(INHERIT_PASSES if cell_points is not None else 0):
            inside, clear = xp.empty(len(unknown), np.uint8), xp.empty(len(unknown), np.float32)
            backend.run(
                "sdf_sign_inherit",
                len(unknown),
                points=unknown,
                point_cell=points.cell,
                cell_points=cell_points,
                position=points.position,
                distance=points.distance,
                inside=points.inside,
                clear=points.clear,
                guard=signer.guard,
                new_inside=inside,
                new_clear=clear,
            )
            # Only now: within a pass, nobody may see what another point of the same pass has found.
            points.inside[unknown], points.clear[unknown] = inside, clear
            unknown = unknown[inside == 2]
        position = points.position[unknown]
        points.inside[unknown] = signer.inside(position, points.slot[unknown])
        points.clear[unknown] = signer.clear(position)

    def _ask(self, kernel: str, cells: Array, **values: Any) -> Array:
        """What a kernel answers for each cell."""
        wish = self.backend.xp.empty(len(cells), np.uint8)
        self.backend.run(f"sdf_octree_{kernel}", len(cells), cells=cells, wish=wish, **values)
        return wish

    def _field(self, level: int) -> dict[str, Any]:
        return {
            "cell_points": self.levels[level].points,
            "distance": self.points.signed,
            "tolerance": self.tolerance,
            "band": self.band,
        }

    def _shape(self, level: int) -> dict[str, Any]:
        return {
            "level": level,
            "position": self.points.position,
            "gradient": self.points.gradient,
            "key": self.levels[level].key,
            "triangles": len(self.bvh.order),
            "triangle_key": self.bvh.order.keys,
            "triangle": self.bvh.order.triangle,
            "jump_edge": JUMP_EDGE * self.tolerance,
        }

    def _screened(self, level: int, cells: Array) -> Array:
        """The cells that are to be opened, judged by their corners and centre."""
        return cells[self._ask("screen", cells, **self._field(level), **self._shape(level)) == 1]

    def _peeked(self, level: int, cells: Array) -> Array:
        """The cells that are to be opened, judged by what opened neighbours know."""
        own = self.levels[level]
        return cells[self._ask("peek", cells, neighbour=own.neighbour, state=own.state, **self._field(level)) == 1]

    def _tested(self, level: int, cells: Array) -> Array:
        """The opened cells that are to be split."""
        wish = self._ask("test", cells, **self._field(level), **self._shape(level))
        self.levels[level].state[cells[wish == 2]] = JUMP
        return cells[wish == 1]

    def _split(self, level: int, cells: Array) -> None:
        """Gives cells their children. Where a neighbour is coarser than a cell, it is split first (2:1 balance)."""
        backend, xp, own, below = self.backend, self.backend.xp, self.levels[level], self.levels[level + 1]
        cells = cells[own.child[cells] == NONE]
        if len(cells) == 0:
            return
        if level > 0 and self.sample is None:
            row, direction = xp.nonzero(own.neighbour[cells] == NONE)
            if len(row):
                cell = cells[row]
                octant = (own.key[cell] & np.uint64(7)).astype(np.int64)
                above = self.levels[level - 1]
                towards = backend.from_host(PARENT_DIRECTION)[octant, direction]
                coarse = xp.zeros(above.count, bool)
                coarse[above.neighbour[own.parent[cell], towards]] = True
                self._split(level - 1, xp.flatnonzero(coarse).astype(np.uint32))
        self._open(level, cells[own.state[cells] == 0])
        self._need(0, 8 * len(cells))
        first = below.extend(8 * len(cells))
        backend.run(
            "sdf_octree_children",
            8 * len(cells),
            first=first,
            parents=cells,
            parent_key=own.key,
            parent_points=own.points,
            parent_neighbour=own.neighbour,
            parent_meets_finer=own.meets_finer,
            parent_child=own.child,
            key=below.key,
            parent=below.parent,
            corner=below.corner,
        )
        if level + 1 < self.depth:
            backend.run(
                "sdf_octree_neighbours",
                27 * 8 * len(cells),
                first=first,
                key=below.key,
                parent=below.parent,
                parent_neighbour=own.neighbour,
                parent_child=own.child,
                neighbour=below.neighbour,
            )
        self._consider(level + 1, xp.arange(first, below.count, dtype=np.uint32))

    def _leaves(self, level: int) -> Array:
        return self.backend.xp.flatnonzero(self.levels[level].child == NONE).astype(np.uint32)

    def _constrain(self) -> None:
        """The field's values: hanging corners take their coarser neighbour's interpolation, coarse levels first."""
        xp, points = self.backend.xp, self.points
        points.value[:], points.hanging[:] = points.signed, 0
        for level, own in enumerate(self.levels[:-1]):
            leaves = xp.flatnonzero((own.child == NONE) & (own.meets_finer == 1)).astype(np.uint32)
            wish = self._ask(
                "constrain",
                leaves,
                cell_points=own.points,
                neighbour=own.neighbour,
                child=own.child,
                corner=own.corner,
                state=own.state,
                tight=points.tight,
                value=points.value,
                hanging=points.hanging,
            )
            leaves = leaves[wish == 1]
            if len(leaves):
                self._pending[level] = [leaves]

    def _run_ahead(self, rounds: int) -> None:
        """Adds leaves to those that are to be split for the sake of hanging corners.

        Where many leaves only just meet the tolerance, each split asks for the next one beside it, and a wave goes over
        them, a leaf a round. After some rounds it is met: each time twice as far away as the time before.
        """
        xp = self.backend.xp
        steps = 2 ** (rounds - PATIENCE - 1) if rounds > PATIENCE else 0
        for level, (asked_for,) in self._pending.items():
            own, front = self.levels[level], asked_for
            chosen = xp.zeros(own.count, bool)
            chosen[front] = True
            for _ in range(min(steps, FARTHEST)):
                around = xp.unique(own.neighbour[front])
                around = around[around < OUTSIDE]
                around = around[(own.child[around] == NONE) & (own.state[around] == 2) & ~chosen[around]]
                marginal = {**self._field(level), "tolerance": MARGINAL * self.tolerance}
                front = around[self._ask("test", around, **marginal, **self._shape(level)) == 1]
                if len(front) == 0:
                    break
                chosen[front] = True
            self._pending[level] = [xp.flatnonzero(chosen).astype(np.uint32)]

    def _tighten(self) -> bool:
        """Marks the hanging corners that may not be moved as far as they were. True if there are new ones."""
        points = self.points
        before = int(points.tight.sum())
        for level, own in enumerate(self.levels):
            leaves = self._leaves(level)
            self.backend.run(
                "sdf_octree_tighten",
                len(leaves),
                cells=leaves,
                corner=own.corner,
                state=own.state,
                points_of_cell=own.points if level < self.depth else None,
                distance=points.signed,
                value=points.value,
                tolerance=self.tolerance,
                band=self.band,
                tight=points.tight,
            )
        return int(points.tight.sum()) > before

    @property
    def jump_leaves(self) -> int:
        """How many leaves were left coarse because the sign jumps in them."""
        return sum(int((own.state == JUMP).sum()) for own in self.levels)

    @property
    def nbytes(self) -> int:
        """What the tree takes while it grows."""
        return self.points.nbytes + sum(own.nbytes for own in self.levels)

    def assemble(self) -> dict[str, Array]:
        """The arrays of a Field, with distances in the unit cube; leaf_corner (n, 8): places among the corners; and
        hanging (m,) uint8: 1 for corners that take a coarser leaf's value.

        What only growing needs is freed first.
        """
        xp, points = self.backend.xp, self.points
        points.drop("position", "gradient", "distance", "cell")
        for own in self.levels:
            own.drop("neighbour", "points")
        leaves = [self._leaves(level) for level in range(self.depth + 1)]
        key = xp.concatenate(
            [
                own.key[own_leaves] << np.uint64(3 * (LATTICE_BITS - level))
                for level, (own, own_leaves) in enumerate(zip(self.levels, leaves, strict=True))
            ]
        )
        order = xp.argsort(key)
        level_of = xp.concatenate([xp.full(len(own), level, np.uint8) for level, own in enumerate(leaves)])
        corners = xp.concatenate([own.corner[own_leaves] for own, own_leaves in zip(self.levels, leaves, strict=True)])
        used = xp.zeros(points.count, bool)
        used[corners.ravel()] = True
        corner = xp.flatnonzero(used)
        corner = corner[xp.argsort(points.key[corner])]
        place = xp.empty(points.count, np.uint32)
        place[corner] = xp.arange(len(corner), dtype=np.uint32)
        return {
            "leaf_key": key[order],
            "leaf_level": level_of[order],
            "corner_key": points.key[corner],
            "distance": points.value[corner],
            "hanging": points.hanging[corner],
            "nearest": self.bvh.order.triangle_id[points.slot[corner]],
            "leaf_corner": place[corners[order]],
        }
