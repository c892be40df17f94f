"""The exclusive scan over any number of devices: output[i] is the sum of input[0] .. input[i - 1].

The numbers lie in contiguous parts. Each part is scanned by the library on its own device, its subtotal (last output
plus last input) goes to the host, and the sum of the subtotals before it is added to its elements, four a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend

CHUNK = 1 << 21
"""Elements of an array on the host that are copied and scanned at a time."""

LARGEST_PART = 1 << 30
"""Elements; the library counts them in 31 bits."""

T = TypeVar("T")


class Counts:
    """n unsigned numbers on a device, with room for their exclusive scan in place.

    values  (n,) uint32 or uint64: the numbers, to be filled in by whoever counts.
    sums    (n + 1,): after the scan, where each number's share begins, and the total.
    """

    def __init__(self, backend: Backend, n: int, dtype: Any = np.uint32) -> None:
        # The library's scan is inclusive. One place further down, the same numbers are the exclusive scan.
        self.backend = backend
        self.sums: Array = backend.xp.empty(n + 1, dtype)
        self.sums[:1] = 0

    def __len__(self) -> int:
        return len(self.sums) - 1

    @property
    def values(self) -> Array:
        return self.sums[1:]

    def scan(self, most: int | None = None) -> int:
        """Scans the part on its own; returns the total.

        most: none of the numbers is larger. Raises OverflowError where 32 bits cannot hold the total; the numbers are
        left as they were.
        """
        self.check(most)
        self.start()
        return int(self.sums[-1])

    def check(self, most: int | None) -> None:
        """Raises OverflowError where the sums need more bits than there are. Reads the numbers only if it has to."""
        limit = np.iinfo(self.sums.dtype).max
        if most is None or len(self) * most > limit:
            total = int(self.values.sum(dtype=np.uint64)) if self.sums.dtype == np.uint32 else 0
            if total > limit:
                raise OverflowError(f"the numbers add up to {total}, which takes 64 bits")

    def start(self) -> None:
        """Asks the device for the scan."""
        if len(self):
            self.backend.inclusive_scan(self.values)

    def add(self, base: int) -> None:
        """Adds what lies before this part to all of its sums."""
        if base:
            kernel = "sdf_scan_add" if self.sums.dtype == np.uint32 else "sdf_scan_add_wide"
            count = len(self.sums)
            self.backend.run(kernel, -(-count // 4), count=count, base=base, values=self.sums)


def exclusive_scan(parts: Sequence[Counts], most: int | None = None) -> int:
    """Scans numbers that lie in parts, each on its own device, as if they were one array; returns the total.

    A device may have several parts, and parts may be empty. most: none of the numbers is larger; where it is known,
    they need not be read once more to see whether 32 bits are enough. Raises OverflowError if they are not; then use
    uint64.
    """
    if any(len(part) > LARGEST_PART for part in parts):
        raise ValueError(f"a part has more than {LARGEST_PART} elements: use several")

    def scan(part: Counts) -> int:
        with part.backend.active():
            return part.scan(most)

    def add(part: Counts, base: int) -> None:
        with part.backend.active():
            part.add(base)
            part.backend.synchronize()

    ends = list(accumulate(at_once(scan, parts)))
    _fits(ends, parts[0].sums.dtype if parts else np.uint32)
    at_once(lambda job: add(*job), list(zip(parts[1:], ends, strict=False)))
    return ends[-1] if ends else 0


def exclusive_scan_on_host(
    values: npt.NDArray[Any],
    backends: Sequence[Backend],
    *,
    weights: Sequence[float] | None = None,
    dtype: Any = np.uint32,
    out: npt.NDArray[Any] | None = None,
    most: int | None = None,
    chunk: int = CHUNK,
) -> tuple[npt.NDArray[Any], int]:
    """The exclusive scan (n,) of numbers (n,) on the host, and their total, by one or more devices.

    The numbers go through the devices in chunks, dealt out in turn, so that copies there, scans and copies back overlap
    on every device, and each chunk has to wait for the subtotals of the chunks before it only. Copies overlap where
    `values` and `out` are pinned (Backend.pinned).

    weights: the devices' speeds, all equal by default. values: uint32. dtype: of the sums; uint32 raises OverflowError
    where the total takes more, uint64 never does. most: as for `exclusive_scan`.
    """
    values = np.ascontiguousarray(values, np.uint32)
    if out is None:
        out = backends[0].pinned(len(values), dtype)
    if out.shape != values.shape or out.dtype != dtype or not out.flags.c_contiguous:
        raise ValueError(f"out must be a contiguous array of {len(values)} numbers of type {np.dtype(dtype)}")
    starts = range(0, len(values), chunk)
    jobs = []
    for start, backend in zip(starts, _dealt(backends, weights, len(starts)), strict=True):
        subtotal, queue = backend.pinned(1, dtype), backend.queue()
        with queue:
            piece = values[start : start + chunk]
            part = Counts(backend, len(piece), dtype)
            if part.sums.dtype == piece.dtype:
                backend.upload(piece, part.values)
            else:
                part.values[:] = backend.from_host(piece)
            part.check(most)
            part.start()
            backend.download(part.sums[-1:], subtotal)
        jobs.append((start, part, queue, subtotal))
    total = 0
    for start, part, queue, subtotal in jobs:
        queue.synchronize()
        _fits([total + int(subtotal[0])], part.sums.dtype)
        with queue:
            part.add(total)
            part.backend.download(part.sums[:-1], out[start : start + len(part)])
        total += int(subtotal[0])
    for _, _, queue, _ in jobs:
        queue.synchronize()
    return out, total


def split(n: int, weights: Sequence[float], granularity: int = 1) -> list[tuple[int, int]]:
    """0 .. n cut into contiguous parts, as large as the weights say, whose borders are multiples of `granularity`.

    Parts are (first, last), last not included; some may be empty.
    """
    shares = np.cumsum([0.0, *weights]) / np.sum(weights)
    borders = [min(n, round(share * n / granularity) * granularity) for share in shares[:-1]] + [n]
    return list(pairwise(borders))


def at_once(work: Callable[[Any], T], items: Sequence[Any]) -> list[T]:
    """The results of `work` for all items, each in a thread of its own where there are several."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(len(items)) as threads:
        return list(threads.map(work, items))


def _dealt(backends: Sequence[Backend], weights: Sequence[float] | None, count: int) -> list[Backend]:
    """A device for each chunk: always the one that would be done first."""
    pace = np.ones(len(backends)) if weights is None else np.asarray(weights, np.float64)
    done = np.zeros(len(backends))
    dealt = []
    for _ in range(count):
        device = int(np.argmin((done + 1) / pace))
        done[device] += 1
        dealt.append(backends[device])
    return dealt


def _fits(totals: Sequence[int], dtype: Any) -> None:
    if totals and totals[-1] > np.iinfo(dtype).max:
        raise OverflowError(f"the numbers add up to {totals[-1]}, which takes more bits than {np.dtype(dtype)} has")
