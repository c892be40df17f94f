"""What a backend offers, and the kernels' argument structs as read from `kernels/args.h`."""

from __future__ import annotations

import functools
import re
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

KERNELS = Path(__file__).resolve().parents[1] / "kernels"

Array = Any
"""A NumPy or CuPy array, by backend."""

WARP = 32
"""Threads of a warp."""

SMALL = 1 << 18
"""Bytes of an array up to which scarce memory grows by a half, beyond by an eighth."""

_SCALARS: dict[str, tuple[str, type]] = {
    "unsigned": ("I", np.uint32),
    "int": ("i", np.int32),
    "float": ("f", np.float32),
    "double": ("d", np.float64),
    "unsigned long long": ("Q", np.uint64),
    "long long": ("q", np.int64),
    "unsigned char": ("B", np.uint8),
}
"""The types of fields, as `struct` and NumPy call them."""


class ArgumentStruct:
    """One kernel's `NAME_args`: packs arrays and numbers into the C struct, and checks their types on the way.

    fields  name, and the dtype of the array where it is a pointer, None where it is a number.
    """

    def __init__(self, kernel: str, body: str) -> None:
        self.kernel, self._body = kernel, body

    @functools.cached_property
    def _declared(self) -> list[tuple[str, str, str]]:
        """Type, `*` for a pointer, and name: read when they are first asked for, as most kernels never are."""
        return re.findall(r"^\s*(?:const\s+)?([a-z][a-z ]*?)(\*?)\s+(\w+);", self._body, flags=re.MULTILINE)

    @functools.cached_property
    def fields(self) -> list[tuple[str, np.dtype[Any] | None]]:
        """See above."""
        return [(name, np.dtype(_SCALARS[ctype][1]) if star else None) for ctype, star, name in self._declared]

    @functools.cached_property
    def _pack(self) -> Callable[..., bytes]:
        layout = "".join("P" if star else _SCALARS[ctype][0] for ctype, star, _ in self._declared)
        return struct.Struct(f"@{layout}0P").pack  # 0P: padded at the end, as in C

    def pack(self, values: dict[str, Any], address: Callable[[Array], int | None]) -> bytes:
        """The filled struct. address: of an array; None if it is not contiguous.

        Raises TypeError for an array of the wrong type, KeyError for a missing value.
        """
        filled = []
        for name, dtype in self.fields:
            value = values[name]
            if dtype is not None:
                if value is None:
                    value = 0
                else:
                    same = value.dtype is dtype or value.dtype == dtype
                    value = address(value) if same else None
                    if value is None:
                        raise TypeError(f"{self.kernel}: {name} must be a contiguous array of {dtype}")
            filled.append(value)
        return self._pack(*filled)


@functools.cache
def argument_structs() -> dict[str, ArgumentStruct]:
    """The argument struct of every kernel, by the kernel's name."""
    text = re.sub(r"/\*.*?\*/", "", (KERNELS / "args.h").read_text(), flags=re.DOTALL)
    found = re.findall(r"typedef struct \{(.*?)\} (\w+)_args;", text, flags=re.DOTALL)
    structs = {kernel: ArgumentStruct(kernel, body) for body, kernel in found}
    for kernel, same in re.findall(r"typedef (\w+)_args (\w+)_args;", text):
        structs[same] = structs[kernel]
    return structs


@dataclass(frozen=True)
class MemoryPolicy:
    """Whether a device's memory or its time is saved.

    scarce  one large structure at a time: idle trees are freed and built again, derived values are computed again, and
            arrays grow in small steps. Otherwise arrays double, as untouched pages take no memory.
    """

    scarce: bool

    def spare(self, entries: int, nbytes: int) -> int:
        """The number of entries to add to a full array of `entries` and `nbytes`."""
        if not self.scarce:
            return entries
        return entries // (2 if nbytes < SMALL else 8)


class Stream(AbstractContextManager["Stream"]):
    """A queue of work on a device: in order within a stream, concurrent with other streams. Immediate on the CPU."""

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        """Waits for all work of the stream."""


