"""Recorded work: repeated, it does the same again."""

from __future__ import annotations

import numpy as np

import backends
from sdfcli.backend import Backend

backend = backends.backend


def test_recorded_work_is_repeated(backend: Backend) -> None:
    values, expected = backend.xp.ones(5000, np.uint32), np.ones(5000, np.uint32)

    def work() -> None:
        backend.inclusive_scan(values)  # takes memory, and frees it
        values[...] += np.uint32(1)

    work()
    again = backend.recorded(work)
    for _ in range(2):
        again()
        other = backend.xp.zeros(1 << 20, np.uint32)  # may lie where the work's own memory lay
        again()
        assert not backend.to_host(other).any()
    for _ in range(5):
        expected = np.cumsum(expected, dtype=np.uint32) + np.uint32(1)
    assert np.array_equal(backend.to_host(values), expected)
