"""SDFCLI_PLAIN=1 does without what makes processes start fast, and changes no bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backends import DEVICES

BUILD = """
import sys
import sdfcli
from sdfcli.startup import PLAIN, driver

assert PLAIN == (sys.argv[3] == "1")
driver.start(sys.argv[2])
for octree in ("adaptive", "bvh"):
    print(sdfcli.build(sys.argv[1], device=sys.argv[2], octree=octree, depth=6).content_sha256)
driver.exit_fast(0)
print("an end as Python's")
"""


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_bits(device: str, tmp_path: Path) -> None:
    mesh = Path(__file__).parents[2] / "sample_meshes" / "scan.ply"
    told = []
    for plain in ("0", "1"):
        environment = {**os.environ, "SDFCLI_PLAIN": plain, "CUPY_CACHE_DIR": str(tmp_path / plain)}
        words = [sys.executable, "-c", BUILD, mesh, device, plain]
        done = subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        told.append(done.stdout.splitlines())
    assert len(set(told[0])) == 2
    assert told[1] == [*told[0], "an end as Python's"]
    if device == "cuda":
        assert not list((tmp_path / "1").glob("sdfcli-*.cubin"))
