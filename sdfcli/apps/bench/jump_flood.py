"""Distances on a uniform grid by jump flooding (Rong and Tan 2006), with a mesh-independent pass count.

Two error sources have no bound: a node may miss its nearest seed (a few percent do), and the nearest seed's triangle
need not be the nearest triangle. On scans the maximum error was 0.6 node spacings (JFA+1: 0.4), rms below 0.03; on
scattered triangles the maximum was 1.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdfcli.apps.bench.grid import nodes_near, positions, side_of
from sdfcli.backend import Array, Backend
from sdfcli.spatial.index import DistanceIndex
from sdfcli.spatial.radix_tree import NONE


@dataclass(frozen=True)
class Seeds:
    """Flooding seeds: nodes near the surface with their nearest surface points.

    node      (s,) int64, grid node indices.
    position  (s, 3) float32, nearest points in the unit cube.
    slot      (s,) uint32, the nearest points' triangles.
    queries   exact query count.
    """

    node: Array
    position: Array
    slot: Array
    queries: int

    def __len__(self) -> int:
        return len(self.node)


def plant(backend: Backend, index: DistanceIndex, depth: int) -> Seeds:
    """Seeds at all nodes at most one spacing from the surface.

    Every surface point is at most 0.87 spacings from a node, so no triangle is too small for a seed.
    """
    near = nodes_near(backend, index, depth, 0.5**depth)
    position = backend.xp.empty((len(near.node), 3), np.float64)
    backend.run(
        "sdf_closest",
        len(near.node),
        points=positions(backend, depth, near.node),
        slot=near.slot,
        triangle=index.order.triangle,
        nearest=position,
    )
    return Seeds(near.node, position.astype(np.float32), near.slot, near.queries)


def flood(backend: Backend, seeds: Seeds, depth: int, more: int = 0) -> Array:
    """Each node's seed (nodes,) uint32, nearly always the nearest.

    Passes step by 2^(depth - 1), ... 2, 1 nodes, then `more` passes with step 1: 1 gives JFA+1, whose seeds are
    never farther. Two such arrays exist concurrently. A node 2^depth steps along an axis from every seed is
    unreachable and has 0xffffffff; a mesh in the cube's middle leaves none.
    """
    xp, side = backend.xp, side_of(depth)
    carried = xp.full(side**3, NONE, np.uint32)
    carried[seeds.node] = xp.arange(len(seeds), dtype=np.uint32)
    nearer = xp.empty_like(carried)
    for step in [*(2**k for k in reversed(range(depth))), *[1] * more]:
        backend.run(
            "sdf_flood_pass",
            len(carried),
            side=side,
            spacing=0.5**depth,
            step=step,
            position=seeds.position,
            carried=carried,
            nearer=nearer,
        )
        carried, nearer = nearer, carried
    return carried


def flooded_distances(backend: Backend, index: DistanceIndex, seeds: Seeds, depth: int, carried: Array) -> Array:
    """Unsigned distances (nodes,) float32 to the nodes' seed triangles; the largest float without a seed.

    Never below the true distance, like the distances to the seed positions, and a few times more accurate.
    """
    distance = backend.xp.empty(len(carried), np.float32)
    backend.run(
        "sdf_flood_distance",
        len(carried),
        side=side_of(depth),
        spacing=0.5**depth,
        carried=carried,
        slot=seeds.slot,
        triangle=index.order.triangle,
        distance=distance,
    )
    return distance
