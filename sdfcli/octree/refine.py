"""Criteria: tests for opening and splitting cells of an adaptive octree."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdfcli.backend import Array, Group
from sdfcli.octree.distances import ExactDistances
from sdfcli.octree.grown import Limits
from sdfcli.octree.levels import Octree
from sdfcli.octree.sheets import NO_SHEETS, affordable
from sdfcli.params import SHEET_CELL

PROBE = 2
"""Result of the corner test for a cell to be decided by its centre."""
SAFETY = 0.8
"""Tests' share of the tolerance; the rest covers errors between a cell's 27 samples, and hanging corners."""
JUMP_EDGE = 4.0
"""Minimum edge, in tolerances, of cells split at a sign jump, as at an open surface's hole."""


class Criteria:
    """Tests for an octree's cells; see octree/refine.h.

    depth, thin_depth  finest levels for the tolerance and for sheets.
    thin               thickness, in domain edges, down to which sheets keep both sides; NO_SHEETS: none do.
    """

    def __init__(self, octree: Octree, distances: ExactDistances, limits: Limits, thin: float) -> None:
        """thin: as above, or 0 for no sheets."""
        self.octree, self.distances = octree, distances
        self.depth, self.thin_depth = limits.depth, len(octree.levels) - 1
        self.tolerance, self._band, self.thin = SAFETY * limits.tolerance, limits.band, thin or NO_SHEETS
        self._allowed: dict[tuple[float, float], Group] = {}  # by tolerance and thickness

    @property
    def args(self) -> dict[str, Group]:
        """Kernel arguments: the points and the allowed errors."""
        return self._args(self.tolerance)

    def _args(self, tolerance: float) -> dict[str, Group]:
        known = tolerance, self.thin
        if known not in self._allowed:
            limits = {"tolerance": tolerance, "band": self._band, "thin_least": self.thin}
            self._allowed[known] = self.octree.backend.group("Limits", **limits)
        return {"points": self.distances.args, "allowed": self._allowed[known]}

    @property
    def of_visits(self) -> dict[str, Any]:
        """Kernel arguments for visits; see visits.py."""
        return {"depth": self.depth, "jump_edge": JUMP_EDGE * self.tolerance, **self.args}

    @property
    def thinnest_kept(self) -> float | None:
        """Minimum thickness of kept sheets, in domain edges; None if not tested."""
        return None if self.thin == NO_SHEETS else max(self.thin, 0.5**self.thin_depth / SHEET_CELL)

    def afford_sheets(self, share: float) -> None:
        """Sets `thin` from the first cells on level `depth`, a `share` of the level."""
        octree, backend, cells = self.octree, self.octree.backend, self.octree.levels[self.depth].cells.count
        width, thin = backend.xp.empty(cells, np.float32), backend.xp.empty(cells, np.uint8)
        given = {**octree.place(self.depth), **self.args}
        backend.run("sdf_octree_sheets", cells, first=0, width=width, thin=thin, **given)
        found = backend.to_host(backend.taken(width, backend.compact(thin)[0]))
        self.thin = affordable(found, 0.5**self.depth, self.thin, share)

    def by_corners(self, level: int, first: int) -> Array:
        """New cells (k,) uint32, from index `first`, to open: tested by their corners and, if undecided, their
        centre."""
        backend, xp = self.octree.backend, self.octree.backend.xp
        verdict = xp.empty(self.octree.levels[level].cells.count - first, np.uint8)
        shared: dict[str, Any] = {**self.octree.place(level), **self.args, "first": first, "verdict": verdict}
        backend.run("sdf_octree_screen", len(verdict), thin_only=int(level >= self.depth), **shared)
        opened, probed = backend.compact(verdict, PROBE, first)
        if len(probed) == 0:
            return opened
        piece = self.octree.piece(len(probed))
        for start in range(0, len(probed), piece):
            cells = probed[start : start + piece]
            position, seed = self.distances.blank(len(cells))
            probe = {**self.octree.place(level), "slot": self.octree.points.slot, "seeds": self.distances.seeds}
            backend.run("sdf_octree_probe", len(cells), cells=cells, position=position, seed=seed, **probe)
            distance, _ = self.distances.nearest(position, seed)
            backend.run("sdf_octree_probed", len(cells), cells=cells, centre=distance, **shared)
        return backend.compact(verdict, first=first)[0]

    def by_neighbours(self, level: int, first: int) -> Array:
        """New cells (k,) uint32, from index `first`, to open: tested by points of their opened neighbours."""
        backend = self.octree.backend
        verdict = backend.xp.empty(self.octree.levels[level].cells.count - first, np.uint8)
        backend.run(
            "sdf_octree_peek", len(verdict), first=first, verdict=verdict, **self.octree.place(level), **self.args
        )
        return backend.compact(verdict, first=first)[0]

    def test(
        self,
        level: int,
        count: int,
        *,
        first: int = 0,
        rows: Array | None = None,
        marks: Array | None = None,
        tolerance: float | None = None,
    ) -> None:
        """Marks opened cells to be split with a Cause. rows: (count,); None: consecutive from row `first`.

        marks: (cells,) uint8, written in place of the level's marks; states then stay unchanged. tolerance: overrides
        the octree's.
        """
        own = self.octree.levels[level]
        self.octree.backend.run(
            "sdf_octree_test",
            count,
            first=first,
            rows=rows,
            own=own.args,
            thin_only=int(level >= self.depth),
            jump_edge=JUMP_EDGE * self.tolerance,
            split_request=own.cells.split_request if marks is None else marks,
            state=own.cells.state if marks is None else None,
            **self._args(self.tolerance if tolerance is None else tolerance),
        )
