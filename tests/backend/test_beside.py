"""Work beside other work, and copies that arrive later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import backends
from sdfcli.backend import Backend

if TYPE_CHECKING:
    from sdfcli.backend.cuda import CudaBackend

backend = backends.backend


def test_what_follows_waits_for_work_beside(backend: Backend) -> None:
    """Prefix sums of prefix sums, every second one beside, of arrays whose memory is used again and again."""
    n = 1 << 20
    for number in range(8):
        first = np.random.default_rng(number).integers(0, 2**32, n, np.uint32)
        once = backend.from_host(first.copy())
        backend.inclusive_scan(once)
        with backend.beside() as done:
            twice = once.copy()
            backend.inclusive_scan(twice)
        other = once + once
        done()
        thrice = twice + other
        backend.inclusive_scan(thrice)
        sums = np.cumsum(first, dtype=np.uint32)
        expected = np.cumsum(np.cumsum(sums, dtype=np.uint32) + 2 * sums, dtype=np.uint32)
        assert np.array_equal(backend.to_host(thrice), expected)


def test_work_beside_is_done_in_order(backend: Backend) -> None:
    values = backend.xp.ones(1 << 20, np.uint32)
    for _ in range(3):
        with backend.beside() as done:
            backend.inclusive_scan(values)
    done()
    expected = np.ones(1 << 20, np.uint32)
    for _ in range(3):
        np.cumsum(expected, dtype=np.uint32, out=expected)
    assert np.array_equal(backend.to_host(values), expected)


def test_a_copy_is_of_what_was_there_when_it_began(backend: Backend) -> None:
    for number in range(20):
        values = backend.from_host(np.arange(5) + number, np.uint32)
        copy = backend.later(values)
        values += np.uint32(1)
        assert copy().tolist() == [number + k for k in range(5)]
    table = backend.from_host(np.arange(12).reshape(4, 3), np.uint32)
    assert backend.later(table[:, 1:2])().ravel().tolist() == [1, 4, 7, 10]
    assert backend.later(backend.xp.empty(0, np.uint32))().tolist() == []


@pytest.mark.gpu
def test_a_copy_that_nobody_asks_for_leaves_others_alone(gpu: CudaBackend) -> None:
    """CuPy copies small arrays through the same memory of the host."""
    numbers = np.arange(1, 22, dtype=np.uint32)
    large = gpu.xp.zeros(1 << 24, np.uint32)
    for _ in range(300):  # which the device is at for a while
        large += np.uint32(1)
    gpu.later(gpu.xp.zeros(21, np.uint32))
    assert gpu.to_host(gpu.xp.asarray(numbers)).tolist() == numbers.tolist()
