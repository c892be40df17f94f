"""Lists of what kernels have chosen."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.stages.corners import level_order


def chosen(backend: Backend, wish: Array, most: int = 1, first: int = 0) -> list[Array]:
    """For each of the numbers 1 .. most, where it stands in wish (n,) uint8: (k,) uint32, in order, from `first` on.

    The host waits once, for all of them.
    """
    xp = backend.xp
    if len(wish) == 0:
        return [xp.empty(0, np.uint32)] * most
    if not backend.warps:
        return [xp.flatnonzero(wish == k).astype(np.uint32) + np.uint32(first) for k in range(1, most + 1)]
    order, ends = level_order(backend, wish, most + 1, first)
    return [order[start:end] for start, end in pairwise(ends)]
