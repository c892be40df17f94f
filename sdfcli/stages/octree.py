"""(c) The adaptive octree, grown level by level, with exact signed distances at its points."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.errors import OutOfMemoryError
from sdfcli.stages.bvh import NONE, Bvh
from sdfcli.stages.corners import corner_order
from sdfcli.stages.distance import nearest
from sdfcli.stages.order import LATTICE_BITS
from sdfcli.stages.sign import PseudonormalSigner, Signer, WindingSigner
from sdfcli.timing import Stages

OUTSIDE = 0xFFFFFFFE
CLOSED, OPENING, OPENED, JUMP, SPLIT = range(5)
"""The states of a cell: JUMP is that of a leaf in which the sign jumps."""
LEAF, OPEN, PROBE = range(3)
"""What the first look at a cell says of it."""
INHERIT_PASSES = 2
SAFETY = 0.8
"""The tests' share of the tolerance. The rest is for what 27 samples of a cell do not see, and for hanging corners."""
PIECE = 1 << 15
"""Cells whose points are made at a time."""

POINT_BYTES, ROW_BYTES, CELL_BYTES = 75, 560, 64
"""What a new point, an opened cell and a new cell need at most, with spare room and copies while arrays grow."""
END_BYTES = 45
"""What each point needs in the end: the field's own arrays, and what its error is measured with."""
NEW_BYTES = 64
"""What a new point of a piece needs for a while only: its position, what its query starts from, and the answers."""

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
    """Equally long arrays that grow together. Each is an attribute, cut to the current length.

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
                new = self._xp.empty((max(self.count, len(old) + len(old) // 2), *old.shape[1:]), old.dtype)
                new[:first] = old[:first]
                self._room[name] = new
        for name, fill in self._fill.items():
            self._room[name][first : self.count] = fill
        return first


class Level:
    """The cells of one size, see octree.h.

    cells     row (number among the opened cells, or NONE), state, meets_finer (whether a neighbour is split).
    families  of eight cells each: parent, and its Morton key.
    rows      of opened cells: cell, child (number of the family, or NONE), neighbour and points (27 each).
    """

    def __init__(self, backend: Backend) -> None:
        self.cells = Columns(backend, row=(np.uint32, (), NONE), state=(np.uint8, (), 0), meets_finer=(np.uint8, (), 0))
        self.families = Columns(backend, parent=(np.uint32, (), None), key=(np.uint64, (), None))
        self.rows = Columns(
            backend,
            cell=(np.uint32, (), None),
            child=(np.uint32, (), NONE),
            neighbour=(np.uint32, (27,), None),
            points=(np.uint32, (27,), None),
        )

    @property
    def nbytes(self) -> int:
        """What the level takes."""
        return self.cells.nbytes + self.families.nbytes + self.rows.nbytes


class Octree:
    """Cells by level, and the points at their corners and those of their children.

    points: key on the lattice of 2^20, signed distance, its gradient, nearest slot.
    value and hanging, of every point, are there once the tree is grown.
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
        self.levels = [Level(backend) for _ in range(depth + 1)]
        self.queries = 0
        self.points = Columns(
            backend,
            key=(np.uint64, (), None),
            signed=(np.float32, (), None),
            gradient=(np.float32, (3,), None),
            slot=(np.uint32, (), None),
            **({"clear": (np.float32, (), None)} if self._has_caps else {}),
        )
        self.value, self.hanging = (backend.xp.empty(0, dtype) for dtype in (np.float32, np.uint8))
        self._pending: dict[int, list[Array]] = {}

    @property
    def _has_caps(self) -> bool:
        return isinstance(self.signer, WindingSigner) and self.signer.caps is not None

    def grow(self, progress: Progress | None = None) -> None:
        """Splits cells until none wishes to be split."""
        self._plant()
        self._settle(progress)
        rounds = 0
        while self.sample is None:
            self._constrain()
            self._tighten()
            if not self._pending:
                return
            rounds += 1
            self._run_ahead(rounds)
            self._settle(progress)

    def _settle(self, progress: Progress | None) -> None:
        while self._pending:
            level = min(self._pending)
            self._split(level, self.backend.xp.concatenate(self._pending.pop(level)))
            if progress:
                progress(level, sum(own.cells.count for own in self.levels))

    def _plant(self) -> None:
        """The root: one cell, its eight corners."""
        backend, points, root = self.backend, self.points, self.levels[0]
        corner = np.array([[c & 1, c >> 1 & 1, c >> 2] for c in range(8)])
        points.extend(8)
        points.key[:] = backend.from_host(
            np.array([sum(int(b) << (3 * LATTICE_BITS + k) for k, b in enumerate(c)) for c in corner], np.uint64)
        )
        self._measure(0, backend.from_host(corner, np.float32), None)
        root.cells.extend(1)
        root.families.extend(1)
        root.families.parent[:], root.families.key[:] = NONE, 0
        self._consider(0, 0)

    def _consider(self, level: int, first: int) -> None:
        """Finds out which of the new cells, from number `first` on, wish to be split."""
        if level == self.depth:
            return
        opened = self._screened(level, first)
        self._open(level, opened)
        more = self._peeked(level, first)
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
        return round(sum(own.cells.count / share for own, share in zip(self.levels, self.share, strict=False)))

    def _need(self, points: int, cells: int = 0, rows: int = 0) -> None:
        """Makes sure that there is room for more. Raises OutOfMemoryError otherwise, before memory runs out."""
        more = POINT_BYTES * points + CELL_BYTES * cells + ROW_BYTES * rows + NEW_BYTES * min(points, 19 * PIECE)
        more += END_BYTES * self.points.count
        if self.most_memory is not None and self.backend.memory_used() + more > self.most_memory:
            levels = sum(own.cells.count > 0 for own in self.levels) - 1
            raise OutOfMemoryError(
                f"the octree does not fit into {self.most_memory / 1e9:.3g} GB: {self.points.count:,} points at level "
                f"{levels} of {self.depth}; try a larger --tolerance, a smaller --depth, or more --max-memory"
            )

    def _place(self, level: int) -> dict[str, Any]:
        """What tells where cells lie, and which points are their corners."""
        own, above = self.levels[level], self.levels[level - 1] if level else None
        return {
            **self._corners(level),
            "level": level,
            "key": own.families.key,
            "row": own.cells.row,
            "state": own.cells.state,
            "points": own.rows.points,
            "above_child": above and above.rows.child,
            "above_neighbour": above and above.rows.neighbour,
        }

    def _corners(self, level: int) -> dict[str, Any]:
        """What tells which points are the corners of cells."""
        above = self.levels[level - 1] if level else None
        return {
            "parent": self.levels[level].families.parent,
            "above_row": above and above.cells.row,
            "above_points": above and above.rows.points,
        }

    def _field(self) -> dict[str, Any]:
        """What is known of the points, and what is asked of them."""
        return {
            "distance": self.points.signed,
            "gradient": self.points.gradient,
            "slot": self.points.slot,
            "triangles": len(self.bvh.order),
            "triangle_key": self.bvh.order.keys,
            "triangle": self.bvh.order.triangle,
            "tolerance": self.tolerance,
            "band": self.band,
            "jump_edge": JUMP_EDGE * self.tolerance,
        }

    def _ask(self, kernel: str, level: int, n: int, **values: Any) -> Array:
        """What a kernel answers for each of n cells."""
        wish = self.backend.xp.empty(n, np.uint8)
        self.backend.run(f"sdf_octree_{kernel}", n, wish=wish, **self._place(level), **{**self._field(), **values})
        return wish

    def _screened(self, level: int, first: int) -> Array:
        """The new cells that are to be opened, judged by their corners, and where these leave doubt by their centre."""
        backend, xp = self.backend, self.backend.xp
        wish = self._ask("screen", level, self.levels[level].cells.count - first, first=first)
        probed = xp.flatnonzero(wish == PROBE).astype(np.uint32) + np.uint32(first)
        self.queries += len(probed)
        for start in range(0, len(probed), PIECE):
            cells = probed[start : start + PIECE]
            position, seed = xp.empty((len(cells), 3), np.float32), xp.empty((len(cells), 8), np.uint32)
            shared = {**self._place(level), **self._field(), "cells": cells}
            backend.run("sdf_octree_probe", len(cells), position=position, seed=seed, **shared)
            with self.stages("query", backend):
                distance, _ = self.find(position, seed)
            backend.run("sdf_octree_probed", len(cells), first=first, centre=distance, wish=wish, **shared)
        return xp.flatnonzero(wish == OPEN).astype(np.uint32) + np.uint32(first)

    def _peeked(self, level: int, first: int) -> Array:
        """The new cells that are to be opened, judged by what opened neighbours know."""
        wish = self._ask("peek", level, self.levels[level].cells.count - first, first=first)
        return self.backend.xp.flatnonzero(wish).astype(np.uint32) + np.uint32(first)

    def _tested(self, level: int, cells: Array) -> Array:
        """The opened cells that are to be split."""
        own = self.levels[level]
        wish = self._ask("test", level, len(cells), rows=own.cells.row[cells], cell=own.rows.cell)
        own.cells.state[cells[wish == 2]] = JUMP
        return cells[wish == 1]

    def _open(self, level: int, cells: Array) -> None:
        """Gives cells their 27 points, and measures the new ones among these.

        In pieces, which bound what is needed for a while; each point is measured by itself, so they change nothing.
        """
        backend, xp, own, count = self.backend, self.backend.xp, self.levels[level], len(cells)
        if count == 0:
            return
        self._need(0, 0, count)
        first = own.rows.extend(count)
        own.rows.cell[first:] = cells
        own.cells.row[cells] = xp.arange(first, own.rows.count, dtype=np.uint32)
        own.cells.state[cells] = OPENING
        mask, lent, last = (xp.empty(count, np.uint32) for _ in range(3))
        place = self._place(level)
        backend.run(
            "sdf_octree_own",
            count,
            first=first,
            cells=cells,
            neighbour=own.rows.neighbour,
            mask=mask,
            lent=lent,
            count=last,
            **place,
        )
        backend.inclusive_scan(last)
        ends = [*range(PIECE, count, PIECE), count]
        point_ends = backend.to_host(last[xp.asarray(ends) - 1]).tolist()
        self._need(point_ends[-1])
        first_point = self.points.extend(point_ends[-1])
        for start, end, before, after in zip([0, *ends], ends, [0, *point_ends], point_ends, strict=False):
            position, seed = xp.empty((after - before, 3), np.float32), xp.empty((after - before, 8), np.uint32)
            row = xp.empty(after - before, np.uint32)
            backend.run(
                "sdf_octree_points",
                end - start,
                first=first,
                piece=start,
                first_point=first_point,
                piece_point=first_point + before,
                cells=cells,
                mask=mask,
                lent=lent,
                last=last,
                slot=self.points.slot,
                point_key=self.points.key,
                point_row=row,
                position=position,
                seed=seed,
                **place,
            )
            self._measure(first_point + before, position, seed, level, row)
        own.cells.state[cells] = OPENED

    def _measure(
        self, first: int, position: Array, seed: Array | None, level: int = 0, row: Array | None = None
    ) -> None:
        """Exact signed distances of the points from number `first` on, at positions (m, 3). row: (m,), their cells'."""
        backend, points, part = self.backend, self.points, slice(first, first + len(position))
        self.queries += len(position)
        with self.stages("query", backend):
            distance, points.slot[part] = self.find(position, seed)
        slot = points.slot[part]
        normals = self.signer.normals if isinstance(self.signer, PseudonormalSigner) else None
        with self.stages("sign", backend):
            if isinstance(self.signer, WindingSigner):
                inside = self._winding_signs(self.signer, first, position, distance, level, row)
            else:
                inside = None if normals is not None else self.signer.inside(position, slot).view(np.uint8)
        backend.run(
            "sdf_octree_measured",
            len(position),
            position=position,
            slot=slot,
            distance=distance,
            inside=inside,
            normals=normals,
            triangle=self.bvh.order.triangle,
            signed_distance=points.signed[part],
            gradient=points.gradient[part],
        )

    def _winding_signs(
        self, signer: WindingSigner, first: int, position: Array, distance: Array, level: int, row: Array | None
    ) -> Array:
        """Signs handed on from points of the same cell where that is safe, winding numbers for the rest."""
        backend, xp, points = self.backend, self.backend.xp, self.points
        part = slice(first, first + len(position))
        known, unknown = xp.full(len(position), 2, np.uint8), xp.arange(len(position), dtype=np.uint32)
        for _ in range(INHERIT_PASSES if row is not None else 0):
            inside, clear = xp.empty(len(unknown), np.uint8), xp.empty(len(unknown), np.float32)
            backend.run(
                "sdf_sign_inherit",
                len(unknown),
                first=first,
                measured=len(position),
                which=unknown,
                point_row=row,
                points=self.levels[level].rows.points,
                step=0.5 ** (level + 1),
                signed_distance=points.signed,
                distance=distance,
                inside=known,
                clear=points.clear if self._has_caps else None,
                guard=signer.guard,
                new_inside=inside,
                new_clear=clear,
            )
            # Only now: within a pass, nobody may see what another point of the same pass has found.
            known[unknown] = inside
            if self._has_caps:
                points.clear[part][unknown] = clear
            unknown = unknown[inside == 2]
        position = position[unknown]
        known[unknown] = signer.inside(position, points.slot[part][unknown])
        if self._has_caps:
            points.clear[part][unknown] = signer.clear(position)
        return known

    def _split(self, level: int, cells: Array) -> None:
        """Gives cells their children. Where a neighbour is coarser than a cell, it is split first (2:1 balance)."""
        backend, xp, own, below = self.backend, self.backend.xp, self.levels[level], self.levels[level + 1]
        cells = cells[own.cells.state[cells] != SPLIT]
        if len(cells) == 0:
            return
        self._open(level, cells[own.cells.state[cells] == CLOSED])
        rows = own.cells.row[cells]
        if level > 0 and self.sample is None:
            at, direction = xp.nonzero(own.rows.neighbour[rows] == NONE)
            if len(at):
                cell = cells[at]
                above = self.levels[level - 1]
                towards = backend.from_host(PARENT_DIRECTION)[cell & 7, direction]
                coarse = xp.zeros(above.cells.count, bool)
                coarse[above.rows.neighbour[above.cells.row[own.families.parent[cell >> 3]], towards]] = True
                self._split(level - 1, xp.flatnonzero(coarse).astype(np.uint32))
        self._need(0, 8 * len(cells))
        own.cells.state[cells] = SPLIT
        first = below.families.extend(len(cells))
        below.cells.extend(8 * len(cells))
        own.rows.child[rows] = xp.arange(first, below.families.count, dtype=np.uint32)
        backend.run(
            "sdf_octree_children",
            len(cells),
            first=first,
            cells=cells,
            key=own.families.key,
            row=own.cells.row,
            child=own.rows.child,
            neighbour=own.rows.neighbour,
            meets_finer=own.cells.meets_finer,
            below_parent=below.families.parent,
            below_key=below.families.key,
            below_row=below.cells.row,
            below_neighbour=below.rows.neighbour,
        )
        self._consider(level + 1, 8 * first)

    def _leaves(self, level: int) -> Array:
        return self.backend.xp.flatnonzero(self.levels[level].cells.state != SPLIT).astype(np.uint32)

    def _constrain(self) -> None:
        """The field's values: hanging corners take their coarser neighbour's interpolation, coarse levels first."""
        xp = self.backend.xp
        self.value, self.hanging = self.points.signed.copy(), xp.zeros(self.points.count, np.uint8)
        for level, own in enumerate(self.levels[:-1]):
            cells = own.cells
            leaves = xp.flatnonzero((cells.state != SPLIT) & (cells.meets_finer == 1)).astype(np.uint32)
            self.backend.run(
                "sdf_octree_constrain",
                len(leaves),
                cells=leaves,
                value=self.value,
                hanging=self.hanging,
                **self._place(level),
            )

    def _tighten(self) -> None:
        """Asks for splits of the leaves that move their finer neighbours' corners too far."""
        xp = self.backend.xp
        for level in range(1, self.depth + 1):
            leaves, above = self._leaves(level), self.levels[level - 1]
            wish = xp.zeros(above.cells.count, np.uint8)
            self.backend.run(
                "sdf_octree_tighten",
                len(leaves),
                cells=leaves,
                value=self.value,
                hanging=self.hanging,
                above_state=above.cells.state,
                above_wish=wish,
                **self._place(level),
                **self._field(),
            )
            asked_for = xp.flatnonzero(wish).astype(np.uint32)
            if len(asked_for):
                self._pending[level - 1] = [asked_for]

    def _run_ahead(self, rounds: int) -> None:
        """Adds leaves to those that are to be split for the sake of hanging corners.

        Where many leaves only just meet the tolerance, each split asks for the next one beside it, and a wave goes over
        them, a leaf a round. After some rounds it is met: each time twice as far away as the time before.
        """
        xp = self.backend.xp
        if rounds <= PATIENCE:
            return
        steps = 2 ** (rounds - PATIENCE - 1)
        for level, (asked_for,) in self._pending.items():
            own, front = self.levels[level], asked_for
            self._open(level, front[own.cells.state[front] == CLOSED])
            chosen = xp.zeros(own.cells.count, bool)
            chosen[front] = True
            for _ in range(min(steps, FARTHEST)):
                around = xp.unique(own.rows.neighbour[own.cells.row[front]])
                around = around[around < OUTSIDE]
                around = around[(own.cells.state[around] == OPENED) & ~chosen[around]]
                rows = own.cells.row[around]
                marginal = MARGINAL * self.tolerance
                wish = self._ask("test", level, len(rows), rows=rows, cell=own.rows.cell, tolerance=marginal)
                front = around[wish == 1]
                if len(front) == 0:
                    break
                chosen[front] = True
            self._pending[level] = [xp.flatnonzero(chosen).astype(np.uint32)]

    @property
    def jump_leaves(self) -> int:
        """How many leaves were left coarse because the sign jumps in them."""
        return sum(int((own.cells.state == JUMP).sum()) for own in self.levels)

    @property
    def nbytes(self) -> int:
        """What the tree takes while it grows."""
        grown = self.points.nbytes + sum(own.nbytes for own in self.levels)
        return grown + int(self.value.nbytes) + int(self.hanging.nbytes)

    def assemble(self, length: float = 1.0, step: float | None = None) -> dict[str, Array]:
        """The arrays of a Field whose domain has an edge of this length; leaf_corner (n, 8): places among the corners.

        step: distances are rounded to such steps, as in corners.py; steps (m,) int32 then is what is stored of them.
        What only growing needs is freed first.
        """
        backend, xp, points = self.backend, self.backend.xp, self.points
        points.drop("signed", "gradient")
        levels = [own for own in self.levels if own.cells.count]
        for own in levels:
            own.rows.drop("neighbour", "child", "cell")
        value, steps = self._rounded((self.value * length).astype(np.float32), levels, step)
        leaves = [self._leaves(level) for level in range(len(levels))]
        used = xp.zeros(points.count, np.uint8)
        for level, cells in enumerate(leaves):
            backend.run("sdf_octree_used", len(cells), cells=cells, used=used, **self._corners(level))
        corner = xp.flatnonzero(used)
        corner = corner[xp.argsort(points.key[corner])]
        place = xp.empty(points.count, np.uint32)
        place[corner] = xp.arange(len(corner), dtype=np.uint32)
        ranks = self._ranks(levels)
        count = sum(len(cells) for cells in leaves)
        leaf_key, leaf_level = xp.empty(count, np.uint64), xp.empty(count, np.uint8)
        leaf_corner = xp.empty((count, 8), np.uint32)
        for level, (own, cells, rank) in enumerate(zip(levels, leaves, ranks, strict=True)):
            to, octant = rank[cells], cells & np.uint32(7)
            key = own.families.key[cells >> np.uint32(3)] << np.uint64(3) | octant.astype(np.uint64)
            leaf_key[to], leaf_level[to] = key << np.uint64(3 * (LATTICE_BITS - level)), level
            backend.run(
                "sdf_octree_corners",
                len(cells),
                cells=cells,
                place=place,
                rank=rank,
                leaf_corner=leaf_corner,
                **self._corners(level),
            )
        key = points.key[corner]
        arrays = {
            "leaf_key": leaf_key,
            "leaf_level": leaf_level,
            "corner_key": key,
            "distance": value[corner],
            "nearest": self.bvh.order.triangle_id[points.slot[corner]],
            "leaf_corner": leaf_corner,
        }
        if steps is not None:
            arrays["steps"] = steps[corner[corner_order(backend, key).order]]
        return arrays

    def _rounded(self, value: Array, levels: list[Level], step: float | None) -> tuple[Array, Array | None]:
        """The points' values as whole numbers of steps from what coarser points foretell, and these numbers."""
        backend, xp = self.backend, self.backend.xp
        if step is None:
            return value, None
        rounded, steps, root = value.copy(), xp.zeros(len(value), np.int32), xp.arange(8, dtype=np.uint32)
        backend.run(
            "sdf_corner_quantise",
            8,
            corners=8,
            level=0,
            corner=root,
            corner_key=self.points.key,
            hanging=self.hanging,
            step=step,
            value=rounded,
            residual=steps,
        )
        for own in levels:
            backend.run(
                "sdf_octree_round",
                own.rows.count,
                points=own.rows.points,
                value=value,
                hanging=self.hanging,
                step=step,
                rounded=rounded,
                steps=steps,
            )
        return rounded, steps

    def _ranks(self, levels: list[Level]) -> list[Array]:
        """For each cell, by level, how many leaves come before it along the Morton curve."""
        xp = self.backend.xp
        held = [xp.ones(own.cells.count, np.uint32) for own in levels]  # leaves in each cell
        for level in reversed(range(1, len(levels))):
            held[level - 1][levels[level].families.parent] = held[level].reshape(-1, 8).sum(axis=1, dtype=np.uint32)
        ranks = [xp.zeros(1, np.uint32)]
        for own, count in zip(levels[1:], held[1:], strict=True):
            within = xp.cumsum(count.reshape(-1, 8), axis=1, dtype=np.uint32) - count.reshape(-1, 8)
            ranks.append((within + ranks[-1][own.families.parent][:, None]).ravel())
        return ranks
