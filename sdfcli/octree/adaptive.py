"""(c) The adaptive octree, grown level by level, with exact signed distances at its points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.errors import OutOfMemoryError
from sdfcli.octree.cells import root_keys, root_positions
from sdfcli.octree.corners import LEAST_STEP, corner_order
from sdfcli.octree.grown import Grown, Limits, Progress
from sdfcli.octree.sheets import NO_SHEETS, affordable
from sdfcli.params import SHEET_CELL
from sdfcli.scene import Scene
from sdfcli.sign.propagate import KnownSigns
from sdfcli.spatial.morton import LATTICE_BITS
from sdfcli.spatial.radix_tree import NONE

OUTSIDE = 0xFFFFFFFE
CLOSED, OPENING, OPENED, JUMP, SPLIT = range(5)
"""The states of a cell: JUMP is that of a leaf in which the sign jumps."""
OPEN, PROBE = 1, 2
"""What the first look says of cells that may not stay leaves."""
SPLIT_NOW, OPEN_FIRST, COARSE = 1, 2, 3
"""What is to be done with cells that are to be split, see sdf_octree_balance."""
FOR_SHEET = 2
"""Of a cell that is asked to be split: the tolerance alone would not ask for it."""
SAFETY = 0.8
"""The tests' share of the tolerance. The rest is for what 27 samples of a cell do not see, and for hanging corners."""
LARGE = 1 << 23
"""Bytes of an array from which on it grows after what smaller ones have left behind went back to the driver."""
PIECE = 1 << 15
"""Cells whose points are made at a time."""

POINT_BYTES, ROW_BYTES, CELL_BYTES = 63, 370, 64
"""What a new point, an opened cell and a new cell need at most, with spare room and copies while arrays grow."""
END_BYTES = 53
"""What each point needs in the end: the field's own arrays, and what its error is measured with."""
NEW_BYTES = 72
"""What a new point of a piece needs for a while only: its position, what its query starts from, and the answers."""

JUMP_EDGE = 4.0
"""Cells are split down to this many tolerances where the sign jumps at the hole of an open surface."""

STEP_OF_SHEET, MOST_PARTS = 1 / 24, 128
"""Around sheets distances are rounded to such a part of the thickness, or to so many parts of a step."""

PATIENCE, FARTHEST, MARGINAL = 8, 64, 0.8
"""Rounds of splits for hanging corners before a wave of them is met; how far away, in leaves, at most; and from which
part of the tolerance on a leaf counts as one that only just meets it."""

Split = Callable[[int, int], None]
"""Called with the level that was split and the number of leaves so far."""


class Columns:
    """Equally long arrays that grow together. Each is an attribute, cut to the current length.

    A column is (dtype, shape of an entry). Whoever adds entries fills them in.
    """

    def __init__(self, backend: Backend, **columns: tuple[type, tuple[int, ...]]) -> None:
        self._xp, self._trim, self._memory = backend.xp, backend.trim, backend.memory
        self._room = {name: self._xp.empty((64, *shape), dtype) for name, (dtype, shape) in columns.items()}
        self._cut: dict[str, Array] = {}
        self.count = 0

    def __getattr__(self, name: str) -> Array:
        if name not in self._cut:
            self._cut[name] = self._room[name][: self.count]
        return self._cut[name]

    @property
    def nbytes(self) -> int:
        """What the columns' room takes, where memory is taken once it is touched."""
        taken = slice(None if self._memory.scarce else self.count)
        return sum(int(room[taken].nbytes) for room in self._room.values())

    def drop(self, *names: str) -> None:
        """Frees columns, those of them that there are."""
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
                    self._trim()
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
        self.cells = Columns(
            backend, row=(np.uint32, ()), state=(np.uint8, ()), asked=(np.uint8, ()), meets_finer=(np.uint8, ())
        )
        self.families = Columns(backend, parent=(np.uint32, ()), key=(np.uint64, ()))
        self.rows = Columns(
            backend,
            cell=(np.uint32, ()),
            child=(np.uint32, ()),
            around=(np.uint32, (8,)),
            points=(np.uint32, (27,)),
        )

    @property
    def nbytes(self) -> int:
        """What the level takes."""
        return self.cells.nbytes + self.families.nbytes + self.rows.nbytes


