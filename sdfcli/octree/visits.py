"""Visits of an octree's levels by a kernel, many per launch; see kernels/octree/visit.h."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.backend import ALL_THREADS, Array, Backend, C, Group
from sdfcli.backend.arguments import argument_group
from sdfcli.octree.budget import Budget
from sdfcli.octree.grown import Busy
from sdfcli.octree.levels import OPENED_SHARE, PIECE, Level, Octree
from sdfcli.octree.refine import Criteria
from sdfcli.scene import Scene
from sdfcli.spatial.packets import PACKETS_FROM, PacketIndex, asking_about

SPARE, MOST_SPARE = 1 << 10, 1 << 15
"""Minimum capacity in cells to split, so that small visits continue without the host; maximum, where memory allows."""
SPARE_BYTES, SPARE_SHARE = 2 * (12 * (8 * 8 + OPENED_SHARE * 148) + OPENED_SHARE * C.OWN_POINTS * 24), 64
"""Bytes per such cell, on twelve levels and in points; together they take at most 1 / SPARE_SHARE of memory, unless at
the minimum."""
WARPS = 1 << 13
"""Maximum warps that a GPU runs concurrently."""
WIDE, SINGLE_PER_WARP, WINDINGS_PER_WARP, WINDINGS_AHEAD = 16, 16, 8, 1
"""A level's new cells per kernel thread, queries per warp, and winding numbers per warp from which separate launches,
with more threads, are faster. Launches for points follow each launch of visits and check on the device whether any
exist, as the host would react too late. WINDINGS_AHEAD: maximum points per two warps for which all winding numbers,
needed or not, are computed concurrently with distances, by otherwise waiting threads."""
MOST_WINDING_WARPS = 1 << 13
"""Maximum warps for winding numbers, whose count the host does not know."""
MORE_POINTS = 1.1
"""Reserved points per opened cell, relative to the mean so far."""
AHEAD = 6
"""Levels with capacity for visits, counted from the finest level with cells."""

NEXT_VISIT, CONSIDER_CELLS = range(2)
"""Steps at which the host starts; the others are internal to the kernel."""

Split = Callable[[int, int], None]
"""Called occasionally with the level being split and the cell count."""
Consider = Callable[[int, int], bool]
"""Tests a level's new cells from an index; returns whether some may need a split."""
Launch = Callable[[], None]
"""Starts work on the device, or waits for it."""
REQUEST_COUNTERS = "single", "packets", "windings"
"""Tally entries with the queried point counts, by answering launch."""


class Launches(NamedTuple):
    """Launches: visits; answers to their queries, if any; visits again, if there were queries."""

    visit: Launch
    answers: list[Launch]
    after_asking: Launch


@functools.cache
def tally_names() -> list[str]:
    """Field names of VisitTally."""
    return [field.name for field in argument_group("VisitTally").fields]


def spare(memory: int | None) -> int:
    """Capacity in cells to split, for an octree limited to `memory` bytes; None: the minimum."""
    affordable: int = (memory or 0) // (SPARE_SHARE * SPARE_BYTES)
    return max(SPARE, min(MOST_SPARE, affordable))


