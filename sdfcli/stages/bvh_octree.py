"""(c) The density-driven octree of the thesis: a cell is split while a node of the BVH lies in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.errors import OutOfMemoryError
from sdfcli.stages.bvh import Bvh
from sdfcli.stages.corners import by_level, corner_keys, leaf_corners, unique
from sdfcli.stages.order import LATTICE_BITS, MORTON_BITS, Order
from sdfcli.stages.packets import ask
from sdfcli.stages.sign import Signer, inside_along
from sdfcli.timing import Stages

Split = Callable[[int], Array]
"""The cells of a level that are split: their Morton codes (k,) uint64, sorted. Their parents are split, too."""


@dataclass(frozen=True)
class Leaves:
    """The leaves of an octree and their corners, all sorted by Morton codes on the lattice of 2^20.

    leaf_key (n,) uint64, leaf_level (n,) uint8, corner_key (m,) uint64, leaf_corner (n, 8) uint32: places among the
    corners, position (m, 3) float32: of the corners in the unit cube.
    """

    leaf_key: Array
    leaf_level: Array
    corner_key: Array
    leaf_corner: Array
    position: Array


FindCorners = Callable[[Leaves], tuple[Array, Array]]
"""`nearest` of an octree's corners."""

LEAF_BYTES = 220
"""What making a leaf takes with its share of the corners."""


def bvh_octree(backend: Backend, order: Order, depth: int, most_memory: int | None = None) -> Leaves:
    """The octree down to level `depth` over triangles in Morton order (the thesis, section 2.3).

    A node of the radix tree lies in a cell where two triangles that are neighbours in Morton order have the cell's
    prefix in common: so the cells of a level that are split are read off the sorted codes, without a walk of the tree.

    Raises OutOfMemoryError where the corners would not fit into most_memory bytes of the device.
    """

    def split(level: int) -> Array:
        prefix = order.keys >> np.uint64(3 * (MORTON_BITS - level))
        return unique(backend.xp, prefix[1:][prefix[1:] == prefix[:-1]])

    return octree_of(backend, split, depth, most_memory)


def octree_of(backend: Backend, split: Split, depth: int, most_memory: int | None = None) -> Leaves:
    """The octree down to level `depth` whose cells are split as told; see `bvh_octree`."""
    xp = backend.xp
    key, level = _leaves(xp, split, depth)
    if most_memory is not None and backend.memory_used() + LEAF_BYTES * len(key) > most_memory:
        raise OutOfMemoryError(
            f"the octree does not fit into {most_memory / 1e9:.3g} GB: {len(key):,} leaves; try a smaller --depth, or "
            "more --max-memory"
        )
    sorting = xp.argsort(key)
    key, level = key[sorting], level[sorting]
    corner_key = corner_keys(backend, key, level)
    leaf_corner = leaf_corners(backend, key, level, corner_key)
    position = xp.empty((len(corner_key), 3), np.float32)
    backend.run("sdf_lattice_position", len(corner_key), key=corner_key, position=position)
    return Leaves(key, level, corner_key, leaf_corner, position)


def _leaves(xp: Any, split: Split, depth: int) -> tuple[Array, Array]:
    """Keys on the lattice and levels of the leaves, level after level."""
    cells = xp.zeros(1, np.uint64)
    found = []
    for level in range(depth + 1):
        inner = split(level) if level < depth else cells[:0]
        leaf = xp.ones(len(cells), bool)
        leaf[xp.searchsorted(cells, inner)] = False
        found.append((cells[leaf] << np.uint64(3 * (LATTICE_BITS - level)), level))
        cells = (inner[:, None] * np.uint64(8) + xp.arange(8, dtype=np.uint64)).ravel()
    levels = [xp.full(len(key), level, np.uint8) for key, level in found]
    return xp.concatenate([key for key, _ in found]), xp.concatenate(levels)


FIRST_LEVELS = 8000
"""Levels with fewer corners than this together are asked for at once, which takes no longer than one of them."""


def nearest_by_level(backend: Backend, bvh: Bvh, tree: Leaves) -> tuple[Array, Array]:
    """`nearest` of an octree's corners, for backends with warps: the coarse levels first, whose answers are bounds for
    the finer ones'. Corners of one level are alike in how far they are from the surface, too."""
    near = backend.xp.empty(len(tree.position), np.uint32)
    levels = [corners for _, _, corners in by_level(backend, tree.corner_key, near)]
    return nearest_of_levels(backend, bvh, tree.position, levels, near)


def nearest_of_levels(
    backend: Backend, bvh: Bvh, position: Array, levels: list[Array], near: Array
) -> tuple[Array, Array]:
    """The same for corners (m, 3) of which levels, and what is near, are known: see `corners.by_level`."""
    xp = backend.xp
    distance, slot = xp.empty(len(position), np.float32), xp.empty(len(position), np.uint32)
    assert bvh.packets is not None
    first = 1
    while first < len(levels) and sum(map(len, levels[: first + 1])) <= FIRST_LEVELS:
        first += 1
    ask(backend, bvh.packets, position, distance, slot, along=xp.concatenate(levels[:first]))
    for corners in levels[first:]:
        ask(backend, bvh.packets, position, distance, slot, along=corners, seed=near, seed_slot=slot)
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
    tree = bvh_octree(backend, order, depth, most_memory)
    with stages("query", backend):
        distance, slot = find(tree)
    with stages("sign", backend):
        inside = inside_along(signer, tree.position, distance, slot)
    return {
        "leaf_key": tree.leaf_key,
        "leaf_level": tree.leaf_level,
        "corner_key": tree.corner_key,
        "distance": backend.xp.where(inside, -distance, distance),
        "nearest": order.triangle_id[slot],
        "leaf_corner": tree.leaf_corner,
    }
