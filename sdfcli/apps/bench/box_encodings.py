"""A mesh's data vectors for neighbour searches, in several forms, and their exact neighbours."""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any

import numpy as np

from sdfcli import params
from sdfcli.backend import Array
from sdfcli.query.nearest_triangles import box_vectors, point_vectors
from sdfcli.query.neighbours import STARTS
from sdfcli.scene import Scene
from sdfcli.spatial.shifted_sort import ShiftedSort
from sdfcli.spatial.vector_tree import VectorTree

FORMS = (*params.FORMS, "vertices")
"""Triangle box forms, and the mesh's vertices."""


class Form:
    """Data vectors in one of FORMS.

    data: (n, d) float32 in the unit cube on the scene's device; triangle boxes are indexed by slot.
    """

    def __init__(self, scene: Scene, name: str) -> None:
        self.backend, self.name = scene.backend, name
        self.data: Array
        if name == "vertices":
            self.data = self.backend.from_host(scene.mesh.domain.to_unit(scene.mesh.vertices), np.float32)
        else:
            self.data = box_vectors(self.backend, scene.order.triangle, name)

    def queries(self, points: Array) -> Array:
        """Query vectors (m, d) float32 for points (m, 3) float32 in the unit cube."""
        return points if self.name == "vertices" else point_vectors(points, self.name)

    @cached_property
    def sort(self) -> ShiftedSort:
        """Default shifted sort over the data."""
        return ShiftedSort(self.backend, self.data)

    @cached_property
    def top(self) -> ShiftedSort:
        """The same with one word per code."""
        return ShiftedSort(self.backend, self.data, words=1)

    def exact(self, queries: Array, k: int) -> tuple[Array, Array]:
        """The k nearest neighbours for queries (m, d) float32, as in `nearest_neighbours`: distances (m, k) float64 and
        indices (m, k) uint32; missing ones are infinite and 0xffffffff."""
        order = self._starts.along(queries)
        in_order = queries[order]
        known = self._starts.candidates(in_order, k)[1]
        distance, number = (self.backend.xp.empty((len(queries), k), dtype) for dtype in (np.float64, np.uint32))
        distance[order], number[order] = self._tree.nearest(in_order.astype(np.float64), k, known)
        return distance, number

    def by_force(self, queries: Array, k: int) -> tuple[Array, Array]:
        """`exact` by brute force: measures all data for each query."""
        nothing = self.backend.xp.empty((len(queries), 0), np.uint32)
        return self._heap.nearest(queries.astype(np.float64), k, nothing)

    def by_peer(self, queries: Array, k: int, threads: int) -> tuple[Any, float] | None:
        """Indices (m, k) int64 from SciPy's k-d tree, on the host, and its seconds without construction; None without
        SciPy, or for fewer than k data."""
        if self._peer is None or len(self.data) < k:
            return None
        asked = self.backend.to_host(queries)
        start = time.perf_counter()
        numbers = self._peer.query(asked, k, workers=threads)[1]
        seconds = time.perf_counter() - start
        return numbers.reshape(-1, k), seconds

    @cached_property
    def _starts(self) -> ShiftedSort:
        return ShiftedSort(self.backend, self.data, STARTS)

    @cached_property
    def _tree(self) -> VectorTree:
        return self._tree_of()

    @cached_property
    def _heap(self) -> VectorTree:
        return self._tree_of(leaf=len(self.data))

    def _tree_of(self, **options: int) -> VectorTree:
        return VectorTree(self.backend, self.data.astype(np.float64), self._starts.curve(0)[1], **options)

    @cached_property
    def _peer(self) -> Any:
        try:
            from scipy.spatial import cKDTree
        except ImportError:
            return None
        return cKDTree(self.backend.to_host(self.data))
