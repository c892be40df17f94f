"""Array types of meshes, and row slices for the cache and for threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError
from sdfcli.runtime.hardware import available_threads
from sdfcli.runtime.threads import executor

PIECE = 1 << 13
"""Faces per slice."""

LEAST, MOST = 1 << 15, 1 << 18
"""Minimum and maximum rows per slice in a thread."""

T = TypeVar("T")

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Faces = npt.NDArray[np.uint32]
Bools = npt.NDArray[np.bool_]


def pieces(count: int) -> list[slice]:
    """Slices of `count` rows, small enough for intermediate results to stay in the cache."""
    return [slice(first, first + PIECE) for first in range(0, count, PIECE)]


def by_threads(work: Callable[[slice], T], rows: int) -> list[T]:
    """Results of `work` on slices of `rows`, in order; in threads if there are many rows, since NumPy releases the
    GIL."""
    threads = available_threads()
    size = min(MOST, max(LEAST, -(-rows // (2 * threads))))
    parts = [slice(first, min(first + size, rows)) for first in range(0, rows, size)]
    if min(threads, len(parts)) < 2:
        return [work(part) for part in parts]
    with executor(min(threads, len(parts))) as helpers:
        return list(helpers.map(work, parts))


def unmasked(values: Any, name: str) -> Any:
    """The values unchanged. Raises InputError for a masked array with masked entries."""
    if np.any(getattr(values, "mask", False)):
        raise InputError(f"{name}: masked values; remove them first")
    return values
