"""The CPU: NumPy, and the kernels compiled into a plain shared library with threads."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend.base import Array, Backend, argument_structs
from sdfcli.errors import DeviceError

LIBRARY_NAME = "libsdfcli_kernels.so"


def library_path() -> Path:
    """The compiled kernels: beside this file, or in another folder of the package, as an editable install has it."""
    override = os.environ.get("SDFCLI_KERNEL_LIBRARY")
    if override:
        return Path(override)
    import sdfcli.backend

    places = [Path(folder) / LIBRARY_NAME for folder in sdfcli.backend.__path__]
    return next((place for place in places if place.is_file()), places[0])


@functools.cache
def _library() -> ctypes.CDLL:
    path = library_path()
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise DeviceError(
            f"the compiled CPU kernels cannot be loaded ({error}); install the package with `pip install .`, "
            "or use --device cuda"
        ) from error


def available_threads() -> int:
    """The number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class CpuBackend(Backend):
    """Runs kernels on `threads` threads (all that the process may use by default). ctypes releases the GIL."""

    xp = np
    name = "cpu"
    wide_trees = True

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or available_threads()
        self._library = _library()

    def run(self, kernel: str, n: int, **values: Any) -> None:
        if n == 0:
            return
        struct = argument_structs()[kernel].pack({"n": n, **values}, lambda array: array.ctypes.data)
        getattr(self._library, kernel)(ctypes.byref(struct), ctypes.c_int(self.threads))

    def to_host(self, array: Array) -> npt.NDArray[Any]:
        return np.asarray(array)

    def synchronize(self) -> None:
        pass

    def sort_order(self, keys: Array) -> Array:
        # The unstable sort is two to ten times as fast as the stable one; equal keys are rare, and put right after.
        order = np.argsort(keys).astype(np.uint32)
        ordered = keys[order]
        equal = ordered[1:] == ordered[:-1]
        if equal.any():
            group = np.concatenate(([0], np.cumsum(~equal)))
            order = order[np.lexsort((order, group))]
        return order

    def inclusive_scan(self, values: Array) -> None:
        np.cumsum(values, dtype=values.dtype, out=values)
