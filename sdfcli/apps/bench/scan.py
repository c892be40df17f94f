"""Benchmark for the exclusive scan on one, two and four devices, against the paper's form, the library's scan and a
copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.errors import CheckFailedError
from sdfcli.extract.scan import CHUNK, LARGEST_PART, Counts, exclusive_scan, exclusive_scan_on_host, split

PAPER = {(1, 2**21): 3.44, (2, 2**21): 3.08, (4, 2**21): 3.50}
PAPER |= {(1, 10 * 2**21): 34.24, (2, 10 * 2**21): 20.36, (4, 10 * 2**21): 12.09}
"""Milliseconds from host to host by devices and elements: Table 1 of the paper, on Tesla K80 boards."""

ON_HOST = (2**21, 10 * 2**21)
ON_DEVICES = (2**27, 2**30)
ON_DEVICES_CPU = (2**24,)
DEVICES = (1, 2, 4)

TIMED = ("scan", "form")
"""Cases with figures in the paper."""

BLOCKS, EACHES = (128, 256, 512, 1024), (1, 2, 4, 8)
"""Threads per block and elements per thread of the paper's addition, which has 1024 and 4."""

SEED = 2_097_152


@dataclass(frozen=True)
class Row:
    """One measurement.

    what          `scan`: exclusive scan over the devices; `form`: the paper's form of it; `library`: the library's
                  in-place scan of each part by itself; `copy`: a copy, a lower bound for all; `add`: the paper's
                  addition of a subtotal to all elements, alone. All have the same elements.
    where         `host to host`, or `on devices`.
    milliseconds  median run; `fastest` and `slowest` are the quartiles.
    gigabytes     GB/s, for one read and one write per element.
    speed_up      over one device.
    paper         the paper's milliseconds, if known.
    block         threads per block of `add`, on a GPU.
    each          elements per thread of `add`.
    """

    what: str
    where: str
    devices: int
    elements: int
    milliseconds: float
    fastest: float
    slowest: float
    gigabytes: float
    speed_up: float
    paper: float | None
    block: int | None = None
    each: int | None = None


def measure_scan(
    backends: Sequence[Backend],
    *,
    on_host: Sequence[int] = ON_HOST,
    on_devices: Sequence[int] = ON_DEVICES,
    repeat: int = 20,
) -> Iterator[Row]:
    """The paper's Table 1, and longer device-resident arrays, on 1, 2 and 4 devices; then its addition on the first.

    Elements are 0 or 1, 32 bits each. Raises CheckFailedError for a wrong sum.
    """
    counts = [count for count in DEVICES if count <= len(backends)]
    for where, sizes, cases in (("host to host", on_host, _host_cases), ("on devices", on_devices, _device_cases)):
        for elements in sizes:
            one: dict[str, float] = {}
            for count in counts:
                for what, prepare, run in cases(backends[:count], elements):
                    low, middle, high = _timed(backends[:count], prepare, run, repeat)
                    one.setdefault(what, middle)
                    paper = PAPER.get((count, elements)) if what in TIMED and where == "host to host" else None
                    speed = 8e-6 * elements / middle
                    yield Row(what, where, count, elements, middle, low, high, speed, one[what] / middle, paper)
    for elements in on_host:
        yield from _additions(backends[0], elements, repeat)


def _additions(backend: Backend, elements: int, repeat: int) -> Iterator[Row]:
    """The paper's addition, by block size and elements per thread."""
    with backend.active():
        part = Counts(backend, elements)
        part.values[:] = 0

    def add(each: int) -> None:
        with backend.active():
            part.add(1, each)

    for block in [None] if backend.name == "cpu" else BLOCKS:
        for each in EACHES:
            with backend.blocks_of(block) if block else nullcontext():
                low, middle, high = _timed([backend], _nothing, partial(add, each), repeat)
            speed = 8e-6 * elements / middle
            yield Row("add", "on devices", 1, elements, middle, low, high, speed, 1.0, None, block, each)


Case = tuple[str, Callable[[], None], Callable[[], None]]
"""Case: name, preparation, and run."""


