"""The binary tree by locally-ordered clustering (PLOC++, Benthin et al. 2022); see kernels/trees/ploc.h."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import ALL_THREADS, Backend, C
from sdfcli.spatial.morton import Order
from sdfcli.spatial.radix_tree import Bvh, empty_bvh

RADIUS = 16
"""Clusters compared on either side, as in PLOC++."""


def build_ploc(backend: Backend, order: Order, radius: int = RADIUS) -> Bvh:
    """Builds the tree over triangles, with boxes, for distance queries. A node's triangles are no range of slots, which
    the sign's kernels rely on."""
    xp, n, bvh = backend.xp, len(order), empty_bvh(backend, order)
    if n > 1:
        backend.run(
            "sdf_ploc_build",
            ALL_THREADS,
            triangles=n,
            radius=radius,
            triangle=order.triangle,
            child=bvh.child,
            node_parent=bvh.node_parent,
            leaf_parent=bvh.leaf_parent,
            box=bvh.box,
            cluster=xp.empty((2, n), np.uint32),
            bounds=xp.empty((2, n, 6), np.float32),
            nearest=xp.empty(n, np.uint32),
            sums=xp.empty(C.STEP_SUMS, np.uint64),
            arrivals=xp.zeros(1, np.uint32),
        )
    return bvh
