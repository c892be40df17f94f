"""Copies that arrive later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import backends
from sdfcli.backend import Backend

if TYPE_CHECKING:
    from sdfcli.backend.cuda import CudaBackend

backend = backends.backend


def test_a_copy_is_of_what_was_there_when_it_began(backend: Backend) -> None:
    for number in range(20):
        values = backend.from_host(np.arange(5) + number, np.uint32)
        copy = backend.copy_async(values)
        values += np.uint32(1)
        assert copy().tolist() == [number + k for k in range(5)]
    table = backend.from_host(np.arange(12).reshape(4, 3), np.uint32)
    assert backend.copy_async(table[:, 1:2])().ravel().tolist() == [1, 4, 7, 10]
    assert backend.copy_async(backend.xp.empty(0, np.uint32))().tolist() == []


@pytest.mark.gpu
def test_a_copy_that_nobody_asks_for_leaves_others_alone(gpu: CudaBackend) -> None:
    """CuPy copies small arrays through the same memory of the host."""
    numbers = np.arange(1, 22, dtype=np.uint32)
    large = gpu.xp.zeros(1 << 24, np.uint32)
    for _ in range(300):  # which the device is at for a while
        large += np.uint32(1)
    gpu.copy_async(gpu.xp.zeros(21, np.uint32))
    assert gpu.to_host(gpu.xp.asarray(numbers)).tolist() == numbers.tolist()
