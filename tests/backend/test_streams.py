"""Standard streams that are closed, full, or read no further."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import trimesh

import shapes
from commands import program
from sdfcli.field.store import load

FULL = Path("/dev/full")
full = pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two meshes, a list of one point, and the field of a mesh."""
    for name in "one", "two":
        trimesh.Trimesh(*shapes.octahedron(), process=False).export(tmp_path / f"{name}.ply")
    (tmp_path / "points.txt").write_text("0 0 0\n")
    run(tmp_path, "sdfcli build one.ply -q -o field.h5 --depth 3 --device cpu")
    return tmp_path


@pytest.fixture
def both(folder: Path) -> Path:
    """The folder, with the field by the meshes' names, too."""
    for name in "one", "two":
        shutil.copy(folder / "field.h5", folder / f"{name}.h5")
    return folder


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    shell = f'set -o pipefail; sdfcli() {{ {program()} "$@"; }}; {command}'
    return subprocess.run(["bash", "-c", shell], cwd=folder, capture_output=True, text=True, check=False)


PRINTS = [
    "--help",
    "--version",
    "info --help",
    "info field.h5",
    "info field.h5 --json",
    "query field.h5 points.txt",
    "query field.h5 points.txt --json",
    "schema",
    "verify field.h5 --mesh one.ply --samples 100 --tolerance 0.5",
    "verify one.h5 two.h5 --mesh . --samples 100 --tolerance 0.5",
    "verify one.h5 two.h5 --mesh . --samples 100 --tolerance 0.5 --json",
    "check one.ply",
    "check one.ply --json",
    "check one.ply two.ply --json --jobs 1",
    "build one.ply two.ply --dry-run -o fields --device cpu",
    "build one.ply -o x.h5 --tolerance 0.1 --device cpu",
    "samples one.ply -o x.npz --count 100 --device cpu",
    "extract field.h5 -o x.ply --device cpu",
    "extract one.h5 two.h5 -o x/{name}.ply --device cpu --json",
    "slice field.h5 -o x.png",
    "slice one.h5 two.h5 -o x/{name}.png --json",
    "render one.h5 two.h5 -o x/{name}.png --size 16 --json",
    "export field.h5 x.vtkhdf",
    "export one.h5 two.h5 -o x/{name}.vtkhdf --json",
    "collide field.h5 two.ply --device cpu",
    "sequence one.ply two.ply -o x.h5 --depth 3 --device cpu",
]


@pytest.mark.parametrize("command", PRINTS)
def test_a_closed_standard_output(both: Path, command: str) -> None:
    done = run(both, f"sdfcli {command} >&-")
    assert (done.returncode, done.stderr) == (2, "sdfcli: standard output: cannot be written: Bad file descriptor\n")


@pytest.mark.parametrize("command", ["info field.h5 -q >&-", "query field.h5 - <&-", "info field.h5 2>&-"])
def test_closed_streams_without_use(folder: Path, command: str) -> None:
    done = run(folder, f"sdfcli {command}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("end", [">&-", ">&- 2>&- <&-", "| true"])
@pytest.mark.parametrize("command", ["build two.ply", "build one.ply two.ply -o fields --json"])
def test_files_are_written_whoever_reads(folder: Path, command: str, end: str) -> None:
    done = run(folder, f"sdfcli {command} --depth 3 --device cpu {end}")
    assert done.returncode == (141 if end == "| true" else 2), done.stderr
    assert len({path.stem for path in folder.rglob("*.h5")}) == (2 if "one" not in command else 3)
    for field in folder.rglob("*.h5"):  # no text has come between
        load(field)


@pytest.mark.parametrize("command", PRINTS)
def test_nobody_reads_results(both: Path, command: str) -> None:
    """As with tools that SIGPIPE ends."""
    done = run(both, f"sdfcli {command} | true")
    assert (done.returncode, done.stderr) == (141, "")


def test_a_closed_list_of_meshes_is_an_empty_one(folder: Path) -> None:
    done = run(folder, "sdfcli build - <&-")
    assert (done.returncode, done.stderr) == (2, "sdfcli: no names on standard input\n")


@full
@pytest.mark.parametrize("command", PRINTS)
def test_a_full_disk(both: Path, command: str) -> None:
    done = run(both, f"sdfcli {command} > {FULL}")
    message = "sdfcli: standard output: cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, message)


@full
def test_errors_that_cannot_be_told(folder: Path) -> None:
    assert run(folder, f"sdfcli info nothing.h5 2> {FULL}").returncode == 3
    assert run(folder, "sdfcli info nothing.h5 2>&-").returncode == 3


def test_nobody_reads_errors(folder: Path) -> None:
    assert run(folder, "sdfcli info nothing.h5 2>&1 | true").returncode == 3
