"""Lists of what kernels have chosen."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.stages.corners import level_order


def chosen(backend: Backend, wish: Array, most: int = 1) -> list[Array]:
    """For each of the numbers 1 .. most, where it stands in wish (n,) uint8: places (k,) uint32, in order.

    The host waits once, for all of them.
    """
    xp = backend.xp
    if len(wish) == 0:
        return [xp.empty(0, np.uint32)] * most
    if not backend.warps:
        return [xp.flatnonzero(wish == number).astype(np.uint32) for number in range(1, most + 1)]
    order, ends = level_order(backend, wish, most + 1)
    return [order[first:last] for first, last in pairwise(ends)]