class Visits:
    """Kernel visits of an octree's levels, equivalent to Growth's. Their points, at most C.OWN_POINTS for each of PIECE
    cells, are fewer than two of a query pool's chunks (`least_piece`)."""

    def __init__(self, octree: Octree, criteria: Criteria, scene: Scene, budget: Budget, busy: Busy) -> None:
        """octree: with capacity for visits."""
        index = scene.index
        assert isinstance(index, PacketIndex)
        self._busy = busy
        self._octree, self._criteria, self._budget, self._backend = octree, criteria, budget, octree.backend
        self._known: tuple[bytes, Array] = (b"", None)
        seeds = criteria.distances.seeds
        self._room = Room(octree.backend, seeds, 8 * octree.visited, PIECE)
        self._tree = index.tree
        self._signs = scene.signer.for_kernels()
        self._trees = {"tree": index.kernel_tree, "signs": self._signs}

    def run(
        self,
        pending: set[int],
        coarsest: int,
        consider: Consider,
        progress: Split | None = None,
        planted: bool = False,
    ) -> int:
        """Visits levels that may have cells to split until none remain. planted: test the root first. Returns the
        coarsest level with splits, as for `settle`."""
        octree, backend, criteria = self._octree, self._backend, self._criteria
        state = dict.fromkeys(tally_names(), 0) | {
            "step": CONSIDER_CELLS if planted else NEXT_VISIT,
            "points": octree.points.count,
            "pending": sum(1 << level for level in pending),
            "coarsest": coarsest,
        }
        by_level = [(own.cells.count, own.rows.count, 0) for own in octree.levels]
        tally = backend.from_host(np.array([*state.values(), *chain(*by_level)], np.uint32))
        image, self._room.answers = backend.pinned(2 * len(tally), np.uint32).reshape(2, -1), None
        ready = self._ready(tally, image)
        done = self._launched(ready.visit)
        while True:
            following = self._launched(*ready.answers, ready.after_asking)
            self._busy()
            done()
            found = image[1 - state["turn"]]
            state = dict(zip(tally_names(), found.tolist(), strict=False))
            counts = found[len(state) :].reshape(-1, 3)
            self._take_over(state, counts)
            stop, level = state["stop"], state["at"]
            if progress:
                progress(state["level"], sum(octree.cell_counts))
            if stop == C.VISITS_TO_ASK:
                done = following
                if self._room_ahead():
                    ready = self._ready(tally, image)
                continue
            if stop == C.VISITS_DONE:
                criteria.distances.queries += state["queries"]
                return state["coarsest"]
            del ready  # holds arrays that are freed here
            if stop == C.VISITS_NO_ROOM:
                self._make_room(state)
            elif stop == C.VISITS_TO_AFFORD:
                criteria.afford_sheets(share=1.0)
            else:
                state["pending"] |= consider(level, state["first"]) << level
                state["points"], counts[level, 1] = octree.points.count, octree.levels[level].rows.count
                tally = backend.from_host(np.array([0, *list(state.values())[1:], *counts.ravel()], np.uint32))
                self._room.answers = None
            ready = self._ready(tally, image)
            done = self._launched(ready.visit)

    def _launched(self, *launches: Launch) -> Launch:
        """Runs the launches; returns a function that waits for them."""
        for launch in launches:
            launch()
        return self._backend.done_so_far()

    def _ready(self, tally: Array, image: npt.NDArray[np.uint32]) -> Launches:
        """Launches, valid until arrays move. image: the tally as the host reads it."""
        self._room_ahead()
        octree, points, backend = self._octree, self._octree.points, self._backend
        octree.add_to_points(points.room - points.count)
        visits = {
            "levels": len(octree.levels),
            "pieces": PIECE,
            "wide": WIDE,
            "single": SINGLE_PER_WARP,
            "most_windings": WINDINGS_PER_WARP,
            "together": PACKETS_FROM,
            "most_ahead": WINDINGS_AHEAD,
            "level": self._table(),
            "tally": tally,
            "host_tally": backend.mapped(image),
            "most_points": min(points.room, C.NONE),
            "signed_distance": points.whole("signed"),
            "slot": points.whole("slot"),
            "gradient": points.whole("gradient") if points.has("gradient") else None,
            "clear": points.whole("clear") if octree.capped else None,
            "room": self._room.group,
            **self._criteria.of_visits,
            **self._trees,
        }
        visit, after_asking = (
            backend.ready("sdf_octree_visit", ALL_THREADS, **visits, after_asking=k) for k in range(2)
        )
        if self._room.answers is None:
            self._room.answers = self._answers(tally)
        return Launches(visit, self._room.answers, after_asking)

    def _answers(self, tally: Array) -> list[Launch]:
        """Launches that answer the visits' queries."""
        backend, signs = self._backend, self._signs.values
        single, packets, windings = (tally[place : place + 1] for place in map(tally_names().index, REQUEST_COUNTERS))
        answers: list[Launch] = asking_about(backend, self._tree, single, packets, **self._room.questions())
        if signs["tree"]:
            given = {name: signs[name] for name in ("tree", "caps", "steps", "step", "beta", "lost")}
            given |= {"closed": 0, "many": windings, **self._room.windings()}
            answers.append(backend.ready("sdf_winding_single", C.WARP * MOST_WINDING_WARPS, **given))
        return answers

    def _room_ahead(self) -> bool:
        """Reserves capacity on levels that may soon have cells; returns whether any lacked it."""
        levels = self._octree.levels[: self._octree.depth + AHEAD]
        without = [own for own in levels if own.rows.room == 0]
        for own in without:
            self._reserve(own)
        return len(without) > 0

    def _reserve(self, own: Level, cells: int = 0, rows: int = 0) -> None:
        """Reserves capacity on a level for new cells and rows plus a visit's, as moving arrays takes time. Negative:
        unchanged."""
        visited = self._octree.visited
        if cells >= 0:
            own.cells.reserve(cells + 8 * visited)
            own.families.reserve(cells // 8 + visited)
        if rows >= 0:
            own.rows.reserve(rows + OPENED_SHARE * visited)

    def _table(self) -> Array:
        """Table (levels, 12) uint64 of VisitLevel structs for kernels."""
        table = b"".join(map(self._entry, self._octree.levels))
        if self._known[0] != table:
            self._known = table, self._backend.from_host(np.frombuffer(table, np.uint64))
        return self._known[1]

    def _entry(self, own: Level) -> bytes:
        """A level's table entry, repacked after arrays moved; zeros if it has no capacity."""
        groups = own.cells.groups
        if own.cells.room == 0:
            return bytes(argument_group("VisitLevel").size)
        if "entry" not in groups:
            most_cells, most_rows = min(own.cells.room, 8 * own.families.room, C.NONE), min(own.rows.room, C.NONE)
            given = {"own": own.args, "most_cells": most_cells, "most_rows": most_rows}
            groups["entry"] = self._backend.group("VisitLevel", **given)
        return groups["entry"].data

    def _take_over(self, state: dict[str, int], counts: npt.NDArray[np.uint32]) -> None:
        """Sets point, cell and row counts to the kernel's results."""
        self._octree.points.counted(state["points"])
        for own, (cells, rows, _) in zip(self._octree.levels, counts.tolist(), strict=True):
            if cells != own.cells.count:
                own.cells.counted(cells)
                own.families.counted(cells // 8)
            if rows != own.rows.count:
                own.rows.counted(rows)

    def _make_room(self, state: dict[str, int]) -> None:
        """Reserves the capacity that the kernel requested."""
        own, points = self._octree.levels[state["at"]], self._octree.points
        cells, rows = state["want_cells"] - own.cells.count, state["want_rows"] - own.rows.count
        more = state["want_points"] - points.count
        self._budget.reserve(points=max(0, more), cells=max(0, cells), rows=max(0, rows))
        self._reserve(own, cells, rows)
        wanted = {name: state[f"want_{name}"] for name in self._room.most}
        if rows > 0:  # new rows will have points
            each = MORE_POINTS * points.count / max(1, sum(own.rows.count for own in self._octree.levels))
            more, wanted["queried"] = int(each * rows), int(each * min(rows, PIECE))
        if more > 0:
            more += C.OWN_POINTS * OPENED_SHARE * self._octree.visited
            self._octree.add_to_points(more)
            points.reserve(more)
        if cells > 0:  # some will be split, more opened; many cells are tested by the host's launches
            some = min(cells // 4, PIECE)
            expected = {"flags": own.cells.room + 8, "listed": cells // 2, "chosen": some}
            wanted = {name: max(most, expected.get(name, 0)) for name, most in wanted.items()}
        self._room.grow(wanted)


class Room:
    """Memory for visits: the largest requested so far, and at least for `cells` new cells.

    most     array capacities by kind of entry.
    group    the arrays' kernel arguments.
    answers  launches that answer the queries in them, for one tally; None after arrays moved.
    """

    def __init__(self, backend: Backend, seeds: int, cells: int, piece: int) -> None:
        """seeds: candidates per point. piece: maximum cells per chunk of new points."""
        self._backend, xp = backend, backend.xp
        of_cells = ("chosen", "probed", "mask", "lent", "last")
        self._kinds: dict[str, dict[str, tuple[type, tuple[int, ...]]]] = {
            "listed": {"list": (np.uint32, ())},
            "chosen": dict.fromkeys(of_cells, (np.uint32, ())),
            "flags": {"flag": (np.uint8, ())},
            "queried": {
                "row": (np.uint32, ()),
                "position": (np.float32, (3,)),
                "seed": (np.uint32, (seeds,)),
                "distance": (np.float32, ()),
                "slot": (np.uint32, ()),
                "before": (np.uint8, ()),
                "inside": (np.uint8, ()),
                "link": (np.uint64, ()),
                "queried": (np.uint32, ()),
                "winding": (np.float32, ()),
            },
        }
        self._alone = {
            "seeds": seeds,
            "sums": xp.empty(WARPS, np.uint64),
            "many": xp.empty(2, np.uint32),
        }
        self._arrays: dict[str, Array] = {}
        self.group: Group | None = None
        self.answers: list[Launch] | None = None
        self.most = dict.fromkeys(self._kinds, 0)
        queried = C.OWN_POINTS * min(cells, piece)
        self.grow({"listed": 2 * cells, "chosen": 2 * cells, "flags": 8 * cells + 8, "queried": queried})

    def grow(self, wanted: dict[str, int]) -> None:
        """Grows arrays to the requested capacities; the list keeps its entries."""
        backend, arrays = self._backend, self._arrays
        wanted = {kind: most for kind, most in wanted.items() if most > self.most[kind]}
        if not wanted:
            return
        self.group = self.answers = None  # they hold arrays that are freed here
        for kind, most in wanted.items():
            had = self.most[kind]
            for name, (dtype, shape) in self._kinds[kind].items():
                old: Array | None = arrays.pop(name, None)
                size = most if old is None else max(most, had + backend.memory.spare(had, old.nbytes))
                if old is not None and name == "list":
                    arrays[name] = backend.grown(old, size, len(old))
                else:
                    del old  # its memory can be reused
                    arrays[name] = backend.xp.empty((size, *shape), dtype)
            self.most[kind] = min(len(arrays[name]) for name in self._kinds[kind])
        most_of = {f"most_{kind}": most for kind, most in self.most.items()}
        self.group = backend.group("VisitRoom", **self._alone, **most_of, **arrays)

    def questions(self) -> dict[str, Array]:
        """Arrays for queried points and results, named as in `asking_about`."""
        names = {"points": "position", "seed": "seed", "distance": "distance", "slot": "slot"}
        return {name: self._arrays[own] for name, own in names.items()}

    def windings(self) -> dict[str, Array]:
        """Arrays for winding number queries, named as in `sdf_winding_single`."""
        arrays, many = self._arrays, self._alone["many"]
        names = {"points": "position", "queried": "queried", "winding": "winding", "left": "row"}
        named = {name: arrays[own] for name, own in names.items()}
        return {"count": len(arrays["queried"]), **named, "many_left": many[1:]}
