"""Lists of what kernels have chosen."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sdfcli.backend.base import WARP, Array, Backend

FEW = 8192
"""Up to so many entries one warp is faster than three launches."""
RUN = 256
"""As in base/sort.h: so many entries are counted together."""


def by_value(backend: Backend, value: Array, values: int, first: int = 0) -> tuple[Array, list[int]]:
    """The numbers, from `first` on, of the entries of value (n,) uint8: (n,) uint32, in order for each value below
    `values` (32 at most), one value after the other; and where each ends. The host waits once."""
    xp, n = backend.xp, len(value)
    if n == 0:
        return xp.empty(0, np.uint32), [0] * values
    if not backend.warps:
        counts: list[int] = np.cumsum(np.bincount(value, minlength=values)).tolist()
        return np.argsort(value, kind="stable").astype(np.uint32) + np.uint32(first), counts
    runs = -(-n // RUN)
    end, ends, order = (xp.empty(k, np.uint32) for k in (values * runs, values, n))
    counted = {"count": n, "levels": values, "level": value}
    backend.run("sdf_level_count", WARP * runs, counts=end, **counted)
    backend.inclusive_scan(end)
    backend.run("sdf_level_order", WARP * runs, first=first, end=end, order=order, ends=ends, **counted)
    return order, backend.to_host(ends).tolist()


def chosen(backend: Backend, wish: Array, most: int = 1, first: int = 0) -> list[Array]:
    """For each of the numbers 1 .. most, 3 at most, where it stands in wish (n,) uint8: (k,) uint32, in order, from
    `first` on."""
    if not backend.warps:
        return [np.flatnonzero(wish == k).astype(np.uint32) + np.uint32(first) for k in range(1, most + 1)]
    xp, n = backend.xp, len(wish)
    if 0 < n <= FEW:
        places, last = xp.empty(n, np.uint32), xp.empty(3, np.uint32)
        backend.run("sdf_chosen", WARP, count=n, first=first, wish=wish, chosen=places, last=last)
        return [places[start:end] for start, end in pairwise([0, *backend.to_host(last[:most]).tolist()])]
    order, ends = by_value(backend, wish, most + 1, first)
    return [order[start:end].copy() for start, end in pairwise(ends)]  # mostly few: the rest is not kept for them
