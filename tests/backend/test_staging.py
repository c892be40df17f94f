"""Large copies between a GPU and the host."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import backends
from sdfcli.backend.cuda import CudaBackend, cuda_backend, staging

pytestmark = pytest.mark.gpu

MANY = staging.SIZE // 4  # float32 in a buffer


@pytest.mark.parametrize("count", [1, MANY // 5, MANY - 1, MANY, MANY + 1, 7 * MANY + 5])
def test_there_and_back(gpu: CudaBackend, count: int) -> None:
    values = np.random.default_rng(count).random(count).astype(np.float32)
    there = gpu.from_host(values)
    assert np.array_equal(gpu.xp.asnumpy(there), values)
    assert np.array_equal(gpu.to_host(there), values)


def test_types_shapes_and_what_is_not_contiguous(gpu: CudaBackend) -> None:
    values = np.random.default_rng(1).integers(0, 2**32, (MANY, 3))
    found = gpu.from_host(values[::2], np.uint32)
    assert (found.dtype, found.shape) == (np.uint32, values[::2].shape)
    assert np.array_equal(gpu.to_host(found), values[::2])
    assert np.array_equal(gpu.to_host(found[:, 1]), values[::2, 1])
    assert np.array_equal(gpu.to_host(found.T), values[::2].T)


@pytest.mark.parametrize("count", [MANY // 9, 5 * MANY])
def test_copies_wait_for_the_work_before_them_and_are_waited_for(gpu: CudaBackend, count: int) -> None:
    xp = gpu.xp
    for stream in (xp.cuda.Stream.null, xp.cuda.Stream(non_blocking=True)):
        with stream:
            for value in range(5):
                there = xp.full(count, -1.0, np.float32)
                for _ in range(20):  # long enough that a copy that did not wait would be seen
                    there[...] = value
                assert np.array_equal(gpu.to_host(there), np.full(count, value, np.float32))
                more = gpu.from_host(np.full(count, value, np.float32))
                assert float(abs(more - there).max()) == 0.0


def test_threads_copy_at_a_time(gpu: CudaBackend) -> None:
    def both_ways(number: int) -> bool:
        values = np.full(3 * MANY + number, number, np.float32)
        with gpu.active():
            return np.array_equal(gpu.to_host(gpu.from_host(values)), values)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(both_ways, range(12)))


@pytest.mark.parametrize("counts", [[1], [0, 5], [3 * MANY + 1, 0, MANY, 17], [8 * MANY + 5, 2 * MANY]])
def test_copies_beside_other_work_are_of_what_was_there(gpu: CudaBackend, counts: list[int]) -> None:
    """Also where nobody else keeps the arrays: their memory is used for something else when they have been copied."""
    xp = gpu.xp
    for stream in (xp.cuda.Stream.null, xp.cuda.Stream(non_blocking=True)):
        with stream:
            for round_ in range(5):
                made = [xp.arange(count, dtype=np.uint32) * np.uint32(3 + round_) for count in counts]
                copies, wait = gpu.to_host_async(made)
                del made
                for count in counts:
                    xp.full(count, 7, np.uint32)
                small, large = (np.full(count, round_, np.float32) for count in (100, 2 * MANY))
                assert all(np.array_equal(gpu.to_host(gpu.from_host(each)), each) for each in (small, large))
                wait()
                for count, copy in zip(counts, copies, strict=True):
                    assert np.array_equal(copy, np.arange(count, dtype=np.uint32) * np.uint32(3 + round_))


def test_copies_beside_other_work_of_any_shape(gpu: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(4).integers(0, 2**32, (MANY, 3))
    for most in (gpu.async_bytes, 0):  # none are copied beside
        monkeypatch.setattr(gpu, "async_bytes", most)
        there = gpu.from_host(values)
        copies, wait = gpu.to_host_async([there, there.T, there[::2, 1].astype(np.uint8)])
        wait()
        assert np.array_equal(copies[0], values)
        assert np.array_equal(copies[1], values.T)
        assert np.array_equal(copies[2], values[::2, 1].astype(np.uint8))


def test_what_fails_beside_other_work_is_raised_where_it_is_waited_for(
    gpu: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise MemoryError("no buffer")

    with monkeypatch.context() as patched:
        patched.setattr(staging.Staging, "_copy", fails)
        _, wait = gpu.to_host_async([gpu.xp.zeros(9, np.uint32)])
        with pytest.raises(MemoryError, match="no buffer"):
            wait()
    copies, wait = gpu.to_host_async([gpu.xp.ones(9, np.uint32)])
    wait()
    assert copies[0].tolist() == [1] * 9


def test_arrays_of_another_gpu() -> None:
    backends.two_gpus()
    here, there = cuda_backend(0), cuda_backend(1)
    values = np.random.default_rng(2).random((MANY, 3)).astype(np.float32)
    with there.active():
        theirs = there.from_host(values) * np.float32(2)
    with here.active():
        fetched = here.fetch(theirs[: len(values) // 2], there)
        assert fetched.device.id == 0
        assert np.array_equal(here.to_host(fetched), values[: len(values) // 2] * np.float32(2))


def test_small_copies_do_not_wait_for_work_of_the_device(gpu: CudaBackend) -> None:
    """Many share a buffer, which is used again only when all are done."""
    xp, rng = gpu.xp, np.random.default_rng(5)
    for stream in (xp.cuda.Stream.null, xp.cuda.Stream(non_blocking=True)):
        with stream:
            values = [rng.random(int(count)) for count in rng.integers(1 << 12, MANY // 3, 40)]
            busy = xp.zeros(1 << 24)
            there = []
            for value in values:
                busy += 1.0
                there.append(gpu.from_host(value))
            assert all(np.array_equal(xp.asnumpy(each), value) for each, value in zip(there, values, strict=True))
