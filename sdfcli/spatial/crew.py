"""Nearest triangles of many points by several devices: each takes a piece along the curve."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array
from sdfcli.spatial.index import DistanceIndex

Answer = tuple[npt.NDArray[np.float32], npt.NDArray[np.uint32]]
Helper = Callable[[npt.NDArray[np.float32], npt.NDArray[np.uint32]], Answer]
"""Distances (m,) and slots (m,) of points (m, 3) with candidate slots (m, k), as of `DistanceIndex.nearest`."""

LEAST = 1 << 14
"""Minimum points of a piece; fewer are answered sooner than they travel."""


class Crew:
    """Shares queries with helpers, each of which is called on a thread. What one of them fails to answer is answered
    here, and it is asked no more."""

    def __init__(self, helpers: list[Helper]) -> None:
        self._helpers = list(helpers)
        self._threads = ThreadPoolExecutor(max(1, len(helpers)))

    def nearest(self, index: DistanceIndex, points: Array, seed: Array | None) -> tuple[Array, Array]:
        """`nearest` of an index, to the same bits."""
        backend, xp, n = index.backend, index.backend.xp, len(points)
        shares = min(1 + len(self._helpers), n // LEAST)
        if shares < 2:
            return index.nearest(points, seed)
        candidates = xp.empty((n, 0), np.uint32) if seed is None else seed
        ends = [n * (k + 1) // shares for k in range(shares)]
        asked = []
        for helper, first, end in zip(tuple(self._helpers), ends, ends[1:], strict=False):
            piece = [backend.to_host(array[first:end]) for array in (points, candidates)]
            asked.append((helper, slice(first, end), self._threads.submit(helper, *piece)))
        own = slice(ends[0])
        distance, slot = xp.empty(n, np.float32), xp.empty(n, np.uint32)

        def answer(part: slice) -> tuple[Array, Array]:
            return index.nearest(points[part], None if seed is None else seed[part])

        distance[own], slot[own] = answer(own)
        for helper, part, answered in asked:
            found: tuple[Any, Any]
            try:
                found = tuple(backend.from_host(array) for array in answered.result())
            except Exception:
                self._helpers.remove(helper)
                found = answer(part)
            distance[part], slot[part] = found
        return distance, slot
