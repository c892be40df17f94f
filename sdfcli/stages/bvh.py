"""(b) The bounding volume hierarchy: built, refitted, and asked for the nearest triangle."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.stages.order import Order
from sdfcli.stages.packets import PacketTree, packed_levels

WIDE = 16
NONE = 0xFFFFFFFF


@dataclass(frozen=True)
class Bvh:
    """A binary radix tree over n triangles, in the thesis's hybrid structure of arrays.

    child        (n - 1, 2) uint32: an internal node's number, or 2^31 + slot for a leaf.
    node_parent  (n - 1,) uint32, leaf_parent (n,) uint32: the way up.
    box          (n - 1, 6) float32: lower and upper corner, a little larger than the triangles in it (see bvh.h).
    node         (n - 1, 8) float32: the same in one array, box and, bit by bit, child pair; where a query asks for it.
    wide, packets  other trees over the same order, where a query asks for them.
    """

    order: Order
    child: Array
    node_parent: Array
    leaf_parent: Array
    box: Array
    node: Array | None = None
    wide: WideTree | None = None
    packets: PacketTree | None = None


@dataclass(frozen=True)
class WideTree:
    """A packed tree with sixteen children a node over the same triangles, for queries on the CPU (see wide.h).

    block_slot   (n,) uint32: the slots in the order of the blocks (see wide_order.h).
    block        (blocks, 9, 16) float32: sixteen triangles each in that order, coordinate by coordinate.
    box          (nodes, 6, 16) float32: the boxes of sixteen children, level after level, the root last.
    level_start  (levels,) uint32: each level's first node.
    """

    block_slot: Array
    block: Array
    box: Array
    level_start: Array


def build_wide(backend: Backend, order: Order) -> WideTree:
    """Blocks of sixteen triangles, and nodes over them up to one root."""
    xp = backend.xp
    block_slot = xp.empty(len(order), np.uint32)
    backend.run("sdf_wide_order", len(order), triangle=order.triangle, block_slot=block_slot)
    counts, start = packed_levels(len(order), WIDE)
    block = xp.empty((counts[0], 9, WIDE), np.float32)
    box = xp.empty((start[-1], 6, WIDE), np.float32)
    box[:, :3], box[:, 3:] = 3e38, -3e38
    for level, count in enumerate(counts[:-1]):
        backend.run(
            "sdf_wide_build",
            count,
            triangles=len(order),
            triangle=order.triangle,
            block_slot=block_slot,
            block=None if level else block,
            own=box[start[level - 1] :] if level else None,
            above=box[start[level] :],
        )
    return WideTree(block_slot, block, box, backend.from_host(start[:-1], np.uint32))


def build_bvh(backend: Backend, order: Order) -> Bvh:
    """All internal nodes at once (Karras 2012), boxes not yet filled in."""
    xp, n = backend.xp, len(order)
    inner = n - 1
    bvh = Bvh(
        order,
        child=xp.empty((inner, 2), np.uint32),
        node_parent=xp.empty(inner, np.uint32),
        leaf_parent=xp.empty(n, np.uint32) if inner else xp.full(n, NONE, np.uint32),  # a lone triangle has none
        box=xp.empty((inner, 6), np.float32),
    )
    backend.run(
        "sdf_bvh_build",
        inner,
        triangles=n,
        keys=order.keys,
        child=bvh.child,
        node_parent=bvh.node_parent,
        leaf_parent=bvh.leaf_parent,
    )
    return bvh


def without_nodes(bvh: Bvh) -> Bvh:
    """The tree without its binary nodes, which the query `fast` does not visit."""
    return replace(bvh, child=None, node_parent=None, leaf_parent=None, box=None)


def refit(backend: Backend, bvh: Bvh) -> Bvh:
    """Fills in every node's box, bottom-up, one atomic counter a node."""
    n = len(bvh.order)
    if n > 1:
        backend.run(
            "sdf_bvh_refit",
            n,
            triangle=bvh.order.triangle,
            child=bvh.child,
            node_parent=bvh.node_parent,
            leaf_parent=bvh.leaf_parent,
            arrivals=backend.xp.zeros(n - 1, np.uint32),
            box=bvh.box,
        )
    return bvh
