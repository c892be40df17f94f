"""How many threads a GPU's blocks have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
import pytest

import backends
from sdfcli.backend import Backend
from sdfcli.backend.cuda import CudaBackend
from sdfcli.backend.cuda.kernels import BLOCK
from sdfcli.spatial.morton import curve_order

backend = backends.backend

Launch = tuple[tuple[int], tuple[int]]


class Recorder:
    """Stands for a GPU's modules, and keeps grids and blocks of launches."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []

    def __getitem__(self, source: str) -> Recorder:
        return self

    def __contains__(self, source: str) -> bool:
        return True

    def get_function(self, kernel: str) -> Callable[..., None]:
        return lambda grid, block, arguments, **_: self.launches.append((grid, block))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Any:
    made: Any = CudaBackend.__new__(CudaBackend)
    made._modules, made._functions, made._block = Recorder(), {}, BLOCK
    made._compiling = defaultdict(Lock)
    monkeypatch.setattr(CudaBackend, "address", lambda self, array: array.ctypes.data)
    return made


def run(device: Any) -> tuple[Launch, Launch, Launch]:
    """The launches of a kernel with a thread an index, of one by warps, and of one by warps without shared memory."""
    points, keys, chosen = np.zeros((1000, 3)), np.zeros(1000, np.uint64), np.zeros(1000, np.uint32)
    device.run("sdf_morton", 1000, points=points, keys=keys)
    values = {"flag": np.zeros(1000, np.uint8), "chosen": chosen, "last": np.zeros(1, np.uint32)}
    device.run("sdf_chosen", 32, count=1000, **values)
    numbers = {"queries": 100, "data": 1000, "dimension": 3, "k": 8, "more": 0}
    vectors = {"query": np.zeros((100, 3), np.float32), "vector": np.zeros((1000, 3), np.float32)}
    found = {"distance_sq": np.zeros((100, 8), np.float32), "nearest": np.zeros((100, 8), np.uint32)}
    order = {"number": np.zeros(1000, np.uint32), "place": np.zeros(100, np.uint32)}
    device.run("sdf_shift_warp", 1600, **numbers, **vectors, **order, **found)
    *_, plain, warp, shuffle = device._modules.launches
    return plain, warp, shuffle


def test_blocks_of_a_size(device: Any) -> None:
    assert run(device) == (((8,), (128,)), ((1,), (128,)), ((13,), (128,)))
    with device.blocks_of(512):
        # Warps share memory with three others, or with none.
        assert run(device) == (((2,), (512,)), ((1,), (128,)), ((4,), (512,)))
        with device.blocks_of(32):
            assert run(device)[0] == ((32,), (32,))
        assert run(device)[0] == ((2,), (512,))
    assert run(device)[0] == ((8,), (128,))


def test_the_same_bits_by_any_blocks(backend: Backend) -> None:
    points = backend.from_host(np.random.default_rng(0).random((3000, 3)), np.float32)
    known = backend.to_host(curve_order(backend, points))
    for threads in (32, 512, 1024):
        with backend.blocks_of(threads):
            assert np.array_equal(backend.to_host(curve_order(backend, points)), known)
