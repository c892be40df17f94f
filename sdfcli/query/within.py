"""Searches within a radius: results of any length per point, as rows in one array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.errors import UsageError
from sdfcli.params import real

Rows = tuple[Any, Any, Any]
"""Starts (n + 1,) int64, numbers (m,) int64 and distances (m,) float64: point i's are entries starts[i] to
starts[i + 1], ordered by distance, then by number."""


def check_radius(radius: float, name: str = "radius") -> None:
    """Raises UsageError for a radius that is negative or not finite."""
    if not 0 <= real(radius) < np.inf:
        raise UsageError(f"{name} {radius}: use 0 or a positive number")


def listed(
    backend: Backend, n: int, run: Callable[[Array, Array | None, Array | None, Array | None], None]
) -> tuple[Array, Array, Array]:
    """Counts (n,), distances (m,) and numbers (m,) on the host, from a kernel that counts, then lists.

    run: launches it with counts (n,) uint32, and the first time None, then starts (n,) uint64, distances (m,) float64
    and numbers (m,) uint32.
    """
    xp = backend.xp
    count = xp.empty(n, np.uint32)
    run(count, None, None, None)
    counts = backend.to_host(count)
    ends = np.cumsum(counts, dtype=np.uint64)
    distance, number = (xp.empty(int(ends[-1]) if n else 0, dtype) for dtype in (np.float64, np.uint32))
    run(count, backend.from_host(ends - counts), distance, number)
    return counts, backend.to_host(distance), backend.to_host(number)


def gathered(batches: Sequence[tuple[Array, Array, Array, Array]]) -> Rows:
    """Rows on the host from batches: points (n,), then what `listed` returns for them, in any order."""
    order, counts, distance, number = (np.concatenate(column) for column in zip(*batches, strict=True))
    point = np.repeat(order, counts)
    rows = np.lexsort((number, distance, point))
    starts = np.searchsorted(point[rows], np.arange(len(order) + 1))
    return starts, number[rows].astype(np.int64), distance[rows]


def filtered(distance: Array, number: Array, radius: float) -> Rows:
    """Rows of the k nearest (n, k) within the radius, on their device."""
    near = distance <= radius
    starts = np.zeros_like(number, np.int64, shape=len(number) + 1)
    starts[1:] = near.sum(axis=1).cumsum()
    return starts, number[near], distance[near]