class Backend(ABC):
    """A device: its array module `xp`, NumPy or CuPy, and its kernels. All backends give the same bits."""

    xp: Any
    name: str
    memory = MemoryPolicy(scarce=False)
    warps = False
    """Whether the device runs SDF_WARP_KERNELS; spatial/ then has other trees and queries, with the same bits."""

    @abstractmethod
    def run(self, kernel: str, n: int, **values: Any) -> None:
        """Runs a kernel for the indices 0 .. n - 1. values: its arguments by name; arrays are passed by reference."""

    @abstractmethod
    def to_host(self, array: Array) -> npt.NDArray[Any]:
        """The array as a NumPy array."""

    @abstractmethod
    def synchronize(self) -> None:
        """Waits for all work of the current stream."""

    @abstractmethod
    def sort(self, keys: Array) -> Array:
        """Sorts unsigned keys (n,) in place. Returns the stable permutation (n,) int64: sorted[i] = keys[result[i]]."""

    @abstractmethod
    def counting_sort(self, values: Array, kinds: int, first: int = 0) -> tuple[Array, list[int]]:
        """The stable permutation (n,) uint32 that sorts values (n,) uint8 < kinds <= 32, counted from `first`, and the
        end of each value's range in it. The host waits once."""

    @abstractmethod
    def compact(self, flags: Array, kinds: int = 1, first: int = 0) -> list[Array]:
        """The sorted indices (k,) uint32, counted from `first`, of the flags (n,) uint8 that equal 1, .. kinds <= 3."""

    @abstractmethod
    def inclusive_scan(self, values: Array) -> None:
        """Inclusive prefix sums of unsigned values (n,), in place, by the library's scan."""

    def active(self) -> AbstractContextManager[Any]:
        """Makes this device the thread's current one."""
        return nullcontext()

    def streams(self, n: int) -> list[Stream]:
        """The first n streams of this device: the same ones every time."""
        return [Stream()] * n

    def pinned(self, n: int, dtype: Any) -> npt.NDArray[Any]:
        """Page-locked host memory (n,), for asynchronous copies at full speed."""
        return np.empty(n, dtype)

    def upload(self, host: npt.NDArray[Any], array: Array) -> None:
        """Copies to a device array of the same type and length, in the current stream."""
        array[...] = host

    def download(self, array: Array, host: npt.NDArray[Any]) -> None:
        """Copies from the device, in the current stream."""
        host[...] = array

    def copy_async(self, array: Array) -> Callable[[], npt.NDArray[Any]]:
        """Starts copying a small array, or a column of one, to the host. The returned function waits for this copy
        only, and returns it."""
        host = self.to_host(array).copy()
        return lambda: host

    @abstractmethod
    def memory_used(self) -> int:
        """Bytes that this process uses on the device."""

    @abstractmethod
    def memory_free(self) -> int:
        """Bytes that this process can still allocate."""

    @abstractmethod
    def release_cached(self) -> None:
        """Returns cached memory that is not in use to the driver, if that is much; this waits for the device."""

    def annotate(self, name: str) -> AbstractContextManager[Any]:
        """A named range for profilers of this device."""
        return nullcontext()

    def record_event(self) -> Any:
        """A point in the current stream, for `elapsed`."""
        return time.perf_counter()

    def elapsed(self, start: Any, end: Any) -> float:
        """Seconds between two events; waits for the second."""
        return float(end - start)

    def profiled(self) -> AbstractContextManager[Any]:
        """The region that a profiler records under `--profile-from-start off`."""
        return nullcontext()

    def empty_aligned(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialised array at the start of a cache line: entries of 32 or 64 bytes lie in one line each."""
        return self.xp.empty(shape, dtype)

    def from_host(self, array: npt.ArrayLike, dtype: Any = None) -> Array:
        """A contiguous array on the device."""
        return self.xp.ascontiguousarray(self.xp.asarray(array, dtype=dtype))
