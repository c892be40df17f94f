"""The CPU's threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
