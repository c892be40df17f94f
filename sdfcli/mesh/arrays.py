"""Arrays of meshes: their types, and pieces of them that stay in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError

PIECE = 1 << 13
"""Faces that are looked at at a time."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def pieces(count: int) -> list[slice]:
    """Parts of arrays that stay in the cache, whose intermediate results take no memory that is new."""
    return [slice(first, first + PIECE) for first in range(0, count, PIECE)]


def unmasked(values: Any, name: str) -> Any:
    """Values, as they are. Raises InputError for an array of which some are masked: nothing stands in their places."""
    if np.any(getattr(values, "mask", False)):
        raise InputError(f"{name}: masked values; remove them first")
    return values
