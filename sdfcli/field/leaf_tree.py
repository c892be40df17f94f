"""Search tree over a field's leaves: a table for the cells on level 6, and nodes with eight entries below."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import Array, Backend, C
from sdfcli.spatial.morton import LATTICE_BITS

TOP_LEVEL = C.TOP_LEVEL


def leaf_nodes(backend: Backend, leaf_key: Array, leaf_level: Array) -> tuple[Array, Array]:
    """Entries (2^18,) uint32 for the cells on level 6, x fastest, and (8 k,) uint32 for at most k nodes below them.

    An entry is a leaf's index with the highest bit set, or the index of a node: an inner cell, with its children's
    eight entries in Morton order. Nodes are sorted by level, then in Morton order.
    """
    xp, leaves = backend.xp, {"leaf_key": leaf_key, "leaf_level": leaf_level}
    end = xp.empty(len(leaf_key), np.uint32)
    backend.run("sdf_leaf_count", len(end), count=end, **leaves)
    backend.inclusive_scan(end)
    most = len(leaf_key) // 7  # each inner cell adds seven leaves
    key, level = xp.empty(most, np.uint64), backend.filled(most, LATTICE_BITS + 1, np.uint8)
    backend.run("sdf_leaf_list", len(end), end=end, node_key=key, node_level=level, **leaves)
    order, ends = backend.counting_sort(level, LATTICE_BITS + 2)
    nodes = {"node_key": xp.empty_like(key), "node_level": xp.empty_like(level)}
    backend.run("sdf_leaf_sorted", most, order=order, listed_key=key, listed_level=level, **nodes)
    values = {**leaves, "leaves": len(leaf_key), "end": ends, **nodes}
    top = backend.empty_aligned((1 << 3 * TOP_LEVEL,), xp.uint32)
    child = backend.empty_aligned((8 * len(order),), xp.uint32)
    backend.run("sdf_leaf_top", len(top) // 8, entry=top, **values)
    backend.run("sdf_leaf_nodes", len(order), entry=child, **values)
    return top, child
