"""The CPU's threads."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from sdfcli.backend import C
from sdfcli.backend.cpu import CpuBackend

ALONE = """
import numpy as np
from sdfcli.backend.cpu import CpuBackend

levels = []
for threads in (1, 64):
    level = np.empty(200_000, np.uint8)
    keys = np.arange(len(level), dtype=np.uint64)
    CpuBackend(threads).run("sdf_corner_level", len(level), corner_key=keys, level=level)
    levels.append(level)
assert (levels[0] == levels[1]).all()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are refused in another way")
def test_threads_that_cannot_be_started() -> None:
    """Each would need a stack of 100 TB: what there is does the work."""
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = ["bash", "-c", 'ulimit -s 100000000000 && exec "$0" -c "$1"', sys.executable, ALONE]
    subprocess.run(command, env=alone, check=True)


@pytest.mark.parametrize("size", [1, C.BYTES_PIECE, C.BYTES_PIECE + 1, 1025 * C.BYTES_PIECE - 1])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kernel", ["sdf_bytes_copied", "sdf_bytes_handed"])
def test_bytes_are_copied_and_no_others(size: int, threads: int, kernel: str) -> None:
    source, room = np.random.default_rng(size).integers(1, 256, size, np.uint8), np.zeros(size + 600, np.uint8)
    target = room[-room.ctypes.data % 16 :]  # aligned
    given = {"size": size, "source": source, "target": target[:size]}
    CpuBackend(threads).run(kernel, -(-size // C.BYTES_PIECE), **given)
    assert np.array_equal(target[:size], source)
    assert not target[size:].any()


@pytest.mark.parametrize("size", [1, C.BYTES_APART, 5000 * C.BYTES_APART + 1])
def test_bytes_are_written_to_each_page_and_not_behind_them(size: int) -> None:
    given = np.full(size + 5000, 7, np.uint8)
    CpuBackend(3).run("sdf_bytes_begun", -(-size // C.BYTES_APART), size=size, bytes=given[:size])
    written = np.flatnonzero(given != 7)
    assert written[-1] < size
    assert np.diff(written, append=size).max() <= 4096