def _host_cases(backends: Sequence[Backend], elements: int) -> Iterator[Case]:
    values, out = (backends[0].pinned(elements, np.uint32) for _ in range(2))
    values[:] = np.random.default_rng(SEED).integers(0, 2, elements, dtype=np.uint8)
    expected = int(values.sum(dtype=np.uint64))

    def scan() -> None:
        _check(exclusive_scan_on_host(values, backends, out=out, most=1)[1], expected)

    def form() -> None:
        longest = -(-elements // len(backends))
        _check(exclusive_scan_on_host(values, backends, out=out, most=1, chunk=longest)[1], expected)

    yield "scan", _nothing, scan
    yield "form", _nothing, form
    yield "copy", _nothing, lambda: _copy_through(backends, values, out)


def _copy_through(backends: Sequence[Backend], values: Any, out: Any) -> None:
    """Copies to the devices and back, in the scan's chunks."""
    chunk = min(CHUNK, -(-len(values) // len(backends)))
    starts = range(0, len(values), chunk)
    used = []
    for k, start in enumerate(starts):
        backend, piece = backends[k % len(backends)], slice(start, start + chunk)
        stream = backend.streams(len(starts))[k]
        with stream:
            array = backend.xp.empty(len(values[piece]), np.uint32)
            backend.upload(values[piece], array)
            backend.download(array, out[piece])
        used.append((stream, array))
    for stream, _ in used:
        stream.synchronize()


def _device_cases(backends: Sequence[Backend], elements: int) -> Iterator[Case]:
    flags: list[Array] = []
    parts: list[Counts] = []
    expected = 0
    for backend, (first, last) in zip(backends, split(elements, [1.0] * len(backends)), strict=True):
        rng = np.random.default_rng(SEED + first)
        for start in range(first, last, LARGEST_PART):
            with backend.active():
                length = min(last, start + LARGEST_PART) - start
                flags.append(backend.from_host(rng.integers(0, 2, length, dtype=np.uint8)))
                parts.append(Counts(backend, length))
                expected += int(flags[-1].sum(dtype=np.uint64))

    def fill() -> None:
        for part, flag in zip(parts, flags, strict=True):
            with part.backend.active():
                part.values[:] = flag

    yield "scan", fill, lambda: _check(exclusive_scan(parts, most=1), expected)

    def on_each(work: Callable[[Counts], None]) -> Callable[[], None]:
        def run() -> None:
            for part in parts:
                with part.backend.active():
                    work(part)

        return run

    def form() -> None:
        for part in parts:
            with part.backend.active():
                part.start()
        total = 0
        for part in parts:
            with part.backend.active():
                before, total = total, total + int(part.sums[-1])
                part.add(before)
        _check(total, expected)

    yield "form", fill, form
    yield "library", fill, on_each(Counts.start)
    copies = []
    for part in parts:
        with part.backend.active():
            copies.append(part.backend.xp.empty_like(part.sums))
    copy_of = {id(part): copy for part, copy in zip(parts, copies, strict=True)}

    def copy(part: Counts) -> None:
        copy_of[id(part)][...] = part.sums

    yield "copy", _nothing, on_each(copy)


def _timed(
    backends: Sequence[Backend], prepare: Callable[[], None], run: Callable[[], None], repeat: int
) -> tuple[float, float, float]:
    """Quartiles and median in milliseconds, after one warm-up run."""

    def all_done() -> None:
        for backend in backends:
            with backend.active():
                backend.synchronize()

    seconds = []
    for _ in range(repeat + 1):
        prepare()
        all_done()
        start = time.perf_counter()
        run()
        all_done()
        seconds.append(time.perf_counter() - start)
    low, middle, high = (1e3 * float(part) for part in np.quantile(seconds[1:], (0.25, 0.5, 0.75)))
    return low, middle, high


def _check(total: int, expected: int) -> None:
    if total != expected:
        raise CheckFailedError(f"the scan's total is {total}, not {expected}")


def _nothing() -> None:
    pass
