"""Backend: device interface, memory policy and streams."""

from __future__ import annotations

import functools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sdfcli.backend.arguments import Array, C, Group, argument_group

T = TypeVar("T")

WARP = C.WARP
"""Threads per warp."""

ALL_THREADS = 1 << 30
"""Thread count that makes a GRID kernel use the whole device: more than any device runs concurrently."""

SMALL = 1 << 22
"""Maximum bytes of an array that doubles where memory is scarce; larger ones grow by an eighth."""


@dataclass(frozen=True)
class MemoryPolicy:
    """Whether to save a device's memory or its time.

    scarce  one large structure at a time: idle trees are freed and rebuilt, derived values recomputed, and arrays
            grow in small steps. Otherwise arrays double, as untouched pages take no memory.
    """

    scarce: bool

    def spare(self, entries: int, nbytes: int) -> int:
        """Entries to add to a full array of `entries` and `nbytes`."""
        return entries // 8 if self.scarce and nbytes >= SMALL else entries


class Stream(AbstractContextManager["Stream"]):
    """A device's work queue: in order within a stream, concurrent with other streams. Immediate on the CPU."""

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        """Waits for all work of the stream."""


class Backend(ABC):
    """A device: its array module `xp` (NumPy or CuPy) and kernels. All backends give the same bits."""

    xp: Any
    name: str
    memory = MemoryPolicy(scarce=False)
    warps = False
    """Whether the device runs WARP kernels; spatial/ then uses other trees and queries, with the same bits."""
    grids = False
    """Whether it also runs GRID kernels, which traverse octree levels."""

    @abstractmethod
    def run(self, kernel: str, n: int, **values: Any) -> None:
        """Runs a kernel for indices 0 .. n - 1. values: its other arguments by name: numbers, arrays by reference, and
        groups. Raises as `ArgumentStruct.pack`."""

    def ready(self, kernel: str, n: int, **values: Any) -> Callable[[], None]:
        """A function that repeats this `run`; arrays must not move."""
        return functools.partial(self.run, kernel, n, **values)

    def prepare(self, kernels: Iterable[str]) -> None:  # noqa: B027
        """Announces kernels that will run soon: threads compile missing ones, in this order, or load them."""

    def blocks_of(self, threads: int) -> AbstractContextManager[Any]:
        """Within it, kernels run in blocks of this many threads, except WARP and GRID kernels; no effect on a CPU."""
        return nullcontext()

    def recorded(self, work: Callable[[], None]) -> Callable[[], None]:
        """`work` for repetition, as one launch where the device has graphs. It has run before, does not wait, and reads
        and writes the same arrays each time, which outlive the result."""
        return work

    @staticmethod
    @abstractmethod
    def address(array: Array) -> int | None:
        """The array's address on the device; None if not contiguous."""

    def group(self, name: str, **values: Any) -> Group:
        """Packs arguments shared by several kernels once. name: a struct of the kernel headers."""
        return argument_group(name).group(values, self.address)

    @abstractmethod
    def to_host(self, array: Array) -> npt.NDArray[Any]:
        """The array as a NumPy array."""

    def to_host_at_once(self, arrays: list[Array]) -> tuple[list[npt.NDArray[Any]], Callable[[], None]]:
        """The arrays as NumPy arrays, and a function that does nothing: `to_host_beside`, synchronous."""
        return [self.to_host(array) for array in arrays], lambda: None

    def to_host_beside(self, arrays: list[Array]) -> tuple[list[npt.NDArray[Any]], Callable[[], None]]:
        """Starts an asynchronous copy of arrays to the host; they must stay unchanged until its end. Returns the
        copies, and a function that waits for them and raises the copy's errors."""
        return self.to_host_at_once(arrays)

    @abstractmethod
    def synchronize(self) -> None:
        """Waits for all work of the current stream."""

    @abstractmethod
    def sort(self, keys: Array) -> Array:
        """Sorts unsigned keys (n,) in place. Returns the stable permutation (n,) int64: sorted[i] = keys[result[i]]."""

    def sort_alone(self, keys: Array) -> None:
        """Sorts unsigned keys (n,) in place."""
        keys.sort()

    @abstractmethod
    def counting_sort(self, values: Array, kinds: int, first: int = 0) -> tuple[Array, Array]:
        """The stable sorting permutation (n,) uint32 of values (n,) uint8 < kinds <= 32, counted from `first`, and each
        value's range end (kinds,) uint32 in it."""

    @abstractmethod
    def compact(self, flags: Array, kinds: int = 1, first: int = 0, known: list[int] | None = None) -> list[Array]:
        """Sorted indices (k,) uint32, counted from `first`, of the flags (n,) uint8 equal to 1, .. kinds <= 3: one
        array per kind. known: count of each kind; without it the host waits for the device."""

    @abstractmethod
    def inclusive_scan(self, values: Array) -> None:
        """Inclusive prefix sums of unsigned values (n,), in place; large arrays use a library's scan."""

    def active(self) -> AbstractContextManager[Any]:
        """Makes this the thread's current device."""
        return nullcontext()

    def streams(self, n: int) -> list[Stream]:
        """The device's first n streams, the same on every call."""
        return [Stream()] * n

    def foreground(self) -> AbstractContextManager[Any]:
        """Within it, this thread's work has priority over `behind` and yields to `beside`. Work after the block waits
        for the work in it and in `behind`."""
        return nullcontext()

    def behind(self, work: Callable[[], T]) -> T:
        """Starts work on a low-priority stream, after the current stream's work so far. Later work in `foreground`,
        whose end waits for it, runs concurrently, and must neither write nor free its inputs before its results are
        ready."""
        return work()

    def beside(self, work: Callable[[], T]) -> Callable[[], T]:
        """`work` for another thread, on a high-priority stream: after the current stream's work so far, concurrent with
        later work. Waits for its end."""
        return work

    def grown(self, array: Array, entries: int, kept: int) -> Array:
        """A new array of `entries` rows; the first `kept` are copied from a contiguous array."""
        new = self.xp.empty((entries, *array.shape[1:]), array.dtype)
        new[:kept] = array[:kept]
        return new

    def copied(self, array: Array) -> Array:
        """A copy of a contiguous array (n, ...)."""
        return self.grown(array, len(array), len(array))

    def filled(self, shape: int | tuple[int, ...], value: Any, dtype: Any) -> Array:
        """A new array with all entries set to one value."""
        array = self.xp.empty(shape, dtype)
        self.fill(array, value)
        return array

    def fill(self, array: Array, value: Any) -> None:
        """Sets all entries of a contiguous array of any shape to one value of its dtype."""
        array[...] = value

    # Kernels for operations of the array modules: CuPy would compile one per operation and type on a machine's first
    # run, and load the compiler in each process.

    def taken(self, array: Array, number: Array) -> Array:
        """Rows (n, ...) of a contiguous array at indices (n,) uint32. Raises TypeError unless the row size is a
        multiple of four bytes."""
        found = self.xp.empty((len(number), *array.shape[1:]), array.dtype)
        words, rest = divmod(math.prod(array.shape[1:]) * array.itemsize, 4)
        if rest:
            raise TypeError(f"rows of {4 * words + rest} bytes cannot be taken")
        source, taken = (each.reshape(-1).view(np.uint32) for each in (array, found))
        self.run("sdf_taken", len(number), words=words, source=source, number=number, taken=taken)
        return found

    def placed(self, number: Array, count: int) -> Array:
        """Inverse of a list (n,) uint32 of distinct numbers below `count`: each number's index, (count,) uint32,
        undefined for missing numbers."""
        place = self.xp.empty(count, np.uint32)
        self.run("sdf_placed", len(number), number=number, place=place)
        return place

    def spaced(self, count: int, every: int, number: Array | None = None) -> Array:
        """Every `every`-th of numbers (count,) uint32, from the first on; None: 0 .. count - 1."""
        spaced = self.xp.empty(-(-count // every), np.uint32)
        self.run("sdf_spaced", len(spaced), every=every, number=number, spaced=spaced)
        return spaced

    def scale(self, values: Array, factor: float) -> None:
        """Multiplies values (n,) float32 in place."""
        self.run("sdf_scaled", len(values), factor=factor, values=values)

    def negate(self, values: Array, chosen: Array) -> None:
        """Negates values (n,) float32 where `chosen` (n,) bool is set, in place."""
        self.run("sdf_negated", len(values), chosen=chosen.view(np.uint8), values=values)

    def above(self, values: Array, level: float) -> Array:
        """Mask (n,) bool of values (n,) float32 above a level."""
        above = self.xp.empty(len(values), np.uint8)
        self.run("sdf_above", len(values), level=level, values=values, above=above)
        return above.view(bool)

    def pinned(self, n: int, dtype: Any) -> npt.NDArray[Any]:
        """Page-locked host memory (n,), for asynchronous copies at full speed."""
        return np.empty(n, dtype)

    def mapped(self, host: npt.NDArray[Any]) -> Array:
        """Page-locked host memory as a device array: the host reads kernels' results there after waiting for them."""
        return host

    def upload(self, host: npt.NDArray[Any], array: Array) -> None:
        """Copies to a device array of the same dtype and length, in the current stream."""
        array[...] = host

    def download(self, array: Array, host: npt.NDArray[Any]) -> None:
        """Copies from the device, in the current stream."""
        host[...] = array

    def fetch(self, array: Array, other: Backend) -> Array:
        """A contiguous copy on this device of another device's array, in order with the current streams of both."""
        return self.from_host(other.to_host(array))

    def copy_async(self, array: Array) -> Callable[[], npt.NDArray[Any]]:
        """Starts copying a small array, or a column of one, to the host. The returned function waits for this copy only
        and returns it."""
        host = self.to_host(array).copy()
        return lambda: host

    @abstractmethod
    def memory_used(self) -> int:
        """Bytes used by this process on the device."""

    @abstractmethod
    def memory_free(self) -> int:
        """Bytes this process can still allocate."""

    @abstractmethod
    def release_cached(self) -> None:
        """Returns unused cached memory to the driver, if large; waits for the device."""

    @abstractmethod
    def overflow(self, most: int, folder: Path) -> AbstractContextManager[None]:
        """Within it, arrays allocated on this thread lie elsewhere when they do not fit on the device within `most`
        bytes in use. folder: for scratch files. Raises OSError where that is impossible."""

    @abstractmethod
    def overflow_free(self, folder: Path) -> int:
        """Bytes free for `overflow`."""

    def done_so_far(self) -> Callable[[], None]:
        """Returns a function that waits for the current stream's work so far, and for none added later."""
        return lambda: None

    def annotate(self, name: str) -> AbstractContextManager[Any]:
        """A named profiler range."""
        return nullcontext()

    def record_event(self) -> Any:
        """An event in the current stream, for `elapsed`."""
        return time.perf_counter()

    def elapsed(self, start: Any, end: Any) -> float:
        """Seconds between two events; waits for the second."""
        return float(end - start)

    def profiled(self) -> AbstractContextManager[Any]:
        """The region recorded by profilers under `--profile-from-start off`."""
        return nullcontext()

    def empty_aligned(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialised array aligned to a cache line: entries of 32 or 64 bytes lie in one line each."""
        return self.xp.empty(shape, dtype)

    def table_steps(self, rows: int, columns: int) -> tuple[int, int]:
        """Row and column strides, in entries, of a table read by one thread per row."""
        return columns, 1

    def from_host(self, array: npt.ArrayLike, dtype: Any = None) -> Array:
        """A contiguous array on the device."""
        return self.xp.ascontiguousarray(self.xp.asarray(array, dtype=dtype))
