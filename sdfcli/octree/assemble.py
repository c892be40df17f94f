"""A field's arrays from a grown adaptive octree."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import ALL_THREADS, Array
from sdfcli.octree.levels import Octree
from sdfcli.octree.refine import Criteria
from sdfcli.octree.rounding import fine_points, rounded
from sdfcli.spatial.morton import LATTICE_BITS, Order


def assemble(
    octree: Octree,
    criteria: Criteria,
    order: Order,
    length: float = 1.0,
    step: float | None = None,
    why: bool = False,
) -> tuple[dict[str, Array], int]:
    """Grown's arrays for a domain with edge `length`, and the maximum parts per step.

    step: distances are rounded to its multiples, around sheets to its parts. why: see Limits. Consumes the octree:
    data only used for growth is freed first, the rest after its last use.
    """
    backend, xp, points = octree.backend, octree.backend.xp, octree.points
    fine, parts = (None, 1) if step is None else fine_points(octree, criteria, step / length)
    points.drop("signed", "gradient", "clear")
    levels = octree.levels = octree.levels[: octree.depth + 1]
    for own in levels:
        own.rows.drop("around", "child")
    backend.scale(octree.values.value, length)
    backend.release_cached()
    rank = _ranks(octree)
    leaves, used = _leaves(octree, rank, why)
    corner, key = in_order(octree, backend.compact(used), octree.depth)
    del used
    value = octree.values.value if step is None else rounded(octree, step / parts, parts, fine)
    del fine
    octree.values.drop("value", "hanging")
    arrays = {
        **leaves,
        "corner_key": key,
        "distance": backend.taken(value, corner),
        "nearest": backend.taken(order.triangle_id, backend.taken(points.slot, corner)),
    }
    del value
    points.drop("slot")
    backend.release_cached()
    place = backend.placed(corner, points.count)
    del corner
    leaf_corner = xp.empty((len(leaves["leaf_key"]), 8), np.uint32)
    placed = {"place": place, "rank": rank, "leaf_corner": leaf_corner}
    backend.run("sdf_octree_corners", len(rank), octree=octree.all_levels, **placed)
    return {**arrays, "leaf_corner": leaf_corner}, parts


def in_order(octree: Octree, corner: Array, depth: int) -> tuple[Array, Array]:
    """Corners (m,) uint32 of cells down to level `depth`, sorted by key, and their sorted keys (m,) uint64. If the
    keys' low bits, all zero, can hold a list index, it is sorted with them."""
    backend, last = octree.backend, 1 << 3 * (LATTICE_BITS - depth)
    key = backend.xp.empty(len(corner), np.uint64)
    numbered, points = len(key) <= last, {"point_key": octree.point_keys(), "corner": corner}
    backend.run("sdf_octree_chosen_keys", len(key), numbered=int(numbered), key=key, **points)
    del points
    if not numbered:
        return corner[backend.sort(key)], key
    backend.sort_alone(key)  # several times as fast as a permutation
    found = backend.xp.empty_like(corner)
    backend.run("sdf_octree_sorted_keys", len(key), mask=last - 1, corner=corner, key=key, found=found)
    return found, key


def _leaves(octree: Octree, rank: Array, why: bool) -> tuple[dict[str, Array], Array]:
    """leaf_key, leaf_level and, if `why`, leaf_cause; and (m,) uint8, 1 for points at leaf corners."""
    xp = octree.backend.xp
    used = xp.zeros(octree.points.count, np.uint8)
    count = 1 + sum(own.cells.count - own.families.count for own in octree.levels[1:])
    leaves = {"leaf_key": xp.empty(count, np.uint64), "leaf_level": xp.empty(count, np.uint8)}
    cause = xp.empty(count, np.uint8) if why else None
    given = {"octree": octree.all_levels, "rank": rank, "used": used, "leaf_cause": cause}
    octree.backend.run("sdf_octree_leaves", len(rank), **given, **leaves)
    return leaves if cause is None else {**leaves, "leaf_cause": cause}, used


def _ranks(octree: Octree) -> Array:
    """Each cell's rank, level by level: the number of leaves before it along the Morton curve."""
    xp, cells = octree.backend.xp, sum(octree.cell_counts)
    rank, arrivals = xp.empty(cells, np.uint32), xp.zeros(1, np.uint32)
    given = {"octree": octree.all_levels, "rank": rank, "arrivals": arrivals}
    octree.backend.run("sdf_octree_ranks", ALL_THREADS, cells=cells, **given)
    return rank
