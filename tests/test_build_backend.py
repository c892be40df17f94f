"""The build backend's stand-in for a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

build_backend = pytest.importorskip("build_backend", reason="scikit-build-core is not installed")


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
def test_names_of_folders_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python in a folder of any name is called, with the words as they are."""
    folder = tmp_path / """a $(touch x) `touch y` "b' c"""
    folder.mkdir()
    python = folder / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.chdir(tmp_path)
    with build_backend.zig("x86_64-linux-gnu.2.17", f"-ffile-prefix-map={folder}=."):
        done = subprocess.run([os.environ["CXX"], "-c", "$(touch z)"], capture_output=True, text=True, check=True)
    words = ["-m", "ziglang", "c++", "-target", "x86_64-linux-gnu.2.17", "-fno-sanitize=all", "-g0"]
    assert done.stdout.splitlines() == [*words, f"-ffile-prefix-map={folder}=.", "-c", "$(touch z)"]
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
