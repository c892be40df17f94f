"""`nearest_neighbours` and `neighbours_within`: among three- to sixteen-dimensional vectors."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, select_backend
from sdfcli.errors import InputError, UsageError
from sdfcli.field.field import gpu_of, is_cupy
from sdfcli.mesh.arrays import Floats, Ints, unmasked
from sdfcli.query.within import check_radius, filtered, gathered, listed
from sdfcli.spatial.shifted_sort import MOST_NEIGHBOURS, ShiftedSort, check_neighbours, default_shifts, padded
from sdfcli.spatial.vector_tree import VectorTree

CHUNK = 1 << 18
"""Queries per batch."""

DIMENSIONS = range(3, 17)
"""Supported vector dimensions."""

FARTHEST = 1e18
"""Distance from the data, in edges of their cube, beyond which queries are moved closer for the approximate search
only, so that squares stay within float32."""

STARTS = 2
"""Curve count that seeds the exact search: of 1 to 7, the fastest in most cases."""

TINY = 2.0**-40
"""Coordinates in the cube below this become 0, so that no squared difference is a denormal float32, which some
processors flush to 0."""

TINY_EXACT = 2.0**-400
"""The same for float64."""


def nearest_neighbours(
    data: npt.ArrayLike,
    queries: npt.ArrayLike,
    k: int,
    approximate: bool = True,
    *,
    shifts: int | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> tuple[Floats, Ints]:
    """Finds the k nearest data vectors to each query vector, by Euclidean distance, then by index.

    Approximate: the shifted sort (Chan 1997; Li et al. 2012; Park 2019) ranks the 2 k data around each query on each of
    a few curves. Results do not depend on other queries. Exact: a tree of boxes, searched from two curves' candidates;
    to float64 rounding.

    Args:
        data: (n, d) finite numbers, d from 3 to 16: points, boxes by their corners, or any other vectors.
        queries: (m, d).
        k: 1 to 32.
        approximate: whether neighbours may be missed.
        shifts: curve count for the approximation, 1 to 64; default: d + 1, or d + 2 for odd d. More find more.
        device: `auto`, `cpu`, `cuda` or `cuda:N`, for NumPy arrays. CuPy arrays run on their own GPU and return CuPy
            arrays. Results do not depend on it.
        threads: CPU thread count; default: all CPUs available to the process.

    Returns:
        Distances (m, k) float64, ascending, and data indices (m, k) int64, from 0. If there are fewer than k data:
        infinite, and -1. Distances beyond 1e150 edges of the data's cube may also be infinite.

    Raises:
        InputError: arrays with other shapes or non-finite numbers.
        UsageError: an invalid k, shift count or device.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the data do not fit into memory.
    """
    check_neighbours(k)

    def find(index: _Neighbours, asked: Array) -> tuple[Array, Array]:
        return index.nearest(asked, k, approximate)

    distance, number = _searched(data, queries, find, approximate, shifts, device, threads)
    return distance, number


def neighbours_within(
    data: npt.ArrayLike,
    queries: npt.ArrayLike,
    radius: float,
    approximate: bool = False,
    *,
    shifts: int | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> tuple[Ints, Ints, Floats]:
    """Finds all data vectors within a radius of each query vector, by Euclidean distance.

    Exact: a tree of boxes, to float64 rounding. Approximate: the 32 nearest by `nearest_neighbours`, if within the
    radius; some, and all beyond 32, may be missed.

    Args:
        data: (n, d) finite numbers, d from 3 to 16.
        queries: (m, d).
        radius: maximum distance, inclusive.
        approximate: whether neighbours may be missed.
        shifts: curve count for the approximation, as for `nearest_neighbours`.
        device: `auto`, `cpu`, `cuda` or `cuda:N`, as for `nearest_neighbours`.
        threads: CPU thread count; default: all CPUs available to the process.

    Returns:
        Starts (m + 1,) int64, data indices (l,) int64, and distances (l,) float64: query i's are entries starts[i] to
        starts[i + 1], ordered by distance, then by index. None are farther than 1e150 edges of the data's cube.

    Raises:
        InputError: arrays with other shapes or non-finite numbers.
        UsageError: a radius that is negative or not finite, an invalid shift count or device.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the data or the result do not fit into memory.
    """
    check_radius(radius)

    def find(index: _Neighbours, asked: Array) -> tuple[Array, ...]:
        if not approximate:
            return index.within(asked, radius)
        distance, number = index.nearest(asked, MOST_NEIGHBOURS, approximate=True)
        return filtered(distance, number, radius)

    starts, numbers, distances = _searched(data, queries, find, approximate, shifts, device, threads)
    return starts, numbers, distances


def _searched(
    data: Any,
    queries: Any,
    find: Callable[[_Neighbours, Array], tuple[Array, ...]],
    approximate: bool,
    shifts: int | None,
    device: str,
    threads: int | None,
) -> tuple[Any, ...]:
    """The results of find(index, queries), on the arrays' own device."""
    if shifts is not None and not approximate:
        raise UsageError("shifts: exact neighbours have none; leave it out, or ask for approximate ones")
    on_device = gpu_of(queries, data)
    backend = select_backend(on_device or device, threads)
    with backend.active():
        rows = _vectors(backend, data, "data")
        asked = _vectors(backend, queries, "queries")
        if rows.shape[1] != asked.shape[1]:
            raise InputError(f"queries have {asked.shape[1]} columns, the data have {rows.shape[1]}")
        curves = STARTS if not approximate else default_shifts(rows.shape[1]) if shifts is None else shifts
        asked = padded(backend, asked)
        results = find(_Neighbours(backend, padded(backend, rows), asked, curves), asked)
    return results if on_device else tuple(map(backend.to_host, results))


