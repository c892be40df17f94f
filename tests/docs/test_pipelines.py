"""The recipes for pipelines: those of docs/guides/pipelines.md that no block of it runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import commands
from conftest import ROOT
from examples import DOCS
from sdfcli.mesh.formats.readers import PLAIN

PAGE = (DOCS / "guides" / "pipelines.md").read_text()


@pytest.fixture
def meshes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `scans`, and `sdfcli` on PATH."""
    (tmp_path / "scans").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / "sample_meshes" / "shells.ply", tmp_path / "scans")
    program = tmp_path / "bin" / "sdfcli"
    program.write_text(f'#!/bin/sh\nexec {commands.program()} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path


def block(name: str) -> str:
    """The block of the page that begins with a comment with the name of a file."""
    (found,) = re.findall(rf"^```\w+\n# {re.escape(name)}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


def test_the_hook_of_the_repository(meshes: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (used,) = yaml.safe_load(block(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    assert used["id"] == hook["id"]
    for suffix in PLAIN:
        assert re.search(hook["files"], f"a{suffix.upper()}"), suffix
    assert not re.search(hook["files"], "a.txt")
    (meshes / "scans" / "bad.ply").write_text("ply\n")
    scan = ROOT / "sample_meshes" / "scan.ply"
    for mesh, args, code in (
        ("scans/shells.ply", hook["args"], 0),
        ("scans/shells.ply", used["args"], 0),
        (scan, hook["args"], 6),
        ("scans/bad.ply", hook["args"], 3),
    ):
        command = [*shlex.split(hook["entry"]), *args, str(mesh)]
        done = subprocess.run(command, cwd=meshes, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr


def test_the_steps_of_the_workflow(meshes: Path) -> None:
    """As GitHub runs them, but that of the installation."""
    steps = yaml.safe_load(block(".github/workflows/meshes.yml"))["jobs"]["fields"]["steps"]
    scripts = {step["name"]: step["run"] for step in steps if "run" in step and step["name"] != "install"}
    (meshes / "scans" / "deep er").mkdir()
    shutil.copy(ROOT / "sample_meshes" / "torus.obj", meshes / "scans" / "deep er")
    for script in scripts.values():
        subprocess.run(["bash", "-e", "-c", script], cwd=meshes, check=True, capture_output=True)
    (upload,) = [step["with"]["path"].split() for step in steps if "upload-artifact" in step.get("uses", "")]
    assert [list(meshes.glob(pattern)) for pattern in upload if not list(meshes.glob(pattern))] == []
    assert (meshes / "fields" / "shells.h5").is_file()
    for name in ("health", "errors"):
        assert len((meshes / f"{name}.jsonl").read_text().splitlines()) == 2
    # Exchanged fields fail; the first failure does not end the step.
    one, other = meshes / "fields" / "shells.h5", meshes / "fields" / "deep er" / "torus.h5"
    one.rename(meshes / "aside.h5")
    other.rename(one)
    (meshes / "aside.h5").rename(other)
    done = subprocess.run(["bash", "-e", "-c", scripts["verify"]], cwd=meshes, check=False, capture_output=True)
    assert done.returncode != 0
    assert len((meshes / "errors.jsonl").read_text().splitlines()) == 2
    # A doubtful mesh in a subfolder is not let through.
    shutil.copy(ROOT / "sample_meshes" / "scan.ply", meshes / "scans" / "deep er" / "scan.ply")
    done = subprocess.run(["bash", "-e", "-c", scripts["check"]], cwd=meshes, check=False, capture_output=True)
    assert done.returncode == 6


def test_snakemake(meshes: Path) -> None:
    """Where it is installed."""
    program = shutil.which("snakemake")
    if program is None:
        pytest.skip("snakemake is not installed")
    (meshes / "Snakefile").write_text(block("Snakefile"))
    subprocess.run([program, "--cores", "2"], cwd=meshes, check=True, capture_output=True)
    assert sorted(path.name for path in (meshes / "fields").iterdir()) == ["shells.h5", "shells.verified.json"]
