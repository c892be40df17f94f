"""(c) Density-driven octree of the thesis: cells that contain a BVH node are split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sdfcli.backend import Array, Backend
from sdfcli.errors import OutOfMemoryError
from sdfcli.octree.budget import check_room
from sdfcli.octree.cells import OwnedPoints, SplitCells, leaves_of
from sdfcli.octree.corners import Corners, corners_of, leaf_corners_of, place_corners, sort_corners
from sdfcli.octree.grown import Busy, Grown, Limits, Progress
from sdfcli.scene import Scene
from sdfcli.spatial.morton import Order

LEAF_BYTES, TRIANGLE_BYTES, LARGER_TREE_BYTES = 125, 80, 170
"""Bytes per leaf with its share of the corners; per triangle in the query tree and the signs' data, where all trees are
stored together; per triangle in the larger tree, where only one is stored at once."""
MOST_LEAVES = (1 << 29) - 1
"""Kernels count leaf corners in 32 bits."""


def bvh_octree(backend: Backend, order: Order, depth: int, most_memory: int | None = None) -> Corners:
    """The octree down to level `depth` over triangles in Morton order (the thesis, section 2.3).

    A cell contains a radix tree node if two triangles adjacent in Morton order share the cell's prefix, so the split
    cells follow from the sorted codes, without a tree traversal.

    Raises OutOfMemoryError if the corners do not fit into most_memory bytes on the device.
    """
    return corners_of(backend, points_of(backend, SplitCells(backend, order.keys, depth), most_memory))


def bytes_for(backend: Backend, leaves: int, triangles: int) -> int:
    """Maximum bytes of the octree with its trees, in addition to the triangles in Morton order."""
    return LEAF_BYTES * leaves + (LARGER_TREE_BYTES if backend.memory.scarce else TRIANGLE_BYTES) * triangles


def points_of(backend: Backend, splits: SplitCells, most_memory: int | None = None) -> OwnedPoints:
    """The split cells' points; see `bvh_octree`."""
    cell, depth = splits.cells(), splits.depth
    leaves = 7 * len(cell) + 1
    if leaves > MOST_LEAVES:
        raise OutOfMemoryError(f"the octree has {leaves:,} leaves, more than {MOST_LEAVES:,}; try a smaller --depth")
    more, remedy = bytes_for(backend, leaves, splits.keys), "a smaller --depth, or more --max-memory"
    check_room(backend, more, most_memory, f"{leaves:,} leaves", remedy)
    return OwnedPoints(backend, cell, depth)


def build(scene: Scene, limits: Limits, progress: Progress | None = None, busy: Busy = lambda: None) -> Grown:
    """Builds the octree with signed distances at its corners; see grown.py. Uses the limits' depth, memory and length.

    Raises OutOfMemoryError if it does not fit.
    """
    scene.release_sign_data()
    arrays = measured(scene, lambda: bvh_octree(scene.backend, scene.order, limits.depth, limits.most_memory))
    scene.backend.scale(arrays["distance"], limits.length)
    return Grown(arrays, queries=len(arrays["corner_key"]), working_bytes=LEAF_BYTES * len(arrays["leaf_key"]))


def measured(scene: Scene, make_corners: Callable[[], Corners]) -> dict[str, Array]:
    """Grown's arrays for an octree with these corners; distances in domain edges."""
    # Corners take most of a build's memory: arrays are created late and freed early.
    backend, order = scene.backend, scene.order
    tree = make_corners()
    with scene.stages("query", backend):
        distance, slot = scene.nearest_by_level(tree.position, tree.near, tree.ends)
    scene.release_index()
    tree = replace(tree, near=None)
    backend.release_cached()
    with scene.stages("sign", backend):
        distance = scene.signer.sign_corners(tree, distance, slot)
    tree = replace(tree, position=None)
    backend.release_cached()
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
