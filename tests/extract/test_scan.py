"""The exclusive scan over several parts and devices, against sums in Python's integers."""

from __future__ import annotations

import contextlib
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
from sdfcli.backend import Backend, C
from sdfcli.backend.base import Stream
from sdfcli.backend.cpu import CpuBackend
from sdfcli.extract import scan
from sdfcli.extract.scan import Counts, exclusive_scan, exclusive_scan_on_host, split, start_scan

backend = backends.backend

DTYPES = [np.uint32, np.uint64]


def expected(numbers: Any) -> list[int]:
    return [0, *accumulate(int(x) for x in numbers)]


@pytest.fixture(scope="module", params=["one", "pair"])
def devices(request: pytest.FixtureRequest, backend: Backend) -> list[Backend]:
    """One device twice, or two devices: on a CPU, two backends."""
    if request.param == "one":
        return [backend, backend]
    return [CpuBackend(1), CpuBackend(2)] if backend.name == "cpu" else backends.two_gpus()


def filled(backend: Backend, numbers: Any, dtype: Any) -> Counts:
    part = Counts(backend, len(numbers), dtype)
    part.values[:] = backend.from_host(numbers, dtype)
    return part


@settings(max_examples=80, deadline=None)
@given(
    parts=st.lists(st.lists(st.integers(0, 2**20), max_size=50), max_size=6),
    dtype=st.sampled_from(DTYPES),
    bounded=st.booleans(),
)
def test_parts(devices: list[Backend], parts: list[list[int]], dtype: Any, bounded: bool) -> None:
    counts = []
    for number, numbers in enumerate(parts):
        with devices[number % 2].active():
            counts.append(filled(devices[number % 2], numbers, dtype))
    sums = expected(list(chain(*parts)))
    assert exclusive_scan(counts, most=2**20 if bounded else None) == sums[-1]
    at = 0
    for part, numbers in zip(counts, parts, strict=True):
        assert part.backend.to_host(part.sums).tolist() == sums[at : at + len(numbers) + 1]
        at += len(numbers)


@settings(max_examples=60, deadline=None)
@given(
    numbers=st.lists(st.integers(0, 5), min_size=1, max_size=200),
    borders=st.lists(st.integers(0, 200), max_size=4),
    more=st.integers(0, 30),
    base=st.sampled_from([0, 7, 2**31]),
    dtype=st.sampled_from(DTYPES),
    bounded=st.booleans(),
)
def test_overlapping_parts(
    devices: list[Backend],
    numbers: list[int],
    borders: list[int],
    more: int,
    base: int,
    dtype: Any,
    bounded: bool,
) -> None:
    """Parts as in marching cubes: each also has the next one's first numbers, and its producer has summed its own."""
    ends = sorted(min(each, len(numbers)) for each in [0, *borders, len(numbers)])
    sums = [base + each for each in expected(numbers)]
    counts = []
    for number, (first, last) in enumerate(pairwise(ends)):
        backend = devices[number % 2]
        with backend.active():
            part = filled(backend, numbers[first : last + more], dtype)
            slots = np.zeros(len(part.count_sum()), dtype)
            for place, each in enumerate(numbers[first:last]):
                slots[place % C.SCAN_SLOTS * C.SCAN_APART] += each
            part.slots[:] = backend.from_host(slots)  # type: ignore[index]
            counts.append(part)
    start_scan(counts, 5 if bounded else None, base)
    for part, (first, last) in zip(counts, pairwise(ends), strict=True):
        found = part.backend.to_host(part.sums).tolist()
        assert found == sums[first : min(last + more, len(numbers)) + 1]


def test_sums_leave_before_the_scans() -> None:
    """A copy to the next device waits for all work that this one has been given."""
    order: list[str] = []

    class Noted(CpuBackend):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def inclusive_scan(self, values: Any) -> None:
            order.append(f"scan {self.number}")
            super().inclusive_scan(values)

        def fetch(self, array: Any, other: Any) -> Any:
            order.append(f"{other.number} to {self.number}")
            return super().fetch(array, other)

    parts = [filled(Noted(number), [1, 2], np.uint32) for number in range(3)]
    assert exclusive_scan(parts, 2) == 9
    assert order == ["0 to 1", "scan 0", "1 to 2", "scan 1", "scan 2"]


