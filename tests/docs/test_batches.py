"""docs/guides/batches.md and ci.md: their commands, run as they are written."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import trimesh

import commands
import sdfcli
import shapes
from conftest import ROOT
from sdfcli.batch import pool
from sdfcli.cli.app import command_of
from sdfcli.cli.registry import BUILT_IN
from sdfcli.mesh.formats.readers import FORMATS
from sdfcli.runtime import child

GUIDES = ROOT / "docs" / "guides"
TEXT = (GUIDES / "batches.md").read_text()
PIPELINE = (GUIDES / "ci.md").read_text()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with scans/ and parts/, in which `sdfcli` is a command."""
    for name in ("scans/one.ply", "scans/two.ply", "parts/three.stl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        trimesh.Trimesh(*shapes.icosphere(2), process=False).export(tmp_path / name)
    command = tmp_path / "bin" / "sdfcli"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {commands.program()} "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def run(script: str, folder: Path) -> None:
    words = ["bash", "-eo", "pipefail", "-c", script]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_shell_commands(project: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", TEXT + PIPELINE, flags=re.DOTALL)
    scripts = [block for block in blocks if "scans" in block and "cp sample_meshes" not in block]
    assert len(scripts) == 3
    for script in scripts:
        run(script, project)
    found = {path.relative_to(project).with_suffix("").as_posix() for path in project.rglob("*.h5")}
    assert found == {"batch/one", "batch/two", "batch/three"} | {
        f"{folder}/{name}" for folder in ("listed", "looped") for name in ("one", "two")
    }
    assert len({sdfcli.load(project / f"{name}.h5").content_sha256 for name in found if "three" not in name}) == 1


@pytest.mark.parametrize(("fault", "code"), [("folder", 2), ("mesh", 3), ("value", 2)])
def test_the_plain_script_tells_failures(project: Path, monkeypatch: pytest.MonkeyPatch, fault: str, code: int) -> None:
    """An output that cannot be written, a mesh that cannot be read, and a wrong value of an option."""
    script = next(block for block in re.findall(r"```sh\n(.*?)```", PIPELINE, flags=re.DOTALL) if "worst" in block)
    if fault == "folder":
        (project / "looped" / "one.h5").mkdir(parents=True)
    elif fault == "mesh":
        (project / "scans" / "one.ply").write_text("ply\n")
    else:
        monkeypatch.setenv("SDFCLI_BUILD_DEPTH", "99")
    words = ["bash", "-eo", "pipefail", "-c", script]
    done = subprocess.run(words, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "are built" not in done.stdout
    failed = commands.reports("build", done.stdout)
    assert len(failed) == (2 if fault == "value" else 1)
    assert all(each["exit_code"] == code for each in failed)
    if fault != "value":
        assert (failed[0]["input"], failed[0]["status"]) == ("scans/one.ply", "failed")


def test_the_default_worker_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The option and the guide name the limits per GPU."""
    most = {6: "six", 12: "twelve"}[max(pool.PER_GPU, pool.PER_SHARED_GPU)]
    (option,) = (each for each in command_of(BUILT_IN["build"]).params if each.name == "jobs")
    for text in (option.help, " ".join(TEXT.split())):
        assert f"two to {most} per GPU" in text
    assert "at most six per GPU" in " ".join(TEXT.split())
    monkeypatch.setattr(child, "available_threads", lambda: 1000)
    monkeypatch.setattr(child, "free_memory", lambda: 1 << 60)
    assert child.process_count(["cuda:0"], 2, pool.PER_SHARED_GPU) == 12
    monkeypatch.setattr(child, "available_threads", lambda: 1)
    assert child.process_count(["cuda:0"], 2, pool.PER_SHARED_GPU) == 2


def test_the_job_for_github(project: Path) -> None:
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PIPELINE, flags=re.DOTALL)[1])["jobs"]["fields"]
    script = {step["name"]: step["run"] for step in job["steps"] if "run" in step}
    assert script.pop("install") == "pip install ./sdfcli"  # .ci/run installs it
    for expected in ("ok", "skipped"):
        run(script["build"], project)
        outcomes = [json.loads(line) for line in (project / "fields.jsonl").read_text().splitlines()]
        assert [each["status"] for each in outcomes] == [expected] * 2
    assert (project / "report.html").exists()


def test_the_endings_that_are_named() -> None:
    assert ", ".join(f"`{suffix}`" for suffix in FORMATS) in " ".join(TEXT.split())
