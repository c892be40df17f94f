"""Exclusive scan (prefix sums) over any number of devices: output[i] is the sum of input[0] .. input[i - 1].

Each chunk is scanned by a library on one device. Its base, the sum of all earlier chunks, is applied in one of two
ways. From host to host, copies dominate: a chunk is scanned on arrival, its subtotal goes to the host, and the base is
added to its elements, four per thread. On devices, memory bandwidth dominates: parts are reduced first, which reads
them once, and each scan starts from its base; adding it afterwards would read and write everything again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import wait
from contextlib import ExitStack
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, C
from sdfcli.runtime.threads import kept_threads

CHUNK = 1 << 21
"""Elements per chunk for a host array."""

LARGEST_PART = 1 << 30
"""Maximum elements per part, which the library counts in 31 bits."""

EACH = 4
"""Elements per thread to which a base is added, as in the paper."""

T = TypeVar("T")


class Counts:
    """n unsigned numbers on a device, with memory for their exclusive scan in place.

    values  (n,) uint32 or uint64, written by the caller.
    sums    (n + 1,), after the scan: each number's offset, and the total.
    slots   None; or (k,), zeros in which the producer of the values counts their sum, by entries SCAN_APART apart, so
            that the values need not be read for it. Values left out overlap with the next part's.
    """

    def __init__(self, backend: Backend, n: int, dtype: Any = np.uint32) -> None:
        # The library's scan is inclusive; shifted by one entry, it is the exclusive scan.
        self.backend = backend
        self.sums: Array = backend.xp.empty(n + 1, dtype)
        backend.fill(self.sums[:1], 0)
        self.slots: Array | None = None

    def count_sum(self) -> Array:
        """Makes `slots`, for the kernel that writes the values."""
        self.slots = self.backend.xp.zeros(C.SCAN_SLOTS * C.SCAN_APART, self.sums.dtype)
        return self.slots

    def __len__(self) -> int:
        return len(self.sums) - 1

    @property
    def values(self) -> Array:
        return self.sums[1:]

    def scan(self, most: int | None = None) -> int:
        """`exclusive_scan` of this part alone; returns the total."""
        return exclusive_scan([self], most)

    def total(self) -> int:
        """The numbers' sum, before their scan."""
        return int((self.values if self.slots is None else self.slots).sum(dtype=np.uint64))

    def sum_on_device(self) -> tuple[Array, int]:
        """The numbers' sum, for `sdf_scan_carry`: entries SCAN_APART apart, and their count."""
        if self.slots is not None:
            return self.slots, C.SCAN_SLOTS
        return self.values.sum(dtype=self.sums.dtype).reshape(1), 1  # by CUB for equal types

    def start(self, base: int = 0) -> None:
        """Starts the scan on the device, from `base`."""
        if base:
            self.sums[:1] = base
            self.sums[1:2] += self.sums.dtype.type(base)
        if len(self):
            self.backend.inclusive_scan(self.values)

    def add(self, base: int, each: int = EACH) -> None:
        """Adds the base to all sums. each: elements per thread."""
        if base:
            kernel = "sdf_scan_add" if self.sums.dtype == np.uint32 else "sdf_scan_add_wide"
            count = len(self.sums)
            self.backend.run(kernel, -(-count // each), count=count, each=each, base=base, values=self.sums)


def exclusive_scan(parts: Sequence[Counts], most: int | None = None) -> int:
    """Scans parts, each on its own device, as one array; returns the total.

    A device may have several parts, and parts may be empty. most: upper bound on the numbers, which saves an overflow
    check. Raises OverflowError, with the numbers unchanged, if the sums need more bits; then use uint64.
    """
    if not parts:
        return 0
    start_scan(parts, most)
    with parts[-1].backend.active():  # else the copy does not wait for this device
        return int(parts[-1].sums[-1])


def start_scan(parts: Sequence[Counts], most: int | None = None, base: int = 0) -> None:
    """Starts `exclusive_scan` of one or more parts, from `base`. Where `most` shows that nothing overflows, nothing
    waits for the host: each device passes the total so far on to the next.

    Raises as `exclusive_scan`.
    """
    if any(len(part) > LARGEST_PART for part in parts):
        raise ValueError(f"a part has more than {LARGEST_PART} elements: use several")
    limit = int(np.iinfo(parts[0].sums.dtype).max)
    if most is not None and base + most * sum(map(len, parts)) <= limit:
        _start_by_devices(parts, base)
    else:
        _start_by_host(parts, most, base)


def _start_by_devices(parts: Sequence[Counts], base: int) -> None:
    if len(parts) == 1 and not base:
        with parts[0].backend.active():
            parts[0].start()
        return
    # All sums are started first, so that the devices run concurrently. The last one's is not needed.
    sums: list[tuple[Array | None, int]] = []
    for part in parts[:-1]:
        with part.backend.active():
            sums.append(part.sum_on_device())
    before: Array | None = None
    for part, (own, entries), following in zip(parts, [*sums, (None, 0)], [*parts[1:], parts[-1]], strict=True):
        backend = part.backend
        with backend.active():
            after = backend.xp.empty(1, part.sums.dtype)
            kernel = "sdf_scan_carry" if part.sums.dtype == np.uint32 else "sdf_scan_carry_wide"
            ask = {"before": before, "own": own, "after": after, "sums": part.sums}
            backend.run(kernel, 1, base=base, count=len(part), entries=entries, **ask)
            # Before this part's scan, for which the copy would wait.
            before = after if following.backend is backend else following.backend.fetch(after, backend)
            part.start()
        base = 0


def _start_by_host(parts: Sequence[Counts], most: int | None, base: int) -> None:
    sums = []
    for part in parts[:-1]:
        with part.backend.active():
            fits = most is not None and len(part) * most <= np.iinfo(part.sums.dtype).max
            of = part.values if part.slots is None else part.slots
            sums.append(of.sum(dtype=part.sums.dtype if fits else np.uint64))
    bases = [*accumulate(map(int, sums), initial=base)]
    with parts[-1].backend.active():
        check_total(parts[-1], bases[-1], most)
    for part, before in zip(parts, bases, strict=True):
        with part.backend.active():
            part.start(before)


def check_total(part: Counts, before: int, most: int | None) -> None:
    """Raises OverflowError if a part's sums, starting from `before`, exceed their type. most: see `exclusive_scan`."""
    limit = int(np.iinfo(part.sums.dtype).max)
    narrow = part.sums.dtype == np.uint32
    if before > limit or (narrow and (most is None or before + len(part) * most > limit)):
        reached = before + part.total()
        if reached > limit:
            raise OverflowError(f"the numbers add up to {reached}, which takes more than {8 * part.sums.itemsize} bits")


def exclusive_scan_on_host(
    values: npt.NDArray[Any],
    backends: Sequence[Backend],
    *,
    weights: Sequence[float] | None = None,
    dtype: Any = np.uint32,
    out: npt.NDArray[Any] | None = None,
    most: int | None = None,
    chunk: int | None = None,
) -> tuple[npt.NDArray[Any], int]:
    """Exclusive scan (n,) and total of host numbers (n,), by one or more devices.

    Chunks are distributed over devices, so that uploads, scans and downloads overlap, and a chunk waits only for
    earlier chunks' subtotals. Copies overlap if `values` and `out` are pinned (Backend.pinned).

    values: uint32. weights: relative device speeds; default: equal. dtype: uint32 or uint64, for the sums. most: as for
    `exclusive_scan`. chunk: elements per chunk; default: 2^21, or fewer so that every device has a chunk.

    Raises OverflowError if the total exceeds `dtype`.
    """
    values = np.ascontiguousarray(values, np.uint32)
    if out is None:
        out = backends[0].pinned(len(values), dtype)
    if out.shape != values.shape or out.dtype != dtype or not out.flags.c_contiguous:
        raise ValueError(f"out must be a contiguous array of {len(values)} numbers of type {np.dtype(dtype)}")
    chunk = chunk or min(CHUNK, -(-len(values) // len(backends))) or 1
    starts = range(0, len(values), chunk)
    dealt = _dealt(backends, weights, len(starts))
    streams = {backend: iter(backend.streams(dealt.count(backend))) for backend in set(dealt)}
    jobs = []
    with ExitStack() as ends:  # no memory is freed during its copy, even after an OverflowError
        for start, backend in zip(starts, dealt, strict=True):
            piece, subtotal, stream = values[start : start + chunk], backend.pinned(1, dtype), next(streams[backend])
            ends.callback(stream.synchronize)
            with stream:
                part = Counts(backend, len(piece), dtype)
                if part.sums.dtype == piece.dtype:
                    backend.upload(piece, part.values)
                else:
                    part.values[:] = backend.from_host(piece)
                check_total(part, 0, most)
                part.start()
                backend.download(part.sums[-1:], subtotal)
            jobs.append((start, part, stream, subtotal))
        total = 0
        for start, part, stream, subtotal in jobs:
            stream.synchronize()
            before, total = total, total + int(subtotal[0])
            if total > np.iinfo(part.sums.dtype).max:
                raise OverflowError(
                    f"the numbers add up to {total} or more, which takes more bits than {part.sums.dtype} has"
                )
            with stream:
                part.add(before)
                part.backend.download(part.sums[:-1], out[start : start + len(part)])
    return out, total


def split(n: int, weights: Sequence[float], granularity: int = 1) -> list[tuple[int, int]]:
    """Splits 0 .. n into contiguous parts in proportion to the weights, at multiples of `granularity`.

    Parts are half-open ranges (first, last); some may be empty.
    """
    shares = np.cumsum([0.0, *weights]) / np.sum(weights)
    borders = [min(n, round(share * n / granularity) * granularity) for share in shares[:-1]] + [n]
    return list(pairwise(borders))


def at_once(work: Callable[[Any], T], items: Sequence[Any]) -> list[T]:
    """Results of `work` for all items; several items run in a thread each, if memory suffices. An exception of one is
    raised when all have ended."""
    if len(items) < 2:
        return [work(item) for item in items]
    started = [kept_threads(len(items)).submit(work, item) for item in items]
    wait(started)
    return [each.result() for each in started]


def _dealt(backends: Sequence[Backend], weights: Sequence[float] | None, count: int) -> list[Backend]:
    """A device per chunk: the one expected to finish it first."""
    pace = np.ones(len(backends)) if weights is None else np.asarray(weights, np.float64)
    done = np.zeros(len(backends))
    dealt = []
    for _ in range(count):
        device = int(np.argmin((done + 1) / pace))
        done[device] += 1
        dealt.append(backends[device])
    return dealt
