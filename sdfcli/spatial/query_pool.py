"""Nearest-triangle queries split over several devices, each with a contiguous chunk along the curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.spatial.index import DistanceIndex

Answer = tuple[Array, Array]
"""Distances (m,) float32 and slots (m,) uint32, as from `DistanceIndex.nearest`."""

Helper = Callable[[Backend, Array, Array], Callable[[], Answer]]
"""Starts a query for points (m, 3) float32 with candidate slots (m, k) uint32, arrays on this backend. The returned
function waits for the result, also on this backend. Either may raise any exception."""


class QueryPool:
    """Splits queries over helpers. If one fails, its share is computed here and it is dropped."""

    def __init__(self, helpers: Sequence[Helper]) -> None:
        self._helpers = list(helpers)

    def nearest(self, index: DistanceIndex, points: Array, seed: Array | None) -> Answer:
        """An index's `nearest`, bit for bit."""
        xp, n = index.backend.xp, len(points)
        shares = min(1 + len(self._helpers), n // index.least_piece)
        if shares < 2:
            return index.nearest(points, seed)
        candidates = xp.empty((n, 0), np.uint32) if seed is None else seed
        ends = [n * (k + 1) // shares for k in range(shares)]

        def ask(helper: Helper, part: slice) -> Callable[[], Answer]:
            try:
                end = helper(index.backend, points[part], candidates[part])
            except Exception:
                return lambda: lost(helper, part)

            def ended() -> Answer:
                try:
                    return end()
                except Exception:
                    return lost(helper, part)

            return ended

        def lost(helper: Helper, part: slice) -> Answer:
            self._helpers.remove(helper)
            return answer(part)

        def answer(part: slice) -> Answer:
            return index.nearest(points[part], None if seed is None else seed[part])

        parts = [slice(first, end) for first, end in zip([0, *ends], ends, strict=False)]
        asked = [ask(helper, part) for helper, part in zip(tuple(self._helpers), parts[1:], strict=False)]
        distance, slot = xp.empty(n, np.float32), xp.empty(n, np.uint32)
        for part, ended in zip(parts, [lambda: answer(parts[0]), *asked], strict=True):
            distance[part], slot[part] = ended()
        return distance, slot
