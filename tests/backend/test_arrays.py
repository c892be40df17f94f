"""What backends offer of array modules, by kernels of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
from sdfcli.backend import Backend, C

backend = backends.backend


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 3000),
    taken=st.integers(0, 3000),
    shape=st.sampled_from([(), (3,), (9,), (2, 3)]),
    dtype=st.sampled_from([np.uint32, np.float32, np.uint64, np.float64, np.int32]),
)
def test_rows_are_taken(backend: Backend, seed: int, rows: int, taken: int, shape: tuple[int, ...], dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    array = rng.integers(0, 2**31, (rows, *shape)).astype(dtype)
    number = rng.integers(0, rows, taken).astype(np.uint32)
    found = backend.to_host(backend.taken(backend.from_host(array), backend.from_host(number)))
    assert (found.dtype, found.shape) == (dtype, (taken, *shape))
    assert np.array_equal(found, array[number])


def test_rows_of_other_sizes_are_refused(backend: Backend) -> None:
    array, number = backend.from_host(np.zeros((8, 3)), np.uint8), backend.from_host(np.zeros(4), np.uint32)
    with pytest.raises(TypeError, match="rows of 3 bytes"):
        backend.taken(array, number)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 3000), share=st.floats(0, 1))
def test_places_of_numbers(backend: Backend, seed: int, count: int, share: float) -> None:
    number = np.random.default_rng(seed).permutation(count)[: int(share * count)].astype(np.uint32)
    place = backend.to_host(backend.placed(backend.from_host(number), count))
    assert place.shape == (count,)
    assert place[number].tolist() == list(range(len(number)))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 3000), every=st.integers(1, 100))
def test_numbers_in_steps(backend: Backend, seed: int, count: int, every: int) -> None:
    number = np.random.default_rng(seed).integers(0, 2**32, count, np.uint32)
    assert np.array_equal(backend.to_host(backend.spaced(count, every)), np.arange(count)[::every])
    found = backend.to_host(backend.spaced(count, every, backend.from_host(number)))
    assert (found.dtype, found.tolist()) == (np.uint32, number[::every].tolist())


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 3000), factor=st.floats(1e-3, 1e3))
def test_scaled_and_compared(backend: Backend, seed: int, count: int, factor: float) -> None:
    values = np.random.default_rng(seed).normal(0, 100, count).astype(np.float32)
    on_device = backend.from_host(values.copy())
    backend.scale(on_device, factor)
    scaled = values * np.float32(factor)
    assert backend.to_host(on_device).tobytes() == scaled.tobytes()
    level = float(scaled[0]) if count else 0.0
    above = backend.above(on_device, level)
    assert backend.to_host(above).dtype == bool
    assert np.array_equal(backend.to_host(above), scaled > np.float32(level))
    backend.negate(on_device, above)
    assert backend.to_host(on_device).tobytes() == np.where(scaled > np.float32(level), -scaled, scaled).tobytes()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(C.NONE, np.uint32), (0, np.uint64), (7, np.uint8), (7, np.uint32), (-1, np.int32), (0.1, np.float32)],
)
@pytest.mark.parametrize("shape", [0, 1, 1000, (3, 5)])
def test_arrays_of_one_value(backend: Backend, value: Any, dtype: Any, shape: Any) -> None:
    found = backend.to_host(backend.filled(shape, value, dtype))
    assert found.dtype == dtype
    assert np.array_equal(found, np.full(shape, value, dtype))
    copy = backend.copied(backend.from_host(found))
    assert np.array_equal(backend.to_host(copy), found)


@pytest.mark.parametrize("rows", [0, 3, 1 << 18])
def test_to_a_given_host_array(backend: Backend, rows: int) -> None:
    values = np.arange(3.0 * rows).reshape(rows, 3)
    whole = np.full((2 * rows + 1, 3), -1.0)
    found = backend.to_host(backend.from_host(values), whole[rows : 2 * rows])
    assert np.shares_memory(found, whole) or not rows
    assert np.array_equal(whole[rows:-1], values)
    assert (whole[:rows] == -1).all()
    assert (whole[-1] == -1).all()
