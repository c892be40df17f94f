"""(c) The density-driven octree of the thesis: a cell is split while a node of the BVH lies in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.errors import OutOfMemoryError
from sdfcli.stages.bvh import Bvh
from sdfcli.stages.cells import Leaves, OwnedPoints, SplitCells, corners_of, leaf_corners_of, leaves_of
from sdfcli.stages.corner_sign import signed_distances
from sdfcli.stages.corners import LevelOrder
from sdfcli.stages.order import Order
from sdfcli.stages.packets import ask
from sdfcli.stages.sign import Signer
from sdfcli.timing import Stages

FindCorners = Callable[[Leaves], tuple[Array, Array]]
"""`nearest` of an octree's corners."""

LEAF_BYTES, TRIANGLE_BYTES, WARPS_TRIANGLE_BYTES = 125, 80, 170
"""What making a leaf takes with its share of the corners; and what the tree of the queries takes a triangle, and what
signs may take beyond it, which on a GPU follow that tree."""
MOST_LEAVES = (1 << 29) - 1
"""Kernels count the corners of all leaves in 32 bits."""


def bvh_octree(backend: Backend, order: Order, depth: int, most_memory: int | None = None) -> Leaves:
    """The octree down to level `depth` over triangles in Morton order (the thesis, section 2.3).

    A node of the radix tree lies in a cell where two triangles that are neighbours in Morton order have the cell's
    prefix in common: so the cells that are split are read off the sorted codes, without a walk of the tree.

    Raises OutOfMemoryError where the corners would not fit into most_memory bytes of the device.
    """
    return octree_of(backend, SplitCells(backend, order.keys, depth), most_memory)


def bytes_for(backend: Backend, leaves: int, triangles: int) -> int:
    """What the octree takes at most, with its trees, beyond the triangles in Morton order."""
    return LEAF_BYTES * leaves + (WARPS_TRIANGLE_BYTES if backend.warps else TRIANGLE_BYTES) * triangles


def octree_of(backend: Backend, splits: SplitCells, most_memory: int | None = None) -> Leaves:
    """The octree of these split cells; see `bvh_octree`."""
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
    owned = OwnedPoints(backend, cell)
    return Leaves(*leaves_of(backend, cell), cell, *corners_of(backend, cell, owned, depth), depth)


FIRST_LEVELS = 8000
"""Levels with fewer corners than this together are asked for at once, which takes no longer than one of them."""


def levels_of(backend: Backend, tree: Leaves) -> LevelOrder:
    """The order of an octree's corners for `nearest_by_level`: the sooner it is begun, the shorter the wait."""
    return LevelOrder(backend, tree.level, tree.depth + 1)


def nearest_by_level(backend: Backend, bvh: Bvh, tree: Leaves, levels: LevelOrder | None = None) -> tuple[Array, Array]:
    """`nearest` of an octree's corners, for backends with warps: the coarse levels first, whose answers are bounds for
    the finer ones'. Corners of one level are alike in how far they are from the surface, too."""
    levels = levels or levels_of(backend, tree)
    ends = levels.ends()
    xp = backend.xp
    distance, slot = xp.empty(len(tree.position), np.float32), xp.empty(len(tree.position), np.uint32)
    assert bvh.packets is not None
    first = max([end for end in ends if end <= FIRST_LEVELS], default=ends[0])
    ask(backend, bvh.packets, tree.position, distance, slot, along=levels.order[:first])
    seeds = {"seed": tree.near, "seed_slot": slot}
    for start, end in itertools.pairwise(ends):
        if first <= start < end:
            ask(backend, bvh.packets, tree.position, distance, slot, along=levels.order[start:end], **seeds)
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
    # Corners take most of a build's memory: what is not asked for yet, or no more, is not there. Leaves are made twice.
    tree = replace(bvh_octree(backend, order, depth, most_memory), leaf_key=None, leaf_level=None, leaf_child=None)
    with stages("query", backend):
        distance, slot = find(tree)
    tree = replace(tree, near=None, level=None)
    backend.trim()
    with stages("sign", backend):
        distance = signed_distances(backend, signer, tree, distance, slot)
    tree = replace(tree, position=None)
    backend.trim()
    leaf_key, leaf_level, leaf_child = leaves_of(backend, tree.cell)
    tree = replace(tree, leaf_child=leaf_child)
    return {
        "leaf_key": leaf_key,
        "leaf_level": leaf_level,
        "corner_key": tree.corner_key,
        "distance": distance,
        "nearest": order.triangle_id[slot],
        "leaf_corner": leaf_corners_of(backend, tree),
    }
