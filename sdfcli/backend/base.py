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
"""Threads of a GPU that run in step."""

SMALL = 1 << 18
"""Bytes from which on scarce memory is added in eighths."""

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
    """How a device's memory is spent.

    scarce  one large structure at a time: trees are freed while they are idle and built again, values that follow from
            others are computed again, and arrays grow in small steps. Elsewhere, pages that nothing has touched take no
            memory, so arrays double.
    """

    scarce: bool

    def spare(self, entries: int, nbytes: int) -> int:
        """Entries to add to a full array of so many entries and bytes."""
        if not self.scarce:
            return entries
        return entries // (2 if nbytes < SMALL else 8)


class Stream(AbstractContextManager["Stream"]):
    """What is asked for within it runs in order, beside what other streams do. On the CPU it is done at once."""

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        """Waits until the stream is empty."""


class Backend(ABC):
    """A device: its array module and its kernels.

    `xp` is NumPy or CuPy; whatever the two share (sorting, prefix sums, selection) is written against it, the rest is
    a kernel. Both give the same bits.
    """

    xp: Any
    name: str
    memory = MemoryPolicy(scarce=False)
    warps = False
    """Whether threads come in warps, which SDF_WARP_KERNELS need: the trees and their queries then are of another kind
    (spatial/). The bits are the same."""

    @abstractmethod
    def run(self, kernel: str, n: int, **values: Any) -> None:
        """Runs a kernel for the indices 0 .. n - 1; the values are its arguments, arrays by reference."""

    @abstractmethod
    def to_host(self, array: Array) -> npt.NDArray[Any]:
        """The array as a NumPy array."""

    @abstractmethod
    def synchronize(self) -> None:
        """Waits until the device has done all that it was asked for."""

    @abstractmethod
    def sort(self, keys: Array) -> Array:
        """Sorts unsigned keys (n,). Returns where each one was, (n,) int64: equal keys stay in order."""

    @abstractmethod
    def counting_sort(self, values: Array, kinds: int, first: int = 0) -> tuple[Array, list[int]]:
        """The numbers, from `first` on, of the entries of values (n,) uint8 below `kinds`, 32 at most: (n,) uint32,
        value by value, in order for each; and where each value's end. The host waits once."""

    @abstractmethod
    def compact(self, flags: Array, kinds: int = 1, first: int = 0) -> list[Array]:
        """For each of the numbers 1 .. kinds, 3 at most, its places in flags (n,) uint8: (k,) uint32, in order, counted
        from `first` on."""

    @abstractmethod
    def inclusive_scan(self, values: Array) -> None:
        """Replaces unsigned numbers (n,) by their running sums, with the library's scan."""

    def active(self) -> AbstractContextManager[Any]:
        """Within it, this device is the thread's current one."""
        return nullcontext()

    def streams(self, n: int) -> list[Stream]:
        """The first n streams of this device: the same ones every time."""
        return [Stream()] * n

    def pinned(self, n: int, dtype: Any) -> npt.NDArray[Any]:
        """Memory of the host that is copied to and from the device at full speed, beside other work."""
        return np.empty(n, dtype)

    def upload(self, host: npt.NDArray[Any], array: Array) -> None:
        """Copies to a device array of the same type and length, in the current stream."""
        array[...] = host

    def download(self, array: Array, host: npt.NDArray[Any]) -> None:
        """Copies from the device, in the current stream."""
        host[...] = array

    def copy_async(self, array: Array) -> Callable[[], npt.NDArray[Any]]:
        """Begins to copy a small array, or a column of one, to the host. What comes back waits for that, not for what
        is asked for since."""
        host = self.to_host(array).copy()
        return lambda: host

    @abstractmethod
    def memory_used(self) -> int:
        """The bytes that this process holds on the device."""

    @abstractmethod
    def memory_free(self) -> int:
        """The bytes that it could take in addition."""

    @abstractmethod
    def release_cached(self) -> None:
        """Gives the driver back what this process holds on the device and does not use, if that is much; it then waits
        for the device."""

    def annotate(self, name: str) -> AbstractContextManager[Any]:
        """A named range that profilers of this device show."""
        return nullcontext()

    def record_event(self) -> Any:
        """A moment in the device's work, for `elapsed`."""
        return time.perf_counter()

    def elapsed(self, start: Any, end: Any) -> float:
        """Seconds between two marks; waits until the device has come to the second."""
        return float(end - start)

    def profiled(self) -> AbstractContextManager[Any]:
        """The part of the work that a profiler sees which was told to wait for it."""
        return nullcontext()

    def empty_aligned(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An empty array that begins where a cache line does: entries of 32 or 64 bytes lie in one line each."""
        return self.xp.empty(shape, dtype)

    def from_host(self, array: npt.ArrayLike, dtype: Any = None) -> Array:
        """A contiguous array on the device."""
        return self.xp.ascontiguousarray(self.xp.asarray(array, dtype=dtype))
