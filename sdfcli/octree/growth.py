"""An octree's growth by kernels/octree/growth.h: runs its launches, and does whatever they need the host for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.backend import ALL_THREADS, Array, C
from sdfcli.backend.arguments import argument_group, argument_structs
from sdfcli.octree.balance import request_leaves, run_ahead, settle
from sdfcli.octree.budget import BYTES_PER_CELL, SAMPLE, Budget, Sample, most_piece
from sdfcli.octree.causes import Cause
from sdfcli.octree.corners import root_positions
from sdfcli.octree.distances import ExactDistances
from sdfcli.octree.grown import Busy, Limits
from sdfcli.octree.levels import CLOSED, OPENED_SHARE, PIECE, Level, Octree
from sdfcli.octree.refine import Criteria
from sdfcli.octree.room import GrowthRoom
from sdfcli.scene import Scene
from sdfcli.spatial.packets import PACKETS_FROM, PacketIndex, asking_about
from sdfcli.spatial.radix_tree import NONE

GRADIENTS, LEAST_BYTES = 1 << 22, 16 * 12
"""Maximum points with stored gradients (12 bytes each) where memory is scarce; minimum bytes of memory per such
point."""
SPARE, MOST_SPARE = 1 << 10, 1 << 15
"""Minimum capacity in cells to split, so that small splits continue without the host; maximum, where memory allows."""
SPARE_BYTES, SPARE_SHARE = 2 * (12 * (8 * 8 + OPENED_SHARE * 148) + OPENED_SHARE * C.OWN_POINTS * 24), 64
"""Bytes per such cell, on twelve levels and in points; together they take at most 1 / SPARE_SHARE of memory, unless at
the minimum."""
WIDE = 16
"""A level's new cells per GPU thread from which the host launches kernels and measures points: more threads then pay
off."""
CROWD = 64
"""Cells per warp from which the host launches kernels that give each cell a warp."""
SINGLE_PER_WARP, WINDINGS_PER_WARP = 16, 8
"""Queries and winding numbers per warp from which separate launches are faster. These follow each launch and check on
the device whether any exist, as the host would react too late."""
WINDINGS_AHEAD = 1
"""Maximum points per two warps for which all winding numbers, needed or not, are computed concurrently with distances,
by otherwise idle threads."""
MOST_WINDING_WARPS = 1 << 13
"""Maximum warps for winding numbers, whose count the host does not know."""
MORE_POINTS = 1.1
"""Reserved points per opened cell, relative to the mean so far."""
AHEAD = 6
"""Levels with capacity, counted from the finest level with cells."""

NEXT_LEVEL, CONSIDER_CELLS, OPEN_CELLS = range(3)
"""Steps at which the host starts; the others are internal to the kernel."""
REQUEST_COUNTERS = "single", "packets", "windings"
"""Entries of the state with the queried point counts, by answering launch."""

LevelProgress = Callable[[int, int], None]
"""Called occasionally with the level being split and the cell count."""
Launch = Callable[[], None]
"""Starts work on the device, or waits for it."""
State = dict[str, int]
"""GrowthState's fields by name."""
Counts = npt.NDArray[np.uint32]
"""(levels, 3): cells, rows, and cells to split."""


class Launches(NamedTuple):
    """Launches: growth; answers to its queries, if kernels answer them; growth again, if there were queries."""

    grow: Launch
    answers: list[Launch]
    after_answers: Launch


@functools.cache
def state_names() -> list[str]:
    """Field names of GrowthState."""
    return [field.name for field in argument_group("GrowthState").fields]


def spare(memory: int | None) -> int:
    """Capacity in cells to split, for an octree limited to `memory` bytes; None: the minimum."""
    affordable: int = (memory or 0) // (SPARE_SHARE * SPARE_BYTES)
    return max(SPARE, min(MOST_SPARE, affordable))


def estimated_bytes(scene: Scene, limits: Limits) -> int:
    """Estimates the octree's bytes from sample cells."""
    growth = Growth(scene, replace(limits, most_memory=None), SAMPLE)
    growth.run()
    return BYTES_PER_CELL * growth.sample.estimated_cells(growth.octree)


