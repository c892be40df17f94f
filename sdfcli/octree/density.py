"""(c) The density-driven octree of the thesis: a cell is split while a node of the BVH lies in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.backend.timing import Stages
from sdfcli.errors import OutOfMemoryError
from sdfcli.octree.cells import (
    Corners,
    OwnedPoints,
    SplitCells,
    corners_of,
    leaf_corners_of,
    leaves_of,
    place_corners,
    sort_corners,
)
from sdfcli.sign.signer import Signer
from sdfcli.spatial.morton import Order
from sdfcli.spatial.packets import PacketTree, ask

FindCorners = Callable[[Corners], tuple[Array, Array]]
"""`nearest` of an octree's corners."""

LEAF_BYTES, TRIANGLE_BYTES, WARPS_TRIANGLE_BYTES = 125, 80, 170
"""What making a leaf takes with its share of the corners; and what the tree of the queries takes a triangle, and what
signs may take beyond it, which on a GPU follow that tree."""
MOST_LEAVES = (1 << 29) - 1
"""Kernels count the corners of all leaves in 32 bits."""


def bvh_octree(backend: Backend, order: Order, depth: int, most_memory: int | None = None) -> Corners:
    """The octree down to level `depth` over triangles in Morton order (the thesis, section 2.3).

    A node of the radix tree lies in a cell where two triangles that are neighbours in Morton order have the cell's
    prefix in common: so the cells that are split are read off the sorted codes, without a walk of the tree.

    Raises OutOfMemoryError where the corners would not fit into most_memory bytes of the device.
    """
    return corners_of(backend, points_of(backend, SplitCells(backend, order.keys, depth), most_memory))


def bytes_for(backend: Backend, leaves: int, triangles: int) -> int:
    """What the octree takes at most, with its trees, beyond the triangles in Morton order."""
    return LEAF_BYTES * leaves + (WARPS_TRIANGLE_BYTES if backend.warps else TRIANGLE_BYTES) * triangles


def points_of(backend: Backend, splits: SplitCells, most_memory: int | None = None) -> OwnedPoints:
    """The points of these split cells; see `bvh_octree`."""
    cell, depth = splits.cells(), splits.depth
    leaves = 7 * len(cell) + 1
    if leaves > MOST_LEAVES:
        raise OutOfMemoryError(f"the octree has {leaves:,} leaves, more than {MOST_LEAVES:,}; try a smaller --depth")
    more = bytes_for(backend, leaves, splits.keys)
    if most_memory is not None and backend.memory_used() + more > most_memory:
        raise OutOfMemoryError(
            f"the octree does not fit into {most_memory / 1e9:.3g} GB: {leaves:,} leaves; try a smaller --depth, or "
            "more --max-memory"
        )
    return OwnedPoints(backend, cell, depth)


FIRST_LEVELS = 8000
"""Levels with fewer corners than this together are asked for at once, which takes no longer than one of them."""


def nearest_by_level(backend: Backend, packets: PacketTree, tree: Corners) -> tuple[Array, Array]:
    """`nearest` of an octree's corners, for backends with warps: the coarse levels first, whose answers are bounds for
    the finer ones'. Corners of one level are alike in how far they are from the surface, too."""
    xp, ends = backend.xp, tree.ends
    distance, slot = xp.empty(ends[-1], np.float32), xp.empty(ends[-1], np.uint32)
    first = max([end for end in ends if end <= FIRST_LEVELS], default=ends[0])
    ask(backend, packets, tree.position[:first], distance[:first], slot[:first])
    for start, end in itertools.pairwise(ends):
        if first <= start < end:
            own = [array[start:end] for array in (tree.position, distance, slot)]
            ask(backend, packets, *own, seed=tree.near[start:end], seed_slot=slot)
    return distance, slot


def measured(
    backend: Backend,
    order: Order,
    signer: Signer,
    find: FindCorners,
    depth: int,
    stages: Stages,
    most_memory: int | None = None,
) -> dict[str, Array]:
    """The octree with signed distances at its corners: the arrays of a Field, as `Octree.assemble` gives them."""
    # Corners take most of a build's memory: what is not asked for yet, or no more, is not there.
    tree = bvh_octree(backend, order, depth, most_memory)
    with stages("query", backend):
        distance, slot = find(tree)
    tree = replace(tree, near=None)
    backend.trim()
    with stages("sign", backend):
        distance = signer.sign_corners(tree, distance, slot)
    tree = replace(tree, position=None)
    backend.trim()
    corner_key, place = sort_corners(backend, tree)
    tree = replace(tree, code=None)
    distance, nearest = place_corners(backend, place, distance, slot, order.triangle_id)
    del slot
    leaf_key, leaf_level, leaf_child = leaves_of(backend, tree.cell)
    return {
        "leaf_key": leaf_key,
        "leaf_level": leaf_level,
        "corner_key": corner_key,
        "distance": distance,
        "nearest": nearest,
        "leaf_corner": leaf_corners_of(backend, leaf_child, tree.point, place),
    }
