"""Chunks are what HDF5's own filters make and read."""

from __future__ import annotations

import zlib
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdfcli.field.chunks import fletcher32, packed


def dataset(data: Any, length: int, **filters: Any) -> Any:
    """An empty dataset in memory, with chunks of that length."""
    file = h5py.File("chunks", "w", driver="core", backing_store=False)
    return file.create_dataset("data", data.shape, data.dtype, chunks=(length,), **filters)


@settings(max_examples=60, deadline=None)
@given(data=st.binary(min_size=1, max_size=3000))
def test_the_checksum_is_that_of_hdf5(data: bytes) -> None:
    array = np.frombuffer(data, np.uint8)
    whole = dataset(array, len(array), fletcher32=True)
    whole[...] = array
    _, chunk = whole.id.read_direct_chunk((0,))
    assert chunk == data + fletcher32(data).to_bytes(4, "little")


@pytest.mark.parametrize("data", [b"\xff\xff" * 70_000, b"\0" * 999, b"\0" * 99 + b"\1"])
def test_the_checksum_of_carries_and_zeros(data: bytes) -> None:
    test_the_checksum_is_that_of_hdf5.hypothesis.inner_test(data)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    length=st.integers(1, 700),
    missing=st.integers(0, 699),
    dtype=st.sampled_from([np.uint8, np.uint16, np.uint32, np.float32]),
    largest=st.sampled_from([1, 2, 9, 255]),
    noisy=st.booleans(),
    quick=st.booleans(),
)
def test_hdf5_reads_what_was_packed(
    seed: int, length: int, missing: int, dtype: type, largest: int, noisy: bool, quick: bool
) -> None:
    count = length + max(1, length - missing)
    entries = np.random.default_rng(seed).integers(0, largest, count).astype(dtype)
    whole = dataset(entries, length, compression="gzip", shuffle=True, fletcher32=True)
    for first in (0, length):
        whole.id.write_direct_chunk((first,), packed(entries[first : first + length], length, noisy, quick))
    assert np.array_equal(whole[()], entries)


def test_noise_is_packed_well_and_so_are_repeats() -> None:
    rng = np.random.default_rng(3)
    noise = np.where(rng.random(1 << 16) < 0.7, 0, rng.integers(0, 8, 1 << 16)).astype(np.uint16)
    repeats = np.tile(noise[:300], 220)[: 1 << 16]
    for entries in (noise, repeats):
        plain = zlib.compress(entries.view(np.uint8).reshape(-1, 2).T.tobytes(), 6)
        assert len(packed(entries, 1 << 16, noisy=True)) <= len(plain) + 4


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("count", [1, 65_535, 1 << 16])
@pytest.mark.parametrize("noisy_from", [0, 0.5, 1])
def test_quick_packing_of_noise_and_of_runs(dtype: type, count: int, noisy_from: float) -> None:
    entries = np.frombuffer(np.random.default_rng(5).bytes(count * np.dtype(dtype).itemsize), dtype).copy()
    runs = int(noisy_from * count)
    entries[:runs] = np.repeat(entries[: 1 + count // 50], 50)[:runs]
    whole = dataset(entries, count, compression="gzip", shuffle=True, fletcher32=True)
    chunk = packed(entries, count, quick=True)
    whole.id.write_direct_chunk((0,), chunk)
    assert np.array_equal(whole[()].view(np.uint8), entries.view(np.uint8))
    assert len(chunk) <= entries.nbytes + 100
    if count > 1000:
        assert len(chunk) < (0.2, 0.7, 1.1)[int(2 - 2 * noisy_from)] * entries.nbytes
