"""Visits of levels with few cells to split, many of them by one launch; see kernels/octree/visit.h."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, C
from sdfcli.octree.levels import Octree
from sdfcli.octree.refine import Criteria
from sdfcli.scene import Scene

MOST = 1024
"""Maximum cells to split in a visit: more keep a GPU busy in launches of their own."""
MOST_OPENED = 2048
"""Maximum cells that are opened by a launch of their own."""
WARPS = 1 << 13
"""Warps that a GPU runs at a time, at most."""

NUMBER, ROOM, PENDING, COARSEST, QUERIES, STOP, LEVEL, TOP = range(1, 9)
"""Places in the tally."""
AHEAD = 4
"""Levels below the finest with cells for which visits have room."""


@dataclass(frozen=True)
class Visited:
    """What visits came to.

    pending   levels that may have cells to split.
    coarsest  level whose cells were split; as for `constrain`.
    queries   number of distances measured.
    visit     level whose visit has no room and was not begun; None: none.
    split     levels whose visits are open, coarse ones first: their cells (k,) uint32 are opened, and not yet split.
    """

    pending: set[int]
    coarsest: int
    queries: int
    visit: int | None
    split: list[tuple[int, Array]]


class Visits:
    """Visits of an octree's levels by a kernel, as Growth does them."""

    def __init__(self, octree: Octree, criteria: Criteria, scene: Scene) -> None:
        """octree: with room for visits."""
        self._octree, self._criteria, self._backend = octree, criteria, octree.backend
        self._scene = scene
        self._flag = self._backend.xp.empty(1, np.uint8)
        self._known: tuple[bytes, Array] = (b"", None)
        self._room = self._make_room(len(octree.levels), max(1, scene.index.seeds))

    def _make_room(self, levels: int, seeds: int) -> dict[str, Any]:
        xp, most = self._backend.xp, self._octree.visited
        cells, points = 8 * most, C.OWN_POINTS * 8 * most
        of_cells = {name: xp.empty(cells, np.uint32) for name in ("chosen", "probed", "mask", "lent", "last")}
        of_points = {
            name: xp.empty((points, *shape), dtype)
            for name, dtype, shape in (
                ("row", np.uint32, ()),
                ("position", np.float32, (3,)),
                ("seed", np.uint32, (seeds,)),
                ("distance", np.float32, ()),
                ("slot", np.uint32, ()),
                ("before", np.uint8, ()),
                ("inside", np.uint8, ()),
                ("link", np.uint64, ()),
                ("asked", np.uint32, ()),
                ("winding", np.float32, ()),
            )
        }
        self._list = xp.empty((levels, most), np.uint32)
        alone = {"sums": xp.empty(WARPS, np.uint64), "list": self._list, "many": xp.empty(1, np.uint32)}
        room = self._backend.group("VisitRoom", most=most, seeds=seeds, **alone, **of_cells, **of_points)
        return {"tree": self._scene.index.asked_by_kernels, "signs": self._scene.signer.for_kernels(), "room": room}

    def _table(self) -> Array:
        """The levels (levels, 11) uint64 as kernels read them."""
        table = b"".join(own.args.data for own in self._octree.levels)
        if self._known[0] != table:
            self._known = table, self._backend.from_host(np.frombuffer(table, np.uint64))
        return self._known[1]

    def run(self, pending: set[int], coarsest: int, only: int | None = None) -> Visited:
        """Visits the levels that may have cells to split; or one, `only`, with what comes before it."""
        octree, points, levels = self._octree, self._octree.points, self._octree.levels
        for own in levels[: octree.depth + AHEAD]:
            own.cells.reserve(8 * octree.visited)
            own.families.reserve(octree.visited)
            own.rows.reserve(8 * octree.visited)
        octree.add_to_points(C.OWN_POINTS * 8 * octree.visited)
        points.reserve(C.OWN_POINTS * 8 * octree.visited)
        told = self._run(pending, coarsest, C.NONE if only is None else only)
        by_level = told[TOP + 1 :].reshape(-1, 5)
        stop, level, top = told[[STOP, LEVEL, TOP]].tolist()
        first = {C.VISITS_DONE: top + 1, C.BEFORE_VISIT: level + 1, C.BEFORE_CHILDREN: level}[stop]
        return Visited(
            pending={level for level in range(len(levels)) if told[PENDING] >> level & 1},
            coarsest=int(told[COARSEST]),
            queries=int(told[QUERIES]),
            visit=level if stop == C.BEFORE_VISIT else None,
            split=[(each, self._list[each, : by_level[each, 4]].copy()) for each in range(first, top + 1)],
        )

    def open(self, level: int, cells: Array) -> int:
        """Opens cells (k,) uint32, at most MOST_OPENED, as Growth does; returns the number of distances measured."""
        self._octree.levels[level].rows.reserve(len(cells))
        self._octree.add_to_points(C.OWN_POINTS * len(cells))
        self._octree.points.reserve(C.OWN_POINTS * len(cells))
        return int(self._run(set(), 0, level, cells)[QUERIES])

    def _run(self, pending: set[int], coarsest: int, only: int, cells: Array | None = None) -> npt.NDArray[np.uint32]:
        """Runs the kernel, and takes over what it has counted; returns the tally."""
        octree, backend, points = self._octree, self._backend, self._octree.points
        levels = octree.levels
        told = np.zeros(TOP + 1 + 5 * len(levels), np.uint32)
        told[: COARSEST + 1] = 0, points.count, points.room, sum(1 << level for level in pending), coarsest
        by_level = told[TOP + 1 :].reshape(-1, 5)
        by_level[:, :4] = [
            (own.cells.count, min(own.cells.room, 8 * own.families.room), own.rows.count, own.rows.room)
            for own in levels
        ]
        most = int(by_level[:, 1].max())
        if cells is None and len(self._flag) <= most:
            self._flag = backend.xp.empty(2 * most, np.uint8)
        tally = backend.from_host(told)
        backend.run(
            "sdf_octree_visit",
            C.WARP,
            levels=len(levels),
            only=only,
            opening=0 if cells is None else len(cells),
            cells=cells,
            level=self._table(),
            tally=tally,
            flag=self._flag,
            signed_distance=points.signed,
            slot=points.slot,
            gradient=points.gradient if points.has("gradient") else None,
            clear=points.clear if octree.capped else None,
            **self._criteria.of_visits,
            **self._room,
        )
        told[:] = backend.to_host(tally)
        points.counted(int(told[NUMBER]))
        for own, (cells, _, rows, *_) in zip(levels, by_level.tolist(), strict=True):
            if cells != own.cells.count:
                own.cells.counted(cells)
                own.families.counted(cells // 8)
            if rows != own.rows.count:
                own.rows.counted(rows)
        return told
