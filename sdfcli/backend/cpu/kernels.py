"""Kernels as functions of a multithreaded library."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy.typing as npt

from sdfcli.backend.arguments import argument_structs
from sdfcli.backend.cpu.library import library
from sdfcli.backend.interfaces.kernels import Kernels
from sdfcli.runtime.hardware import available_threads


class CpuKernels(Kernels):
    """Runs kernels on `threads` threads; default: all CPUs available to the process. ctypes releases the GIL."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or available_threads()
        self._library = library()

    def run(self, kernel: str, n: int, **values: Any) -> None:
        if n == 0:
            return
        values["n"] = n
        self.run_packed(kernel, argument_structs()[kernel].pack(values, self.address))

    def run_packed(self, kernel: str, arguments: bytes) -> None:
        getattr(self._library, kernel)(arguments, self.threads)

    @staticmethod
    def address(array: npt.NDArray[Any]) -> int | None:
        try:
            return ctypes.addressof(ctypes.c_char.from_buffer(array.data))  # a third of the time of array.ctypes
        except (TypeError, ValueError):  # read-only, empty, or not contiguous
            return array.ctypes.data if array.flags.c_contiguous else None

    def offers(self, kernel: str) -> bool:
        """Whether the kernel exists; some are GPU-only."""
        return hasattr(self._library, kernel)
