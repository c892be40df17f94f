"""(d) Exact distances from points to the mesh: what every index offers."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.spatial.morton import Order, curve_order


class DistanceIndex(ABC):
    """A tree over triangles in Morton order that finds the nearest one; of equally near ones that of the smallest id.

    All indices give the same answers. order: the triangles; slots are their places in it. seeds: slots that queries of
    an octree's new points start from; 0: such queries start from the root, as the thesis's do.
    """

    seeds = 0
    by_level = False
    """Whether answers at an octree's coarse corners make queries at the finer ones faster."""

    def __init__(self, backend: Backend, order: Order) -> None:
        self.backend, self.order = backend, order

    def nearest(self, points: Array, seed: Array | None = None) -> tuple[Array, Array]:
        """Unsigned distance (m,) float32 and nearest slot (m,) uint32 of points (m, 3) float32 in the unit cube, which
        should come in the order of a curve.

        seed: (m, k) uint32, slots that are likely to be near, in each row ended by 0xffffffff if there are less than k;
        they only make the query faster.
        """
        distance, slot = self._answers(points)
        self._run(points, distance, slot, seed, {})
        return distance, slot

    def visits(self, points: Array, seed: Array | None = None) -> tuple[Array, Array]:
        """Boxes and triangles, (m,) uint32 each, that `nearest` of the same points measures."""
        boxes, tests = (self.backend.xp.empty(len(points), np.uint32) for _ in range(2))
        self._run(points, *self._answers(points), seed, {"boxes": boxes, "tests": tests})
        return boxes, tests

    def nearest_by_level(self, position: Array, near: Array, ends: list[int]) -> tuple[Array, Array]:
        """`nearest` of an octree's corners at position (m, 3), level by level, which end where `ends` says.

        near: (m,) uint32, for each corner the number of an earlier one nearby.
        """
        return self.nearest(position)

    def along(self, points: Array) -> Array:
        """(m,) uint32: an order of points (m, 3) along a curve, as suits `nearest`."""
        return curve_order(self.backend, points)

    def nearest_in_any_order(self, points: Array) -> tuple[Array, Array]:
        """`nearest` of points that do not come in the order of a curve."""
        return self.nearest(points)

    def in_its_order(self, points: Array) -> Array:
        """Points (m, 3) as `nearest_in_any_order` queries them."""
        return points

    def _answers(self, points: Array) -> tuple[Array, Array]:
        return self.backend.xp.empty(len(points), np.float32), self.backend.xp.empty(len(points), np.uint32)

    @abstractmethod
    def _run(self, points: Array, distance: Array, slot: Array, seed: Array | None, counts: dict[str, Array]) -> None:
        """Fills in distance and slot, and `boxes` and `tests` where they are given."""
