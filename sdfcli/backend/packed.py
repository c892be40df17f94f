"""Packed: several arrays in one allocation, for one copy to the host."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend.arguments import Array
from sdfcli.backend.base import Backend


class Packed:
    """Device arrays by name, of given dtypes and shapes, in one allocation. Names must be sorted by item size, largest
    first.

    zeros: initialise with 0; else uninitialised.
    """

    def __init__(self, backend: Backend, *, zeros: bool = False, **kinds: tuple[type, tuple[int, ...]]) -> None:
        self._backend, self._kinds = backend, kinds
        size = sum(np.dtype(dtype).itemsize * math.prod(shape) for dtype, shape in kinds.values())
        self._space: Array = (backend.xp.zeros if zeros else backend.xp.empty)(size, np.uint8)
        self.arrays: dict[str, Array] = self._cut(self._space)

    def to_host(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays as NumPy arrays."""
        return self._cut(self._backend.to_host(self._space))

    def _cut(self, space: Array) -> dict[str, Any]:
        cut, first = {}, 0
        for name, (dtype, shape) in self._kinds.items():
            end = first + np.dtype(dtype).itemsize * math.prod(shape)
            cut[name] = space[first:end].view(dtype).reshape(shape)
            first = end
        return cut