class Octree:
    """Cells by level, and the points at their corners and those of their children.

    points: signed distance, nearest slot, and the gradient, which a GPU works out each time.
    value and hanging, of every point, are there once the tree is grown.
    """

    def __init__(self, scene: Scene, limits: Limits, sample: int | None = None) -> None:
        """sample: of so many cells a level at most the children are looked at, and nothing is balanced:
        `estimated_cells` is then a guess of the whole tree's size."""
        backend, depth = scene.backend, limits.depth
        self.backend, self.order, self.signer, self.stages = backend, scene.order, scene.signer, scene.stages
        self.most_memory, self.sample, self.share = limits.most_memory, sample, [1.0]
        thin = limits.thin if scene.signed else 0.0
        self.depth, self.tolerance, self.band = depth, SAFETY * limits.tolerance, limits.band
        self.thin, self.thin_depth = thin or NO_SHEETS, max(depth, limits.thin_depth) if thin else depth
        self.find, self.seeds = scene.nearest, max(1, scene.index.seeds)
        self.levels = [Level(backend) for _ in range(self.thin_depth + 1)]
        self.queries = 0
        self.points = Columns(
            backend,
            signed=(np.float32, ()),
            slot=(np.uint32, ()),
            **({} if backend.memory.scarce else {"gradient": (np.float32, (3,))}),
            **({"clear": (np.float32, ())} if self.signer.caps else {}),
        )
        self.value: Array = None
        self.hanging: Array = None
        self.step: float | None = None
        self.parts = 1
        self._pending: set[int] = set()  # levels that may have cells to be split

    def grow(self, progress: Split | None = None) -> None:
        """Splits cells until none wishes to be split."""
        self._plant()
        self._settle(progress)
        rounds = 0
        while self.sample is None:
            self._constrain()
            self._tighten()
            if not self._pending:
                return
            self.value = self.hanging = None
            rounds += 1
            self._run_ahead(rounds)
            self._settle(progress)

    def _settle(self, progress: Split | None) -> None:
        while self._pending:
            level = min(self._pending)
            self._pending.remove(level)
            if self._split(level) and progress:
                progress(level, sum(own.cells.count for own in self.levels))

    def _plant(self) -> None:
        """The root: one cell, its eight corners."""
        backend, root = self.backend, self.levels[0]
        self.points.extend(8)
        position = root_positions(backend)
        if self.signer.caps:
            self.points.clear[:] = self.signer.caps.room(position)
        self._measure(0, position, None)
        root.cells.extend(1)
        root.cells.row[:], root.cells.state[:], root.cells.asked[:], root.cells.meets_finer[:] = NONE, CLOSED, 0, 0
        root.families.extend(1)
        root.families.parent[:], root.families.key[:] = NONE, 0
        self._consider(0, 0)

    def _consider(self, level: int, first: int) -> None:
        """Finds out which of the new cells, from number `first` on, wish to be split."""
        if level == self.thin_depth:
            return
        if level == self.depth and first == 0:
            self.thin = self._affordable()
        rows = self.levels[level].rows
        row = rows.count
        self._open(level, self._screened(level, first))
        if level < self.depth:
            self._open(level, self._peeked(level, first))
        if rows.count > row:
            cells = self.levels[level].cells
            self._test(level, rows.count - row, asked=cells.asked, state=cells.state, first=row)
            self._pending.add(level)

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
                f"{levels} of {self.thin_depth}; try a larger --tolerance, a smaller --depth, or more --max-memory"
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
            "above_around": above and above.rows.around,
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
            "gradient": None if self.backend.memory.scarce else self.points.gradient,
            "slot": self.points.slot,
            "triangles": len(self.order),
            "triangle_key": self.order.keys,
            "triangle": self.order.triangle,
            "tolerance": self.tolerance,
            "band": self.band,
            "jump_edge": JUMP_EDGE * self.tolerance,
            "thin_least": self.thin,
        }

    def _affordable(self) -> float:
        """The thickness of the sheets that are kept, as the first cells of the finest level for the tolerance tell."""
        cells = self.levels[self.depth].cells.count
        width = self.backend.xp.empty(cells, np.float32)
        self.backend.run("sdf_octree_sheets", cells, first=0, width=width, **self._place(self.depth), **self._field())
        found = self.backend.to_host(width[width < NO_SHEETS])
        return affordable(found, 0.5**self.depth, self.thin, self.share[-1])

    def _ask(self, kernel: str, level: int, n: int, **values: Any) -> Array:
        """What a kernel answers for each of n cells."""
        wish = self.backend.xp.empty(n, np.uint8)
        self.backend.run(f"sdf_octree_{kernel}", n, wish=wish, **self._place(level), **{**self._field(), **values})
        return wish

    def _screened(self, level: int, first: int) -> Array:
        """The new cells that are to be opened, judged by their corners, and where these leave doubt by their centre."""
        backend, xp = self.backend, self.backend.xp
        count, thin_only = self.levels[level].cells.count - first, int(level >= self.depth)
        wish = self._ask("screen", level, count, first=first, thin_only=thin_only)
        opened, probed = backend.compact(wish, PROBE, first)
        if len(probed) == 0:
            return opened
        self.queries += len(probed)
        for start in range(0, len(probed), PIECE):
            cells = probed[start : start + PIECE]
            position, seed = xp.empty((len(cells), 3), np.float32), xp.empty((len(cells), self.seeds), np.uint32)
            shared = {**self._place(level), **self._field(), "cells": cells}
            backend.run("sdf_octree_probe", len(cells), position=position, seeds=self.seeds, seed=seed, **shared)
            with self.stages("query", backend):
                distance, _ = self.find(position, seed)
            backend.run("sdf_octree_probed", len(cells), first=first, centre=distance, wish=wish, **shared)
        return backend.compact(wish, first=first)[0]

    def _peeked(self, level: int, first: int) -> Array:
        """The new cells that are to be opened, judged by what opened neighbours know."""
        wish = self._ask("peek", level, self.levels[level].cells.count - first, first=first)
        return self.backend.compact(wish, first=first)[0]

    def _test(self, level: int, count: int, **values: Any) -> None:
        """Asks for splits of opened cells: `rows`, or those from row `first` on. See sdf_octree_test."""
        shared = {"cell": self.levels[level].rows.cell, "first": 0, "rows": None, **self._field()}
        shared["thin_only"] = int(level >= self.depth)
        self.backend.run("sdf_octree_test", count, **{**self._place(level), **shared, **values})

    def _open(self, level: int, cells: Array) -> None:
        """Gives cells their 27 points, and measures the new ones among these.

        In pieces, which bound what is needed for a while; each point is measured by itself, so they change nothing.
        """
        backend, xp, own, count = self.backend, self.backend.xp, self.levels[level], len(cells)
        if count == 0:
            return
        self._need(0, 0, count)
        first = own.rows.extend(count)
        opening = {"row": own.cells.row, "state": own.cells.state, "cell": own.rows.cell, "child": own.rows.child}
        backend.run("sdf_octree_opening", count, first=first, cells=cells, **opening)
        mask, lent, last = (xp.empty(count, np.uint32) for _ in range(3))
        place = self._place(level)
        backend.run(
            "sdf_octree_own",
            count,
            first=first,
            cells=cells,
            around=own.rows.around,
            mask=mask,
            lent=lent,
            count=last,
            **place,
        )
        backend.inclusive_scan(last)
        ends = [*range(PIECE, count, PIECE), count]
        at_ends = last[-1:] if len(ends) == 1 else last[xp.asarray(ends) - 1]
        point_ends = backend.to_host(at_ends).tolist()
        self._need(point_ends[-1])
        first_point = self.points.extend(point_ends[-1])
        for start, end, before, after in zip([0, *ends], ends, [0, *point_ends], point_ends, strict=False):
            m = after - before
            position, seed = xp.empty((m, 3), np.float32), xp.empty((m, self.seeds), np.uint32)
            row = xp.empty(m, np.uint32)
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
                point_row=row,
                position=position,
                seeds=self.seeds,
                seed=seed,
                **place,
            )
            self._measure(first_point + before, position, seed, level, row)

    def _measure(
        self, first: int, position: Array, seed: Array | None, level: int = 0, row: Array | None = None
    ) -> None:
        """Exact signed distances of the points from number `first` on, at positions (m, 3). row: (m,), their cells'."""
        backend, points, part = self.backend, self.points, slice(first, first + len(position))
        self.queries += len(position)
        with self.stages("query", backend):
            distance, slot = self.find(position, seed)
        known = None
        if row is not None:
            rows, clear = self.levels[level].rows.points, points.clear if self.signer.caps else None
            known = KnownSigns(first, row, rows, 0.5 ** (level + 1), points.signed, clear)
        with self.stages("sign", backend):
            signs = self.signer.sign(position, distance, slot, known)
        backend.run(
            "sdf_octree_measured",
            len(position),
            position=position,
            slot=slot,
            distance=distance,
            **signs._asdict(),
            triangle=self.order.triangle,
            nearest=points.slot[part],
            signed_distance=points.signed[part],
            gradient=None if backend.memory.scarce else points.gradient[part],
        )

    def _split(self, level: int) -> bool:
        """Gives the cells that are asked for their children; returns whether there are any. Where a neighbour is
        coarser than a cell, it is split first (2:1 balance)."""
        backend, xp, own, below = self.backend, self.backend.xp, self.levels[level], self.levels[level + 1]
        balanced = level > 0 and self.sample is None
        above = self.levels[level - 1].cells if balanced else None
        flag = xp.zeros(own.cells.count + 1, np.uint8)
        backend.run(
            "sdf_octree_balance",
            own.cells.count,
            asked=own.cells.asked,
            above_state=above and above.state,
            above_asked=above and above.asked,
            flag=flag,
            **self._place(level),
        )
        cells, closed, coarse = backend.compact(flag, COARSE)
        self._open(level, closed)
        if len(coarse):
            self._split(level - 1)
        if len(closed):
            cells = xp.concatenate([cells, closed])
        if self.sample is not None:
            step = max(1, -(-len(cells) // self.sample))
            self.share.append(self.share[level] / step)
            cells = xp.ascontiguousarray(cells[::step])
        if len(cells) == 0:
            return False
        self._need(0, 8 * len(cells))
        first = below.families.extend(len(cells))
        below.cells.extend(8 * len(cells))
        backend.run(
            "sdf_octree_children",
            len(cells),
            first=first,
            cells=cells,
            key=own.families.key,
            row=own.cells.row,
            around=own.rows.around,
            state=own.cells.state,
            child=own.rows.child,
            meets_finer=own.cells.meets_finer,
            below_parent=below.families.parent,
            below_key=below.families.key,
            below_row=below.cells.row,
            below_state=below.cells.state,
            below_asked=below.cells.asked,
            below_meets_finer=below.cells.meets_finer,
            below_around=below.rows.around,
        )
        self._consider(level + 1, 8 * first)
        return True

    def _constrain(self) -> None:
        """The field's values: hanging corners take their coarser neighbour's interpolation, coarse levels first."""
        xp = self.backend.xp
        self.value, self.hanging = self.points.signed.copy(), xp.zeros(self.points.count, np.uint8)
        for level, own in enumerate(self.levels[:-1]):
            self.backend.run(
                "sdf_octree_constrain",
                own.cells.count,
                meets_finer=own.cells.meets_finer,
                value=self.value,
                hanging=self.hanging,
                **self._place(level),
            )

    def _tighten(self) -> None:
        """Asks for splits of the leaves that move their finer neighbours' corners too far."""
        any_asked = self.backend.xp.zeros(self.thin_depth, np.uint8)
        for level in range(1, self.thin_depth + 1):
            above = self.levels[level - 1].cells
            self.backend.run(
                "sdf_octree_tighten",
                self.levels[level].cells.count,
                value=self.value,
                hanging=self.hanging,
                above_state=above.state,
                above_asked=above.asked,
                any=any_asked[level - 1 :],
                **self._place(level),
                **self._field(),
            )
        self._pending.update(np.flatnonzero(self.backend.to_host(any_asked)).tolist())

    def _run_ahead(self, rounds: int) -> None:
        """Adds leaves to those that are to be split for the sake of hanging corners.

        Where many leaves only just meet the tolerance, each split asks for the next one beside it, and a wave goes over
        them, a leaf a round. After some rounds it is met: each time twice as far away as the time before.
        """
        xp = self.backend.xp
        if rounds <= PATIENCE:
            return
        steps = 2 ** (rounds - PATIENCE - 1)
        for level in self._pending:
            own = self.levels[level]
            asked = (own.cells.asked == 1) & (own.cells.state != SPLIT)
            front = xp.flatnonzero(asked).astype(np.uint32)
            self._open(level, front[own.cells.state[front] == CLOSED])
            for _ in range(min(steps, FARTHEST)):
                around = xp.unique(self.neighbours(level, front))
                around = around[around < OUTSIDE]
                around = around[(own.cells.state[around] == OPENED) & ~asked[around]]
                wish = xp.zeros(own.cells.count, np.uint8)
                rows, marginal = own.cells.row[around], MARGINAL * self.tolerance
                self._test(level, len(rows), rows=rows, asked=wish, state=None, tolerance=marginal)
                front = self.backend.compact(wish)[0]
                if len(front) == 0:
                    break
                asked[front] = True
            own.cells.asked[asked] = 1

    def point_keys(self) -> Array:
        """The points' keys (m,) uint64 on the lattice of 2^20."""
        key = self.backend.xp.empty(self.points.count, np.uint64)
        key[:8] = root_keys(self.backend)
        for level, own in enumerate(self.levels):
            rows = {"cell": own.rows.cell, "points": own.rows.points}
            self.backend.run(
                "sdf_octree_keys", own.rows.count, level=level, key=own.families.key, point_key=key, **rows
            )
        return key

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

    @property
    def jump_leaves(self) -> int:
        """How many leaves were left coarse because the sign jumps in them."""
        state = self.backend.xp.concatenate([own.cells.state for own in self.levels])
        return int((state == JUMP).sum())

    @property
    def thinnest_kept(self) -> float | None:
        """The thickness from which on sheets are kept, in edges of the domain; None where they are not looked at."""
        return None if self.thin == NO_SHEETS else max(self.thin, 0.5**self.thin_depth / SHEET_CELL)

    @property
    def sheet_leaves(self) -> int:
        """How many leaves there are more for the sake of sheets, without what balance asks for."""
        split = [(own.cells.asked == FOR_SHEET) & (own.cells.state == SPLIT) for own in self.levels]
        return 7 * sum(int(each.sum()) for each in split)

    @property
    def nbytes(self) -> int:
        """What the tree takes while it grows."""
        grown = self.points.nbytes + sum(own.nbytes for own in self.levels)
        return grown + int(self.value.nbytes) + int(self.hanging.nbytes)

    def assemble(self, length: float = 1.0, step: float | None = None) -> dict[str, Array]:
        """The arrays of a Field whose domain has an edge of this length; leaf_corner (n, 8): places among the corners.

        step: distances are rounded to such steps, as in corners.py; steps (m,) int32 then is what is stored of them, as
        numbers of `self.step`, of which `self.parts` are a step: values around sheets are rounded to parts. What only
        growing needs is freed first.
        """
        backend, xp, points = self.backend, self.backend.xp, self.points
        fine = None if step is None else self._fine_points(step / length)
        self.step = None if step is None else step / self.parts
        points.drop("signed", "gradient", "clear")
        levels = [own for own in self.levels if own.cells.count]
        for own in levels:
            own.rows.drop("around", "child")
        self.value = (self.value * length).astype(np.float32)
        backend.trim()
        used, rank = xp.zeros(points.count, np.uint8), self._ranks(levels)
        count = 1 + sum(own.cells.count - own.families.count for own in levels[1:])
        leaf_key, leaf_level = xp.empty(count, np.uint64), xp.empty(count, np.uint8)
        for level, own in enumerate(levels):
            backend.run(
                "sdf_octree_leaves",
                own.cells.count,
                rank=rank[level],
                leaf_key=leaf_key,
                leaf_level=leaf_level,
                used=used,
                level=level,
                key=own.families.key,
                state=own.cells.state,
                **self._corners(level),
            )
        corner, key = self.in_order(backend.compact(used)[0], len(levels) - 1)
        del used
        value, steps = self._rounded(self.value, levels, step, fine)
        del fine
        self.value = self.hanging = None
        arrays = {
            "leaf_key": leaf_key,
            "leaf_level": leaf_level,
            "corner_key": key,
            "distance": value[corner],
            "nearest": self.order.triangle_id[points.slot[corner]],
        }
        if steps is not None:
            arrays["steps"] = steps[corner[corner_order(backend, key)[0]]]
        del value, steps
        points.drop("slot")
        backend.trim()
        place = xp.empty(points.count, np.uint32)
        place[corner] = xp.arange(len(corner), dtype=np.uint32)
        del corner
        leaf_corner = xp.empty((count, 8), np.uint32)
        for level, own in enumerate(levels):
            backend.run(
                "sdf_octree_corners",
                own.cells.count,
                state=own.cells.state,
                place=place,
                rank=rank[level],
                leaf_corner=leaf_corner,
                **self._corners(level),
            )
        return {**arrays, "leaf_corner": leaf_corner}

    def in_order(self, corner: Array, depth: int) -> tuple[Array, Array]:
        """Points (m,) uint32 that are corners of leaves down to level `depth`, sorted by their keys (m,) uint64; and
        these. Where their last bits, all zero, hold a place in the list, they are sorted with it."""
        key, last = self.point_keys()[corner], 1 << 3 * (LATTICE_BITS - depth)
        if len(key) > last:
            return corner[self.backend.sort(key)], key
        key |= self.backend.xp.arange(len(key), dtype=np.uint64)
        key.sort()  # several times as fast as to sort places by keys
        corner = corner[key & np.uint64(last - 1)]
        key &= ~np.uint64(last - 1)
        return corner, key

    def _fine_points(self, step: float) -> Array | None:
        """(m,) uint32: how often a step, in edges of the domain, is halved for each point's value, see
        sdf_octree_sheet_points; `parts` says how often at most. None where no step is."""
        if self.thin == NO_SHEETS:
            return None
        while self.parts < MOST_PARTS and step / self.parts > max(1.01 * STEP_OF_SHEET * self.thin, 2 * LEAST_STEP):
            self.parts *= 2
        backend, fine = self.backend, self.backend.xp.zeros(self.points.count, np.uint32)
        passes: list[tuple[str, dict[str, Any]]] = [
            ("sheet_points", {"step": step, "share": STEP_OF_SHEET, "parts": self.parts}),
            ("beside_sheets", {"on_surface": 0}),
            ("beside_sheets", {"on_surface": 1}),
        ]
        for kernel, values in passes:
            before = fine
            if kernel == "beside_sheets":
                fine = before.copy()
            for level, own in enumerate(self.levels):
                shared = {**self._place(level), **self._field(), **values, "before": before, "fine": fine}
                backend.run(f"sdf_octree_{kernel}", own.cells.count, **shared)
            if not int(fine.max()):
                self.parts = 1
                return None
        return fine

    def _rounded(
        self, value: Array, levels: list[Level], step: float | None, fine: Array | None
    ) -> tuple[Array, Array | None]:
        """The points' values as whole numbers of `self.step` from what coarser points foretell, and these numbers."""
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
            corner_key=root_keys(backend),
            hanging=self.hanging,
            step=self.step,
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
                fine=fine,
                parts=self.parts,
                step=self.step,
                rounded=rounded,
                steps=steps,
            )
        return rounded, steps

    def _ranks(self, levels: list[Level]) -> list[Array]:
        """For each cell, by level, how many leaves come before it along the Morton curve."""
        run, xp = self.backend.run, self.backend.xp
        rank = [xp.ones(own.cells.count, np.uint32) for own in levels]  # first the leaves in each cell
        for level in reversed(range(1, len(levels))):
            families = levels[level].families
            run("sdf_octree_held", families.count, parent=families.parent, held=rank[level], above_held=rank[level - 1])
        rank[0][:] = 0
        for level in range(1, len(levels)):
            families = levels[level].families
            run("sdf_octree_rank", families.count, parent=families.parent, above_rank=rank[level - 1], rank=rank[level])
        return rank


def build(scene: Scene, limits: Limits, progress: Progress | None = None) -> Grown:
    """The octree grown and assembled; see grown.py. Raises OutOfMemoryError where it does not fit."""
    scene.make_room()
    tree = Octree(scene, limits)
    finest = tree.thin_depth
    tree.grow(progress and (lambda level, cells: progress(f"level {level + 1} of {finest}: {cells:,} cells")))
    queries, working_bytes = tree.queries, tree.nbytes
    scene.queries_done()
    arrays = tree.assemble(limits.length, limits.step)
    return Grown(
        arrays,
        queries,
        working_bytes,
        step=tree.step,
        parts=tree.parts,
        jump_leaves=tree.jump_leaves,
        sheet_leaves=tree.sheet_leaves,
        thinnest_kept=tree.thinnest_kept,
    )
