"""Distances on a uniform grid by jump flooding (Rong and Tan 2006), with a mesh-independent pass count.

Two error sources have no bound: a node may miss its nearest seed (a few percent do), and the nearest seed's triangle
need not be the nearest triangle. On scans the maximum error was 0.6 node spacings (JFA+1: 0.4), rms below 0.03; on
scattered triangles the maximum was 1.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


ORDERS = ("JFA", "doubling", "JFA+1", "JFA+2", "1+JFA", "JFA^2")
"""Orders of passes: Rong and Tan's halving steps, doubling ones, and their variants for fewer errors."""


def steps_of(order: str, depth: int) -> list[int]:
    """Step lengths in nodes, for 2^depth cells per side and one of ORDERS: from half the side down to 1, or up."""
    halving = [2**k for k in reversed(range(depth))]
    return {
        "JFA": halving,
        "doubling": halving[::-1],
        "JFA+1": [*halving, 1],
        "JFA+2": [*halving, 2, 1],
        "1+JFA": [1, *halving],
        "JFA^2": 2 * halving,
    }[order]


def passes(
    backend: Backend, position: Array, carried: Array, steps: Sequence[int], side: int, planes: int
) -> Iterator[Array]:
    """Yields each node's seed (planes * side^2,) uint32 after each pass, in two arrays that take turns.

    position: (s, 3) float32, seed positions; nodes lie 1 / (side - 1) apart from 0. carried: the nodes' seeds at first,
    or 0xffffffff; overwritten. planes: `side` in a cube, 1 in two dimensions.
    """
    nearer = backend.xp.empty_like(carried)
    for step in steps:
        backend.run(
            "sdf_flood_pass",
            len(carried),
            side=side,
            planes=planes,
            spacing=1 / (side - 1),
            step=step,
            position=position,
            carried=carried,
            nearer=nearer,
        )
        carried, nearer = nearer, carried
        yield carried


def flood(backend: Backend, seeds: Seeds, depth: int, order: str = "JFA") -> Array:
    """Each node's seed (nodes,) uint32, nearly always the nearest, by the passes in one of ORDERS.

    JFA+1's seeds are never farther than JFA's. Two such arrays exist concurrently. After halving steps, a node
    2^depth steps along an axis from every seed is unreachable and has 0xffffffff; a mesh in the cube's middle leaves
    none.
    """
    xp, side = backend.xp, side_of(depth)
    carried = xp.full(side**3, NONE, np.uint32)
    carried[seeds.node] = xp.arange(len(seeds), dtype=np.uint32)
    for after in passes(backend, seeds.position, carried, steps_of(order, depth), side, side):
        carried = after
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
