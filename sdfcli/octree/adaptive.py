"""(c) Adaptive octree, grown level by level, with exact signed distances at its points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sdfcli.backend import Array
from sdfcli.octree.assemble import assemble
from sdfcli.octree.balance import cells_to_split, run_ahead, settle
from sdfcli.octree.budget import BYTES_PER_CELL, SAMPLE, Budget, Sample, most_piece
from sdfcli.octree.corners import root_positions
from sdfcli.octree.distances import ExactDistances
from sdfcli.octree.grown import Busy, Grown, Limits, Progress
from sdfcli.octree.levels import CLOSED, Octree
from sdfcli.octree.refine import Criteria
from sdfcli.octree.visits import Split, Visits, spare
from sdfcli.scene import Scene
from sdfcli.spatial.radix_tree import NONE

GRADIENTS, LEAST_SHARE = 1 << 22, 16 * 12
"""Maximum points with stored gradients (12 bytes each) where memory is scarce; minimum bytes of memory per such
point."""


def build(scene: Scene, limits: Limits, progress: Progress | None = None, busy: Busy = lambda: None) -> Grown:
    """Grows and assembles the octree; see grown.py. Raises OutOfMemoryError if it does not fit."""
    scene.release_sign_data()
    growth = Growth(scene, limits, busy=busy)
    octree, criteria = growth.octree, growth.criteria
    finest = criteria.thin_depth
    growth.run(progress and (lambda level, cells: progress(f"level {level + 1} of {finest}: {cells:,} cells")))
    queries, working_bytes = growth.distances.queries, octree.nbytes
    del growth  # with its memory for visits
    scene.release_index()
    counted = octree.jump_and_sheet_leaves()
    arrays, parts = assemble(octree, criteria, scene.order, limits.length, limits.step, limits.why)
    jump_leaves, sheet_leaves = counted()
    return Grown(
        arrays,
        queries,
        working_bytes,
        step=None if limits.step is None else limits.step / parts,
        parts=parts,
        jump_leaves=jump_leaves,
        sheet_leaves=sheet_leaves,
        thinnest_kept=criteria.thinnest_kept,
    )


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
        thin = limits.thin if scene.signed else 0.0
        depth = max(limits.depth, limits.thin_depth) if thin else limits.depth
        self.backend, self.sample = scene.backend, Sample(sample)
        visited = spare(limits.most_memory) if self.sample.whole and scene.index.kernel_tree else 0
        gradients = GRADIENTS if limits.most_memory is None else min(GRADIENTS, limits.most_memory // LEAST_SHARE)
        together = most_piece(scene.backend, limits.most_memory)
        self.octree = Octree(scene.backend, depth, scene.signer.caps is not None, visited, gradients, together)
        self.distances = ExactDistances(scene, self.octree.points)
        self.criteria = Criteria(self.octree, self.distances, limits, thin)
        self._budget = Budget(self.octree, limits.most_memory, lambda: estimated_bytes(scene, limits))
        self._pending: set[int] = set()  # levels that may have cells to split
        self._coarsest = 0  # coarsest level with splits since hanging corners were set
        self._busy = busy
        self._visits = Visits(self.octree, self.criteria, scene, self._budget, busy) if visited else None

    def run(self, progress: Split | None = None) -> None:
        """Splits cells until no test marks another."""
        octree = self.octree
        if not self._visits:
            self._busy()
        self._plant()
        self._settle(progress, planted=True)
        rounds = 0
        while self.sample.whole:
            self._pending.update(settle(octree, self.criteria, self._coarsest))
            self._coarsest = len(octree.levels)
            if not self._pending:
                return
            rounds += 1
            for level in self._pending:
                run_ahead(octree, self.criteria, level, rounds, self._open)
            self._settle(progress)

    def _settle(self, progress: Split | None, planted: bool = False) -> None:
        """Splits marked cells until none remain. planted: test the root first."""
        if self._visits:
            pending, self._pending = self._pending, set()
            self._coarsest = self._visits.run(pending, self._coarsest, self._consider, progress, planted)
            return
        if planted and self._consider(0, 0):
            self._pending.add(0)
        while self._pending:
            level = min(self._pending)
            self._pending.remove(level)
            if self._split(level) and progress:
                progress(level, sum(self.octree.cell_counts))

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

    def _consider(self, level: int, first: int) -> bool:
        """Opens and tests new cells, from index `first`, and marks splits; returns whether any may be marked."""
        criteria, own = self.criteria, self.octree.levels[level]
        if level == criteria.thin_depth:
            return False
        if level == criteria.depth and first == 0:
            criteria.afford_sheets(self.sample.share)
        row = own.rows.count
        self._open(level, criteria.by_corners(level, first))
        if level < criteria.depth:
            self._open(level, criteria.by_neighbours(level, first))
        if own.rows.count > row:
            criteria.test(level, own.rows.count - row, first=row)
        return own.rows.count > row

    def _open(self, level: int, cells: Array) -> None:
        """Opens cells: creates their 27 points and measures the new ones."""
        backend, octree, own, count = self.backend, self.octree, self.octree.levels[level], len(cells)
        if count == 0:
            return
        self._budget.reserve(rows=count)
        first = own.rows.extend(count)
        opening = {"first": first, "cells": cells}
        backend.run("sdf_octree_opening", count, own=own.args, **opening)
        mask, lent, last = (backend.xp.empty(count, np.uint32) for _ in range(3))
        backend.run("sdf_octree_own", count, mask=mask, lent=lent, count=last, **opening, **octree.place(level))
        backend.inclusive_scan(last)
        self._add_points(level, first, cells, mask, lent, last)

    def _add_points(self, level: int, first: int, cells: Array, mask: Array, lent: Array, last: Array) -> None:
        """Adds opening cells' new points; the rows start at `first`. mask, lent, last: see sdf_octree_points.

        Chunks bound the temporary memory; points are independent, so results do not depend on the chunk size.
        """
        backend, octree, distances, count = self.backend, self.octree, self.distances, len(cells)
        piece = octree.piece(count)
        ends = [*range(piece, count, piece), count]
        at_ends = last[-1:] if len(ends) == 1 else last[backend.xp.asarray(ends) - 1]
        point_ends = backend.to_host(at_ends).tolist()
        self._budget.reserve(points=point_ends[-1])
        octree.add_to_points(point_ends[-1])
        first_point = octree.points.extend(point_ends[-1])
        opening = {**octree.place(level), "first": first, "cells": cells, "mask": mask, "lent": lent, "last": last}
        for start, end, before, after in zip([0, *ends], ends, [0, *point_ends], point_ends, strict=False):
            position, seed = distances.blank(after - before)
            row = backend.xp.empty(after - before, np.uint32)
            new = first_point + before
            backend.run(
                "sdf_octree_points",
                27 * (end - start),
                piece=start,
                first_point=first_point,
                piece_point=new,
                slot=octree.points.slot,
                point_row=row,
                position=position,
                seeds=distances.seeds,
                seed=seed,
                **opening,
            )
            points = octree.levels[level].rows.points
            distances.measure(new, position, seed, distances.known(new, row, points, level))

    def _split(self, level: int) -> bool:
        """Splits a level's marked cells, after their coarser neighbours; returns whether any were split."""
        cells, closed, coarse = cells_to_split(self.octree, level, balanced=level > 0 and self.sample.whole)
        self._open(level, closed)
        if coarse:
            self._split(level - 1)
        if len(closed):
            cells = self.backend.xp.concatenate([cells, closed])
        return self._add_children(level, self.sample.of(level, cells))

    def _add_children(self, level: int, cells: Array) -> bool:
        """Splits cells and tests their children; returns False for no cells."""
        if len(cells) == 0:
            return False
        own, below = self.octree.levels[level], self.octree.levels[level + 1]
        self._coarsest = min(self._coarsest, level)
        self._budget.reserve(cells=8 * len(cells))
        first = below.families.extend(len(cells))
        below.cells.extend(8 * len(cells))
        split = {"first": first, "cells": cells, "own": own.args, "below": below.args}
        self.backend.run("sdf_octree_children", len(cells), **split)
        self.backend.run("sdf_octree_link_children", 27 * len(cells), **split)
        if self._consider(level + 1, 8 * first):
            self._pending.add(level + 1)
        return True
