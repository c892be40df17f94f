"""A uniform grid instead of an octree: (2^depth + 1)^3 nodes, the corners of all cells of an octree's finest level.

Nodes are numbered x first, then y, then z.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.sign.signer import Signer
from sdfcli.spatial.index import DistanceIndex

MAX_DEPTH = 10
"""Node numbers have 32 bits."""

TO_ASK = 3
ERROR = 1.6e-5
"""More than a distance is off, as SDF_DISTANCE_ERROR, and a node's place."""

CHUNK = 1 << 18
"""Exact queries made at once, unless a plane of nodes is more: enough for a GPU."""

SIGN_CHUNK = 1 << 22
"""Nodes looked through at once for those whose sign has to be asked for."""


def side_of(depth: int) -> int:
    """Nodes along an edge of the unit cube."""
    return int(2**depth + 1)


def positions(backend: Backend, depth: int, node: Array) -> Array:
    """(m, 3) float32 in the unit cube, exact, of nodes (m,) int64."""
    side = side_of(depth)
    at = backend.xp.stack([node % side, node // side % side, node // side**2], axis=1)
    return at.astype(np.float32) * np.float32(0.5**depth)


def exact_distances(backend: Backend, index: DistanceIndex, depth: int) -> Array:
    """Unsigned distances (nodes,) float32: one query a node, some planes at a time, from the triangles found below."""
    xp, side = backend.xp, side_of(depth)
    along = xp.arange(side, dtype=np.float32) * np.float32(0.5**depth)
    distance = xp.empty((side, side * side), np.float32)
    planes = min(max(1, CHUNK // side**2), side)
    seed = None
    for first in range(0, side, planes):
        z = along[first : first + planes]
        points = xp.stack(xp.broadcast_arrays(along, along[:, None], z[:, None, None]), axis=-1).reshape(-1, 3)
        found, slot = index.nearest(points, None if seed is None else seed[: len(points)])
        distance[first : first + planes] = found.reshape(len(z), -1)
        seed = xp.tile(slot[-side * side :], planes)[:, None]
    return distance.ravel()


@dataclass(frozen=True)
class Near:
    """Nodes near a surface.

    node      (m,) int64.
    distance  (m,) float32, exact. slot (m,) uint32, of the nearest triangle.
    queries   how many exact queries it took to find them.
    """

    node: Array
    distance: Array
    slot: Array
    queries: int


def nodes_near(backend: Backend, index: DistanceIndex, depth: int, reach: float) -> Near:
    """The nodes at most `reach` (in the unit cube) from the nearest triangle.

    Blocks of 2^k nodes a side are halved, from the whole grid down to one node; one whose centre is farther from the
    surface than `reach` and half its own diagonal is dropped. So the work goes with the surface, however large or small
    its triangles are.
    """
    xp = backend.xp
    octant = backend.from_host([[c & 1, c >> 1 & 1, c >> 2] for c in range(8)], np.int32)
    block, slot, queries = xp.zeros((1, 3), np.int32), xp.zeros(1, np.uint32), 0
    for level in range(depth, -1, -1):
        size = 2**level
        block, slot = (2 * block[:, None] + octant).reshape(-1, 3), xp.repeat(slot, 8)
        inside = (block * size <= 2**depth).all(axis=1)
        block, slot = block[inside], slot[inside]
        centre = ((block + 0.5) * size - 0.5).astype(np.float32) * np.float32(0.5**depth)
        distance, slot = index.nearest(centre, slot[:, None])
        queries += len(block)
        margin = ERROR + 3**0.5 / 2 * (size - 1) * 0.5**depth if level else 0.0
        close = distance <= np.float32(reach + margin)
        block, distance, slot = block[close], distance[close], slot[close]
    side, at = side_of(depth), block.astype(np.int64)
    return Near(at[:, 0] + side * (at[:, 1] + side * at[:, 2]), distance, slot, queries)


def give_signs(backend: Backend, index: DistanceIndex, signer: Signer, depth: int, distance: Array) -> None:
    """Makes the distances (nodes,) inside negative, in place.

    Distances up to the spacing of the nodes must be right; larger ones may be too large. The surface must be closed, or
    the signer one by winding numbers. It is asked where a node's sign may differ from that of the node before it in its
    row: beside the surface, and around the caps of holes (see Caps). The sides of the cube are outside.
    """
    if signer.method == "none":
        return
    xp, side, spacing = backend.xp, side_of(depth), 0.5**depth
    sign = xp.empty(len(distance), np.uint8)
    backend.run("sdf_grid_doubt", len(distance), side=side, spacing=spacing, distance=distance, sign=sign)
    if signer.caps:
        # The way from a node to the one before is as long as the spacing, and must not come near the caps either.
        sign[nodes_near(backend, signer.caps.tree, depth, signer.caps.guard + spacing + ERROR).node] = TO_ASK
    for first in range(0, len(sign), SIGN_CHUNK):
        node = first + xp.flatnonzero(sign[first : first + SIGN_CHUNK] == TO_ASK)
        at = positions(backend, depth, node)
        sign[node] = signer.inside(at, index.nearest(at)[1])  # few: cheaper than to keep the slots of all nodes
    backend.run("sdf_grid_sign", side * side, side=side, sign=sign, distance=distance)
