"""(d) DistanceIndex: the interface for nearest-triangle queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend, Group
from sdfcli.spatial.morton import Order, curve_order


class DistanceIndex(ABC):
    """A tree over triangles in Morton order, for nearest-triangle queries; ties go to the smallest face index.

    All indices give the same results. order: the triangles; a slot is an index into it. seeds: count of candidate slots
    used by queries at an octree's new points; 0: none, as in the thesis.
    """

    seeds = 0
    batch = 1 << 20
    """Maximum points per batch up to which larger batches take less time per point."""
    least_piece = 1 << 14
    """Minimum points per device for which splitting a query pays off, transfers included."""
    by_level = False
    """Whether results at an octree's coarse corners speed up queries at finer ones."""
    coherent = True
    """Whether candidates from an earlier frame speed up queries, including their lookup."""

    def __init__(self, backend: Backend, order: Order) -> None:
        self.backend, self.order = backend, order

    @property
    def kernel_tree(self) -> Group | None:
        """The tree, as the group PacketTree, for kernels that query it directly; None if unsupported."""
        return None

    def nearest(self, points: Array, seed: Array | None = None) -> tuple[Array, Array]:
        """Unsigned distances (m,) float32 and nearest slots (m,) uint32 for points (m, 3) float32 in the unit cube;
        fast for points sorted along a curve.

        seed: (m, k) uint32, candidate slots per point; rows with fewer than k end with 0xffffffff. Results do not
        depend on them.
        """
        distance, slot = self._answers(points)
        self._run(points, distance, slot, seed, {})
        return distance, slot

    def visits(self, points: Array, seed: Array | None = None) -> tuple[Array, Array]:
        """Box and triangle test counts, (m,) uint32 each, for `nearest` at the same points."""
        boxes, tests = (self.backend.xp.empty(len(points), np.uint32) for _ in range(2))
        self._run(points, *self._answers(points), seed, {"boxes": boxes, "tests": tests})
        return boxes, tests

    def nearest_triangles(self, points: Array, k: int) -> tuple[Array, Array] | None:
        """The k nearest triangles to points, as NearestTriangles.exact returns them; fast for points sorted along a
        curve. None if unsupported."""
        return None

    def nearest_by_level(
        self, position: Array, near: Array, ends: list[int], seed: Array | None = None
    ) -> tuple[Array, Array]:
        """`nearest` at octree corners at position (m, 3), sorted by level. ends: each level's end.

        near: (m,) uint32, for each corner the index of an earlier one nearby. seed: as for `nearest`.
        """
        return self.nearest(position, seed)

    def along(self, points: Array) -> Array:
        """A permutation (m,) uint32 that sorts points (m, 3) along a curve, for `nearest`."""
        return curve_order(self.backend, points)

    def nearest_in_any_order(self, points: Array) -> tuple[Array, Array]:
        """`nearest` for points not sorted along a curve."""
        return self.nearest(points)

    def in_its_order(self, points: Array) -> Array:
        """Points (m, 3) in the order in which `nearest_in_any_order` queries them."""
        return points

    def _answers(self, points: Array) -> tuple[Array, Array]:
        return self.backend.xp.empty(len(points), np.float32), self.backend.xp.empty(len(points), np.uint32)

    def _shared(
        self, points: Array, distance: Array, slot: Array, seed: Array | None, counts: dict[str, Array]
    ) -> dict[str, Any]:
        """Arguments for every kernel with one thread or lane per point."""
        return {
            "triangles": len(self.order),
            "points": points,
            "triangle": self.order.triangle,
            "triangle_id": self.order.triangle_id,
            "seeds": 0 if seed is None else seed.shape[1],
            "seed": seed,
            "distance": distance,
            "slot": slot,
            "boxes": counts.get("boxes"),
            "tests": counts.get("tests"),
        }

    @abstractmethod
    def _run(self, points: Array, distance: Array, slot: Array, seed: Array | None, counts: dict[str, Array]) -> None:
        """Writes `distance` and `slot`, and the `boxes` and `tests` in `counts` if given."""
