"""A tree over a field's leaves, by which a point finds its leaf in a few steps."""

from __future__ import annotations

from sdfcli.backend import Array, Backend
from sdfcli.stages.corners import unique
from sdfcli.stages.order import LATTICE_BITS

TOP_LEVEL = 6


def leaf_nodes(backend: Backend, leaf_key: Array, leaf_level: Array) -> tuple[Array, Array]:
    """(2^18,) and (8 nodes,) uint32: the entries of the cells of level 6, x fastest, and of the nodes below them.

    An entry is a leaf with the highest bit set, or a node: a cell that is no leaf, whose eight entries come in Morton
    order. Nodes are ordered by level, then along the Morton curve.
    """
    xp = backend.xp
    first, keys, levels = [0] * (TOP_LEVEL + 1), [leaf_key[:0]], [leaf_level[:0]]
    key, level = leaf_key, leaf_level
    for depth in range(TOP_LEVEL, LATTICE_BITS + 1):
        below = level > depth
        key, level = key[below], level[below]
        if len(key) == 0:
            first += [first[-1]] * (LATTICE_BITS + 1 - depth)
            break
        bits = xp.uint64(3 * (LATTICE_BITS - depth))
        keys.append(unique(xp, key >> bits) << bits)
        levels.append(xp.full(len(keys[-1]), depth, xp.uint8))
        first.append(first[-1] + len(keys[-1]))
    values = {
        "leaves": len(leaf_key),
        "leaf_key": leaf_key,
        "leaf_level": leaf_level,
        "node_key": xp.concatenate(keys),
        "node_level": xp.concatenate(levels),
        "first_node": backend.from_host(first, xp.uint32),
    }
    top = backend.lines((1 << 3 * TOP_LEVEL,), xp.uint32)
    child = backend.lines((8 * first[-1],), xp.uint32)
    backend.run("sdf_leaf_top", len(top) // 8, entry=top, **values)
    backend.run("sdf_leaf_nodes", first[-1], entry=child, **values)
    return top, child
