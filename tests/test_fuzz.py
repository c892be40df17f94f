"""A few hundred of the cases that tools/fuzz.py makes, and those that once went wrong."""

from __future__ import annotations

import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import trimesh

from sdfcli.errors import InputError
from sdfcli.mesh.load import load_mesh

TOOL = Path(__file__).resolve().parents[1] / "tools" / "fuzz.py"
KINDS = [
    "stl",
    "stl-text",
    "ply",
    "ply-text",
    "ply-mixed",
    "obj",
    "off",
    "glb",
    "3mf",
    "poses",
    "field",
    "field-parts",
    "sequence",
]


@pytest.fixture(scope="module")
def files(fuzz: Any) -> Any:
    return fuzz.whole_files()


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files(fuzz: Any, files: Any, tmp_path: Path, kind: str) -> None:
    found = {fuzz.run(kind, fuzz.case(kind, number, tmp_path, files)) for number in range(120)}
    assert "refused" in found


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_are_sound_before_they_are_damaged(fuzz: Any, files: Any, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"whole.{files[kind][0]}"
    path.write_bytes(files[kind][1])
    assert fuzz.run(kind, path) == "read"


def test_chunks_that_fit_their_checksum() -> None:
    """In processes of the tool, which says where one dies."""
    words = [sys.executable, str(TOOL), "--cases", "300", "field-chunks"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "300 cases" in done.stdout


def test_the_tool_reports_what_goes_wrong() -> None:
    # Every case ends in an exception here: the tool must say so, and go on.
    code = f"import runpy, sys; sys.argv = ['fuzz', '--cases', '3', 'stl']; t = runpy.run_path({str(TOOL)!r});"
    code += "t['main'].__globals__['read_mesh'] = lambda path: 1 / 0; t['main']()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "3 cases went wrong" in done.stderr
    assert done.stdout.count("WRONG: stl") == 3


def glb(**lies: int) -> bytes:
    """A sound file but for the lengths in its headers."""
    content = bytearray(trimesh.creation.box().export(file_type="glb"))
    for name, place in (("chunk", 12), ("whole", 8)):
        if name in lies:
            content[place : place + 4] = struct.pack("<I", lies[name])
    return bytes(content)


def lying_archive(folder: Path) -> bytes:
    """A 3MF file whose directory says that a part takes two gigabytes."""
    path = folder / "box.3mf"
    path.write_bytes(trimesh.creation.box().export(file_type="3mf"))
    with zipfile.ZipFile(path) as archive:
        directory = archive.start_dir
    content = bytearray(path.read_bytes())
    content[directory + 20 : directory + 24] = struct.pack("<I", 2**31)
    return bytes(content)


def test_what_once_took_too_much_memory(tmp_path: Path) -> None:
    for name, content, words in (
        ("chunk.glb", glb(chunk=2**31), "chunk"),
        ("whole.glb", glb(whole=2**31), "2,147,483,648 bytes"),
        ("archive.3mf", lying_archive(tmp_path), "by its own account"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=words):
            load_mesh(tmp_path / name)