@pytest.mark.parametrize(("numbers", "most"), [([1, 2, 3], 2**32 // 6), ([1, 2, 3], 3), ([], 2**40)])
def test_nothing_waits_where_nothing_overflows(
    devices: list[Backend], numbers: list[int], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("by the host")

    monkeypatch.setattr(scan, "_start_by_host", refuse)
    parts = []
    for backend in devices:
        with backend.active():
            parts.append(filled(backend, numbers, np.uint32))
    assert exclusive_scan(parts, most) == 2 * sum(numbers)
    with pytest.raises(AssertionError):
        exclusive_scan(parts, None)
    if numbers:
        with pytest.raises(AssertionError):
            exclusive_scan(parts, 2**32 // 6 + 1)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 1000, 4097, 300_001])
@pytest.mark.parametrize("dtype", DTYPES)
def test_long_parts(backend: Backend, n: int, dtype: Any) -> None:
    numbers = np.random.default_rng(n).integers(0, 100, 2 * n)
    parts = [filled(backend, half, dtype) for half in (numbers[:n], numbers[n:])]
    assert exclusive_scan(parts) == numbers.sum()
    sums = np.concatenate(([0], np.cumsum(numbers)))
    assert np.array_equal(backend.to_host(parts[0].sums), sums[: n + 1])
    assert np.array_equal(backend.to_host(parts[1].sums), sums[n:])


@settings(max_examples=80, deadline=None)
@given(
    numbers=st.lists(st.integers(0, 2**20), max_size=200),
    chunk=st.integers(1, 70),
    weights=st.none() | st.lists(st.floats(0.1, 10), min_size=1, max_size=4),
    dtype=st.sampled_from(DTYPES),
    bounded=st.booleans(),
    given_out=st.booleans(),
)
def test_on_host(
    backend: Backend,
    numbers: list[int],
    chunk: int,
    weights: list[float] | None,
    dtype: Any,
    bounded: bool,
    given_out: bool,
) -> None:
    values = np.array(numbers, np.uint32)
    out = np.empty(len(values), dtype) if given_out else None
    devices = [backend] * (2 if weights is None else len(weights))
    most = 2**20 if bounded else None
    sums, total = exclusive_scan_on_host(values, devices, weights=weights, dtype=dtype, out=out, most=most, chunk=chunk)
    assert [*sums.tolist(), total] == expected(numbers)
    assert sums.dtype == dtype
    assert out is None or sums is out
    assert values.tolist() == numbers


# The total just fits, or is one too much, within a part or only over several.
FULL = 2**32 - 1
TIGHT = [[[FULL]], [[FULL - 1, 1]], [[FULL - 1], [1]], [[2**31], [], [2**31 - 1]], [[0, FULL, 0], [0, 0]]]


@pytest.mark.parametrize("parts", TIGHT)
@pytest.mark.parametrize("more", [0, 1])
def test_overflow(backend: Backend, parts: list[list[int]], more: int) -> None:
    parts = [*parts, [more]]
    whole = list(chain(*parts))
    for dtype in DTYPES:
        counts = [filled(backend, numbers, dtype) for numbers in parts]
        values = np.array(whole, np.uint32)
        if more and dtype == np.uint32:
            with pytest.raises(OverflowError, match=str(FULL + 1)):
                exclusive_scan(counts)
            for chunk in (1, 2, 100):
                with pytest.raises(OverflowError, match=str(FULL + 1)):
                    exclusive_scan_on_host(values, [backend], chunk=chunk)
        else:
            assert exclusive_scan(counts) == FULL + more
            for chunk in (1, 2, 100):
                sums, total = exclusive_scan_on_host(values, [backend, backend], dtype=dtype, chunk=chunk)
                assert [*sums.tolist(), total] == expected(whole)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 7, 8, 1000])
def test_additions(backend: Backend, dtype: Any, n: int) -> None:
    """With any number of elements per thread."""
    numbers = np.arange(n)
    for each in (1, 2, 4, 8):
        part = filled(backend, numbers, dtype)
        part.add(5, each)
        assert backend.to_host(part.values).tolist() == (numbers + 5).tolist()
        assert int(part.sums[0]) == 5


def test_overflow_within_a_part_leaves_the_numbers(backend: Backend) -> None:
    part = filled(backend, [FULL, 2], np.uint32)
    with pytest.raises(OverflowError, match="32 bits"):
        part.scan()
    assert backend.to_host(part.values).tolist() == [FULL, 2]


class WatchedStream(Stream):
    def __init__(self, busy: set[Stream]) -> None:
        self.busy = busy

    def __enter__(self) -> Stream:
        self.busy.add(self)
        return self

    def synchronize(self) -> None:
        self.busy.discard(self)


class Watched(CpuBackend):
    """`busy` are its streams for which nobody has waited since they were asked for something."""

    def __init__(self) -> None:
        super().__init__()
        self.busy: set[Stream] = set()

    def streams(self, n: int) -> list[Stream]:
        return [WatchedStream(self.busy) for _ in range(n)]


@pytest.mark.parametrize("numbers", [[FULL, 1, 1, 1], [1, FULL, 1, 1], [FULL, FULL, 1, 1], [1, 1, 1, 1]])
def test_nothing_is_copied_any_more_in_the_end(numbers: list[int]) -> None:
    """The memory of the host may be somebody else's then."""
    device = Watched()
    with contextlib.suppress(OverflowError):
        exclusive_scan_on_host(np.array(numbers, np.uint32), [device], chunk=1)
    assert not device.busy


def test_an_output_that_does_not_fit(backend: Backend) -> None:
    values = np.ones(5, np.uint32)
    for out in (np.empty(4, np.uint32), np.empty(5, np.uint64), np.empty(10, np.uint32)[::2]):
        with pytest.raises(ValueError, match="out must be"):
            exclusive_scan_on_host(values, [backend], out=out)


@given(
    n=st.integers(0, 1000),
    weights=st.lists(st.floats(0.01, 100), min_size=1, max_size=9),
    granularity=st.integers(1, 50),
)
def test_split(n: int, weights: list[float], granularity: int) -> None:
    parts = split(n, weights, granularity)
    assert len(parts) == len(weights)
    assert [parts[0][0], parts[-1][1]] == [0, n]
    assert all(first <= last for first, last in parts)
    assert all(one[1] == other[0] for one, other in pairwise(parts))
    assert all(first % granularity == 0 for first, _ in parts if first < n)
    for (first, last), weight in zip(parts, weights, strict=True):
        assert abs((last - first) - n * weight / sum(weights)) <= granularity + 1


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("most", [None, 99])
def test_two_gpus(dtype: Any, most: int | None) -> None:
    pair = backends.two_gpus()
    numbers = np.random.default_rng(1).integers(0, 100, 3_000_001).astype(np.uint32)
    sums = np.concatenate(([0], np.cumsum(numbers)))
    parts = []
    for backend, (first, last) in zip(pair, split(len(numbers), [1, 2]), strict=True):
        with backend.active():
            parts.append(filled(backend, numbers[first:last], dtype))
    assert exclusive_scan(parts, most) == sums[-1]
    found = [backend.to_host(part.sums[:-1]) for backend, part in zip(pair, parts, strict=True)]
    assert np.array_equal(np.concatenate(found), sums[:-1])
    out, total = exclusive_scan_on_host(numbers, pair, dtype=dtype, weights=[2, 1], chunk=100_000)
    assert np.array_equal(out, sums[:-1])
    assert total == sums[-1]
