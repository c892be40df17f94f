"""(d) Exact distances on a GPU, where warps look for neighbouring points together (see packet.h)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend
from sdfcli.stages.order import Order

WARP = 32

PACKETS_FROM = 80_000
"""From so many points on, a warp looks for 32 together: less work in all, but with fewer much of a GPU is idle."""

FINE_CURVE_FROM = 200_000
"""From so many triangles on, the Hilbert curve along which they come before they are cut has 8^7 cells, else 8^6."""

CUTS = ((4096, 1024), (1024, WARP))
"""So many triangles that follow one another along the Hilbert curve are cut in halves, down to so many; with the larger
parts done, there are more of them to be cut at once."""


@dataclass(frozen=True)
class PacketTree:
    """A packed R-tree with 32 children a node, the lowest nodes being blocks of triangles (see packet_tree.h).

    slot_place   (n,) uint32: where in the blocks each slot is.
    record       (blocks x 32, 16) float32: the blocks' triangles, with what their distances take.
    box          (nodes, 4, 32, 4) float32: the turned boxes of 32 children, level after level, the root last: middle,
                 then three axes, each followed by half the length along it.
    level_start  (levels,) uint32: each level's first node.
    """

    slot_place: Array
    record: Array
    box: Array
    level_start: Array


def packed_levels(count: int, width: int) -> tuple[list[int], npt.NDArray[np.int64]]:
    """How many blocks of `width` hold so many triangles, then how many nodes each level above has, up to one root (a
    single block has one above it, too); and each level's first node, with the number of all nodes in the end."""
    counts = [-(-count // width)]
    while counts[-1] > 1 or len(counts) == 1:
        counts.append(-(-counts[-1] // width))
    return counts, np.concatenate(([0], np.cumsum(counts[1:])))


def build_packets(backend: Backend, order: Order) -> PacketTree:
    """Blocks of triangles, and nodes over them up to one root."""
    xp, n = backend.xp, len(order)
    placed, cut = xp.empty((2, n, 4), np.float32)
    counts, _ = packed_levels(n, WARP)
    places = WARP * counts[0]
    bits = 7 if n >= FINE_CURVE_FROM else 6
    end, last = xp.zeros(8**bits, np.uint32), xp.empty(8**bits, np.uint32)
    codes = {"triangles": n, "bits": bits, "keys": order.keys}
    backend.run("sdf_packet_cells", places, count=end, last=last, **codes)
    backend.inclusive_scan(end)
    backend.run("sdf_packet_centres", places, triangle=order.triangle, end=end, last=last, placed=placed, **codes)
    del end, last
    for size, until in CUTS:
        backend.run("sdf_packet_cut", WARP * -(-n // size), triangles=n, size=size, until=until, placed=placed, cut=cut)
        halvings = (size // until).bit_length() - 1
        if halvings % 2:
            placed, cut = cut, placed
    start = np.cumsum([0, *counts])
    slot_place = xp.empty(n, np.uint32)
    record = xp.empty((places, 16), np.float32)
    box = xp.empty((int(start[-1]), 4, WARP, 4), np.float32)
    bounds = [xp.empty((count, 6, WARP), np.float32) for count in counts[1:]]
    backend.run(
        "sdf_packet_blocks",
        places,
        triangles=n,
        triangle=order.triangle,
        triangle_id=order.triangle_id,
        placed=placed,
        slot_place=slot_place,
        record=record,
        own=box,
        above=box[start[1] :],
        bounds=bounds[0],
    )
    for level in range(1, len(counts) - 1):
        backend.run(
            "sdf_packet_nodes",
            WARP * counts[level],
            children=counts[level - 1],
            own=bounds[level - 1],
            above=box[start[level + 1] :],
            bounds=bounds[level],
        )
    return PacketTree(slot_place, record, box, backend.from_host(start[:-1], np.uint32))


def ask(
    backend: Backend,
    tree: PacketTree,
    points: Array,
    distance: Array,
    slot: Array,
    *,
    along: Array | None = None,
    seed: Array | None = None,
    seed_slot: Array | None = None,
    boxes: Array | None = None,
    tests: Array | None = None,
    kernel: str = "sdf_distance_packet",
) -> None:
    """Fills in distance and slot (m,) of points (m, 3) float32, see `distance.nearest`. Neighbours should be together.

    along: the points (k,) uint32 that are asked for, in that order. seed: (m,) or (m, s) uint32, slots to start from,
    or places in seed_slot. boxes, tests: (m,) uint32, what was measured. kernel: for points together.
    """
    queries = len(points) if along is None else len(along)
    together = queries >= PACKETS_FROM
    middle_slot = None
    if together and seed is None and queries > WARP:
        middle_slot = _nearest_to_middles(backend, tree, points, along)
    backend.run(
        kernel if together else "sdf_distance_lone",
        WARP * (-(-queries // WARP) if together else queries),
        queries=queries,
        levels=len(tree.level_start),
        seeds=0 if seed is None else seed.size // max(1, len(points)),
        points=points,
        order=along,
        slot_place=tree.slot_place,
        record=tree.record,
        box=tree.box,
        level_start=tree.level_start,
        middle_slot=middle_slot,
        seed=seed,
        seed_slot=seed_slot,
        distance=distance,
        slot=slot,
        boxes=boxes,
        tests=tests,
    )


def _nearest_to_middles(backend: Backend, tree: PacketTree, points: Array, along: Array | None) -> Array:
    """The nearest slot of the middle of each packet, for which packets of packets are looked at in the same way."""
    xp, queries = backend.xp, len(points) if along is None else len(along)
    packets = -(-queries // WARP)
    middle = xp.empty((packets, 3), np.float32)
    backend.run("sdf_packet_middles", WARP * packets, queries=queries, points=points, order=along, middle=middle)
    distance, slot = xp.empty(packets, np.float32), xp.empty(packets, np.uint32)
    ask(backend, tree, middle, distance, slot, kernel="sdf_distance_middle")
    return slot
