"""Lists of what kernels have chosen."""

from __future__ import annotations

import numpy as np
import pytest

import backends
import sdfcli.backend.warps
from sdfcli.backend import Backend

backend, warps = backends.backend, backends.warps


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 257, 8192, 8193, 20_001])
@pytest.mark.parametrize("most_runs", [3, 4096])
def test_what_is_chosen(
    backend: Backend, warps: Backend, count: int, most_runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdfcli.backend.warps, "MOST_RUNS", most_runs)
    rng = np.random.default_rng(count)
    flag = rng.integers(0, 2, count) if count != 8192 else np.ones(count)
    for device in (backend, warps):
        flags = device.from_host(flag, np.uint8)
        for known in (None, int(flag.sum())):
            found = device.compact(flags, known)
            assert found.dtype == np.uint32
            assert device.to_host(found).tolist() == np.flatnonzero(flag).tolist()
