"""The guide's examples with packages that not every installation has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conftest import ROOT
from examples import DOCS, MARKED, run_python


@pytest.mark.parametrize("package", ["torch", "jax"])
def test_examples(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    shutil.copytree(ROOT / "sample_meshes", tmp_path / "sample_meshes")
    monkeypatch.chdir(tmp_path)
    names = dict[str, object]()
    blocks = [
        block
        for mark, _, block in MARKED.findall((DOCS / "guides" / "tensors.md").read_text())
        if mark == f"run with {package}"
    ]
    assert blocks
    for block in blocks:
        run_python(block, names)
