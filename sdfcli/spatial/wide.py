"""WideIndex: queries on the CPU, by SIMD over a tree with 16 children per node (see distance/simd.h)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend, C
from sdfcli.spatial.index import DistanceIndex
from sdfcli.spatial.morton import Order
from sdfcli.spatial.packets import packed_levels

WIDE = C.LANES


@dataclass(frozen=True)
class WideTree:
    """A packed tree with 16 children per node.

    block_slot   (n,) uint32: slots in block order (trees/wide_order.h).
    block        (blocks, 7, 16) float32: per block of 16 triangles, in that order, a frame and their bounds in it.
    box          (nodes, 6, 16) float32: boxes of 16 children, by level, the root last.
    level_start  (levels,) uint32: each level's first node.
    """

    block_slot: Array
    block: Array
    box: Array
    level_start: Array


def build_wide(backend: Backend, order: Order) -> WideTree:
    """Builds the packed tree over triangles."""
    xp = backend.xp
    block_slot = xp.empty(len(order), np.uint32)
    counts, start = packed_levels(len(order), WIDE)
    block = xp.empty((counts[0], 7, WIDE), np.float32)
    backend.run(
        "sdf_wide_order",
        len(order),
        triangle=order.triangle,
        block_slot=block_slot,
        placed=block.reshape(-1)[: 4 * len(order)].reshape(-1, 4),  # scratch space: blocks are written later
        parts=counts[0],
        part=xp.empty((2, counts[0], 2), np.uint32),
        middle=xp.empty(counts[0], np.uint32),
    )
    box = xp.empty((start[-1], 6, WIDE), np.float32)
    box[:, :3], box[:, 3:] = 3e38, -3e38
    for level, count in enumerate(counts[:-1]):
        backend.run(
            "sdf_wide_build",
            count,
            triangles=len(order),
            triangle=order.triangle,
            block_slot=block_slot,
            block=None if level else block,
            own=box[start[level - 1] :] if level else None,
            above=box[start[level] :],
        )
    return WideTree(block_slot, block, box, backend.from_host(start[:-1], np.uint32))


class WideIndex(DistanceIndex):
    """`fast` on the CPU: one point per SIMD lane; the lanes traverse the tree together (see distance/simd.h)."""

    seeds = 8
    coherent = False

    def __init__(self, backend: Backend, order: Order) -> None:
        super().__init__(backend, order)
        self.tree = build_wide(backend, order)

    @cached_property
    def _slot_of(self) -> Array:
        """(n,) uint32: slots by triangle id."""
        slot = self.backend.xp.empty(len(self.order), np.uint32)
        slot[self.order.triangle_id] = self.backend.xp.arange(len(slot), dtype=np.uint32)
        return slot

    @property
    def _tree(self) -> dict[str, Any]:
        """The tree, as the kernels' arguments."""
        tree = self.tree
        arrays = {"block": tree.block, "block_slot": tree.block_slot, "wide_box": tree.box}
        return {"levels": len(tree.level_start), "level_start": tree.level_start, **arrays}

    def nearest_triangles(self, points: Array, k: int) -> tuple[Array, Array]:
        xp, order = self.backend.xp, self.order
        distance, face = xp.empty((len(points), k), np.float32), xp.empty((len(points), k), np.uint32)
        self.backend.run(
            "sdf_nearest_triangles_wide",
            len(points),
            triangles=len(order),
            k=k,
            points=points,
            triangle=order.triangle,
            triangle_id=order.triangle_id,
            slot_of=self._slot_of,
            distance=distance,
            face=face,
            **self._tree,
        )
        return distance, face

    def nearest_in_any_order(self, points: Array) -> tuple[Array, Array]:
        order = self.along(points)
        answers = self.nearest(points[order])
        distance, slot = self._answers(points)
        distance[order], slot[order] = answers
        return distance, slot

    def in_its_order(self, points: Array) -> Array:
        return points[self.along(points)]

    def _run(self, points: Array, distance: Array, slot: Array, seed: Array | None, counts: dict[str, Array]) -> None:
        self.backend.run(
            "sdf_distance_wide",
            len(points),
            **self._tree,
            **self._shared(points, distance, slot, seed, counts),
        )
