"""A few hundred of the cases that tools/fuzz.py makes, and those that once went wrong."""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
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
    "dae",
    "poses",
    "poses-table",
    "poses-json",
    "field",
    "field-parts",
    "sequence",
    "vdb",
    "nvdb",
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


OTHERS: dict[str, Callable[[Any], Any]] = {
    "float64": lambda data: data.astype("f8"),
    "big-endian": lambda data: data.astype(">u8"),
    "texts": lambda data: np.full(data.shape, b"x"),
    "texts of variable length": lambda data: np.full(data.shape, "x", h5py.string_dtype()),
    "records": lambda data: np.zeros(data.shape, [("a", "u1"), ("b", "f4")]),
    "references": lambda data: np.full(data.shape, h5py.Reference(), h5py.ref_dtype),
    "two dimensions": lambda data: data.reshape(1, *data.shape),
    "empty": lambda data: data.reshape(-1)[:0],
    "one": lambda data: data.reshape(-1)[0],
    "longer": lambda data: np.append(data, data.reshape(-1)[:1]),
    "nothing": lambda data: h5py.Empty("f4"),
}


def otherwise(name: str) -> list[Callable[[Any], None]]:
    """Changes of an entry of a mapping, of a group's datasets or its attributes."""

    def change(other: Callable[[Any], Any], entries: Any) -> None:
        data = np.asarray(entries[name][()] if isinstance(entries, h5py.Group) else entries[name])
        with np.errstate(invalid="ignore"):
            new = other(data)
        if (new.dtype, new.shape) == (data.dtype, data.shape):
            raise ValueError("the same")
        del entries[name]
        entries[name] = new

    def rename(entries: Any) -> None:
        entries[name + "x"] = entries[name]
        del entries[name]

    return [lambda entries: entries.__delitem__(name), rename, *(partial(change, other) for other in OTHERS.values())]


@pytest.mark.parametrize("kind", ["field", "sequence"])
def test_each_dataset_and_attribute_is_another(fuzz: Any, files: Any, tmp_path: Path, kind: str) -> None:
    """With right sums: refused, or harmless."""
    path = tmp_path / "changed.h5"
    path.write_bytes(files[kind][1])
    places: list[tuple[str, bool, str]] = []
    with h5py.File(path) as file:
        for place in ("/", "/frame/000001") if kind == "sequence" else ("/",):
            places += [(place, False, name) for name in file[place] if isinstance(file[place][name], h5py.Dataset)]
            places += [(place, True, name) for name in file[place].attrs]
    for place, in_attributes, name in places:
        for number, change in enumerate(otherwise(name)):
            path.write_bytes(files[kind][1])
            with h5py.File(path, "r+") as file:
                try:
                    change(file[place].attrs if in_attributes else file[place])
                except (TypeError, ValueError):  # no such value, or no other one
                    continue
                if kind == "field":
                    fuzz.seal(file)
                elif name != "attributes_sha256":
                    with contextlib.suppress(AttributeError):
                        file[place].attrs["attributes_sha256"] = np.bytes_(fuzz.attributes_sha256(file[place]))
            found = fuzz.run("field-parts" if kind == "field" else kind, path)
            assert in_attributes or found == "refused", (place, name, number)


@pytest.mark.nightly
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
