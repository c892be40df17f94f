"""Files of every format: what they hold is read, and what is damaged is refused with its place."""

from __future__ import annotations

import json
import os
import struct
import tempfile
import tracemalloc
import warnings
import zipfile
from decimal import Context, Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

import shapes
from sdfcli.backend import C
from sdfcli.errors import InputError, OutOfMemoryError, ReadingNote
from sdfcli.mesh.formats import lines, plain, polygons, readers
from sdfcli.mesh.formats.polygons import Polygons, triangulated
from sdfcli.mesh.load import load_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.runtime import memory
from surfaces import volume

CUBE = shapes.cube()
SQUARES = [(0, 4, 6, 2), (1, 3, 7, 5), (0, 1, 5, 4), (2, 6, 7, 3), (0, 2, 3, 1), (4, 5, 7, 6)]


def load(folder: Path, name: str, content: str | bytes) -> Mesh:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load_mesh(path)


def refusal(folder: Path, name: str, content: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        load(folder, name, content)
    message = str(caught.value)
    assert message.startswith(f"{folder / name}: ")
    assert "\n" not in message
    return message.removeprefix(f"{folder / name}: ")


def check_cube(mesh: Mesh) -> None:
    assert mesh.health.faults == []
    assert np.isclose(volume(mesh), 8)
    assert len(mesh.faces) == 12


# ---- OBJ ----

V = "".join(f"v {x} {y} {z}\n" for x, y, z in CUBE[0])


def faces_of(form: str, first: int = 1) -> str:
    return "".join("f " + " ".join(form.format(k + first) for k in row) + "\n" for row in SQUARES)


OBJS: dict[str, str | bytes] = {
    "squares": V + faces_of("{}"),
    "texture and normal": V + "vt 0 0\nvn 0 0 1\n" + faces_of("{}/1/1"),
    "normal": V + "vn 0 0 1\n" + faces_of("{}//1"),
    "texture": V + "vt 0 0\n" + faces_of("{}/1"),
    "slashes only": V + faces_of("{}//"),
    "negative": V + faces_of("{}", -8),
    "groups": "o one\n" + V + "g a\nusemtl x\ns off\n" + faces_of("{}").replace("f 4", "g b c\nusemtl y\nf 4"),
    "colours": V.replace("\n", " 0.5 0.25 1\n") + faces_of("{}"),
    "weights": V.replace("\n", " 1.0\n") + faces_of("{}"),
    "comments": "# a cube\n\n" + V.replace("v 1", "# here\n  \nv 1", 1) + faces_of("{}"),
    "continued": V + faces_of("{}").replace(" 2 ", " \\\n 2 "),
    "windows": (V + faces_of("{}")).replace("\n", "\r\n"),
    "old mac": (V + faces_of("{}")).replace("\n", "\r"),
    "tabs": (V + faces_of("{}")).replace(" ", "\t"),
    "no last line end": (V + faces_of("{}")).rstrip(),
    "mark": "\ufeff" + V + faces_of("{}"),
    "faces first": faces_of("{}") + V,
    "mtllib that is not there": "mtllib nowhere.mtl\n" + V + faces_of("{}"),
    "exponents": V.replace(" 1.0", " +10.0e-1") + faces_of("{}"),
    "indented": ("\t" + V + faces_of("{}/1")).replace("\nf", "\n\tf").replace("\nv", "\n  v"),
    "comments that end in a backslash": ("# C:\\parts\\\n" + V + faces_of("{}")).replace("\nf", " # in C:\\\nf"),
    "continued twice, for windows": (V + faces_of("{}")).replace(" ", " \\\n ").replace("\n", "\r\n"),
    "continued into a comment": V + faces_of("{}").replace("\n", " \\\n# here \\\n"),
    "outlines, as before version 3": V + faces_of("{}").replace("f", "fo"),
    "capitals": (V + faces_of("{}")).upper(),
    "weights and colours": V.replace("\n", " 1.0 0.5 0.25 1\n") + faces_of("{}"),
    "digits without an end": V.replace(" 1.0", " 1." + "0" * 400).replace(" -1.0", " -" + "0" * 99 + "1")
    + faces_of("{}"),
    "mark of UTF-16": (V + faces_of("{}")).encode("utf-16"),
    "looks": "mg 1 0.5\nlod 3\nmaplib a\nusemap b\nbevel on\ntrace_obj other.obj\n" + V + faces_of("{}"),
}


@pytest.mark.parametrize("kind", OBJS)
def test_obj(tmp_path: Path, kind: str) -> None:
    check_cube(load(tmp_path, "cube.obj", OBJS[kind]))


@pytest.mark.parametrize("piece", [1, 16, 100])
def test_obj_in_pieces(tmp_path: Path, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "PIECE", piece)
    for kind, text in OBJS.items():
        check_cube(load(tmp_path, f"{kind}.obj", text))
    for text, words in BAD_OBJS.items():
        message = refusal(tmp_path, "bad.obj", text)
        assert all(word in message for word in words)


def test_obj_vertices_between_faces(tmp_path: Path) -> None:
    parts = [V + faces_of("{}", -8), V.replace("1.0", "3.0") + faces_of("{}", -8)]
    mesh = load(tmp_path, "two.obj", "".join(parts))
    assert np.isclose(volume(mesh), 8 + 216)


NOTED_OBJS = {
    "l 1 2\nl 2 3 4\np 1\n": "statements left out: 2 of 'l', 1 of 'p'",
    "vp 0 1\ncstype bezier\ndeg 3\ncurv 0 1 1 2 3 4\nparm u 0 1\nend\n": "statements left out: 1 of 'curv'",
    "curv2 1 2\ncdc 1 2 3 4\ncsh touch here\n": "statements left out: 1 of 'cdc', 1 of 'csh', 1 of 'curv2'",
    "\u00e9t\u00e9\n": "statements left out: 1 of '\\ufffd\\ufffdt\\ufffd\\ufffd'",
}


@pytest.mark.parametrize("text", NOTED_OBJS)
def test_statements_that_are_not_read_are_noted(tmp_path: Path, text: str) -> None:
    with pytest.warns(ReadingNote) as caught:
        check_cube(load(tmp_path, "cube.obj", V + text + faces_of("{}")))
    assert [str(each.message) for each in caught] == [f"{tmp_path / 'cube.obj'}: {NOTED_OBJS[text]}"]
    assert not (tmp_path / "here").exists()


def test_objs_that_are_read_whole_have_no_notes(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for content in OBJS.values():
            load(tmp_path, "cube.obj", content)


BAD_OBJS = {
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 1_0\n": ["line 4", "whole numbers", "1_0"],
    "v 0 0 0\nv 1 0 0\nv 0 1_0 0\nf 1 2 3\n": ["line 3", "'v 0 1_0 0'"],
    "v 0 0 0\nv 1 0 0\nv 0 \u0661 0\nf 1 2 3\n": ["line 3", "three numbers"],
    "v 0 0 0\nv 1 0 0\nv 0 0x1p3 0\nf 1 2 3\n": ["line 3", "'v 0 0x1p3 0'"],
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 \u0662 3\n": ["line 4", "whole numbers"],
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3 /3\n": ["line 4", "whole numbers"],
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nf\n": ["line 4", "three corners"],
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nv\nf 1 2 3\n": ["line 4", "three numbers"],
    "v 0 0 0\nv 1 0 0 \\\n1 \\\n1\nv 0 1 0\nf 1 2 4\n": ["line 6", "vertex 4"],
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n1 2\n": ["line 5", "begins with a number"],
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 -4\nv 0 0 1\nv 0 0 1\n": ["vertex -4, but 3 come before it"],
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 0 2\n": ["vertex 0, but the first one is 1"],
    "v 0 0 0\nv 1 0 0\n# \0\nv 0 1 0\nf 1 2 3\n": ["line 3", "a byte that is 0"],
    "v 0 0 0\nsurf 0 1 0 1 1 2 3 4\n": ["line 2", "'surf' is a surface"],
    "v 0 0 0\n bsp 1 2 3 4\n": ["line 2", "'bsp' is a surface"],
    "bzp 1 2 3 4\n": ["line 1", "'bzp' is a surface"],
    "cdp 1 2 3 4\n": ["line 1", "'cdp' is a surface"],
    "".join(f"word{k} 1\n" for k in range(101)): ["more than 100 keywords", "no OBJ file"],
    "call other.obj\n": ["line 1", "'call' is a part in another file"],
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n": ["line 4", "vertex 4", "3"],
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 0\n": ["line 4", "vertex 0"],
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 -4\n": ["line 4", "vertex -4"],
    "v 0 0 0\nv 1 0 0\nv 0 1\nf 1 2 3\n": ["line 3", "'v 0 1'"],
    "v 0 0 0\nv 1 x 0\nv 0 1 0\nf 1 2 3\n": ["line 2", "'v 1 x 0'"],
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2\n": ["line 4", "three corners"],
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 three\n": ["line 4", "whole numbers"],
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3.5\n": ["line 4", "whole numbers"],
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 99999999999999999999999\n": ["line 4", "whole numbers"],
    "v 0 0 0\nv nan 0 0\nv 0 1 0\nf 1 2 3\n": ["vertex 1", "not finite"],
    "v 0 0 0\nv 1e999 0 0\nv 0 1 0\nf 1 2 3\n": ["vertex 1", "not finite"],
    "f 1 2 3\n": ["line 1", "vertex 1"],
}


@pytest.mark.parametrize("text", BAD_OBJS)
def test_bad_obj(tmp_path: Path, text: str) -> None:
    message = refusal(tmp_path, "bad.obj", text)
    for word in BAD_OBJS[text]:
        assert word in message


# ---- OFF ----

OFF_BODY = "".join(f"{x} {y} {z}\n" for x, y, z in CUBE[0]) + "".join(
    "4 " + " ".join(map(str, row)) + "\n" for row in SQUARES
)
OFFS = {
    "plain": "OFF\n8 6 12\n" + OFF_BODY,
    "on one line": "OFF 8 6 0\n" + OFF_BODY,
    "without a gap": "OFF8 6 0\n" + OFF_BODY,
    "two counts": "OFF\n8 6\n" + OFF_BODY,
    "comments": "# cube\nOFF # here\n\n8 6 12 # counts\n\n" + OFF_BODY.replace("\n", " # row\n\n"),
    "face colours": "OFF\n8 6 12\n" + OFF_BODY.replace("4 4", "4 4").replace(" 2\n", " 2 255 0 0\n"),
    "vertex colours": "COFF\n8 6 12\n" + OFF_BODY.replace(".0\n", ".0 1 0 0 1\n"),
    "normals": "NOFF\n8 6 12\n" + OFF_BODY.replace(".0\n", ".0 1 0 0\n"),
    "windows": ("OFF\n8 6 12\n" + OFF_BODY).replace("\n", "\r\n"),
    "old mac": ("OFF\n8 6 12\n" + OFF_BODY).replace("\n", "\r"),
    "small letters": "coff\n8 6 12\n" + OFF_BODY,
    "mark": "\ufeffOFF\n8 6 12\n" + OFF_BODY,
    "textures, colours and normals": "STCNOFF\n8 6 12\n" + OFF_BODY.replace(".0\n", ".0 1 0 0 1 1 1 1 0 0\n"),
    "indented": "OFF\n8 6 12\n" + OFF_BODY.replace("\n", "\n \t"),
}


@pytest.mark.parametrize("kind", OFFS)
def test_off(tmp_path: Path, kind: str) -> None:
    check_cube(load(tmp_path, "cube.off", OFFS[kind]))


@pytest.mark.parametrize("ending", [".off", ".ply"])
def test_lines_behind_the_last_row_are_noted(tmp_path: Path, ending: str) -> None:
    path, text = tmp_path / f"cube{ending}", OFFS["plain"] if ending == ".off" else ply("ascii").decode()
    with pytest.warns(ReadingNote) as caught:
        check_cube(load(tmp_path, path.name, text + "\nthe end\n# 1\n"))
    assert [str(each.message) for each in caught] == [
        f"{path}: lines behind its last row left out: {1 + (ending == '.ply')}"
    ]
    assert "lines follow" in refusal(tmp_path, path.name, text + "\n 3 0 1 2\n")


def test_offs_that_are_read_whole_have_no_notes(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for content in OFFS.values():
            load(tmp_path, "cube.off", content)


BAD_OFFS = {
    "4OFF\n1 0 0\n0 0 0 1\n": ["line 1", "4OFF", "other than three dimensions"],
    "nOFF\n2\n1 0 0\n0 0\n": ["line 1", "nOFF", "other than three dimensions"],
    "# one\nC4nOFF\n2\n1 0 0\n0 0\n": ["line 2", "C4nOFF", "other than three dimensions"],
    "OFF BINARY\n\0\0\0\1": ["line 1", "OFF BINARY", "binary"],
    "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 1_0\n": ["line 6", "whole numbers"],
    "OFF\n3 1 0\n0 0 0\n1_0 0 0\n0 1 0\n3 0 1 2\n": ["line 4", "three numbers"],
    "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n1_0 0 1 2\n": ["line 6", "the number of its corners"],
    "OFF\n" + "9" * 5000 + " 1 0\n": ["line 2", "counts"],
    "": ["OFF"],
    "OFF": ["counts"],
    "OFF\nthree 1 0\n": ["line 2", "counts"],
    "OFF\n-3 1 0\n": ["line 2", "counts"],
    "OFF\n3 2 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n": ["3 vertices", "2 faces", "4 lines"],
    "OFF\n3 1 0\n0 0 0\n1 0\n0 1 0\n3 0 1 2\n": ["line 4"],
    "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1\n": ["line 6", "names 2"],
    "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n2 0 1\n": ["line 6", "three corners"],
    "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n": ["line 6", "vertex 3"],
    "OFF\n999999999999999999999999 1 0\n0 0 0\n": ["lines follow"],
}


@pytest.mark.parametrize("text", BAD_OFFS)
def test_bad_off(tmp_path: Path, text: str) -> None:
    message = refusal(tmp_path, "bad.off", text)
    for word in BAD_OFFS[text]:
        assert word in message


# ---- STL ----


def text_stl(name: str = "cube", shape: shapes.Shape = CUBE) -> str:
    rows = [f"solid {name}"]
    for triangle in shapes.triangles(shape):
        rows += ["facet normal 0 0 0", " outer loop", *(f"  vertex {x} {y} {z}" for x, y, z in triangle)]
        rows += [" endloop", "endfacet"]
    return "\n".join([*rows, f"endsolid {name}", ""])


def binary_stl(shape: shapes.Shape = CUBE, header: bytes = b"by hand", count: int | None = None) -> bytes:
    triangles = shapes.triangles(shape)
    body = b"".join(struct.pack("<12fH", 0, 0, 0, *t.ravel(), 7) for t in triangles)
    return header.ljust(80, b"\0") + struct.pack("<I", len(triangles) if count is None else count) + body


def wide_stl() -> bytes:
    """A binary STL file with 3 bytes of attributes behind each triangle."""
    plain = binary_stl().replace(b"\7\0", b"\3\0")
    return plain[:84] + b"".join(plain[k : k + 50] + b"abc" for k in range(84, len(plain), 50))


STLS: dict[str, str | bytes] = {
    "text": text_stl(),
    "text in capitals": text_stl().upper(),
    "text without a name": text_stl("").replace("solid \n", "solid\n"),
    "text with odd names": text_stl("facet vertex 1 2 3 endsolid"),
    "text for windows": text_stl().replace("\n", "\r\n"),
    "binary": binary_stl(),
    "binary that begins with solid": binary_stl(header=b"solid by a CAD program"),
    "binary without a zero": binary_stl(header=b"solid ".ljust(80)).replace(b"\7\0", b"\7\7"),
    "binary with attributes": wide_stl(),
    "binary that begins with a mark of UTF-16": binary_stl(header=b"\xff\xfes\0o\0l\0i\0d\0"[:5]),
    "mark": "\ufeff" + text_stl(),
    "mark of UTF-16": text_stl().encode("utf-16"),
    "mark of UTF-16, big-endian": b"\xfe\xff" + text_stl().encode("utf-16-be"),
    "blanks around": "\n \n" + text_stl() + "\n\t\n",
    "endsolid in capitals and without a name": text_stl().replace("endsolid cube", "  EndSolid"),
}


@pytest.mark.parametrize("kind", STLS)
def test_stl(tmp_path: Path, kind: str) -> None:
    check_cube(load(tmp_path, "cube.stl", STLS[kind]))


def test_stl_of_two_solids(tmp_path: Path) -> None:
    away = shapes.moved(CUBE, offset=5)
    mesh = load(tmp_path, "two.stl", text_stl("one") + text_stl("two", away))
    assert np.isclose(volume(mesh), 16)


REST_STLS: dict[str, tuple[str | bytes, str]] = {
    "zeros": (binary_stl() + bytes(100), "100 bytes behind its last triangle are left out"),
    "a line end": (binary_stl() + b"\r\n", "2 bytes behind its last triangle are left out"),
    "a part of a triangle": (binary_stl() + b"more", "4 bytes behind its last triangle are left out"),
    "more than a triangle": (binary_stl() + b"x" * 60, "60 bytes behind its last triangle are left out"),
    "text": (text_stl() + "; by a program\n", "14 bytes behind `endsolid` are left out"),
    "text of solidus": (text_stl() + "solidus\n", "7 bytes behind `endsolid` are left out"),
    "zeros behind text": (text_stl() + "\0" * 9, "9 bytes behind `endsolid` are left out"),
}


@pytest.mark.parametrize("kind", REST_STLS)
def test_bytes_behind_an_stl_are_noted(tmp_path: Path, kind: str) -> None:
    content, words = REST_STLS[kind]
    with pytest.warns(ReadingNote) as caught:
        check_cube(load(tmp_path, "cube.stl", content))
    assert [str(each.message) for each in caught] == [f"{tmp_path / 'cube.stl'}: {words}"]


def test_stls_that_are_read_whole_have_no_notes(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for content in STLS.values():
            load(tmp_path, "cube.stl", content)


BAD_STLS: dict[str, tuple[str | bytes, list[str]]] = {
    "count too small": (binary_stl(count=10), ["10 triangles", "holds 12"]),
    "a second binary file": (binary_stl() + binary_stl(), ["another STL file follows its 12 triangles"]),
    "a second file of text": (binary_stl() + text_stl().encode(), ["another STL file follows its 12 triangles"]),
    "half of two files of text": (text_stl() + "sol", ["ends before `endsolid`"]),
    "bytes between two triangles": (binary_stl()[:184] + b"more" + binary_stl()[184:], ["4 bytes more", "damaged"]),
    "text without its first line": (text_stl().partition("\n")[2], ["a text STL file begins with `solid`"]),
    "a head alone": (binary_stl()[:84], ["12 triangles", "holds 0"]),
    "no triangles": (binary_stl(count=0)[:84], ["no faces in this file"]),
    "count of nothing": (binary_stl(count=0), ["0 triangles", "holds 12"]),
    "count too large": (binary_stl(count=13), ["13 triangles", "holds 12"]),
    "count far too large": (binary_stl(count=2**32 - 1), ["4,294,967,295 triangles"]),
    "cut within a triangle": (binary_stl()[:-20], ["12 triangles", "11 and a part"]),
    "without an end": (text_stl().replace("endsolid cube", ""), ["endsolid"]),
    "half of two solids": (text_stl() + text_stl("two")[:300], ["endsolid"]),
    "vertex left out": (text_stl().replace("  vertex -1.0 -1.0 -1.0\n", "", 1), ["line 2", "three vertices"]),
    "not a number": (text_stl().replace("vertex -1.0", "vertex x", 1), ["line 4", "three numbers"]),
    "too few numbers": (text_stl().replace("vertex -1.0 ", "vertex ", 1), ["line 4", "three numbers"]),
    "noise": (b"\x01" * 500, ["header"]),
}


@pytest.mark.parametrize("kind", BAD_STLS)
def test_bad_stl(tmp_path: Path, kind: str) -> None:
    content, words = BAD_STLS[kind]
    message = refusal(tmp_path, "bad.stl", content)
    for word in words:
        assert word in message


# ---- PLY ----


def ply(form: str, mixed: bool = False, tail: bool = False) -> bytes:
    """A cube of squares, or of squares and triangles, with a column and an element more than needed."""
    rows: list[Any] = list(SQUARES)
    if mixed:
        a, b, c, d = rows.pop(2)
        rows[2:2] = [(a, b, c), (a, c, d)]
    head = [
        "ply", f"format {form} 1.0", "comment cube", "element vertex 8", "property float quality", "property double x",
        "property double y", "property float z", f"element face {len(rows)}", "property uchar red",
        "property list uchar int vertex_indices", "property list uchar float texcoord",
        *(["element edge 2", "property int vertex1", "property int vertex2"] if tail else []), "end_header", "",
    ]  # fmt: skip
    if form == "ascii":
        body = "".join(f"0.5 {x} {y} {z}\n" for x, y, z in CUBE[0])
        body += "".join(f"9 {len(row)} {' '.join(map(str, row))} 2 0.5 0.5\n" for row in rows)
        return ("\n".join(head) + body + ("0 1\n1 2\n" if tail else "")).encode()
    mark = "<" if "little" in form else ">"
    packed = b"".join(struct.pack(f"{mark}fddf", 0.5, x, y, z) for x, y, z in CUBE[0])
    for row in rows:
        packed += struct.pack(f"{mark}BB{len(row)}iB2f", 9, len(row), *row, 2, 0.5, 0.5)
    return "\n".join(head).encode() + packed + (struct.pack(f"{mark}4i", 0, 1, 1, 2) if tail else b"")


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("form", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_ply(tmp_path: Path, form: str, mixed: bool, tail: bool) -> None:
    check_cube(load(tmp_path, "cube.ply", ply(form, mixed, tail)))


def edited_ply(form: str, old: bytes, new: bytes) -> bytes:
    content = ply(form)
    assert old in content
    return content.replace(old, new, 1)


def test_plys_with_other_elements_are_noted(tmp_path: Path) -> None:
    for form in ("ascii", "binary_little_endian"):
        with pytest.warns(ReadingNote) as caught:
            check_cube(load(tmp_path, "cube.ply", ply(form, tail=True)))
        assert [str(each.message) for each in caught] == [f"{tmp_path / 'cube.ply'}: elements left out: 2 of 'edge'"]


@pytest.mark.parametrize("form", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_ply_headers(tmp_path: Path, form: str) -> None:
    """Of any line ends, with remarks that end like a header, and a mark."""
    head, body = ply(form).split(b"end_header\n")
    head = head.replace(b"comment cube", b"comment then\nobj_info end_header\ncomment end_header")
    for end in (b"\n", b"\r\n", b"\r", b" \n"):
        check_cube(load(tmp_path, "cube.ply", (head + b"end_header\n").replace(b"\n", end) + body))
    check_cube(load(tmp_path, "cube.ply", b"\xef\xbb\xbf" + head + b"end_header\n" + body))
    check_cube(load(tmp_path, "cube.ply", head.replace(b"_indices", b"_index") + b"end_header\n" + body))


BAD_PLYS: dict[str, tuple[bytes, list[str]]] = {
    "nothing": (b"", ["empty"]),
    "no end of the header": (b"ply\nformat ascii 1.0\nelement vertex 3\n", ["header"]),
    "huge count": (
        edited_ply("binary_little_endian", b"vertex 8", b"vertex 900000000000000"),
        ["ends within vertex 14 of 900,000,000,000,000"],
    ),
    "huge count of lists": (
        edited_ply("binary_big_endian", b"face 6", b"face 900000000000000"),
        ["ends within face 6 of 900,000,000,000,000"],
    ),
    "impossible count": (edited_ply("ascii", b"face 6", b"face " + b"9" * 30), ["line 9"]),
    "huge count in text": (edited_ply("ascii", b"vertex 8", b"vertex 900000000000000"), ["14 lines follow"]),
    "unknown type": (edited_ply("ascii", b"float z", b"quad z"), ["line 8", "quad"]),
    "another name of corners": (edited_ply("ascii", b"vertex_indices", b"corners"), ["no lists of vertex_indices"]),
    "a grid": (edited_ply("ascii", b"element face", b"element range_grid"), ["'range_grid', which is not read"]),
    "two elements of one name": (edited_ply("ascii", b"element face", b"element vertex"), ["two elements 'vertex'"]),
    "two columns of one name": (edited_ply("ascii", b"quality", b"x"), ["'vertex' has 'x' twice"]),
    "two lists of corners": (
        edited_ply("ascii", b"texcoord", b"vertex_index"),
        ["both vertex_indices and vertex_index"],
    ),
    "a list of x": (edited_ply("ascii", b"double x", b"list uchar float x"), ["lists in element vertex"]),
    "digits with a gap": (edited_ply("ascii", b"9 4 0 4 6 2", b"9 4 0 4 0_6 2"), ["line 22", "whole numbers"]),
    "more corners than it says": (
        edited_ply("ascii", b"9 4 0 4 6 2 2", b"9 3 0 4 6 2 2"),
        ["line 22", "numbers it says"],
    ),
    "words behind a row": (
        b"ply\nformat ascii 1.0\nelement vertex 3\nproperty int x\nproperty int y\nproperty int z\nelement face 1\n"
        b"property list uchar int vertex_index\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2 3\n",
        ["line 13", "numbers it says"],
    ),
    "a count with a gap": (edited_ply("ascii", b"9 4 0 4 6 2", b"9 0_4 0 4 6 2"), ["line 22", "numbers it says"]),
    "no elements": (b"ply\nformat ascii 1.0\nend_header\n1 2\n", ["no vertices"]),
    "no z": (edited_ply("ascii", b"float z", b"float w"), ["x, y and z"]),
    "floats as indices": (edited_ply("binary_little_endian", b"int vertex", b"float vertex"), ["whole numbers"]),
    "a float of numbers": (edited_ply("ascii", b"list uchar int", b"list float int"), ["line 11", "float"]),
    "no format": (edited_ply("ascii", b"format ascii 1.0\n", b""), ["format"]),
    "more than it says": (ply("binary_little_endian") + b"more", ["4 bytes follow"]),
    "a list that cannot be": (
        edited_ply("ascii", b"9 4 0 4 6 2", b"9 400 0 4 6 2"),
        ["line 22", "numbers it says"],
    ),
    "two corners": (edited_ply("ascii", b"9 4 0 4 6 2", b"9 2 0 4"), ["line 22", "three corners"]),
    "text within numbers": (edited_ply("ascii", b"0.5 -1.0", b"0.5 one"), ["line 14", "three numbers"]),
    "no such vertex": (edited_ply("ascii", b"9 4 0 4 6 2", b"9 4 0 4 8 2"), ["face 0", "vertex 8"]),
}


@pytest.mark.parametrize("kind", BAD_PLYS)
def test_bad_ply(tmp_path: Path, kind: str) -> None:
    content, words = BAD_PLYS[kind]
    message = refusal(tmp_path, "bad.ply", content)
    for word in words:
        assert word in message, message


COUNTS = {"char": "b", "uchar": "B", "short": "h", "uint16": "H", "int32": "i", "uint": "I"}


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_lists_of_any_lengths_and_types(data: st.DataObject) -> None:
    """Of binary files, with columns of numbers and of lists before and after the one of vertices."""
    mark = data.draw(st.sampled_from("<>"))
    kinds = st.sampled_from(sorted(COUNTS))
    length, item = data.draw(kinds), data.draw(kinds)
    others = [(data.draw(kinds), data.draw(st.sampled_from([*COUNTS, "double"]))) for _ in range(2)]
    polygons = data.draw(st.lists(st.lists(st.integers(0, 8), min_size=3, max_size=7), min_size=1, max_size=9))
    codes = {**COUNTS, "double": "d"}
    body = b"".join(struct.pack(f"{mark}3f", *point) for point in np.random.default_rng(1).random((9, 3)))
    ends = []
    for polygon in polygons:
        row = b"\x07"
        for (count, kind), size in zip(others, (data.draw(st.integers(0, 3)), 2), strict=True):
            row += struct.pack(f"{mark}{COUNTS[count]}{size}{codes[kind]}", size, *range(size))
        vertices = struct.pack(f"{mark}{COUNTS[length]}{len(polygon)}{COUNTS[item]}", len(polygon), *polygon)
        ends.append(len(body) + len(row))
        body += row + vertices + b"\0" * 8
    head = [
        "ply", f"format binary_{'little' if mark == '<' else 'big'}_endian 1.0", "element vertex 9", "property float x",
        "property float y", "property float z", f"element face {len(polygons)}", "property uchar first",
        *(f"property list {count} {kind} l{k}" for k, (count, kind) in enumerate(others)),
        f"property list {length} {item} vertex_indices", "property double last", "end_header", "",
    ]  # fmt: skip
    content = "\n".join(head).encode() + body
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "any.ply")
        path.write_bytes(content)
        points, faces = readers.read_ply(path)
        assert np.array_equal(faces, triangulated(points, Polygons.of(polygons)))
        path.write_bytes(content[: -data.draw(st.integers(1, len(body) - ends[0]))])
        with pytest.raises(InputError, match=f"the file ends within face [0-9] of {len(polygons)}"):
            readers.read_ply(path)
        if length in ("char", "short", "int32"):
            at = len(content) - len(body) + ends[-1]
            size = struct.calcsize(COUNTS[length])
            path.write_bytes(content[:at] + b"\xff" * size + content[at + size :])
            with pytest.raises(InputError, match=f"face {len(polygons) - 1}: a list of -1 cannot be"):
                readers.read_ply(path)


# ---- Files that are cut off ----

WHOLE: dict[str, bytes] = {
    "a.stl": binary_stl(),
    "text.stl": text_stl().encode(),
    "ascii.ply": ply("ascii"),
    "little.ply": ply("binary_little_endian", mixed=True),
    "big.ply": ply("binary_big_endian", tail=True),
    "a.off": OFFS["plain"].encode(),
    "a.glb": trimesh.Trimesh(*CUBE, process=False).export(file_type="glb"),
    "a.3mf": trimesh.Trimesh(*CUBE, process=False).export(file_type="3mf"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_files_that_are_cut_off_are_refused(tmp_path: Path, name: str) -> None:
    content = WHOLE[name]
    check_cube(load(tmp_path, name, content))
    # A text may be cut within its last number, or before its last line end: nobody can tell.
    undecided = len(content.rstrip()) - 8 if content[-1:] == b"\n" else len(content)
    places = np.unique(np.concatenate([np.linspace(0, undecided - 1, 150), undecided - np.arange(1, 30)]).astype(int))
    for place in places[places >= 0]:
        refusal(tmp_path, name, content[:place])


def test_an_obj_that_is_cut_within_a_line_is_refused(tmp_path: Path) -> None:
    # An OBJ file says nowhere how long it is: cut between two lines, it is another whole file.
    text = V + faces_of("{}/1/1")
    for line in (3, 9, 12):
        start = sum(map(len, text.splitlines(keepends=True)[:line]))
        refusal(tmp_path, "cut.obj", text[: start + 4])


# ---- Polygons ----


def test_concave_polygons_are_covered_once(tmp_path: Path) -> None:
    outline = [(0, 0), (4, 0), (4, 4), (2, 1), (0, 4)]
    flat = [(*p, z) for z in (0, 1) for p in outline]
    sides = [[k, (k + 1) % 5, (k + 1) % 5 + 5, k + 5] for k in range(5)]
    rows = [[4, 3, 2, 1, 0], [5, 6, 7, 8, 9], *sides]
    text = "".join(f"v {x} {y} {z}\n" for x, y, z in flat)
    text += "".join("f " + " ".join(str(k + 1) for k in row) + "\n" for row in rows)
    mesh = load(tmp_path, "arrow.obj", text)
    area = np.linalg.norm(np.cross(*np.diff(mesh.vertices[mesh.faces], axis=1).swapaxes(0, 1)), axis=1).sum() / 2
    around = sum(np.hypot(*np.subtract(outline[k], outline[k - 1])) for k in range(5))
    assert np.isclose(area, 2 * 10 + around)
    assert mesh.health.faults == []


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(3, 24))
def test_star_shaped_polygons(seed: int, size: int) -> None:
    # A polygon whose corners go once around a point: its area is known, and triangles that all have the polygon's own
    # orientation cover it exactly once if their areas add up to it.
    rng = np.random.default_rng(seed)
    angle = np.sort(rng.uniform(0, 2 * np.pi, size))
    if np.diff(np.append(angle, angle[0] + 2 * np.pi)).max() > 3:
        return
    radius = rng.uniform(0.1, 1, size)
    flat = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    corner = np.column_stack([flat, np.zeros(size)]) @ shapes.turn(rng).T + rng.normal(size=3)
    shifted = corner - corner[0]
    normal = np.cross(shifted, np.roll(shifted, -1, axis=0)).sum(axis=0)
    triangles = triangulated(corner, Polygons.of([np.arange(size)]))
    assert triangles.shape == (size - 2, 3)
    a, b, c = corner[triangles].swapaxes(0, 1)
    areas = np.cross(b - a, c - a) @ (normal / np.linalg.norm(normal))
    assert areas.min() > -1e-9
    assert np.isclose(areas.sum(), np.linalg.norm(normal))
    uses = [(t[k], t[k - 2]) for t in triangles.tolist() for k in range(3)]
    border = {(k, (k + 1) % size) for k in range(size)}
    assert len(set(uses)) == len(uses)
    assert {(p, q) for p, q in uses if (q, p) not in uses} == border


def test_polygons_of_all_sizes_keep_their_order() -> None:
    vertices = np.array([[np.cos(t), np.sin(t), 0.0] for t in np.arange(7)])
    rows = [[0, 1, 2], [0, 1, 2, 3, 4], [2, 3, 4, 5], [4, 5, 6]]
    found = triangulated(vertices, Polygons.of(rows))
    assert found.tolist() == [[0, 1, 2], [0, 1, 2], [0, 2, 3], [0, 3, 4], [2, 3, 4], [2, 4, 5], [4, 5, 6]]


@pytest.mark.parametrize("corners", [np.zeros((5, 3)), np.array([[0, 0, 0], [1, 1, 0], [1, 0, 0], [0, 1, 0.0]])])
def test_polygons_without_a_right_answer(corners: Any) -> None:
    assert triangulated(corners, Polygons.of([np.arange(len(corners))])).shape == (len(corners) - 2, 3)


# ---- Scenes ----


def matrix(scale: Any = 1.0, offset: Any = 0.0) -> Any:
    found = np.eye(4)
    found[:3, :3] *= scale
    found[:3, 3] = offset
    return found


@pytest.mark.parametrize("suffix", ["glb", "gltf", "3mf"])
def test_scenes(tmp_path: Path, suffix: str) -> None:
    # One geometry three times: as it is, twice as large, and under a node that moves and scales it.
    cube = trimesh.Trimesh(*CUBE, process=False)
    scene = trimesh.Scene()
    scene.add_geometry(cube, node_name="one", geom_name="cube")
    scene.graph.update("two", matrix=matrix(2.0, [10, 0, 0]), geometry="cube")
    scene.graph.update("parent", matrix=matrix(0.5, [0, 20, 0]))
    scene.graph.update("three", frame_from="parent", matrix=matrix(1.0, [0, 20, 0]), geometry="cube")
    path = tmp_path / f"scene.{suffix}"
    if suffix == "gltf":
        for name, content in scene.export(file_type="gltf").items():
            (tmp_path / ("scene.gltf" if name == "model.gltf" else name)).write_bytes(content)
    else:
        scene.export(path)
    mesh = load_mesh(path)
    assert mesh.health.shells == 3
    assert np.isclose(volume(mesh), 8 * (1 + 8 + 1 / 8))
    assert np.allclose(mesh.bounds, [[-1, -2, -2], [12, 30.5, 2]])


def test_mirrored_parts_keep_their_inside(tmp_path: Path) -> None:
    scene = trimesh.Scene()
    scene.add_geometry(trimesh.Trimesh(*CUBE, process=False), geom_name="cube")
    scene.graph.update("mirrored", matrix=matrix(np.array([-1, 1, 1]), [5, 0, 0]), geometry="cube")
    path = tmp_path / "pair.glb"
    scene.export(path)
    assert np.isclose(volume(load_mesh(path)), 16)


def test_a_scene_without_a_surface(tmp_path: Path) -> None:
    path = tmp_path / "points.glb"
    trimesh.Scene([trimesh.PointCloud(CUBE[0])]).export(path)
    assert "no faces" in refusal(tmp_path, "points.glb", path.read_bytes())


def test_gltf_whose_buffer_lies(tmp_path: Path) -> None:
    files = trimesh.Scene([trimesh.Trimesh(*CUBE, process=False)]).export(file_type="gltf")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    tree = json.loads(files["model.gltf"])
    tree["accessors"][0]["count"] = 10**9
    refusal(tmp_path, "model.gltf", json.dumps(tree))
    tree["accessors"][0]["count"] = 36
    tree["buffers"][0]["uri"] = "nowhere.bin"
    refusal(tmp_path, "model.gltf", json.dumps(tree))


@pytest.mark.parametrize("parts", [1, 1000])
def test_entries_without_data(tmp_path: Path, parts: int) -> None:
    """However many accessors they are spread over."""
    part = {"componentType": 5126, "type": "MAT4", "count": 1_000_000 // parts}
    tree = {"asset": {"version": "2.0"}, "accessors": parts * [part]}
    assert "1,000,000 entries, but no data" in refusal(tmp_path, "a.gltf", json.dumps(tree))


# ---- Accuracy ----


@pytest.mark.parametrize(
    ("scale", "offset"),
    [(1.0, [0, 0, 0]), (2.0**-30, [0, 0, 0]), (1.0, [500_000, 5_200_000, 300]), (2.0**30, [1e9, 0, 0])],
)
@pytest.mark.parametrize("suffix", ["obj", "off", "ply", "stl"])
def test_coordinates_keep_their_accuracy(tmp_path: Path, suffix: str, scale: float, offset: list[float]) -> None:
    vertices, faces = shapes.icosphere(1)
    exact = np.round(vertices * 2**20) / 2**20 * scale + np.array(offset)
    rows = [f"{x!r} {y!r} {z!r}" for x, y, z in exact.tolist()]
    text = {
        "obj": "\n".join([*("v " + row for row in rows), *("f " + " ".join(map(str, f + 1)) for f in faces), ""]),
        "off": "\n".join(["OFF", f"{len(rows)} {len(faces)} 0", *rows, *(f"3 {a} {b} {c}" for a, b, c in faces), ""]),
        "stl": text_stl("ball", (exact, faces)),
        "ply": "\n".join(
            [
                "ply", "format ascii 1.0", f"element vertex {len(rows)}", *(f"property double {k}" for k in "xyz"),
                f"element face {len(faces)}", "property list uchar int vertex_indices", "end_header", *rows,
                *(f"3 {a} {b} {c}" for a, b, c in faces), "",
            ]
        ),
    }[suffix]  # fmt: skip
    mesh = load(tmp_path, f"ball.{suffix}", text)
    assert np.array_equal(mesh.vertices[mesh.faces], exact[faces])
    home = load_mesh((np.round(vertices * 2**20) / 2**20, faces))
    assert np.abs(mesh.unit_triangles - home.unit_triangles).max() < 4e-16 + 4 * np.spacing(max(offset)) / scale


def test_vertices_that_no_face_uses_do_not_stretch_the_domain(tmp_path: Path) -> None:
    far = V + "v 1e9 1e9 1e9\nv nan nan nan\n" + faces_of("{}")
    mesh = load(tmp_path, "far.obj", far)
    assert np.array_equal(mesh.bounds, [[-1, -1, -1], [1, 1, 1]])


# ---- What files may not do ----


@pytest.mark.parametrize("name", ["cube.zip", "cube.tar.gz", "cube.bz2", "cube.fbx", "cube.3dxml", "cube.xaml", "cube"])
def test_formats_that_are_not_named_are_not_read(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("cube.obj", V + faces_of("{}"))
    message = refusal(tmp_path, name, (tmp_path / "packed.zip").read_bytes())
    assert "unknown mesh format; use .3mf, .dae, .glb, .gltf, .obj, .off, .ply, .stl" in message


def gltf_beside(folder: Path, uri: str) -> bytes:
    """A glTF of the cube in a folder, whose buffer has that name; returns the buffer."""
    files = trimesh.Scene([trimesh.Trimesh(*CUBE, process=False)]).export(file_type="gltf", merge_buffers=True)
    tree = json.loads(files["model.gltf"])
    assert len(tree["buffers"]) == 1
    buffer = files[tree["buffers"][0]["uri"]]
    tree["buffers"][0]["uri"] = uri
    folder.mkdir(exist_ok=True)
    (folder / "cube.gltf").write_text(json.dumps(tree))
    return bytes(buffer)


@pytest.mark.parametrize("kind", ["beside", "below", "with blanks", "above", "absolute", "link", "fifo", "device"])
def test_buffers_of_gltf_lie_in_its_folder(tmp_path: Path, kind: str) -> None:
    folder, outside = tmp_path / "in", tmp_path / "secret.bin"
    below = {"below": "sub/b.bin", "with blanks": "a b.bin"}
    place = folder / below.get(kind, "b.bin") if kind in ("beside", *below) else outside
    uris = {**below, "with blanks": "a%20b.bin", "above": "../secret.bin", "absolute": str(outside)}
    uris["device"] = "/dev/zero"
    buffer = gltf_beside(folder, uris.get(kind, "b.bin"))
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(buffer)
    if kind == "link":
        (folder / "b.bin").symlink_to(outside)
    if kind == "fifo":
        os.mkfifo(folder / "b.bin")  # to open it would take for ever
    if place is outside:
        with pytest.raises(InputError, match="which is no file in its folder"):
            load_mesh(folder / "cube.gltf")
    else:
        check_cube(load_mesh(folder / "cube.gltf"))


def test_pictures_are_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import PIL.Image

    picture = PIL.Image.new("RGB", (8, 8))
    material = trimesh.visual.material.PBRMaterial(baseColorTexture=picture)
    visual = trimesh.visual.TextureVisuals(uv=np.zeros((len(CUBE[0]), 2)), material=material)
    path = tmp_path / "cube.glb"
    trimesh.Trimesh(*CUBE, process=False, visual=visual).export(path)
    assert b"image/png" in path.read_bytes()
    monkeypatch.setattr(PIL.Image, "open", lambda *_: pytest.fail("a picture is decoded"))
    check_cube(load_mesh(path))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.glb", b"", "the file is empty"),
        ("a.glb", b"nothing", "no header of a GLB file"),
        ("a.gltf", b"", "the file is empty"),
        ("a.gltf", b"{,}", "not the JSON of a glTF file"),
        ("a.3mf", b"nothing", "not a zip file"),
    ],
)
def test_what_is_no_scene(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    assert says in refusal(tmp_path, name, content)


def test_pipes_are_no_meshes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ply")
    with pytest.raises(InputError, match="is not a regular file; save the output of a pipe"):
        load_mesh(tmp_path / "pipe.ply")


# ---- Triangle strips, and polygons of many corners ----


@pytest.mark.parametrize("order", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_triangle_strips(tmp_path: Path, order: str) -> None:
    # An octahedron: its middle as a strip that closes, its two caps after a -1 and in a list of their own.
    corners = np.array([[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], float)
    strips = [[4, 0, 1, 5, 2, -1, 4, 1, 2], [4, 2, 3, 5, 0, -1, 4, 3, 0], [0, 5, 1], [2, 5, 3]]
    head = f"ply\nformat {order} 1.0\nelement vertex 6\n" + "".join(f"property double {k}\n" for k in "xyz")
    head += f"element tristrips {len(strips)}\nproperty list int int vertex_indices\nend_header\n"
    if order == "ascii":
        body = "".join(" ".join(map(str, row)) + "\n" for row in [*corners.tolist(), *([len(s), *s] for s in strips)])
        content = (head + body).encode()
    else:
        sign = "<" if "little" in order else ">"
        rows = b"".join(np.array([len(s), *s], sign + "i4").tobytes() for s in strips)
        content = head.encode() + corners.astype(sign + "f8").tobytes() + rows
    mesh = load(tmp_path, "octahedron.ply", content)
    # Each second triangle the other way round; a strip begins anew after a -1, and in another list.
    strip = [
        [4, 0, 1],
        [1, 0, 5],
        [1, 5, 2],
        [4, 1, 2],
        [4, 2, 3],
        [3, 2, 5],
        [3, 5, 0],
        [4, 3, 0],
        [0, 5, 1],
        [2, 5, 3],
    ]
    assert mesh.faces.tolist() == strip


def test_strips_leave_out_what_leads_from_part_to_part() -> None:
    from sdfcli.mesh.formats.ply import _triangles_of

    found = _triangles_of(Polygons.of([[0, 1, 2, 2, 3, 3, 4, 5]]))
    assert found.corner.reshape(-1, 3).tolist() == [[0, 1, 2], [4, 3, 5]]


@pytest.mark.parametrize("size", [300, 3000])
@pytest.mark.parametrize("kind", ["star", "comb"])
def test_polygons_of_many_corners(kind: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(size)
    k = np.arange(size)
    if kind == "star":
        radius = rng.uniform(0.3, 1, size)
        flat = np.stack([radius * np.cos(2 * np.pi * k / size), radius * np.sin(2 * np.pi * k / size)], axis=1)
    else:
        flat = np.stack([-k / size, np.where(k % 2, 0.1, 1.0)], axis=1)
        flat[:2], flat[-2:] = [[0.1, -0.5], [0, 0.5]], [[-1, 0.5], [-1.1, -0.5]]
    asked = []
    is_ear = polygons._Ears._is_ear
    monkeypatch.setattr(polygons._Ears, "_is_ear", lambda self, corner: asked.append(0) or is_ear(self, corner))
    triangles = triangulated(np.column_stack([flat, np.zeros(size)]), Polygons.of([k]))
    a, b, c = flat[triangles].swapaxes(0, 1)
    areas = (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]
    after = np.roll(flat, -1, axis=0)
    assert areas.min() >= 0
    assert np.isclose(areas.sum(), (flat[:, 0] * after[:, 1] - flat[:, 1] * after[:, 0]).sum())
    uses = [(t[i], t[i - 2]) for t in triangles.tolist() for i in range(3)]
    assert len(set(uses)) == len(uses)
    every = set(uses)
    assert {(p, q) for p, q in uses if (q, p) not in every} == {(i, (i + 1) % size) for i in range(size)}
    assert len(asked) < 3 * size


def test_concave_polygons_of_too_many_corners_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polygons, "MOST_CORNERS", 4)
    outline = np.array([(0, 0, 0), (4, 0, 0), (4, 4, 0), (2, 1, 0), (0, 4, 0)], float)
    with pytest.raises(InputError, match="a concave face of 5 corners"):
        triangulated(outline, Polygons.of([np.arange(5)]))
    round_one = np.array([[np.cos(t), np.sin(t), 0.0] for t in np.arange(6)])
    assert len(triangulated(round_one, Polygons.of([np.arange(6)]))) == 4


def outline(kind: str, size: int) -> np.ndarray[Any, Any]:
    """A ring (n, 3), or one that winds around itself many times."""
    angle = 2 * np.pi * np.arange(size) / size
    if kind == "spiral":
        half = 1 + np.linspace(0, 40 * np.pi, size // 2)
        radius, angle = np.concatenate([half + 2, half[::-1]]), np.concatenate([half, half[::-1]])
    else:
        radius = np.ones(size)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), np.zeros(len(angle))], axis=1)


@pytest.mark.parametrize("kind", ["spiral", "star"])
def test_ears_of_many_corners_are_tested_against_few(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    tested: list[int] = []
    within = polygons._Ears._within
    monkeypatch.setattr(
        polygons._Ears, "_within", lambda self, *given: tested.append(len(given[3])) or within(self, *given)
    )
    work = {}
    for size in (2500, polygons.MOST_CORNERS):
        flat = outline("spiral", size) if kind == "spiral" else outline("ring", size) * rng.uniform(0.3, 1, (size, 1))
        tested.clear()
        triangulated(flat, Polygons.of([np.arange(size)]))
        work[size] = sum(tested) / size
    assert max(work.values()) < 2000  # which NumPy does in the time of one corner


def test_polygons_are_cut_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polygons, "PIECE", 12)
    count = np.random.default_rng(2).integers(3, 20, 200)
    parts = list(polygons._alike(count))
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(200))
    assert all(len(np.unique(count[part])) == 1 for part in parts)
    assert all(len(part) == 1 or count[part].sum() <= 12 for part in parts)


def test_the_memory_that_polygons_take_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polygons, "PIECE", 100)
    asked: list[int] = []
    monkeypatch.setattr(polygons, "require", lambda size, _: asked.append(size))
    ring = outline("ring", 20_000)
    tracemalloc.start()
    assert len(triangulated(ring, Polygons.of([np.arange(len(ring))]))) == len(ring) - 2
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(asked) == 1
    assert taken / 1.5 < asked[0] < 2 * taken


def test_a_face_that_names_its_vertices_many_times_is_refused(tmp_path: Path) -> None:
    """Before it takes more memory than a mesh of the file's size."""
    content = V + "f" + " 1 2 4 3" * 1000
    assert "a face of 4,000 corners, but there are 8 vertices" in refusal(tmp_path, "a.obj", content)


def test_a_line_of_many_corners_asks_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "PIECE", 100)
    monkeypatch.setattr(memory, "free_memory", lambda: 10_000)
    (tmp_path / "a.obj").write_text(V + "f" + " 1 2 3" * 100 + "\n")
    with pytest.raises(OutOfMemoryError, match="reading its faces takes about"):
        readers.read_obj(tmp_path / "a.obj")


WORDS = st.one_of(
    st.integers(-3, 12).map(str),
    st.floats(-1e3, 1e3).map(repr),
    st.floats().map(repr),
    st.decimals(-10, 10, places=3).map(str),
    st.tuples(st.integers(0, 10**20), st.integers(-30, 30)).map(lambda parts: "{}e{}".format(*parts)),
    st.sampled_from(
        ["1.", ".5", "+1", "-0", "-0.", "1e", "1e+2", "1E-22", "1e22", "1e23", ".", "-", "+", "1_0", "0x1"]
    ),
    st.sampled_from(["1d5", "4/1", "5//2", "6/7/8", "/1", "1/", "9#9", "é", "007"]),
)
BLANKS = st.sampled_from([" ", " ", " ", "  ", "\t", "\v", "\f", "\x01", "\\\n"])
NUMBERS = st.lists(st.floats(-10, 10).map(repr), min_size=3, max_size=3).map(" ".join)
CORNERS = st.sampled_from([3, 3, 3, 3, 4, 5, 6, 2]).flatmap(
    lambda size: st.lists(st.integers(0, 9).map(str), min_size=size, max_size=size)
)


def lines_with(*firsts: str) -> st.SearchStrategy[str]:
    """Lines of any words, many of which begin with one of these."""
    words = st.lists(st.tuples(BLANKS, WORDS), max_size=6).map(lambda parts: "".join(a + b for a, b in parts))
    return st.tuples(st.sampled_from([*firsts, " ", "", "#"]), words).map("".join)


def texts(lines: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts of a dozen lines, with any ends."""
    ended = st.sampled_from(["\n", "\n", "\r\n", "\r", " \n", "\t\n"])
    return st.tuples(st.lists(lines, max_size=12), ended).map(lambda parts: parts[1].join(parts[0]))


@st.composite
def rows(draw: st.DrawFn, head: str, most: str = "") -> str:
    """Texts of OFF and PLY: so many rows of numbers, so many of corners, with more columns, and odd ones among them."""
    counts = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    column = draw(st.sampled_from(["", "", " 7", " 0.5 x", "\t1 ", " é"]))
    points = [draw(NUMBERS) + column for _ in range(counts[0])]
    faces = [f"{len(row)} {' '.join(row)}{column}" for row in (draw(CORNERS) for _ in range(counts[1]))]
    found = [draw(lines_with("3", "1")) if draw(st.integers(0, 9)) == 0 else row for row in points + faces]
    blank = draw(st.sampled_from(["\n", "\n", "\n\n", "\n \v\n", "\r\n"]))
    return head.format(*counts) + blank.join([*found, draw(st.sampled_from(["", "more"]))])


STL_LINES = st.one_of(
    NUMBERS.map(lambda xyz: f"facet normal 0 0 1\nouter loop\n{f'VERTEX {xyz}' * 3}\nendloop\nendfacet"),
    st.tuples(NUMBERS, NUMBERS, NUMBERS).map(
        lambda xyz: "facet normal\n outer loop\n" + "".join(f"  vertex {row}\n" for row in xyz) + " endloop\n endfacet"
    ),
    lines_with("vertex", "facet", "endfacet"),
)
PLY_HEAD = (
    "ply\nformat ascii 1.0\nelement vertex {}\nproperty float x\nproperty float y\nproperty float z\n"
    "element face {}\nproperty list uchar int vertex_indices\nproperty uchar red\nend_header\n"
)
TEXTS = {
    "any.obj": texts(
        st.one_of(
            NUMBERS.map("v {}".format),
            CORNERS.map(lambda corners: "f " + " ".join(corners)),
            lines_with("v", "f", "f", "vn", " v", "o"),
        )
    ).flatmap(lambda text: st.integers(0, 10).map(lambda count: "v 0.1 2e-3 -7.25\n" * count + text)),
    "any.stl": texts(STL_LINES).map("solid\n{}\nendsolid\n".format),
    "any.off": rows("OFF\n{} {} 0\n"),
    "any.ply": rows(PLY_HEAD),
}
READ = {"obj": readers.read_obj, "stl": readers.read_stl, "off": readers.read_off, "ply": readers.read_ply}


look = plain.Lines.of


class OddLines(plain.Lines):
    """Lines none of which is in the plainest form."""

    @staticmethod
    def of(*given: Any) -> plain.Lines:
        lines = look(*given)
        lines.kind[lines.kind == C.LINE_VERTEX] = C.LINE_ODD_VERTEX
        lines.kind[lines.kind == C.LINE_FACE] = C.LINE_ODD_FACE
        return lines


@pytest.mark.parametrize("name", TEXTS)
@settings(max_examples=400, deadline=None)
@given(data=st.data(), piece=st.sampled_from([1, 40, 1 << 20]))
def test_lines_are_read_as_by_the_reader_of_any(name: str, data: st.DataObject, piece: int) -> None:
    """To the last bit, also of numbers that are halfway between two; and refused in the same words."""
    text = data.draw(TEXTS[name])
    found = []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder, name)
        path.write_bytes(text.encode("utf-8"))
        patch.setattr(lines, "PIECE", piece)
        for odd in (False, True):
            if odd:
                patch.setattr(plain, "Lines", OddLines)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ReadingNote)
                    position, faces = READ[name[-3:]](path)
                found.append((position.tobytes(), faces.tolist()))
            except InputError as error:
                found.append((str(error),))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", TEXTS)
def test_plain_lines_are_left_to_no_other_reader(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vertices, faces = shapes.icosphere(2)
    squares = np.concatenate([faces, faces[:, :1]], axis=1)
    points = [f"{x:.17g} {y:e} {z:.3f}" for x, y, z in vertices]
    counted = [f"4 {a} {b} {c} {d} 255" for a, b, c, d in squares]
    corners = [f"f {a + 1}/1 {b + 1}//7 {c - len(vertices)} {d + 1}" for a, b, c, d in squares]
    text = {
        "any.obj": "\n".join(["# plain", *(f"v {row} 0.5 1" for row in points), *corners, ""]),
        "any.stl": "solid a\n"
        + "".join(
            "facet normal 0 0 1\n" + "".join(f"vertex {points[k]}\n" for k in face) + "endfacet\n" for face in faces
        )
        + "endsolid a\n",
        "any.off": "\n".join([f"OFF\n{len(points)} {len(faces)} 0 # edges", *points, *counted]),
        "any.ply": PLY_HEAD.format(len(points), len(faces)) + "\n".join([*points, *counted]),
    }[name]
    path = tmp_path / name
    path.write_text(text)
    for module, names in ((plain, ("numbers", "polygons_of")), (readers, ("polygons_of",))):
        for each in names:
            monkeypatch.setattr(module, each, lambda *_: pytest.fail("not plain"))
    position, found = READ[name[-3:]](path)
    expected = np.array([[float(word) for word in row.split()] for row in points])
    triangles = np.stack([squares[:, :3], squares[:, [0, 2, 3]]], axis=1).reshape(-1, 3)
    assert np.array_equal(position, expected[faces.ravel()] if name == "any.stl" else expected)
    assert np.array_equal(found, np.arange(3 * len(faces)).reshape(-1, 3) if name == "any.stl" else triangles)


def near_halves() -> list[str]:
    """Numbers of up to nineteen digits, beside the middle of two doubles."""
    rng = np.random.default_rng(7)
    found = []
    with localcontext(Context(prec=60)):
        for power in range(-22, 23):
            for low in np.exp(rng.uniform(np.log(2.0**53), np.log(9.9e18), 40)) * 10.0**power:
                half = (Decimal(float(low)) + Decimal(float(np.nextafter(low, np.inf)))) / 2
                digits = int(half.scaleb(-power).to_integral_value())
                found += [f"{digits + more}e{power}" for more in (-1, 0, 1)]
    return found


DIGITS = st.text("0123456789", min_size=1, max_size=45)
WRAPPING = st.tuples(st.integers(1, 9), st.integers(0, 2), st.integers(-1, 1)).map(
    lambda parts: str(parts[0] * 2 ** (64 * (1 + parts[1])) + parts[2])
)


@st.composite
def long_numbers(draw: st.DrawFn) -> str:
    """Numbers with more digits than 64 bits hold, zeros before them, a point anywhere and any exponent."""
    digits = draw(st.sampled_from(["", "", "0", "0" * 30])) + draw(st.one_of(DIGITS, WRAPPING))
    point = draw(st.integers(0, len(digits)))
    exponent = draw(st.sampled_from(["", f"e{draw(st.integers(-400, 330))}", f"E+{draw(st.integers(0, 30))}"]))
    return (
        draw(st.sampled_from(["", "-", "+"]))
        + digits[:point]
        + draw(st.sampled_from([".", ""]))
        + digits[point:]
        + exponent
    )


@settings(max_examples=100, deadline=None)
@given(words=st.lists(long_numbers(), min_size=3, max_size=30))
@pytest.mark.parametrize("name", ["a.obj", "a.stl", "a.off", "a.ply"])
def test_numbers_of_any_length_are_rounded_as_by_python(name: str, words: list[str]) -> None:
    rows = [" ".join(words[k : k + 3]) for k in range(0, len(words) - 2, 3)]
    text = {
        "a.obj": "".join(f"v {row}\n" for row in rows),
        "a.stl": "solid\n"
        + "facet\n{}endfacet\n".format("".join(f"vertex {row}\n" for row in rows[:1] * 3))
        + "endsolid",
        "a.off": f"OFF\n{len(rows)} 0 0\n" + "\n".join(rows),
        "a.ply": PLY_HEAD.format(len(rows), 0) + "\n".join(rows),
    }[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_text(text)
        position, _ = READ[name[-3:]](path)
    expected = np.array([[float(word) for word in row.split()] for row in (rows[:1] * 3 if name == "a.stl" else rows)])
    assert position.tobytes() == expected.tobytes()  # zeros with their signs, too


def test_numbers_are_rounded_to_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = near_halves()
    assert max(map(len, words)) > 19
    path = tmp_path / "halves.obj"
    path.write_text("\n".join(f"v {word} -{word} 0" for word in words))
    odd: list[bytes] = []
    slow = plain.numbers
    monkeypatch.setattr(plain, "numbers", lambda rows, *rest: (odd.extend(rows), slow(rows, *rest))[1])
    position, _ = readers.read_obj(path)
    assert np.array_equal(position[:, 0], [float(word) for word in words])
    assert np.array_equal(position[:, 1], -position[:, 0])
    assert 0 < len(odd) < len(words) / 10  # the very middle


def stl_of(corners: Any, count: int, attribute: int = 0) -> bytes:
    """A binary STL file with unit normals. count: what its header says."""
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    rows = np.zeros(len(corners), [("normal", "<f4", 3), ("corner", "<f4", (3, 3)), ("more", "<u2")])
    rows["normal"], rows["corner"] = normal / np.linalg.norm(normal, axis=1, keepdims=True), corners
    rows["more"] = attribute
    return bytes(80) + count.to_bytes(4, "little") + rows.tobytes()


def test_a_colour_is_no_size_of_attributes(tmp_path: Path) -> None:
    """Though as many bytes follow as it would say."""
    corners = shapes.triangles(shapes.cube())
    (tmp_path / "a.stl").write_bytes(stl_of(corners, 12, attribute=2) + b"x" * 24)
    with pytest.warns(ReadingNote, match="24 bytes behind its last triangle are left out"):
        mesh = load_mesh(tmp_path / "a.stl")
    assert np.array_equal(mesh.vertices[mesh.faces], corners)


def test_a_count_that_is_too_small(tmp_path: Path) -> None:
    (tmp_path / "a.stl").write_bytes(stl_of(shapes.triangles(shapes.cube()), 11) + b"abc")
    with pytest.raises(InputError, match="another triangle follows the 11 that the header says"):
        load_mesh(tmp_path / "a.stl")


@pytest.mark.parametrize("suffix", [".ply", ".stl", ".3mf", ".glb", ".step"])
def test_git_lfs_pointers(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n")
    with pytest.raises(InputError, match="Git LFS pointer in place of the file: run `git lfs pull`"):
        readers.read_file(path)
