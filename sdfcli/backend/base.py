"""Backend: the interface of devices, their memory policy and streams."""

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
"""Threads of a warp."""

ALL_THREADS = 1 << 30
"""More threads than any device runs at a time: of a GRID kernel that takes all of them."""

SMALL = 1 << 22
"""Bytes of an array up to which scarce memory doubles; beyond it grows by an eighth."""


@dataclass(frozen=True)
class MemoryPolicy:
    """Whether a device's memory or its time is saved.

    scarce  one large structure at a time: idle trees are freed and built again, derived values are computed again, and
            arrays grow in small steps. Otherwise arrays double, as untouched pages take no memory.
    """

    scarce: bool

    def spare(self, entries: int, nbytes: int) -> int:
        """The number of entries to add to a full array of `entries` and `nbytes`."""
        return entries // 8 if self.scarce and nbytes >= SMALL else entries


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
    """Whether the device runs WARP kernels; spatial/ then has other trees and queries, with the same bits."""
    grids = False
    """Whether it runs GRID kernels, too, by which the levels of an octree are visited."""

    @abstractmethod
    def run(self, kernel: str, n: int, **values: Any) -> None:
        """Runs a kernel for the indices 0 .. n - 1. values: its other arguments by name: numbers, arrays by reference,
        and groups. Raises what `ArgumentStruct.pack` raises."""

    def ready(self, kernel: str, n: int, **values: Any) -> Callable[[], None]:
        """What runs a kernel so, as often as it is called; arrays must not move."""
        return functools.partial(self.run, kernel, n, **values)

    def prepare(self, kernels: Iterable[str]) -> None:  # noqa: B027
        """Says that kernels will be run soon: threads compile those that have to be, in this order, or load them."""

    def blocks_of(self, threads: int) -> AbstractContextManager[Any]:
        """Kernels run within it by blocks of so many threads, but for those by warps; of no effect on a CPU."""
        return nullcontext()

    def recorded(self, work: Callable[[], None]) -> Callable[[], None]:
        """`work` to be repeated, as one launch where the device has graphs. It has run before, waits for nothing, and
        reads and writes the same arrays each time, which outlive the result."""
        return work

    @staticmethod
    @abstractmethod
    def address(array: Array) -> int | None:
        """Where an array lies on the device; None if it is not contiguous."""

    def group(self, name: str, **values: Any) -> Group:
        """Arguments that several kernels share, packed once: a struct of the kernels' headers, by its name."""
        return argument_group(name).group(values, self.address)

    @abstractmethod
    def to_host(self, array: Array) -> npt.NDArray[Any]:
        """The array as a NumPy array."""

    def to_host_at_once(self, arrays: list[Array]) -> tuple[list[npt.NDArray[Any]], Callable[[], None]]:
        """The arrays as NumPy arrays, and a function that does nothing."""
        return [self.to_host(array) for array in arrays], lambda: None

    def to_host_beside(self, arrays: list[Array]) -> tuple[list[npt.NDArray[Any]], Callable[[], None]]:
        """Begins to copy arrays to the host, beside what is done next, which leaves them as they are. Returns the
        copies, and a function that waits until they may be read; it raises what went wrong."""
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
        """The stable permutation (n,) uint32 that sorts values (n,) uint8 < kinds <= 32, counted from `first`, and the
        end (kinds,) uint32 of each value's range in it."""

    @abstractmethod
    def compact(self, flags: Array, kinds: int = 1, first: int = 0, known: list[int] | None = None) -> list[Array]:
        """The sorted indices (k,) uint32, counted from `first`, of the flags (n,) uint8 that equal 1, .. kinds <= 3.
        known: how many of each kind there are, for which the host waits otherwise."""

    @abstractmethod
    def inclusive_scan(self, values: Array) -> None:
        """Inclusive prefix sums of unsigned values (n,), in place; of many by a library's scan."""

    def active(self) -> AbstractContextManager[Any]:
        """Makes this device the thread's current one."""
        return nullcontext()

    def streams(self, n: int) -> list[Stream]:
        """The first n streams of this device: the same ones every time."""
        return [Stream()] * n

    def foreground(self) -> AbstractContextManager[Any]:
        """Work of this thread within it comes before that of `behind`, and after that of `beside`, where these want the
        device, too; what comes later follows all of it."""
        return nullcontext()

    def behind(self, work: Callable[[], T]) -> T:
        """Begins work on the device, after what the current stream has so far: what comes later in `foreground`, whose
        end waits for it, does not, and neither writes nor frees what it reads before its results are there."""
        return work()

    def beside(self, work: Callable[[], T]) -> Callable[[], T]:
        """The same work for another thread, which waits for its end: after what the current stream has so far, beside
        what comes later."""
        return work

    def grown(self, array: Array, entries: int, kept: int) -> Array:
        """A new array with so many entries, of which the first `kept` are those of a contiguous array."""
        new = self.xp.empty((entries, *array.shape[1:]), array.dtype)
        new[:kept] = array[:kept]
        return new

    def copied(self, array: Array) -> Array:
        """A copy of a contiguous array (n, ...)."""
        return self.grown(array, len(array), len(array))

    def filled(self, shape: int | tuple[int, ...], value: Any, dtype: Any) -> Array:
        """A new array of a shape and a type, all of whose entries are one value."""
        array = self.xp.empty(shape, dtype)
        self.fill(array, value)
        return array

    def fill(self, array: Array, value: Any) -> None:
        """Sets all entries of a contiguous array of any shape to one value of its type."""
        array[...] = value

    # What array modules offer, too: CuPy would compile a kernel for each operation and type, on a machine's first run,
    # and load the compiler in each process.

    def taken(self, array: Array, number: Array) -> Array:
        """The rows (n, ...) of a contiguous array that numbers (n,) uint32 name. Raises TypeError for rows that are no
        multiple of four bytes."""
        found = self.xp.empty((len(number), *array.shape[1:]), array.dtype)
        words, rest = divmod(math.prod(array.shape[1:]) * array.itemsize, 4)
        if rest:
            raise TypeError(f"rows of {4 * words + rest} bytes cannot be taken")
        source, taken = (each.reshape(-1).view(np.uint32) for each in (array, found))
        self.run("sdf_taken", len(number), words=words, source=source, number=number, taken=taken)
        return found

    def placed(self, number: Array, count: int) -> Array:
        """Where each of `count` numbers lies in a list (n,) uint32 that has none twice: (count,) uint32, undefined for
        those that it lacks."""
        place = self.xp.empty(count, np.uint32)
        self.run("sdf_placed", len(number), number=number, place=place)
        return place

    def spaced(self, count: int, every: int, number: Array | None = None) -> Array:
        """Every so-many-th of numbers (count,) uint32, from the first on; None: 0 .. count - 1."""
        spaced = self.xp.empty(-(-count // every), np.uint32)
        self.run("sdf_spaced", len(spaced), every=every, number=number, spaced=spaced)
        return spaced

    def scale(self, values: Array, factor: float) -> None:
        """Multiplies values (n,) float32 in place."""
        self.run("sdf_scaled", len(values), factor=factor, values=values)

    def negate(self, values: Array, chosen: Array) -> None:
        """Gives values (n,) float32 the other sign where (n,) bool says so, in place."""
        self.run("sdf_negated", len(values), chosen=chosen.view(np.uint8), values=values)

    def above(self, values: Array, level: float) -> Array:
        """Which values (n,) float32 are above a level: (n,) bool."""
        above = self.xp.empty(len(values), np.uint8)
        self.run("sdf_above", len(values), level=level, values=values, above=above)
        return above.view(bool)

    def pinned(self, n: int, dtype: Any) -> npt.NDArray[Any]:
        """Page-locked host memory (n,), for asynchronous copies at full speed."""
        return np.empty(n, dtype)

    def mapped(self, host: npt.NDArray[Any]) -> Array:
        """Page-locked host memory as kernels see it: the host reads what they write there once it has waited."""
        return host

    def upload(self, host: npt.NDArray[Any], array: Array) -> None:
        """Copies to a device array of the same type and length, in the current stream."""
        array[...] = host

    def download(self, array: Array, host: npt.NDArray[Any]) -> None:
        """Copies from the device, in the current stream."""
        host[...] = array

    def fetch(self, array: Array, other: Backend) -> Array:
        """A contiguous copy on this device of another one's array, in order with the current streams of both."""
        return self.from_host(other.to_host(array))

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

    @abstractmethod
    def overflow(self, most: int, folder: Path) -> AbstractContextManager[None]:
        """Arrays that are made within it, on this thread, lie elsewhere where the device has no room for them within
        `most` bytes in use. folder: for scratch files. Raises OSError where that is not possible."""

    @abstractmethod
    def overflow_free(self, folder: Path) -> int:
        """Bytes that are free there."""

    def done_so_far(self) -> Callable[[], None]:
        """What waits for the work of the current stream so far, and for none that comes later."""
        return lambda: None

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

    def table_steps(self, rows: int, columns: int) -> tuple[int, int]:
        """How a table lies whose rows are read by a thread each: steps from a row to the next, and from a column to the
        next."""
        return columns, 1

    def from_host(self, array: npt.ArrayLike, dtype: Any = None) -> Array:
        """A contiguous array on the device."""
        return self.xp.ascontiguousarray(self.xp.asarray(array, dtype=dtype))
