"""Quantisation of an adaptive octree's distances, with finer steps around sheets; see quantise.py."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import ALL_THREADS, Array
from sdfcli.octree.levels import Octree
from sdfcli.octree.quantise import LEAST_STEP
from sdfcli.octree.refine import Criteria
from sdfcli.octree.sheets import NO_SHEETS

STEP_OF_SHEET, MOST_PARTS = 1 / 24, 128
"""Maximum step around a sheet, as a fraction of its thickness; maximum parts per step."""


def fine_points(octree: Octree, criteria: Criteria, step: float) -> tuple[Array | None, int]:
    """Step halvings (m,) uint32 by point, as bits (see sdf_octree_sheet_points), and the maximum parts per step; None
    and 1 without halvings. step: in domain edges."""
    if criteria.thin == NO_SHEETS:
        return None, 1
    parts = 1
    while parts < MOST_PARTS and step / parts > max(1.01 * STEP_OF_SHEET * criteria.thin, 2 * LEAST_STEP):
        parts *= 2
    run, xp = octree.backend.run, octree.backend.xp
    fine, halved = xp.zeros(octree.points.count, np.uint32), xp.zeros(1, np.uint8)
    steps = {"step": step, "share": STEP_OF_SHEET, "parts": parts, "fine": fine, "halved": halved, **criteria.args}
    cells, levels = sum(octree.cell_counts), octree.all_levels
    run("sdf_octree_sheet_points", cells, octree=levels, **steps)
    if not halved[0]:
        return None, 1
    for on_surface in (0, 1):
        before, fine = fine, octree.backend.copied(fine)
        beside = {"distance": octree.points.signed, "on_surface": on_surface, "before": before, "fine": fine}
        run("sdf_octree_sheet_neighbours", cells, octree=levels, **beside)
    return fine, parts


def rounded(octree: Octree, step: float, parts: int, fine: Array | None) -> Array:
    """The points' values (m,) float32, rounded to whole numbers of steps from predictions by coarser points. fine: step
    halvings by point; parts: steps without halvings, in units of `step`."""
    backend, xp, value, hanging = octree.backend, octree.backend.xp, octree.values.value, octree.values.hanging
    result = xp.empty_like(value)
    given = {"value": value, "hanging": hanging, "fine": fine, "parts": parts, "step": step, "rounded": result}
    rows, arrivals = sum(own.rows.count for own in octree.levels), xp.zeros(1, np.uint32)
    backend.run("sdf_octree_rounds", ALL_THREADS, rows=rows, octree=octree.all_levels, arrivals=arrivals, **given)
    return result
