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

SAFETY = 0.8
"""Tests' share of the tolerance; the rest covers errors between a cell's 27 samples, and hanging corners."""
JUMP_EDGE = 4.0
"""Minimum edge, in allowed errors (see SAFETY), of cells split at a sign jump, as at an open surface's hole."""


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
    def of_growth(self) -> dict[str, Any]:
        """Kernel arguments for growth; see growth.py."""
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
        found = backend.to_host(backend.taken(width, backend.compact(thin)))
        self.thin = affordable(found, 0.5**self.depth, self.thin, share)

    def marginal(self, level: int, rows: Array, share: float) -> Array:
        """Causes (cells,) uint8 for which a level's opened cells, at rows (k,) uint32, would be split with a `share` of
        the tolerance."""
        own, backend = self.octree.levels[level], self.octree.backend
        causes = backend.xp.zeros(own.cells.count, np.uint8)
        backend.run(
            "sdf_octree_test",
            len(rows),
            first=0,
            rows=rows,
            own=own.args,
            thin_only=int(level >= self.depth),
            jump_edge=JUMP_EDGE * self.tolerance,
            split_request=causes,
            state=None,
            **self._args(share * self.tolerance),
        )
        return causes
