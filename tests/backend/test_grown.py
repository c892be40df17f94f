"""Arrays that grow."""

from __future__ import annotations

import numpy as np
import pytest

import backends
from sdfcli.backend import Backend

backend = backends.backend


@pytest.mark.parametrize("shape", [(), (3,), (27,)])
@pytest.mark.parametrize(("kept", "entries"), [(0, 0), (0, 5), (1, 1), (7, 9), (10, 100_000)])
def test_the_first_entries_are_kept(backend: Backend, shape: tuple[int, ...], kept: int, entries: int) -> None:
    for dtype in (np.uint8, np.uint32, np.float64):
        values = np.random.default_rng(kept).integers(0, 256, (10, *shape)).astype(dtype)
        array = backend.from_host(values)
        found = backend.grown(array, entries, kept)
        assert (found.shape, found.dtype) == ((entries, *shape), dtype)
        assert np.array_equal(backend.to_host(found)[:kept], values[:kept])
        found[:kept] = 0
        assert np.array_equal(backend.to_host(array), values)
