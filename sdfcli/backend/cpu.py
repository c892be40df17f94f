"""CPU backend: NumPy, and the kernels as a multithreaded shared library."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import math
import os
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend.arguments import Array, argument_structs
from sdfcli.backend.base import Backend
from sdfcli.backend.scratch import arrays_in_files
from sdfcli.errors import DeviceError, OutOfMemoryError
from sdfcli.runtime.hardware import available_threads
from sdfcli.runtime.memory import free_memory, is_shortage, release_freed, used_memory

LIBRARY_NAME = "libsdfcli_kernels.dll" if os.name == "nt" else "libsdfcli_kernels.so"
CACHE_LINE = 64
RESERVE = 96 << 20
"""Bytes that kernels may touch before pages of scratch files are dropped."""


def library_path() -> Path:
    """The compiled kernels: SDFCLI_KERNEL_LIBRARY, for kernel development, or the library next to this file.

    Found by the import system: an editable install compiles edited kernels on import, into another folder. Raises
    DeviceError for a relative path.
    """
    override = os.environ.get("SDFCLI_KERNEL_LIBRARY")
    if override:
        if not os.path.isabs(override):
            raise DeviceError(f"SDFCLI_KERNEL_LIBRARY={override}: use an absolute path; it names code that is run")
        return Path(override)
    found = importlib.util.find_spec(f"sdfcli.backend.{LIBRARY_NAME.partition('.')[0]}")
    return Path(found.origin) if found is not None and found.origin else Path(__file__).with_name(LIBRARY_NAME)


@functools.cache
def _library() -> ctypes.CDLL:
    path = library_path()
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        if is_shortage(error):
            raise OutOfMemoryError(f"the compiled CPU kernels do not fit into memory: {error}") from error
        package = Path(__file__).parent.parent
        source = package / "kernels" / "CMakeLists.txt"  # installed packages leave that file out
        if source.exists() and not path.exists():
            advice = (
                f"{package} is the source code, not the installed package: install it with `pip install .` and start "
                "Python in another folder, without PYTHONPATH"
            )
        else:
            advice = "install the package with `pip install .`, or use --device cuda"
        raise DeviceError(f"the compiled CPU kernels cannot be loaded ({error}); {advice}") from error


class CpuBackend(Backend):
    """Runs kernels on `threads` threads; default: all CPUs available to the process. ctypes releases the GIL."""

    xp = np
    name = "cpu"

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or available_threads()
        self._library = _library()

    def __reduce__(self) -> tuple[Any, ...]:
        return CpuBackend, (self.threads,)  # each process opens the library

    def run(self, kernel: str, n: int, **values: Any) -> None:
        if n == 0:
            return
        values["n"] = n
        getattr(self._library, kernel)(argument_structs()[kernel].pack(values, self.address), self.threads)

    @staticmethod
    def address(array: npt.NDArray[Any]) -> int | None:
        try:
            return ctypes.addressof(ctypes.c_char.from_buffer(array.data))  # a third of the time of array.ctypes
        except (TypeError, ValueError):  # read-only, empty, or not contiguous
            return array.ctypes.data if array.flags.c_contiguous else None

    def offers(self, kernel: str) -> bool:
        """Whether the kernel exists; some are GPU-only."""
        return hasattr(self._library, kernel)

    def to_host(self, array: Array) -> npt.NDArray[Any]:
        return np.asarray(array)

    def synchronize(self) -> None:
        pass

    def empty_aligned(self, shape: tuple[int, ...], dtype: Any) -> Array:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        room = np.empty(size + CACHE_LINE, np.uint8)
        first = -room.ctypes.data % CACHE_LINE
        return room[first : first + size].view(dtype).reshape(shape)

    def release_cached(self) -> None:
        release_freed()

    def sort(self, keys: Array) -> Array:
        # The unstable sort is 2 to 10 times as fast as the stable one; equal keys are rare, and sorted afterwards.
        order = np.argsort(keys)
        ordered = keys[order]
        equal = np.concatenate(([False], ordered[1:] == ordered[:-1]))
        if equal.any():
            equal[:-1] |= equal[1:]
            place = np.flatnonzero(equal)
            order[place] = order[place][np.lexsort((order[place], ordered[place]))]
        keys[...] = ordered
        return order

    def counting_sort(self, values: Array, kinds: int, first: int = 0) -> tuple[Array, Array]:
        # Not argsort: its stable sort allocates eight bytes per entry outside of arrays.
        order, ends, end = np.empty(len(values), np.uint32), np.empty(kinds, np.uint32), 0
        for kind in range(kinds):
            found = np.flatnonzero(values == kind)
            order[end : end + len(found)] = found
            ends[kind] = end = end + len(found)
        return order + np.uint32(first), ends

    def compact(self, flags: Array, kinds: int = 1, first: int = 0, known: list[int] | None = None) -> list[Array]:
        return [np.flatnonzero(flags == k).astype(np.uint32) + np.uint32(first) for k in range(1, kinds + 1)]

    def inclusive_scan(self, values: Array) -> None:
        np.cumsum(values, dtype=values.dtype, out=values)

    def memory_used(self) -> int:
        return used_memory()

    def memory_free(self) -> int:
        return free_memory()

    def overflow(self, most: int, folder: Path) -> AbstractContextManager[None]:
        return arrays_in_files(_library(), folder, max(0, most - RESERVE))

    def overflow_free(self, folder: Path) -> int:
        return shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.exists())).free
