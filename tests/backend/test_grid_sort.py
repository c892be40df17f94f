"""Sorts and running sums by all threads of a grid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import backends
from sdfcli.backend import select_backend
from sdfcli.backend.warps import WarpBackend

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
@pytest.mark.parametrize("count", [100_000, 1 << 21, (1 << 21) + 1])
@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
def test_many_entries(count: int, kind: type) -> None:
    cuda = select_backend("cuda")
    rng = np.random.default_rng(count)
    keys = rng.integers(0, np.iinfo(kind).max, count, kind)
    keys[rng.integers(0, count, count // 2)] = keys[0]
    for sort in (cuda.sort, cuda.sort_alone):
        on_device = cuda.from_host(keys.copy())
        order = sort(on_device)
        assert np.array_equal(cuda.to_host(on_device), np.sort(keys))
        if order is not None:
            assert np.array_equal(cuda.to_host(order), np.argsort(keys, kind="stable"))
    on_device = cuda.from_host(keys.copy())
    cuda.inclusive_scan(on_device)
    assert np.array_equal(cuda.to_host(on_device), np.cumsum(keys, dtype=kind))
