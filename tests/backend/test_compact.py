"""Lists of what kernels have chosen."""

from __future__ import annotations

import numpy as np
import pytest

import backends
import sdfcli.backend.warps
from sdfcli.backend import Backend

backend, warps = backends.backend, backends.warps


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 257, 8192, 8193, 20_001])
@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("most_runs", [3, 4096])
def test_what_is_chosen(
    backend: Backend, warps: Backend, count: int, most: int, most_runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdfcli.backend.warps, "MOST_RUNS", most_runs)
    rng = np.random.default_rng(count)
    flag = rng.integers(0, most + 1, count) if count != 8192 else np.full(count, most)
    for device in (backend, warps):
        found = device.compact(device.from_host(flag, np.uint8), most, first=7)
        assert len(found) == most
        for number, places in enumerate(found, 1):
            assert places.dtype == np.uint32
            assert device.to_host(places).tolist() == (7 + np.flatnonzero(flag == number)).tolist()
        known = device.compact(device.from_host(flag, np.uint8), most, first=7, known=[len(each) for each in found])
        assert all(map(np.array_equal, map(device.to_host, known), map(device.to_host, found)))
