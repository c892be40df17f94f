"""Sorts and running sums by all threads of a grid."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import backends
import shapes
from sdfcli.backend import select_backend
from sdfcli.backend.warps import LEAST_MANY, WarpBackend
from sdfcli.pipeline import build

grids = backends.grids

KINDS = st.sampled_from([np.uint32, np.uint64])
COUNTS = st.one_of(st.integers(0, 700), st.sampled_from([31, 32, 33, 127, 128, 129, 255, 256, 257, 2000]))


def any_keys(rng: np.random.Generator, count: int, kind: type, few: int, bits: int, shift: int) -> np.ndarray:
    """Keys of which only `bits` bits differ, above a shift; few: how many different ones there are."""
    some = rng.integers(0, 1 << min(bits, 62), few).astype(np.uint64) << np.uint64(shift)
    return some[rng.integers(0, few, count)].astype(kind)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=COUNTS,
    kind=KINDS,
    few=st.sampled_from([1, 2, 300, 100_000]),
    bits=st.integers(1, 64),
    shift=st.integers(0, 63),
)
@example(seed=0, count=700, kind=np.uint64, few=100_000, bits=64, shift=0)
@example(seed=0, count=700, kind=np.uint32, few=100_000, bits=32, shift=0)
def test_keys_are_sorted(
    grids: WarpBackend, seed: int, count: int, kind: type, few: int, bits: int, shift: int
) -> None:
    keys = any_keys(np.random.default_rng(seed), count, kind, few, bits, shift)
    on_device, alone = (grids.from_host(keys.copy()) for _ in range(2))
    order = grids.to_host(grids.grid_sort(on_device))
    assert (order.dtype, order.tolist()) == (np.int64, np.argsort(keys, kind="stable").tolist())
    assert grids.grid_sort(alone, ordered=False) is None
    for found in (on_device, alone):
        assert grids.to_host(found).tolist() == np.sort(keys).tolist()


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=COUNTS, kind=KINDS, bits=st.integers(1, 62))
@example(seed=0, count=2000, kind=np.uint32, bits=62)
def test_running_sums(grids: WarpBackend, seed: int, count: int, kind: type, bits: int) -> None:
    """Sums that leave their type's range wrap."""
    values = np.random.default_rng(seed).integers(0, 1 << bits, count).astype(kind)
    on_device = grids.from_host(values.copy())
    grids.grid_scan(on_device)
    assert grids.to_host(on_device).tolist() == np.cumsum(values, dtype=kind).tolist()


@pytest.mark.gpu
@pytest.mark.parametrize("count", [100_000, (1 << 21) - 1, 1 << 21, (1 << 22) + 1])
@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
def test_many_entries(count: int, kind: type) -> None:
    """By a grid, by a library, and by whichever of them is taken."""
    cuda: Any = select_backend("cuda")
    rng = np.random.default_rng(count)
    keys = rng.integers(0, np.iinfo(kind).max, count, kind)
    keys[rng.integers(0, count, count // 2)] = keys[0]
    assert cuda._by_grid(cuda.from_host(keys)) == (count < LEAST_MANY)
    for sort in (cuda.sort, cuda.sort_alone, cuda.grid_sort, lambda keys: cuda.grid_sort(keys, ordered=False)):
        on_device = cuda.from_host(keys.copy())
        order = sort(on_device)
        assert np.array_equal(cuda.to_host(on_device), np.sort(keys))
        if order is not None:
            assert np.array_equal(cuda.to_host(order), np.argsort(keys, kind="stable"))
    for scan in (cuda.inclusive_scan, cuda.grid_scan):
        on_device = cuda.from_host(keys.copy())
        scan(on_device)
        assert np.array_equal(cuda.to_host(on_device), np.cumsum(keys, dtype=kind))


@pytest.mark.gpu
def test_grids_of_several_threads_and_streams() -> None:
    """None waits for another one for ever."""
    cuda: Any = select_backend("cuda")
    rng = np.random.default_rng(5)

    def sorts(seed: int) -> bool:
        keys = rng.integers(0, 2**63, 30_000 + 40_000 * seed).astype(np.uint64)
        expected = np.sort(keys)
        with cuda.streams(4)[seed]:
            for _ in range(150):
                on_device = cuda.from_host(keys)
                cuda.grid_sort(on_device)
                cuda.grid_scan(cuda.xp.zeros(100_000, np.uint32))
            return np.array_equal(cuda.to_host(on_device), expected)

    pool = ThreadPoolExecutor(5)
    others = [pool.submit(sorts, seed) for seed in range(4)]
    mesh = shapes.icosphere(4)
    built = {build(mesh, device="cuda", tolerance=2e-3).content_sha256 for _ in range(20)}
    assert len(built) == 1
    assert all(other.result(timeout=100) for other in others)
    pool.shutdown()
