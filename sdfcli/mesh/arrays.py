"""Array types of meshes, and slices that fit into the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError

PIECE = 1 << 13
"""Faces per slice."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def pieces(count: int) -> list[slice]:
    """Slices of `count` rows whose intermediate results stay in the cache."""
    return [slice(first, first + PIECE) for first in range(0, count, PIECE)]


def unmasked(values: Any, name: str) -> Any:
    """The values unchanged. Raises InputError for a masked array with masked entries."""
    if np.any(getattr(values, "mask", False)):
        raise InputError(f"{name}: masked values; remove them first")
    return values
