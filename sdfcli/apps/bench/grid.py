"""Distances on a uniform grid of (2^depth + 1)^3 nodes, the cell corners of an octree's finest level.

Nodes are numbered x first, then y, then z.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdfcli.backend import Array, Backend, C
from sdfcli.sign.signer import Signer
from sdfcli.spatial.index import DistanceIndex

MAX_DEPTH = 10
"""Maximum depth, for 32-bit node indices."""

TO_ASK = C.TO_ASK
ERROR = C.DISTANCE_ERROR
"""Upper bound for distance errors, as SDF_DISTANCE_ERROR, and node position errors."""

CHUNK = 1 << 18
"""Maximum exact queries per launch, but at least one node plane: enough to fill a GPU."""

SIGN_CHUNK = 1 << 22
"""Nodes per search for nodes with computed, not propagated, signs."""


def side_of(depth: int) -> int:
    """Nodes along a unit cube edge."""
    return int(2**depth + 1)


def positions(backend: Backend, depth: int, node: Array) -> Array:
    """Exact unit cube positions (m, 3) float32 for nodes (m,) int64."""
    side = side_of(depth)
    at = backend.xp.stack([node % side, node // side % side, node // side**2], axis=1)
    return at.astype(np.float32) * np.float32(0.5**depth)


def exact_distances(backend: Backend, index: DistanceIndex, depth: int) -> Array:
    """Unsigned distances (nodes,) float32, one query per node, plane by plane; the plane below gives candidates."""
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
    distance  (m,) float32, exact.
    slot      (m,) uint32, nearest triangle.
    queries   exact query count.
    """

    node: Array
    distance: Array
    slot: Array
    queries: int


def nodes_near(backend: Backend, index: DistanceIndex, depth: int, reach: float) -> Near:
    """Nodes at most `reach` (in unit cube units) from the nearest triangle.

    Subdivides blocks with 2^k nodes per side, from the whole grid down to one node, and drops a block if its centre is
    farther from the surface than `reach` plus half its diagonal. The work is proportional to the surface area,
    whatever the triangle sizes.
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
    """Negates inside nodes' distances (nodes,), in place.

    Distances up to the node spacing must be exact; larger ones may be too large. The surface must be closed, or the
    signer use winding numbers. The signer is called where a node's sign may differ from its predecessor's in the row:
    near the surface, and around hole caps (see Caps). The cube's sides are outside.
    """
    if signer.method == "none":
        return
    xp, side, spacing = backend.xp, side_of(depth), 0.5**depth
    sign = xp.empty(len(distance), np.uint8)
    backend.run("sdf_grid_doubt", len(distance), side=side, spacing=spacing, distance=distance, sign=sign)
    if signer.caps:
        # The segment to the previous node, one spacing long, must stay clear of the caps, too.
        sign[nodes_near(backend, signer.caps.tree, depth, signer.caps.guard + spacing + ERROR).node] = TO_ASK
    for first in range(0, len(sign), SIGN_CHUNK):
        node = first + xp.flatnonzero(sign[first : first + SIGN_CHUNK] == TO_ASK)
        at = positions(backend, depth, node)
        sign[node] = signer.inside(at, index.nearest(at)[1])  # few nodes: cheaper than storing all slots
    backend.run("sdf_grid_sign", side * side, side=side, sign=sign, distance=distance)
