"""What a reader leaves out is said: by a warning, in JSON, in tables, and of every mesh of a batch."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trimesh

from commands import run
from sdfcli.errors import ReadingNote
from sdfcli.mesh.load import load_mesh
from sdfcli.params import BuildParams

OF_STL, OF_OBJ = "9 bytes behind its last triangle are left out", "statements left out: 1 of 'l'"
QUICK = ("--device", "cpu", "--depth", "3", "--tolerance", "0.1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    box = trimesh.creation.box()
    (tmp_path / "a.stl").write_bytes(bytes(box.export(file_type="stl")) + bytes(9))
    (tmp_path / "b.obj").write_text(box.export(file_type="obj") + "\nl 1 2\n")
    box.export(tmp_path / "c.ply")
    return tmp_path


def test_a_mesh_has_the_notes_on_its_file(folder: Path) -> None:
    with pytest.warns(ReadingNote, match=r"a\.stl: 9 bytes"):
        mesh = load_mesh("a.stl")
    assert mesh.notes == [OF_STL]
    params = BuildParams(domain=(-2, -2, -2, 4.0), unit=1.0)
    assert mesh.placed(None, params.unit).notes == [OF_STL]
    assert load_mesh("c.ply").notes == []


def test_warnings_of_libraries_name_the_file(folder: Path) -> None:
    script = """
import sys, warnings
from sdfcli.mesh.formats import readers
whole = readers.READERS[".ply"]
readers.READERS[".ply"] = lambda path: (warnings.warn("an odd header"), whole(path))[1]
from sdfcli.cli.app import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script, "check", "c.ply", "--json"], capture_output=True, text=True, check=False
    )
    assert done.stderr == "note: c.ply: an odd header\n"
    assert json.loads(done.stdout)["notes"] == ["an odd header"]


def test_check(folder: Path) -> None:
    done = run("check", "a.stl", "b.obj", "c.ply", "--json", "--device", "cpu")
    found = {line["input"]: line["notes"] for line in map(json.loads, done.stdout.splitlines())}
    assert found == {"a.stl": [OF_STL], "b.obj": [OF_OBJ], "c.ply": []}
    assert sorted(done.stderr.splitlines()) == [f"note: a.stl: {OF_STL}", f"note: b.obj: {OF_OBJ}"]
    assert f"note        {OF_STL}" in run("check", "a.stl", "--device", "cpu").stdout


@pytest.mark.parametrize("names", [["a.stl"], ["a.stl", "b.obj", "c.ply"]])
def test_builds(names: list[str], folder: Path) -> None:
    """Alone, and by other processes."""
    wanted = {"a.stl": [OF_STL], "b.obj": [OF_OBJ], "c.ply": []}
    for status in ("ok", "skipped"):
        done = run("build", *names, "-o", "out/", "--json", "--skip-existing", *QUICK)
        assert done.returncode == 0, done.stderr
        reports = [json.loads(line) for line in done.stdout.splitlines()]
        assert {each["input"]: each["notes"] for each in reports} == {name: wanted[name] for name in names}
        assert {each["status"] for each in reports} == {status}
        said = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
        assert sorted(said) == sorted(f"note: {name}: {each}" for name in names for each in wanted[name])
    assert run("build", *names, "-o", "quiet/", "-q", *QUICK).stderr == ""


def test_notes_do_not_change_a_field(folder: Path) -> None:
    for name in ("a.stl", "same.stl"):
        (folder / "same.stl").write_bytes((folder / "a.stl").read_bytes()[:-9])
        assert run("build", name, "-o", f"{name}.h5", *QUICK).returncode == 0
    assert (folder / "a.stl.h5").read_bytes() == (folder / "same.stl.h5").read_bytes()


def test_a_reading_thread_keeps_its_own(folder: Path) -> None:
    with warnings.catch_warnings(), ThreadPoolExecutor(4) as pool:
        warnings.simplefilter("ignore", ReadingNote)
        found = list(pool.map(lambda name: load_mesh(name).notes, ["a.stl", "b.obj", "c.ply"] * 8))
    assert found == [[OF_STL], [OF_OBJ], []] * 8
