"""2:1 balance between neighbouring leaves, and hanging corners' interpolation within the tolerance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sdfcli.backend import ALL_THREADS, Array
from sdfcli.octree.causes import Cause
from sdfcli.octree.grown import LeafNames
from sdfcli.octree.levels import CLOSED, JUMP, OPENED, OUTSIDE, SPLIT, Octree
from sdfcli.octree.refine import Criteria
from sdfcli.spatial.morton import LATTICE_BITS

PATIENCE, FARTHEST, MARGINAL = 8, 64, 0.8
"""Rounds of hanging-corner splits before leaves ahead of a wave are split; maximum distance ahead, in leaves; minimum
error, as a fraction of the allowed error, for a leaf to pass the wave on."""


def settle(octree: Octree, criteria: Criteria, coarsest: int) -> list[int]:
    """Sets the field's values: hanging corners interpolate their coarser neighbour's. Requests splits of leaves whose
    interpolation changes finer neighbours' corners too much; returns their levels. See kernels/octree/settle.h.

    coarsest: coarsest level with new splits.
    """
    backend, points, values = octree.backend, octree.points, octree.values
    requested, newer = backend.xp.zeros(len(octree.levels), np.uint8), points.count - values.count
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
        any=requested,
        arrivals=backend.xp.zeros(1, np.uint32),
        **criteria.args,
    )
    levels: list[int] = np.flatnonzero(backend.to_host(requested)).tolist()
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
        causes = criteria.marginal(level, own.cells.row[around], MARGINAL)
        front = backend.compact(_for_tolerance(causes).view(np.uint8))
        if len(front) == 0:
            break
        requested[front] = True
    own.cells.split_request[requested & (own.cells.split_request == 0)] = int(Cause.WAVE)


def request_leaves(octree: Octree, leaves: LeafNames, cause: Cause) -> list[int]:
    """Requests splits of leaves; returns their levels. Leaves at a sign jump stay."""
    xp, from_host = octree.backend.xp, octree.backend.from_host
    levels: list[int] = np.unique(leaves.level).tolist()
    for level in levels:
        own, chosen = octree.levels[level], leaves.level == level
        wanted = from_host(leaves.key[chosen] >> np.uint64(3 * (LATTICE_BITS - level)))
        octants = from_host(np.arange(8, dtype=np.uint64))
        key = (own.families.key[:, None] << np.uint64(3) | octants).reshape(-1)[: own.cells.count]
        own.cells.split_request[xp.isin(key, wanted) & (own.cells.state < JUMP)] = int(cause)
    return levels


def _for_tolerance(requests: Array) -> Array:
    """Mask of requests (n,) not due to sheets alone."""
    return (requests > 0) & (requests != int(Cause.SHEET))
