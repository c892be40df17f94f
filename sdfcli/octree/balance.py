"""2:1 balance between neighbouring leaves, and hanging corners' interpolation within the tolerance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sdfcli.backend import ALL_THREADS, Array
from sdfcli.octree.causes import Cause
from sdfcli.octree.levels import CLOSED, OPENED, OUTSIDE, SPLIT, Octree
from sdfcli.octree.refine import Criteria

COARSE = 3
"""Level flag: marked cells have coarser neighbours; 1 and 2 are cell flags."""

PATIENCE, FARTHEST, MARGINAL = 8, 64, 0.8
"""Rounds of hanging-corner splits before leaves ahead of a wave are split; maximum distance ahead, in leaves; minimum
error, in tolerances, for a leaf to pass the wave on."""


def cells_to_split(octree: Octree, level: int, balanced: bool) -> tuple[Array, Array, bool]:
    """Opened and closed cells (k,) uint32 to split, and whether 2:1 balance requires coarser neighbours to be split
    first. If balanced, these are marked on the level above."""
    backend, cells = octree.backend, octree.levels[level].cells
    flag = backend.xp.zeros(cells.count + 1, np.uint8)
    place = octree.place(level) if balanced else {"own": octree.levels[level].args, "above": None}
    backend.run("sdf_octree_balance", cells.count, flag=flag, **place)
    opened, closed, coarse = backend.compact(flag, COARSE)
    return opened, closed, len(coarse) > 0


def settle(octree: Octree, criteria: Criteria, coarsest: int) -> list[int]:
    """`constrain` and `tighten`, in one launch where the device runs GRID kernels."""
    backend, points, values = octree.backend, octree.points, octree.values
    if not backend.grids:
        constrain(octree, coarsest)
        return tighten(octree, criteria, coarsest)
    marked, newer = backend.xp.zeros(len(octree.levels), np.uint8), points.count - values.count
    older = values.extend(newer)
    backend.run(
        "sdf_octree_settle",
        ALL_THREADS,
        coarsest=coarsest,
        cells=sum(octree.cell_counts),
        older=older,
        newer=newer,
        octree=octree.all_levels,
        value=values.value,
        hanging=values.hanging,
        any=marked,
        arrivals=backend.xp.zeros(1, np.uint32),
        **criteria.args,
    )
    levels: list[int] = np.flatnonzero(backend.to_host(marked)).tolist()
    return levels


def constrain(octree: Octree, coarsest: int) -> None:
    """Sets the field's values: hanging corners interpolate their coarser neighbour's, coarse levels first.

    Only stale families (see octree/grow.h) are updated: all in the first round, later the ones near splits.
    coarsest: coarsest level with new splits.
    """
    points, values, levels = octree.points, octree.values, octree.levels
    first = values.extend(points.count - values.count)
    values.value[first:], values.hanging[first:] = points.signed[first:], 0
    for level in range(coarsest, len(levels) - 1):
        below = levels[level + 1]
        octree.backend.run(
            "sdf_octree_constrain",
            below.families.count,
            below=below.args,
            stale_below=levels[level + 2].families.stale if level + 2 < len(levels) else None,
            distance=points.signed,
            value=values.value,
            hanging=values.hanging,
            **octree.place(level),
        )


def tighten(octree: Octree, criteria: Criteria, coarsest: int) -> list[int]:
    """Marks leaves whose interpolation changes finer neighbours' corners too much; returns their levels.

    Only renewed families are tested: earlier rounds met the others' requests. coarsest: as for `constrain`.
    """
    marked, counts = octree.backend.xp.zeros(len(octree.levels), np.uint8), octree.cell_counts
    first = sum(counts[: coarsest + 1])
    octree.backend.run(
        "sdf_octree_tighten",
        sum(counts) - first,
        first=first,
        octree=octree.all_levels,
        value=octree.values.value,
        hanging=octree.values.hanging,
        any=marked,
        **criteria.args,
    )
    levels: list[int] = np.flatnonzero(octree.backend.to_host(marked)).tolist()
    return levels


def run_ahead(
    octree: Octree, criteria: Criteria, level: int, rounds: int, open_cells: Callable[[int, Array], None]
) -> None:
    """Marks more leaves on a level to split for hanging corners.

    Where many leaves barely meet the tolerance, each split forces the neighbour's: a wave, one leaf per round. After
    PATIENCE rounds, leaves ahead of the wave are split, up to a distance doubled in each round.
    """
    if rounds <= PATIENCE:
        return
    backend, xp, own = octree.backend, octree.backend.xp, octree.levels[level]
    requested = _for_tolerance(own.cells.split_request) & (own.cells.state != SPLIT)
    front = xp.flatnonzero(requested).astype(np.uint32)
    open_cells(level, front[own.cells.state[front] == CLOSED])
    for _ in range(min(2 ** (rounds - PATIENCE - 1), FARTHEST)):
        around = xp.unique(octree.neighbours(level, front))
        around = around[around < OUTSIDE]
        around = around[(own.cells.state[around] == OPENED) & ~requested[around]]
        verdict = xp.zeros(own.cells.count, np.uint8)
        rows, marginal = own.cells.row[around], MARGINAL * criteria.tolerance
        criteria.test(level, len(rows), rows=rows, marks=verdict, tolerance=marginal)
        front = backend.compact(_for_tolerance(verdict).view(np.uint8))[0]
        if len(front) == 0:
            break
        requested[front] = True
    own.cells.split_request[requested & (own.cells.split_request == 0)] = int(Cause.WAVE)


def _for_tolerance(requests: Array) -> Array:
    """Mask of requests (n,) not due to sheets alone."""
    return (requests > 0) & (requests != int(Cause.SHEET))
