"""(b) The binary radix tree over Morton codes (Karras 2012), and its refit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdfcli.backend import Array, Backend, C, Group
from sdfcli.spatial.morton import Order

NONE = C.NONE


@dataclass(frozen=True)
class Bvh:
    """A binary tree over n triangles, the radix tree or another (ploc.py), in the thesis's hybrid structure of arrays.

    child        (n - 1, 2) uint32: an internal node, or 2^31 + slot for a leaf.
    node_parent  (n - 1,) uint32: internal nodes' parents.
    leaf_parent  (n,) uint32: leaves' parents.
    box          (n - 1, 6) float32: lower and upper corner, slightly larger than the triangles' box (trees/radix.h).
    """

    order: Order
    child: Array
    node_parent: Array
    leaf_parent: Array
    box: Array

    def group(self, backend: Backend) -> Group:
        """Nodes and triangles for kernels that go up the tree."""
        up = {"child": self.child, "node_parent": self.node_parent, "leaf_parent": self.leaf_parent}
        return backend.group("RadixTree", triangles=len(self.order), triangle=self.order.triangle, **up)


def empty_bvh(backend: Backend, order: Order) -> Bvh:
    """A tree's uninitialised arrays. A single triangle has no parent."""
    xp, n = backend.xp, len(order)
    inner = n - 1
    return Bvh(
        order,
        child=xp.empty((inner, 2), np.uint32),
        node_parent=xp.empty(inner, np.uint32),
        leaf_parent=xp.empty(n, np.uint32) if inner else backend.filled(n, NONE, np.uint32),
        box=xp.empty((inner, 6), np.float32),
    )


def build_bvh(backend: Backend, order: Order) -> Bvh:
    """Builds the tree over triangles, all internal nodes in parallel (Karras 2012); boxes are uninitialised."""
    bvh = empty_bvh(backend, order)
    backend.run(
        "sdf_bvh_build",
        len(bvh.child),
        triangles=len(order),
        keys=order.keys,
        child=bvh.child,
        node_parent=bvh.node_parent,
        leaf_parent=bvh.leaf_parent,
    )
    return bvh


def refit(backend: Backend, bvh: Bvh) -> Bvh:
    """Writes all node boxes by bottom-up reduction, with an atomic counter per node. Returns the tree."""
    n = len(bvh.order)
    if n > 1:
        backend.run(
            "sdf_bvh_refit",
            n,
            tree=bvh.group(backend),
            arrivals=backend.xp.zeros(n - 1, np.uint32),
            box=bvh.box,
        )
    return bvh
