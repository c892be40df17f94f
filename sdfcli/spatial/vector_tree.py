"""VectorTree: exact nearest neighbours among vectors, from approximate ones (see neighbours/exact.h)."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate

import numpy as np

from sdfcli.backend import Array, Backend, C
from sdfcli.spatial.shifted_sort import for_k

ABREAST: int = C.VECTORS_ABREAST
"""Vectors per leaf, and children per node."""


class VectorTree:
    """A tree of boxes over vectors in curve order.

    data: (n, d) float64, d in shifted_sort.SIZES. number: (n,) uint32, data indices in curve order. leaf: vectors per
    leaf; with n, the search is brute force.
    """

    def __init__(self, backend: Backend, data: Array, number: Array, leaf: int = ABREAST) -> None:
        self.backend, self._leaf, self._number = backend, leaf, number
        self._vector = backend.taken(data, number)
        self._slot = backend.placed(number, len(data))

    @cached_property
    def _levels(self) -> tuple[list[int], Array, Array]:
        """Node counts by level, from the leaves up, and the boxes' minimum and maximum coordinates (nodes, d)."""
        n, d = self._vector.shape
        counts = [-(-n // self._leaf)] if n else []
        while counts and counts[-1] > 1:
            counts.append(-(-counts[-1] // ABREAST))
        least, most = (self.backend.xp.empty((sum(counts), d), np.float64) for _ in range(2))
        below, together, own = (self._vector, self._vector), self._leaf, 0
        for count in counts:
            level = least[own : own + count], most[own : own + count]
            self.backend.run(
                "sdf_neighbour_boxes",
                count,
                dimension=d,
                below=len(below[0]),
                together=together,
                lower=below[0],
                upper=below[1],
                least=level[0],
                most=level[1],
            )
            below, together, own = level, ABREAST, own + count
        return counts, least, most

    def nearest(self, queries: Array, k: int, known: Array, walk: bool = True) -> tuple[Array, Array]:
        """Finds the k nearest data to queries (m, d) float64, by distance, then by index; to float64 rounding.

        known: (m, j) uint32, data indices to start from; without `walk`, only these are measured. With `walk`, they
        affect the time but not the results.

        Returns distances (m, k) float64 and data indices (m, k) uint32. If there are fewer than k: infinite, and
        0xffffffff.
        """
        backend, xp = self.backend, self.backend.xp
        counts, least, most = self._levels if walk else ([], None, None)
        distance, nearest = xp.empty((len(queries), k), np.float64), xp.empty((len(queries), k), np.uint32)
        backend.run(
            for_k("sdf_neighbours", k),
            len(queries),
            data=len(self._vector),
            dimension=self._vector.shape[1],
            k=k,
            known=known.shape[1],
            levels=len(counts),
            leaf=self._leaf,
            query=queries,
            vector=self._vector,
            number=self._number,
            slot=self._slot,
            count=backend.from_host(counts, np.uint32),
            first=backend.from_host([0, *accumulate(counts)], np.uint32),
            least=least,
            most=most,
            start=known,
            distance=distance,
            nearest=nearest,
        )
        return distance, nearest

    def list_within(
        self,
        queries: Array,
        radius: float,
        count: Array,
        start: Array | None,
        distance: Array | None,
        found: Array | None,
    ) -> None:
        """Counts all data within a radius (inclusive) of queries (m, d) float64, to float64 rounding, or lists them.

        count: (m,) uint32, out. start: (m,) uint64, each query's first entry in distance (l,) float64 and found (l,)
        uint32, data indices, both out; or all three None.
        """
        counts, least, most = self._levels
        self.backend.run(
            "sdf_neighbours_within",
            len(queries),
            data=len(self._vector),
            dimension=self._vector.shape[1],
            levels=len(counts),
            leaf=self._leaf,
            radius=radius,
            query=queries,
            vector=self._vector,
            number=self._number,
            count=self.backend.from_host(counts, np.uint32),
            first=self.backend.from_host([0, *accumulate(counts)], np.uint32),
            least=least,
            most=most,
            start=start,
            within=count,
            distance=distance,
            nearest=found,
        )