def _vectors(backend: Backend, values: Any, name: str) -> Array:
    """Vectors (n, d) float64 on the device."""
    unmasked(values, name)
    if getattr(values, "dtype", np.dtype(float)).kind == "c":
        raise InputError(f"{name} must be real numbers, not {values.dtype}")
    try:
        rows = backend.from_host(values if is_cupy(values) else np.asarray(values, np.float64), np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers, (n, 3) to (n, 16): {error}") from error
    if rows.ndim != 2 or rows.shape[1] not in DIMENSIONS:
        raise InputError(f"{name} must be (n, 3) to (n, 16), not {tuple(rows.shape)}")
    finite = backend.xp.isfinite(rows)
    if not bool(finite.all()):
        row = int(backend.xp.argmin(finite.all(axis=1)))
        raise InputError(f"{name}: row {row} is not finite")
    return rows


class _Neighbours:
    """Approximate and exact neighbours in data (n, d) float64. shifts: curve count. queries: (m, d), used only to scale
    data that are all 0."""

    def __init__(self, backend: Backend, data: Array, queries: Array, shifts: int) -> None:
        xp, (n, d) = backend.xp, data.shape
        self.backend = backend
        self._low = data.min(axis=0) if n else xp.zeros(d)
        half = float((0.5 * data.max(axis=0) - 0.5 * self._low).max()) if n else 0.0  # halved against overflow
        self._half_length = half or 0.5
        sizes = (0.5 * float(abs(rows).max()) for rows in (data, queries) if rows.size)
        self._scale = math.frexp(half or next(filter(None, sizes), 0.5))[1] + 1  # scaling by a power of two is exact
        self._sort = ShiftedSort(backend, self._in_cube(data), shifts)
        self._tree = VectorTree(backend, self._scaled(data), self._sort.curve(0)[1])

    def nearest(self, queries: Array, k: int, approximate: bool) -> tuple[Array, Array]:
        """Distances (m, k) float64 and indices (m, k) int64 for queries (m, d) float64."""
        xp, m = self.backend.xp, len(queries)
        distance, number = xp.empty((m, k), np.float64), xp.empty((m, k), np.int64)
        for first in range(0, m, CHUNK):
            part = queries[first : first + CHUNK]
            unit = self._in_cube(part)
            order = self._sort.along(unit)
            _, candidates = self._sort.candidates(unit[order], k)
            near, found = self._tree.nearest(self._scaled(part[order]), k, candidates, walk=not approximate)
            with np.errstate(over="ignore"):
                distance[first : first + CHUNK][order] = xp.ldexp(near, self._scale)
            number[first : first + CHUNK][order] = found.view(np.int32)  # missing neighbours become -1
        return distance, number

    def within(self, queries: Array, radius: float) -> tuple[Array, Array, Array]:
        """Starts (m + 1,), indices and distances of all data within a radius, as `neighbours_within`."""
        batches = []
        with np.errstate(over="ignore"):
            scaled = min(float(np.ldexp(radius, -self._scale)), sys.float_info.max)
        for first in range(0, max(1, len(queries)), CHUNK):
            part = queries[first : first + CHUNK]
            order = self._sort.along(self._in_cube(part))
            search = partial(self._tree.list_within, self._scaled(part[order]), scaled)
            batches.append((first + self.backend.to_host(order), *listed(self.backend, len(part), search)))
        starts, numbers, distances = gathered(batches)
        starts, numbers, distances = map(self.backend.from_host, (starts, numbers, np.ldexp(distances, self._scale)))
        return starts, numbers, distances

    def _in_cube(self, vectors: Array) -> Array:
        """Vectors (n, d) float32 relative to the unit cube around the data, for codes and candidates."""
        xp = self.backend.xp
        with np.errstate(over="ignore"):
            unit = xp.clip((0.5 * vectors - 0.5 * self._low) / self._half_length, -FARTHEST, FARTHEST)
        return xp.where(abs(unit) < TINY, 0.0, unit).astype(np.float32)

    def _scaled(self, vectors: Array) -> Array:
        """Vectors (n, d) float64 whose cube has an edge of about 1, so that distances do not overflow."""
        with np.errstate(over="ignore"):
            scaled = self.backend.xp.ldexp(vectors, -self._scale)
        return self.backend.xp.where(abs(scaled) < TINY_EXACT, 0.0, scaled)
