"""The CPU: NumPy, and the kernels compiled into a plain shared library with threads."""

from __future__ import annotations

import ctypes
import functools
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend.base import Array, Backend, argument_structs
from sdfcli.errors import DeviceError

LIBRARY_NAME = "libsdfcli_kernels.so"
CACHE_LINE = 64


def library_path() -> Path:
    """The compiled kernels: beside this file, or in another folder of the package, as an editable install has it; or
    what SDFCLI_KERNEL_LIBRARY names, for work on the kernels. Raises DeviceError where that is a relative path."""
    override = os.environ.get("SDFCLI_KERNEL_LIBRARY")
    if override:
        if not os.path.isabs(override):
            raise DeviceError(f"SDFCLI_KERNEL_LIBRARY={override}: use an absolute path; it names code that is run")
        return Path(override)
    import sdfcli.backend

    places = [Path(folder) / LIBRARY_NAME for folder in sdfcli.backend.__path__]
    return next((place for place in places if place.is_file()), places[0])


def _address(array: npt.NDArray[Any]) -> int | None:
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))  # takes a third of the time
    except (TypeError, ValueError):  # of what is read-only, empty, or not contiguous
        return array.ctypes.data if array.flags.c_contiguous else None


@functools.cache
def _library() -> ctypes.CDLL:
    path = library_path()
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        package = Path(__file__).parent.parent
        if (package / "kernels" / "cpu.cpp").exists() and not path.exists():  # installed packages leave that file out
            advice = (
                f"{package} is the source code, not the installed package: install it with `pip install .` and start "
                "Python in another folder, without PYTHONPATH"
            )
        else:
            advice = "install the package with `pip install .`, or use --device cuda"
        raise DeviceError(f"the compiled CPU kernels cannot be loaded ({error}); {advice}") from error


def available_threads() -> int:
    """The number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int:
    """The bytes of memory that this machine, or the control group of this process, has left."""
    free = [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for line in _words("/proc/meminfo"):
        if line[0] == "MemAvailable:":
            free = [1024 * int(line[1])]
    groups = {parts[1]: parts[2] for parts in (line[0].split(":", 2) for line in _words("/proc/self/cgroup"))}
    for folder, limit, used in (
        (f"/sys/fs/cgroup{groups.get('', '')}", "memory.max", "memory.current"),
        (f"/sys/fs/cgroup/memory{groups.get('memory', '')}", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        bounds = [line[0] for name in (limit, used) for line in _words(f"{folder}/{name}")]
        if len(bounds) == 2 and all(word.isdecimal() for word in bounds):
            free.append(max(0, int(bounds[0]) - int(bounds[1])))
    return min(free)


def _words(path: str) -> list[list[str]]:
    """The words of each line of a small file that may not be there."""
    try:
        return [line.split() for line in Path(path).read_text().splitlines() if line.strip()]
    except OSError:
        return []


class CpuBackend(Backend):
    """Runs kernels on `threads` threads (all that the process may use by default). ctypes releases the GIL."""

    xp = np
    name = "cpu"

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or available_threads()
        self._library = _library()

    def __reduce__(self) -> tuple[Any, ...]:
        return CpuBackend, (self.threads,)  # a library is opened again where a pickle is

    def run(self, kernel: str, n: int, **values: Any) -> None:
        if n == 0:
            return
        values["n"] = n
        getattr(self._library, kernel)(argument_structs()[kernel].pack(values, _address), self.threads)

    def offers(self, kernel: str) -> bool:
        """Whether there is such a kernel: some need a GPU."""
        return hasattr(self._library, kernel)

    def to_host(self, array: Array) -> npt.NDArray[Any]:
        return np.asarray(array)

    def synchronize(self) -> None:
        pass

    def lines(self, shape: tuple[int, ...], dtype: Any) -> Array:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        room = np.empty(size + CACHE_LINE, np.uint8)
        first = -room.ctypes.data % CACHE_LINE
        return room[first : first + size].view(dtype).reshape(shape)

    def trim(self) -> None:
        pass

    def sort(self, keys: Array) -> Array:
        # The unstable sort is two to ten times as fast as the stable one; equal keys are rare, and put right after.
        order = np.argsort(keys)
        ordered = keys[order]
        equal = ordered[1:] == ordered[:-1]
        if equal.any():
            group = np.concatenate(([0], np.cumsum(~equal)))
            order = order[np.lexsort((order, group))]
        keys[...] = ordered
        return order

    def inclusive_scan(self, values: Array) -> None:
        np.cumsum(values, dtype=values.dtype, out=values)

    def memory_used(self) -> int:
        try:
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            return 0

    def memory_free(self) -> int:
        return free_memory()
