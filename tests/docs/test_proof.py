"""docs/internals/proof.md: its checker accepts a field's bounds, and refuses wrong ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

import sdfcli
from conftest import ROOT
from sdfcli.field.field import Field

TORUS = ROOT / "sample_meshes" / "torus.obj"


def block(page: str) -> str:
    """A page's one block of Python."""
    (found,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    return found


@pytest.fixture(scope="module")
def field() -> Field:
    return sdfcli.build(TORUS, tolerance=1e-2, prove=True, device="cpu")


def check(field: Path, count: int) -> subprocess.CompletedProcess[str]:
    """Runs the checker in the field's folder."""
    (field.parent / "reader.py").write_text(block("reference/file.md"))
    (field.parent / "check.py").write_text(block("internals/proof.md"))
    words = [sys.executable, "check.py", field.name, TORUS, str(count)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return subprocess.run(words, cwd=field.parent, env=environment, capture_output=True, text=True, check=False)


def test_it_is_short() -> None:
    assert len(block("internals/proof.md").splitlines()) <= 50
    assert "sdfcli" not in block("internals/proof.md")


def test_it_accepts_the_bounds(field: Field, tmp_path: Path) -> None:
    done = check(field.save(tmp_path / "field.h5"), 300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "300 errors are within their bounds\n", "")


def test_it_refuses_bounds_that_are_too_small(field: Field, tmp_path: Path) -> None:
    """All checksums are right."""
    assert field.leaf_bound is not None
    smaller = replace(field, leaf_bound=field.leaf_bound - np.minimum(field.leaf_bound, 48).astype(np.uint8))
    done = check(smaller.save(tmp_path / "field.h5"), 300)
    assert done.returncode == 1
    assert "of 300 errors exceed their bound" in done.stderr


def test_it_notices_damage(field: Field, tmp_path: Path) -> None:
    path = field.save(tmp_path / "field.h5")
    with h5py.File(path, "r+") as file:
        file["bound"][5] -= 1
    done = check(path, 1)
    assert (done.returncode, done.stderr) == (1, "the bounds are damaged\n")