class Growth:
    """Grows `octree`: cells are split until all criteria are met.

    sample: maximum cells per level whose children are followed, without balance, to estimate the size; None: all cells.
    """

    def __init__(self, scene: Scene, limits: Limits, sample: int | None = None, busy: Busy = lambda: None) -> None:
        backend, thin, memory = scene.backend, limits.thin if scene.signed else 0.0, limits.most_memory
        self.backend, self.sample, self._busy = backend, Sample(sample), busy
        self.octree = Octree(
            backend,
            depth=max(limits.depth, limits.thin_depth) if thin else limits.depth,
            capped=scene.signer.caps is not None,
            spare=spare(memory),
            gradients=GRADIENTS if memory is None else min(GRADIENTS, memory // LEAST_BYTES),
            most_piece=most_piece(backend, memory),
        )
        self.distances = ExactDistances(scene, self.octree.points)
        self.criteria = Criteria(self.octree, self.distances, limits, thin)
        self._budget = Budget(self.octree, memory, lambda: estimated_bytes(scene, limits))
        self._splits = limits.splits
        self._coarsest = 0  # coarsest level with splits since hanging corners were set
        self._index, self._kernel_tree = scene.index, scene.index.kernel_tree
        self._signs = scene.signer.for_kernels() if self._kernel_tree else None
        kernels_answer = self._kernel_tree is not None
        self._room = GrowthRoom(backend, self.distances.seeds, 8 * self.octree.spare, PIECE, kernels_answer)
        self._levels: tuple[bytes, Array] = b"", None  # the table of levels
        self._answers: list[Launch] | None = None  # None after a new state, or where arrays moved
        self._record = backend.pinned(C.RECORDS * C.RECORD_BYTES, np.uint8).reshape(C.RECORDS, C.RECORD_BYTES)
        self._record[:, 0] = 0

    def run(self, progress: LevelProgress | None = None) -> None:
        """Splits cells until no test requests more; then the leaves of `Limits.splits`, alike."""
        self._plant()
        self._grow(progress, step=CONSIDER_CELLS)
        if not self.sample.whole:
            return
        self._settle(progress)
        for leaves in self._splits:
            self._grow_from(request_leaves(self.octree, leaves, Cause.PROOF), progress)
            self._settle(progress)

    def _settle(self, progress: LevelProgress | None) -> None:
        """Sets the field's values, and splits leaves whose hanging corners need it."""
        rounds = 0
        while requested := settle(self.octree, self.criteria, self._coarsest):
            self._coarsest = len(self.octree.levels)
            rounds += 1
            for level in requested:
                run_ahead(self.octree, self.criteria, level, rounds, self.open)
            self._grow_from(requested, progress)
        self._coarsest = len(self.octree.levels)

    def _grow_from(self, levels: list[int], progress: LevelProgress | None) -> None:
        """Splits the requested cells of levels, and all that tests then request."""
        self._grow(progress, step=NEXT_LEVEL, pending=sum(1 << level for level in levels))

    def open(self, level: int, cells: Array) -> None:
        """Opens cells (k,) uint32: creates and measures their points."""
        if len(cells):
            self._room.reserve({"listed": len(cells)})
            self._room.listed[: len(cells)] = cells
            self._grow(None, step=OPEN_CELLS, at=level, opening=len(cells), then=NEXT_LEVEL)

    def _plant(self) -> None:
        """Creates the root: one cell with eight corners."""
        root = self.octree.levels[0]
        self.octree.points.extend(8)
        self.distances.measure(0, root_positions(self.backend))
        root.cells.extend(1)
        root.families.extend(1)
        cells, families = root.cells, root.families
        for array, value in (
            (cells.row, NONE),
            (cells.state, CLOSED),
            (cells.split_request, 0),
            (families.parent, NONE),
        ):
            self.backend.fill(array, value)
        self.backend.fill(families.key, 0)

    def _grow(self, progress: LevelProgress | None, **start: int) -> None:
        """Launches growth until it is done, and does what it stops for. start: entries of its state."""
        octree, distances = self.octree, self.distances
        state = dict.fromkeys(state_names(), 0) | {"points": octree.points.count, "coarsest": self._coarsest} | start
        counts = np.array([(own.cells.count, own.rows.count, 0) for own in octree.levels], np.uint32)
        on_device, image = self._upload(state, counts)
        ready = self._ready(on_device, image)
        done = self._launched(ready.grow)
        outcome = [state_names().index(name) for name in ("stop", "turn", "wide")]
        turn, wide = state["turn"], state["wide"]
        while True:
            following = None if wide else self._launched(*ready.answers, ready.after_answers)
            self._busy()
            done()
            found = image[1 - turn]
            stop, turn, wide = found[outcome].tolist()
            if stop == C.GROWTH_TO_LAUNCH:  # at once, as the device is idle
                self._launch_recorded()
                done = self._launched(ready.grow)
                continue
            state = dict(zip(state_names(), found.tolist(), strict=False))
            counts = found[len(state) :].reshape(-1, 3)
            self._take_over(state, counts)
            if progress:
                progress(state["level"], sum(octree.cell_counts))
            if stop == C.GROWTH_TO_ANSWER:  # the next launch may be running already
                done = following or self._launched(*ready.answers, ready.after_answers)
                if self._reserve_ahead():
                    ready = self._ready(on_device, image)
                continue
            self._launch_recorded()
            if stop == C.GROWTH_DONE:
                distances.queries += state["queries"]
                self._coarsest = state["coarsest"]
                return
            ahead = wide and stop in (C.GROWTH_TO_MEASURE, C.GROWTH_TO_PROBE)
            if ahead:  # up to its next stop, it only records kernels, which are launched after the measurement
                done = self._launched(ready.grow)
            if stop == C.GROWTH_TO_MEASURE:
                self._measure(state)
            elif stop == C.GROWTH_TO_PROBE:
                position, seed, distance = self._room.leading(state["asking"], "position", "seed", "distance")
                distance[:], _ = distances.nearest(position, seed)
            else:
                del ready  # holds arrays that may be freed here
                if stop == C.GROWTH_NO_ROOM:
                    self._make_room(state)
                elif stop == C.GROWTH_TO_AFFORD:
                    self.criteria.afford_sheets(self.sample.share)
                else:
                    self._select(state, counts)
                    on_device, image = self._upload(state, counts)
                ready = self._ready(on_device, image)
            if not ahead:
                done = self._launched(ready.grow)

    def _upload(self, state: State, counts: Counts) -> tuple[Array, Counts]:
        """The state on the device, and memory (2, entries) for the host's alternating copies of it."""
        state["arrivals"], self._answers = 0, None
        values = np.array([*state.values(), *counts.ravel()], np.uint32)
        return self.backend.from_host(values), self.backend.pinned(2 * len(values), np.uint32).reshape(2, -1)

    def _launched(self, *launches: Launch) -> Launch:
        """Runs the launches; returns a function that waits for them."""
        for launch in launches:
            launch()
        return self.backend.done_so_far()

    def _ready(self, state: Array, image: Counts) -> Launches:
        """Launches, valid until arrays move. image: see `_upload`."""
        self._reserve_ahead()
        octree, points, backend = self.octree, self.octree.points, self.backend
        octree.add_to_points(points.room - points.count)
        given = {
            "levels": len(octree.levels),
            "balanced": int(self.sample.whole),
            "sampled": int(not self.sample.whole),
            "measured": int(self._kernel_tree is None),
            "launched": int(not backend.grids),
            "pieces": PIECE,
            "most_pieces": octree.most_piece,
            "wide": WIDE,
            "crowd": CROWD,
            "single": SINGLE_PER_WARP,
            "most_windings": WINDINGS_PER_WARP,
            "together": PACKETS_FROM,
            "most_ahead": WINDINGS_AHEAD,
            "level": self._table(),
            "state": state,
            "host_state": backend.mapped(image),
            "record": backend.mapped(self._record),
            "most_points": min(points.room, C.NONE),
            "signed_distance": points.whole("signed"),
            "slot": points.whole("slot"),
            "gradient": points.whole("gradient") if points.has("gradient") else None,
            "clear": points.whole("clear") if octree.capped else None,
            "room": self._room.group,
            "tree": self._kernel_tree,
            "signs": self._signs,
            **self.criteria.of_growth,
        }
        grow, after_answers = (
            backend.ready("sdf_octree_grow", ALL_THREADS, **given, after_answers=k) for k in range(2)
        )
        if self._kernel_tree is None:
            return Launches(grow, [], lambda: None)
        if self._answers is None:
            self._answers = self._answering(state)
        return Launches(grow, self._answers, after_answers)

    def _answering(self, state: Array) -> list[Launch]:
        """Launches that answer the growth's queries."""
        assert isinstance(self._index, PacketIndex)
        assert self._signs is not None
        signs, room = self._signs.values, self._room
        single, packets, windings = (state[place : place + 1] for place in map(state_names().index, REQUEST_COUNTERS))
        answers: list[Launch] = asking_about(self.backend, self._index.tree, single, packets, **room.queries())
        if signs["tree"]:
            given = {name: signs[name] for name in ("tree", "caps", "steps", "step", "beta", "lost")}
            given |= {"closed": 0, "many": windings, **room.windings()}
            answers.append(self.backend.ready("sdf_winding_single", C.WARP * MOST_WINDING_WARPS, **given))
        return answers

    def _launch_recorded(self) -> None:
        """Launches the kernels that the device left to the host; see base/steps.h."""
        for record in self._record:
            if record[0]:
                name = record[: C.NAME_BYTES].tobytes().partition(b"\0")[0].decode()
                size = argument_structs()[name].size
                self.backend.run_packed(name, record[C.NAME_BYTES : C.NAME_BYTES + size].tobytes())
                record[0] = 0

    def _measure(self, state: State) -> None:
        """Measures a chunk of new points."""
        count, level = state["asking"], state["at"]
        row, position, seed = self._room.leading(count, "row", "position", "seed")
        first, points = state["points"] - count, self.octree.levels[level].rows.points
        self.distances.measure(first, position, seed, self.distances.known(first, row, points, level))

    def _select(self, state: State, counts: Counts) -> None:
        """Selects, from the cells to split, the ones whose children are followed."""
        level, end = state["level"], state["listed"]
        start = end - int(counts[level, 2])
        chosen = self.sample.of(level, self._room.listed[start:end])
        self._room.listed[start : start + len(chosen)] = chosen
        counts[level, 2], state["listed"], state["sampled"] = len(chosen), start + len(chosen), 1

    def _take_over(self, state: State, counts: Counts) -> None:
        """Sets point, cell and row counts to the kernel's results."""
        self.octree.points.counted(state["points"])
        for own, (cells, rows, _) in zip(self.octree.levels, counts.tolist(), strict=True):
            if cells != own.cells.count:
                own.cells.counted(cells)
                own.families.counted(cells // 8)
            if rows != own.rows.count:
                own.rows.counted(rows)

    def _reserve_ahead(self) -> bool:
        """Reserves capacity on levels that may soon have cells; returns whether any lacked it."""
        levels = self.octree.levels[: self.octree.depth + AHEAD]
        without = [own for own in levels if own.rows.room == 0]
        for own in without:
            self._reserve(own)
        return len(without) > 0

    def _reserve(self, own: Level, cells: int = 0, rows: int = 0) -> None:
        """Reserves capacity on a level for new cells and rows plus spare ones, as moving arrays takes time. Negative:
        unchanged."""
        spare = self.octree.spare
        if cells >= 0:
            own.cells.reserve(cells + 8 * spare)
            own.families.reserve(cells // 8 + spare)
        if rows >= 0:
            own.rows.reserve(rows + OPENED_SHARE * spare)

    def _table(self) -> Array:
        """Table (levels, 12) uint64 of GrowthLevel structs for kernels."""
        table = b"".join(map(self._entry, self.octree.levels))
        if self._levels[0] != table:
            self._levels = table, self.backend.from_host(np.frombuffer(table, np.uint64))
        return self._levels[1]

    def _entry(self, own: Level) -> bytes:
        """A level's table entry, repacked after arrays moved; zeros if it has no capacity."""
        groups = own.cells.groups
        if own.cells.room == 0:
            return bytes(argument_group("GrowthLevel").size)
        if "entry" not in groups:
            most_cells, most_rows = min(own.cells.room, 8 * own.families.room, C.NONE), min(own.rows.room, C.NONE)
            given = {"own": own.args, "most_cells": most_cells, "most_rows": most_rows}
            groups["entry"] = self.backend.group("GrowthLevel", **given)
        return groups["entry"].data

    def _make_room(self, state: State) -> None:
        """Reserves the capacity that the kernel requested."""
        own, points = self.octree.levels[state["at"]], self.octree.points
        cells, rows = state["want_cells"] - own.cells.count, state["want_rows"] - own.rows.count
        more = state["want_points"] - points.count
        wanted = {name: state[f"want_{name}"] for name in self._room.most}
        if rows > 0:  # new rows will have points
            each = MORE_POINTS * points.count / max(1, sum(own.rows.count for own in self.octree.levels))
            more, chunk = int(each * rows), int(each * min(rows, PIECE))
            wanted |= {"queried": chunk, "answered": chunk}
        self._budget.reserve(points=max(0, more), cells=max(0, cells), rows=max(0, rows))
        self._reserve(own, cells, rows)
        if more > 0:
            more += C.OWN_POINTS * OPENED_SHARE * self.octree.spare
            self.octree.add_to_points(more)
            points.reserve(more)
        if cells > 0:  # some will be split, more opened; many cells are tested by the host's launches
            expected = {"flags": own.cells.room + 8, "listed": cells // 2, "chosen": min(cells // 4, PIECE)}
            wanted = {name: max(most, expected.get(name, 0)) for name, most in wanted.items()}
        if self._room.lacking(wanted):
            self._answers = None  # they hold arrays that are freed here
            self._room.reserve(wanted)
