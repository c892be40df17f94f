"""The package of the guide "Commands of your own", as it is written there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import packages
import sdfcli
from conftest import ROOT
from examples import DOCS

PAGE = (DOCS / "guides" / "commands.md").read_text()
BLOCKS = dict(re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "sample_meshes", tmp_path / "sample_meshes")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "pyproject.toml").write_text(BLOCKS["toml"])
    (tmp_path / "package" / "sdfcli_volume.py").write_text(BLOCKS["python"])
    return tmp_path


def run(folder: Path, words: str) -> subprocess.CompletedProcess[str]:
    program, given = words.split(maxsplit=1)
    assert program == "sdfcli"
    return packages.run(given, packages.install(folder / "package", folder / "site-packages"), folder)


def test_it_prints_what_the_page_says(folder: Path) -> None:
    build, command = BLOCKS["sh"].splitlines()
    assert run(folder, build).returncode == 0
    done = run(folder, command)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", BLOCKS["text"])


def test_help_and_errors(folder: Path) -> None:
    (description,) = re.findall(r'^description = "(.*)"$', BLOCKS["toml"], re.MULTILINE)
    assert description in run(folder, "sdfcli --help").stdout.split("Plugins")[1]
    assert "Example: sdfcli volume bunny.h5" in run(folder, "sdfcli volume --help").stdout
    done = run(folder, "sdfcli volume torus.h5 --samples 0")
    assert (done.returncode, done.stderr) == (2, "sdfcli: --samples 0: use 1 or more\n")
    unsigned = sdfcli.build(ROOT / "sample_meshes" / "torus.obj", device="cpu", depth=3, sign="none")
    unsigned.save(folder / "torus.h5")
    done = run(folder, "sdfcli volume torus.h5")
    assert (done.returncode, done.stderr) == (3, "sdfcli: torus.h5: has no signs, and so no inside\n")


def test_the_files_of_the_example() -> None:
    named = set(re.findall(r"^\| `([\w./]+)` \|", PAGE, re.MULTILINE))
    example = ROOT / "examples" / "push-out"
    files = {path.relative_to(example).as_posix() for path in example.rglob("*") if path.is_file()}
    assert named == {name for name in files if "__" not in name}
