"""Work beside other work, and copies that arrive later."""

from __future__ import annotations

import numpy as np

import backends
from sdfcli.backend import Backend

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
    assert backend.later(backend.xp.empty(0, np.uint32))().tolist() == []
