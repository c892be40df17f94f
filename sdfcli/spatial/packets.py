"""(d) Exact distances on a GPU, where warps look for neighbouring points together (see distance/packet.h)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from sdfcli.backend import WARP, Array, Backend
from sdfcli.spatial.index import DistanceIndex
from sdfcli.spatial.morton import Order

PART = 4
"""Triangles; a block of 32 has eight parts."""

EVERY = (32, 16)
"""Points that come without seeds start from what is nearest to samples: every so many of them, and of these."""

MOST_BITS = 8
"""An axis, of the cells in which points are sorted: a number for each takes 64 MB."""

PACKETS_FROM = 80_000
"""From so many points on, a warp looks for 32 together: less work in all, but with fewer much of a GPU is idle."""

FINE_CURVE_FROM = 200_000
"""From so many triangles on, the Hilbert curve along which they come before they are cut has 8^7 cells, else 8^6."""

CUTS = ((4096, 1024), (1024, WARP))
"""So many triangles that follow one another along the Hilbert curve are cut in halves, down to so many; with the larger
parts done, there are more of them to be cut at once."""


FIRST_LEVELS = 8000
"""Corners up to which the coarsest levels of an octree are measured at once: it takes no longer than one of them."""


@dataclass(frozen=True)
class PacketTree:
    """A packed R-tree with 32 children a node, the lowest nodes being blocks of triangles (see trees/packed.h).

    slot_place   (n,) uint32: where in the blocks each slot is.
    record       (blocks x 32, 16) float32: the blocks' triangles, with what their distances take.
    box          (nodes, 4, 32, 4) float32: the turned boxes of 32 children, level after level, the root last: middle,
                 then three axes, each followed by half the length along it.
    part         (blocks / 4, rounded up, 4, 32, 4) float32: the boxes of a block's eight parts of 4 triangles.
    level_start  (levels,) uint32: each level's first node.
    """

    slot_place: Array
    record: Array
    box: Array
    part: Array
    level_start: Array


def packed_levels(count: int, width: int) -> tuple[list[int], list[int]]:
    """How many blocks of `width` hold so many triangles, then how many nodes each level above has, up to one root (a
    single block has one above it, too); and each level's first node, with the number of all nodes in the end."""
    counts = [-(-count // width)]
    while counts[-1] > 1 or len(counts) == 1:
        counts.append(-(-counts[-1] // width))
    return counts, [0, *accumulate(counts[1:])]


def build_packets(backend: Backend, order: Order) -> PacketTree:
    """Blocks of triangles, and nodes over them up to one root."""
    xp, n = backend.xp, len(order)
    placed, cut = (xp.empty((n, 4), np.float32) for _ in range(2))
    counts, above = packed_levels(n, WARP)
    places, nodes = WARP * counts[0], above[-1]
    bits = 7 if n >= FINE_CURVE_FROM else 6
    end, last = xp.zeros(8**bits, np.uint32), xp.empty(8**bits, np.uint32)
    codes = {"triangles": n, "bits": bits, "keys": order.keys}
    backend.run("sdf_packet_cells", places, count=end, last=last, **codes)
    backend.inclusive_scan(end)
    arrivals = xp.empty(nodes, np.uint32)
    backend.run(
        "sdf_packet_centres",
        places,
        triangle=order.triangle,
        end=end,
        last=last,
        nodes=nodes,
        placed=placed,
        arrivals=arrivals,
        **codes,
    )
    del end, last
    for size, until in CUTS:
        backend.run("sdf_packet_cut", WARP * -(-n // size), triangles=n, size=size, until=until, placed=placed, cut=cut)
        halvings = (size // until).bit_length() - 1
        if halvings % 2:
            placed, cut = cut, placed
    del cut
    slot_place, level_start = xp.empty(n, np.uint32), xp.empty(len(counts), np.uint32)
    record = xp.empty((places, 16), np.float32)
    box = xp.empty((counts[0] + nodes, 4, WARP, 4), np.float32)
    part = xp.empty((-(-places // (PART * WARP)), 4, WARP, 4), np.float32)
    backend.run(
        "sdf_packet_blocks",
        places,
        triangles=n,
        triangle=order.triangle,
        triangle_id=order.triangle_id,
        placed=placed,
        arrivals=arrivals,
        slot_place=slot_place,
        record=record,
        box=box,
        part=part,
        bounds=xp.empty((nodes, 6, WARP), np.float32),
        level_start=level_start,
    )
    return PacketTree(slot_place, record, box, part, level_start)


def loose_order(backend: Backend, unit_points: Array) -> Array:
    """An order (n,) uint32 of points (n, 3) float32 along the Hilbert curve through a lattice with about as many cells;
    points of one cell come in any order, not the same one each time."""
    xp, queries = backend.xp, len(unit_points)
    bits = min(MOST_BITS, -(-queries.bit_length() // 3))
    threads = WARP * -(-queries // WARP)
    key, rank, order = xp.empty((3, queries), np.uint32)
    end = xp.zeros(8**bits, np.uint32)
    backend.run(
        "sdf_curve_count",
        threads,
        queries=queries,
        coarser=30 - 3 * bits,
        points=unit_points,
        key=key,
        rank=rank,
        count=end,
    )
    backend.inclusive_scan(end)
    backend.run("sdf_curve_place", threads, queries=queries, key=key, rank=rank, end=end, order=order)
    return order


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
    sampled: bool = False,
) -> None:
    """Fills in distance and slot (m,) of points (m, 3) float32, see DistanceIndex. Neighbours should be together.

    along: the points (k,) uint32 that are asked for, in that order. seed: (m,) or (m, s) uint32, slots to start from,
    or places in seed_slot. boxes, tests: (m,) uint32, what was measured. sampled: these points are samples of others,
    for which triangles that are nearly the nearest will do.
    """
    queries = len(points) if along is None else len(along)
    together = queries >= PACKETS_FROM
    samples, every = None, EVERY[sampled]
    if together and seed is None and queries > WARP:
        samples = backend.xp.arange(0, queries, every, dtype=np.uint32) if along is None else along[::every].copy()
        ask(backend, tree, points, distance, slot, along=samples, sampled=True)
    backend.run(
        ("sdf_distance_sample" if sampled else "sdf_distance_packet") if together else "sdf_distance_lone",
        WARP * (-(-queries // WARP) if together else queries),
        queries=queries,
        levels=len(tree.level_start),
        seeds=0 if seed is None else seed.size // max(1, len(points)),
        points=points,
        order=along,
        slot_place=tree.slot_place,
        record=tree.record,
        box=tree.box,
        part=tree.part,
        level_start=tree.level_start,
        sample_slot=None if samples is None else slot[samples],
        every=every,
        seed=seed,
        seed_slot=seed_slot,
        distance=distance,
        slot=slot,
        boxes=boxes,
        tests=tests,
    )


class PacketIndex(DistanceIndex):
    """`fast` on a GPU: warps walk a packed tree for packets of points (see packet.h)."""

    seeds = 1
    by_level = True

    def __init__(self, backend: Backend, order: Order) -> None:
        super().__init__(backend, order)
        self.tree = build_packets(backend, order)

    def nearest_by_level(self, position: Array, near: Array, ends: list[int]) -> tuple[Array, Array]:
        """The coarse levels first, whose answers are bounds for the finer ones'. Corners of one level are alike in how
        far they are from the surface, too."""
        distance, slot = self._answers(position)
        first = max([end for end in ends if end <= FIRST_LEVELS], default=ends[0])
        ask(self.backend, self.tree, position[:first], distance[:first], slot[:first])
        for start, end in pairwise(ends):
            if first <= start < end:
                own = [array[start:end] for array in (position, distance, slot)]
                ask(self.backend, self.tree, *own, seed=near[start:end], seed_slot=slot)
        return distance, slot

    def along(self, points: Array) -> Array:
        return loose_order(self.backend, points)

    def nearest_in_any_order(self, points: Array) -> tuple[Array, Array]:
        distance, slot = self._answers(points)
        ask(self.backend, self.tree, points, distance, slot, along=self.along(points))
        return distance, slot

    def in_its_order(self, points: Array) -> Array:
        return points[self.along(points)]

    def _run(self, points: Array, distance: Array, slot: Array, seed: Array | None, counts: dict[str, Array]) -> None:
        ask(self.backend, self.tree, points, distance, slot, seed=seed, **counts)
