"""Surfaces in VTK's XML files: in every encoding as VTK writes them, and damaged ones refused."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vtk
from vtk.util.numpy_support import vtk_to_numpy

from sdfcli.errors import InputError
from sdfcli.mesh.load import load_mesh

COMPRESSORS = {"none": None, "zlib": vtk.vtkZLibDataCompressor, "lzma": vtk.vtkLZMADataCompressor}
MODES = {"text": (0, 0), "inline": (1, 0), "raw": (2, 0), "base64": (2, 1)}


def source() -> Any:
    """A ball of triangles and a cube of quadrilaterals."""
    ball, cube, both = vtk.vtkSphereSource(), vtk.vtkCubeSource(), vtk.vtkAppendPolyData()
    cube.SetCenter(5, 0, 0)
    for each in (ball, cube):
        both.AddInputConnection(each.GetOutputPort())
    both.Update()
    both.GetOutput().GetPointData().Initialize()
    return both.GetOutput()


def write(data: Any, path: Path, mode: str = "raw", compressor: str = "zlib", order: int = 1, header: int = 64) -> Path:
    writer = vtk.vtkXMLPolyDataWriter() if path.suffix == ".vtp" else vtk.vtkXMLUnstructuredGridWriter()
    writer.SetInputData(data)
    writer.SetFileName(str(path))
    writer.SetDataMode(MODES[mode][0])
    writer.SetEncodeAppendedData(MODES[mode][1])
    writer.SetCompressor(COMPRESSORS[compressor]() if COMPRESSORS[compressor] else None)
    writer.SetByteOrder(order)
    writer.SetHeaderType(header)
    writer.SetBlockSize(1024)
    assert writer.Write() == 1
    return path


def filtered(data: Any, kind: Any) -> Any:
    made = kind()
    made.SetInputData(data)
    made.Update()
    return made.GetOutput()


def corners(path: Path) -> Any:
    """Corners (f, 3, 3) of a file's triangles."""
    mesh = load_mesh(path)
    return mesh.vertices[mesh.faces]


def expected(data: Any) -> Any:
    """Those of VTK's own triangulation."""
    made = filtered(data, vtk.vtkTriangleFilter)
    points = vtk_to_numpy(made.GetPoints().GetData()).astype(np.float64)
    return points[vtk_to_numpy(made.GetPolys().GetConnectivityArray()).reshape(-1, 3)]


def volume(corners: Any) -> float:
    return float((corners[:, 0] * np.cross(corners[:, 1], corners[:, 2])).sum() / 6)


@pytest.mark.parametrize(("mode", "compressor"), [*itertools.product(MODES, COMPRESSORS)])
def test_encodings(mode: str, compressor: str, tmp_path: Path) -> None:
    data = source()
    grid = filtered(data, vtk.vtkAppendFilter)
    for order, header in itertools.product((0, 1), (32, 64)):
        found = corners(write(data, tmp_path / "a.vtp", mode, compressor, order, header))
        np.testing.assert_allclose(found[:-12], expected(data)[:-12], rtol=1e-5, atol=1e-6)  # VTK cuts squares its way
        assert volume(found) == pytest.approx(volume(expected(data)), rel=1e-5)
        again = corners(write(grid, tmp_path / "a.vtu", mode, compressor, order, header))
        np.testing.assert_array_equal(again, found)


def test_strips(tmp_path: Path) -> None:
    data = filtered(filtered(source(), vtk.vtkTriangleFilter), vtk.vtkStripper)
    assert data.GetNumberOfStrips() > 0
    found = corners(write(data, tmp_path / "a.vtp"))
    assert len(found) == len(expected(data))
    assert volume(found) == pytest.approx(volume(expected(source())), rel=1e-5)


def test_lines_and_pixels(tmp_path: Path) -> None:
    """Cells without an area are left out; those of pictures have another order of corners."""
    grid = vtk.vtkUnstructuredGrid()
    points = vtk.vtkPoints()
    for place in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 0, 9)):
        points.InsertNextPoint(*place)
    grid.SetPoints(points)
    grid.InsertNextCell(vtk.VTK_LINE, 2, [0, 4])
    grid.InsertNextCell(vtk.VTK_VERTEX, 1, [4])
    grid.InsertNextCell(vtk.VTK_PIXEL, 4, [0, 1, 2, 3])
    found = corners(write(grid, tmp_path / "a.vtu"))
    np.testing.assert_array_equal(np.cross(found[:, 1] - found[:, 0], found[:, 2] - found[:, 0]), [[0, 0, 1]] * 2)


def test_cells_that_are_no_polygons(tmp_path: Path) -> None:
    solid = vtk.vtkCellTypeSource()
    solid.SetCellType(vtk.VTK_TETRA)
    solid.Update()
    with pytest.raises(InputError, match="cell 0: of the type 10, which is no flat polygon; in ParaView apply"):
        load_mesh(write(solid.GetOutput(), tmp_path / "a.vtu"))
    with pytest.raises(InputError, match="type UnstructuredGrid is needed, not 'PolyData'"):
        load_mesh(write(source(), tmp_path / "a.vtp").rename(tmp_path / "b.vtu"))


def _text(old: str, new: str) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        assert old.encode() in data
        return data.replace(old.encode(), new.encode())

    return change


@pytest.mark.parametrize(
    ("mode", "change", "words"),
    [
        ("text", lambda data: b"", "the file is empty"),
        ("raw", lambda data: data[:-300], "bytes are needed, but the data end"),
        ("inline", lambda data: data[: len(data) // 2], "not the XML of a VTK file"),
        (
            "raw",
            lambda data: re.sub(rb"(<AppendedData[^>]*>\s*_)......", b"\\g<1>" + b"\xff" * 6, data),
            "compressed block",
        ),
        (
            "raw",
            lambda data: re.sub(rb"(?s)(<AppendedData[^>]*>\s*_.{8}).{16}", b"\\g<1>" + b"\x3f" * 16, data, count=1),
            "bytes from .* compressed ones",
        ),
        ("text", _text('NumberOfPoints="', 'NumberOfPoints="9'), "coordinates, but there are"),
        ("text", _text('NumberOfPolys="', 'NumberOfPolys="9'), "offsets"),
        ("text", _text('NumberOfPolys="', 'NumberOfPolys="-'), "must be a whole number"),
        ("text", _text('"connectivity"', '"connected"'), "Polys without connectivity"),
        ("text", _text("<VTKFile", "<!DOCTYPE x><VTKFile"), "document type"),
        ("raw", _text("vtkZLibDataCompressor", "vtkLZ4DataCompressor"), "save it with ZLib"),
        ("text", _text('type="Float32"', 'type="String"'), "values of the type 'String'"),
    ],
)
def test_damage(mode: str, change: Callable[[bytes], bytes], words: str, tmp_path: Path) -> None:
    path = write(source(), tmp_path / "a.vtp", mode)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=words) as fault:
        load_mesh(path)
    assert "\n" not in str(fault.value)


def test_any_change_is_read_or_refused(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(), tmp_path / "a.vtp"
    for mode in MODES:
        whole = write(source(), path, mode).read_bytes()
        for _ in range(60):
            data = bytearray(whole)
            for place in rng.integers(0, len(data), rng.integers(1, 6)):
                data[place] = rng.integers(256)
            path.write_bytes(data)
            with contextlib.suppress(InputError):
                load_mesh(path)
