"""(d) PacketIndex: queries on a GPU, one warp per packet of neighbouring points (see distance/packet.h)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from sdfcli.backend import WARP, Array, Backend, C, Group
from sdfcli.spatial.index import DistanceIndex
from sdfcli.spatial.morton import Order

PART = C.PART
"""Triangles per part of a block; a block of 32 has eight parts."""

EVERY = (32, 16)
"""Sampling strides. Without seeds, every 32nd point is queried first, and its result is a candidate for the others;
these samples are themselves sampled with stride 16."""

MOST_BITS = 8
"""Maximum bits per axis for the cells into which points are sorted, whose counters take 64 MB."""

MOST_SINGLE = 1 << 15
"""Maximum warps for single-point queries whose count is unknown to the host: a warp without points takes time, too."""

PACKETS_FROM = 80_000
"""Minimum point count for packets of 32 per warp: less work in total, but fewer points would leave much of a GPU
idle."""

FINE_CURVE_FROM = 200_000
"""Minimum triangle count for sorting along a Hilbert curve with 8^7 cells before the cuts; below, 8^6 cells."""

CUTS = ((4096, 1024), (1024, WARP))
"""Sizes of triangle runs along the Hilbert curve, and of the parts into which they are halved, per launch; two launches
have more parallelism than one."""


FIRST_LEVELS = 8000
"""Maximum corner count for the coarsest octree levels that are queried together, in one level's time."""


@dataclass(frozen=True)
class PacketTree:
    """A packed R-tree with 32 children per node, over blocks of 32 triangles (see trees/packed.h).

    slot_place   (n,) uint32: each slot's index in the blocks.
    record       (blocks x 32, 16) float32: the blocks' triangles, prepared for distances.
    box          (blocks + nodes, 4, 32, 4) float32: oriented boxes of 32 children, by level, the root last: centre,
                 then three axes, each with half its length.
    part         (ceil(blocks / 4), 4, 32, 4) float32: boxes for each block's eight parts of 4 triangles.
    level_start  (levels,) uint32: each level's first node.
    """

    slot_place: Array
    record: Array
    box: Array
    part: Array
    level_start: Array


def packed_levels(count: int, width: int) -> tuple[list[int], list[int]]:
    """The levels of a packed tree over `count` triangles: counts of blocks of `width`, then of nodes by level up to the
    root, which even a single block has; and each level's first node, then the total node count."""
    counts = [-(-count // width)]
    while counts[-1] > 1 or len(counts) == 1:
        counts.append(-(-counts[-1] // width))
    return counts, [0, *accumulate(counts[1:])]


def build_packets(backend: Backend, order: Order) -> PacketTree:
    """Builds the packed tree over triangles."""
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
    """A permutation (n,) uint32 that sorts points (n, 3) float32 along the Hilbert curve on a lattice with about n
    cells. The order within a cell is arbitrary, and differs between runs."""
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
    """Writes `distance` and `slot` (m,) for points (m, 3) float32; see DistanceIndex. Fast if consecutive points are
    neighbours.

    along: indices (k,) uint32 of the points to query, in that order. seed: (m,) or (m, s) uint32, candidate slots, or
    indices into seed_slot. boxes, tests: (m,) uint32, test counts. sampled: the points are samples, for which nearly
    nearest triangles suffice.
    """
    queries = len(points) if along is None else len(along)
    together = queries >= PACKETS_FROM
    samples, every = None, EVERY[sampled]
    if together and seed is None and queries > WARP:
        samples = backend.spaced(queries, every, along)
        ask(backend, tree, points, distance, slot, along=samples, sampled=True)
    kernel = ("sdf_distance_sample" if sampled else "sdf_distance_packet") if together else "sdf_distance_single"
    warps = -(-queries // WARP) if together else queries
    given = {"order": along, "seed": seed, "seed_slot": seed_slot, "boxes": boxes, "tests": tests, "every": every}
    sample_slot = None if samples is None else backend.taken(slot, samples)
    _asking(backend, kernel, warps, tree, points, distance, slot, queries=queries, sample_slot=sample_slot, **given)()


def asking_about(
    backend: Backend,
    tree: PacketTree,
    single: Array,
    packets: Array,
    points: Array,
    distance: Array,
    slot: Array,
    seed: Array,
) -> list[Callable[[], None]]:
    """Two launches of `ask`, to be called in turn, whose point counts are read on the device.

    single, packets: (1,) uint32, at least one of them 0: count of leading points to query one by one, and in packets.
    """
    most = len(points)
    ways = ("sdf_distance_single", single, min(most, MOST_SINGLE)), ("sdf_distance_packet", packets, -(-most // WARP))
    return [
        _asking(backend, kernel, warps, tree, points, distance, slot, many=many, seed=seed, queries=most)
        for kernel, many, warps in ways
    ]


def _asking(
    backend: Backend,
    kernel: str,
    warps: int,
    tree: PacketTree,
    points: Array,
    distance: Array,
    slot: Array,
    **given: Any,
) -> Callable[[], None]:
    seed = given["seed"]
    others = ("many", "order", "sample_slot", "seed_slot", "boxes", "tests")
    return backend.ready(
        kernel,
        WARP * warps,
        levels=len(tree.level_start),
        seeds=0 if seed is None else seed.size // max(1, len(points)),
        points=points,
        slot_place=tree.slot_place,
        record=tree.record,
        box=tree.box,
        part=tree.part,
        level_start=tree.level_start,
        distance=distance,
        slot=slot,
        **{**dict.fromkeys(others), "every": 1, **given},
    )


class PacketIndex(DistanceIndex):
    """`fast` on a GPU: warps traverse a packed tree for packets of points (see distance/packet.h)."""

    seeds = 1
    batch = 1 << 24
    least_piece = 1 << 19
    by_level = True
    coherent = False

    def __init__(self, backend: Backend, order: Order) -> None:
        super().__init__(backend, order)
        self.tree = build_packets(backend, order)

    @property
    def kernel_tree(self) -> Group | None:
        tree = self.tree
        if not self.backend.grids:
            return None
        arrays = {name: getattr(tree, name) for name in ("slot_place", "record", "box", "part", "level_start")}
        return self.backend.group("PacketTree", levels=len(tree.level_start), **arrays)

    def nearest_by_level(
        self, position: Array, near: Array, ends: list[int], seed: Array | None = None
    ) -> tuple[Array, Array]:
        """Queries coarse levels first, as their results bound finer ones; corners on one level also have similar
        distances. With seeds, queries all levels at once."""
        if seed is not None:
            return self.nearest(position, seed)
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
        if len(points) < PACKETS_FROM:  # one warp per point
            return self.nearest(points)
        distance, slot = self._answers(points)
        ask(self.backend, self.tree, points, distance, slot, along=self.along(points))
        return distance, slot

    def in_its_order(self, points: Array) -> Array:
        return points if len(points) < PACKETS_FROM else points[self.along(points)]

    def _run(self, points: Array, distance: Array, slot: Array, seed: Array | None, counts: dict[str, Array]) -> None:
        ask(self.backend, self.tree, points, distance, slot, seed=seed, **counts)
