"""The CPU, in the order of the interfaces; arrays lie on the host, and streams work at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend.arguments import Array
from sdfcli.backend.base import Backend
from sdfcli.backend.cpu.algorithms import CpuAlgorithms
from sdfcli.backend.cpu.device import CpuDevice
from sdfcli.backend.cpu.kernels import CpuKernels
from sdfcli.backend.cpu.library import LIBRARY_NAME, library_path

__all__ = ["LIBRARY_NAME", "CpuBackend", "library_path"]

CACHE_LINE = 64


class CpuBackend(CpuKernels, CpuAlgorithms, CpuDevice, Backend):
    """The CPU."""

    def __reduce__(self) -> tuple[Any, ...]:
        return CpuBackend, (self.threads,)  # each process opens the library

    def to_host(self, array: Array, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        if out is None:
            return np.asarray(array)
        out[...] = array
        return out

    def empty_aligned(self, shape: tuple[int, ...], dtype: Any) -> Array:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        room = np.empty(size + CACHE_LINE, np.uint8)
        first = -room.ctypes.data % CACHE_LINE
        return room[first : first + size].view(dtype).reshape(shape)

    def synchronize(self) -> None:
        pass
