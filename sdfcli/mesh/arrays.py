"""Array types of meshes, and slices of them: for the cache, and for threads."""

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
"""Minimum and maximum rows that a thread takes at a time."""

T = TypeVar("T")

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Faces = npt.NDArray[np.uint32]
Bools = npt.NDArray[np.bool_]


def pieces(count: int) -> list[slice]:
    """Slices of `count` rows whose intermediate results stay in the cache."""
    return [slice(first, first + PIECE) for first in range(0, count, PIECE)]


def by_threads(work: Callable[[slice], T], rows: int) -> list[T]:
    """The results of `work` for slices of `rows`, in their order; by threads where these are many, as NumPy lets other
    threads run."""
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
