"""Jump flooding's orders of passes, its growth with the grid and with the seeds, and a Voronoi diagram pass by pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from sdfcli.apps.bench.grid import MAX_DEPTH, positions, side_of
from sdfcli.apps.bench.interleaved import median_seconds
from sdfcli.apps.bench.jump_flood import ORDERS, Seeds, flood, passes, plant, steps_of
from sdfcli.backend import Backend
from sdfcli.errors import UsageError
from sdfcli.mesh.mesh import Mesh
from sdfcli.octree.grown import Progress
from sdfcli.pictures.colour import oklab_to_srgb
from sdfcli.query.neighbours import nearest_neighbours
from sdfcli.scene import Scene
from sdfcli.spatial.radix_tree import NONE

LEAST_DEPTH = 4
"""Coarsest grid in the table over the grid's size."""

FARTHER = 1e-6
"""Relative excess over the nearest seed's distance above which a seed counts as missed: beyond rounding."""

SEED = 6_174

PICTURE_SIDE, PICTURE_SEEDS = 64, 40
"""Grid side, as in Rong and Tan's figure, and seed count of the picture."""

PIXELS, GAP = 4, 8
"""Picture pixels per node, and between panels."""

GREY = 0.75

Owners = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Row:
    """One flood.

    order         in ORDERS.
    planted       `mesh`, at the nodes near the surface, or `random`, at random nodes.
    depth, nodes  2^depth cells per side, and the node count.
    seeds         seed count.
    passes        pass count.
    milliseconds  all passes.
    missed        share of nodes whose seed is not the nearest.
    excess_max, excess_rms
                  excess over the nearest seed's distance, in node spacings, over nodes with a seed.
    unreached     share of nodes without a seed.
    """

    order: str
    planted: str
    depth: int
    nodes: int
    seeds: int
    passes: int
    milliseconds: float
    missed: float
    excess_max: float
    excess_rms: float
    unreached: float


def check_depth(depth: int) -> None:
    """Raises UsageError for a depth without tables."""
    if not LEAST_DEPTH <= depth <= MAX_DEPTH:
        raise UsageError(f"--depth {depth}: jump flooding takes {LEAST_DEPTH} to {MAX_DEPTH}")


def measure(
    mesh: Mesh, backend: Backend, depth: int, repeat: int = 5, progress: Progress | None = None
) -> Iterator[Row]:
    """Every order at one depth, JFA from LEAST_DEPTH to that depth, then JFA from 1, 10, 100, ... random seeds.

    Seeds in the first two tables are the mesh's, see `plant`. Raises UsageError for an impossible depth.
    """
    check_depth(depth)
    progress = progress or (lambda _: None)
    index = Scene.of(mesh, "none", backend).index
    for level in range(LEAST_DEPTH, depth + 1):
        progress(f"2^{level} cells per side")
        seeds = plant(backend, index, level)
        yield from _rows(backend, seeds, "mesh", level, ORDERS if level == depth else ORDERS[:1], repeat)
    count = 1
    while count < side_of(depth) ** 3:
        progress(f"{count:,} random seeds")
        yield from _rows(backend, random_seeds(backend, depth, count), "random", depth, ORDERS[:1], repeat)
        count *= 10


def random_seeds(backend: Backend, depth: int, count: int) -> Seeds:
    """Seeds at different random nodes, at the nodes' own positions."""
    nodes = np.random.default_rng(SEED).choice(side_of(depth) ** 3, count, replace=False)
    node = backend.from_host(nodes.astype(np.int64))
    return Seeds(node, positions(backend, depth, node), backend.xp.zeros(count, np.uint32), 0)


def _rows(
    backend: Backend, seeds: Seeds, planted: str, depth: int, orders: tuple[str, ...], repeat: int
) -> Iterator[Row]:
    xp, nodes = backend.xp, side_of(depth) ** 3
    at = positions(backend, depth, xp.arange(nodes))
    least = nearest_neighbours(seeds.position, at, 1, approximate=False, device=backend.name)[0][:, 0]
    floods = {order: partial(flood, backend, seeds, depth, order) for order in orders}
    seconds = median_seconds(backend, floods, repeat)
    for order, run in floods.items():
        carried = run()
        reached = carried != NONE
        way = seeds.position[carried[reached]].astype(np.float64) - at[reached]
        distance, nearest = xp.sqrt((way * way).sum(axis=1)), least[reached]
        excess = (distance - nearest) * 2**depth
        yield Row(
            order,
            planted,
            depth,
            nodes,
            len(seeds),
            len(steps_of(order, depth)),
            1e3 * seconds[order],
            missed=(int((distance > (1 + FARTHER) * nearest).sum()) + nodes - len(distance)) / nodes,
            excess_max=max(0.0, float(excess.max())),
            excess_rms=float(xp.sqrt((excess * excess).mean())),
            unreached=(nodes - len(distance)) / nodes,
        )


def growth(backend: Backend, order: str, count: int = PICTURE_SEEDS) -> tuple[npt.NDArray[np.int64], list[Owners]]:
    """Jump flooding in two dimensions, on PICTURE_SIDE^2 nodes (the thesis's Fig. 2.4).

    Returns the seeds' nodes (count,), x + PICTURE_SIDE y, and the nodes' seeds (PICTURE_SIDE, PICTURE_SIDE), by y, then
    x, 0xffffffff for none: before the first pass, and after each.
    """
    side = PICTURE_SIDE
    node = np.random.default_rng(SEED).choice(side * side, count, replace=False)
    position = np.stack([node % side, node // side, 0 * node], axis=1).astype(np.float32) / np.float32(side - 1)
    first = np.full(side * side, NONE, np.uint32)
    first[node] = np.arange(count, dtype=np.uint32)
    steps = steps_of(order, side.bit_length() - 1)
    states = passes(backend, backend.from_host(position), backend.from_host(first.copy()), steps, side, 1)
    return node, [state.reshape(side, side) for state in (first, *(backend.to_host(state.copy()) for state in states))]


def picture(backend: Backend) -> npt.NDArray[np.uint8]:
    """The Voronoi diagram's growth (h, w, 3): a panel per pass, halving steps above doubling ones, y upwards.

    Nodes have their seed's colour and are white without one; seeds are black, gaps grey.
    """
    rows = []
    for order in ("JFA", "doubling"):
        node, states = growth(backend, order)
        hue = np.arange(len(node)) * 2.399963  # the golden angle: consecutive colours differ
        light = 0.62 + 0.2 * (np.arange(len(node)) % 3 / 2)
        colours = oklab_to_srgb(np.stack([light, 0.11 * np.cos(hue), 0.11 * np.sin(hue)], axis=1))
        shades = np.concatenate([colours, np.ones((1, 3))])
        panels = []
        for state in states:
            panel = shades[np.minimum(state, len(node))].reshape(-1, 3)
            panel[node] = 0
            square = panel.reshape(PICTURE_SIDE, PICTURE_SIDE, 3)[::-1]
            panels += [
                square.repeat(PIXELS, axis=0).repeat(PIXELS, axis=1),
                np.full((PIXELS * PICTURE_SIDE, GAP, 3), GREY),
            ]
        rows += [np.concatenate(panels[:-1], axis=1)]
    gap = np.full((GAP, rows[0].shape[1], 3), GREY)
    whole = np.concatenate([rows[0], gap, rows[1]])
    return np.asarray(np.rint(255 * whole), np.uint8)
