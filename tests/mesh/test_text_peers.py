"""OBJ and PLY files of any style are read as by VTK's readers."""

from __future__ import annotations

import struct
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdfcli.errors import ReadingNote
from sdfcli.mesh.formats.readers import read_file

vtk = pytest.importorskip("vtk")
from vtk.util.numpy_support import vtk_to_numpy  # noqa: E402

COORDINATES = st.floats(-100, 100, width=32)
POINTS = st.lists(st.tuples(COORDINATES, COORDINATES, COORDINATES), min_size=3, max_size=9)
BETWEEN = [
    "",
    "# in C:\\parts\\",
    "g a b",
    "o one",
    "s 1",
    "usemtl x",
    "vn 0 0 1",
    "vt 0 0",
    "l 1 2",
    "p 1",
    "  ",
    "\t# x",
]


@st.composite
def faces(draw: st.DrawFn, vertices: int) -> list[list[int]]:
    corners = st.permutations(range(vertices)).map(lambda order: order[:3])
    return draw(st.lists(corners, min_size=1, max_size=8))


@st.composite
def objs(draw: st.DrawFn) -> str:
    points = draw(POINTS)
    lines = ["vt 0 0", "vn 0 0 1", *(f"v {x!r} {y!r} {z!r}{draw(st.sampled_from(['', ' 1.0']))}" for x, y, z in points)]
    for face in draw(faces(len(points))):
        form = draw(st.sampled_from(["{}", "{}/1", "{}//1", "{}/1/1"]))
        shift = draw(st.sampled_from([1, -len(points)]))
        lines.append(
            "f " + draw(st.sampled_from([" ", "  ", "\t", " \\\n "])).join(form.format(k + shift) for k in face)
        )
        lines.append(draw(st.sampled_from(BETWEEN)))
    indent = draw(st.sampled_from(["", " ", "\t"]))
    return "".join(f"{indent}{line}\n" for line in lines)


@st.composite
def plys(draw: st.DrawFn) -> bytes:
    points, mark = draw(POINTS), draw(st.sampled_from("<>a"))
    triangles = draw(faces(len(points)))
    kind = draw(st.sampled_from(["int", "uint", "short", "uchar"]))
    code = {"int": "i", "uint": "I", "short": "h", "uchar": "B"}[kind]
    more = draw(st.booleans())
    form = {"<": "binary_little_endian", ">": "binary_big_endian", "a": "ascii"}[mark]
    head = ["ply", f"format {form} 1.0", "comment x", f"element vertex {len(points)}"]
    head += [*(f"property float {axis}" for axis in "xyz"), *(["property uchar red"] if more else [])]
    head += [f"element face {len(triangles)}", f"property list uchar {kind} vertex_indices", "end_header", ""]
    if mark == "a":
        rows = [f"{x!r} {y!r} {z!r}{' 7' if more else ''}\n" for x, y, z in points]
        body = "".join([*rows, *(f"3 {a} {b} {c}\n" for a, b, c in triangles)]).encode()
    else:
        body = b"".join(struct.pack(f"{mark}3f", *point) + (b"\7" if more else b"") for point in points)
        body += b"".join(struct.pack(f"{mark}B3{code}", 3, *triangle) for triangle in triangles)
    return "\n".join(head).encode() + body


def by_vtk(reader: Any, path: Path) -> Any:
    """Corners (f, 3, 3), in float32."""
    reader.SetFileName(str(path))
    reader.Update()
    data = reader.GetOutput()
    points = vtk_to_numpy(data.GetPoints().GetData())
    return points[vtk_to_numpy(data.GetPolys().GetConnectivityArray()).reshape(-1, 3)]


def check(reader: Any, name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingNote)
        path = Path(folder, name)
        path.write_bytes(content)
        vertices, triangles = read_file(path)
        np.testing.assert_array_equal(vertices[triangles].astype(np.float32), by_vtk(reader, path))


@settings(max_examples=150, deadline=None)
@given(text=objs(), end=st.sampled_from(["\n", "\r\n"]))
def test_obj_as_by_vtk(text: str, end: str) -> None:
    check(vtk.vtkOBJReader(), "a.obj", text.replace("\n", end).encode())


@settings(max_examples=150, deadline=None)
@given(content=plys())
def test_ply_as_by_vtk(content: bytes) -> None:
    check(vtk.vtkPLYReader(), "a.ply", content)
