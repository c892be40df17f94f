"""Surfaces in VTK's XML files: in every encoding as VTK writes them, and damaged ones refused."""

from __future__ import annotations

import base64
import contextlib
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdfcli.errors import InputError, OutOfMemoryError, ReadingNote
from sdfcli.mesh.formats import vtk_xml
from sdfcli.mesh.load import load_mesh
from sdfcli.runtime import memory

vtk = pytest.importorskip("vtk")
from vtk.util.numpy_support import numpy_to_vtk, vtk_to_numpy  # noqa: E402

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
        ("text", _text('NumberOfPolys="', 'NumberOfPolys="0" Was="'), "0 Polys, but"),
        ("text", _text('NumberOfPoints="', 'NumberOfPoints="0" Was="'), "0 points need 0 coordinates, but there are"),
        ("text", _text('NumberOfPolys="', 'NumberOfPolys="\u0661" Was="'), "must be a whole number"),
        ("text", lambda data: re.sub(rb'(?s)(Name="offsets".*?>\s*)3 6', rb"\g<1>3 0_6", data), "not '0_6'"),
        ("text", lambda data: re.sub(rb'(?s)(Name="Points".*?>\s*)\S+', rb"\g<1>1_0", data), "not '1_0'"),
        ("text", _text('byte_order="LittleEndian"', 'byte_order="Middle"'), "byte_order 'Middle'; it must be"),
        ("raw", _text('header_type="UInt64"', 'header_type="UInt8"'), "header_type 'UInt8'; it must be"),
        ("raw", _text('offset="', 'was="'), "appended, but without an offset"),
        ("text", _text('format="ascii"', 'format="asc"'), "its format is 'asc'"),
        ("text", lambda data: data.decode().encode("utf-16-le"), "in UTF-16 without a byte-order mark"),
    ],
)
def test_damage(mode: str, change: Callable[[bytes], bytes], words: str, tmp_path: Path) -> None:
    path = write(source(), tmp_path / "a.vtp", mode)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=words) as fault:
        load_mesh(path)
    assert "\n" not in str(fault.value)


def test_utf_16(tmp_path: Path) -> None:
    path = write(source(), tmp_path / "a.vtp", "text")
    expected = corners(path)
    for encoding in ("utf-16", "utf-8-sig"):
        path.write_bytes(path.read_bytes().decode("utf-8-sig").encode(encoding))
        np.testing.assert_array_equal(corners(path), expected)
        path.write_bytes(path.read_bytes().decode(encoding).encode())
    path.write_bytes("\ufeff<!DOCTYPE x><VTKFile/>".encode("utf-16-le"))
    with pytest.raises(InputError, match="document type"):
        load_mesh(path)


def test_the_first_of_time_steps_is_read(tmp_path: Path) -> None:
    path = write(source(), tmp_path / "a.vtp", "text")
    expected = corners(path)
    path.write_bytes(path.read_bytes().replace(b"<PolyData", b'<PolyData TimeValues="0 1"'))
    with pytest.warns(ReadingNote, match="the first of its time steps is read"):
        np.testing.assert_array_equal(corners(path), expected)


# ---- Ghosts ----


def with_ghosts(data: Any, rng: np.random.Generator, points: bool) -> Any:
    """Data with bits for cells, and for points, of any kind."""
    for attributes, count, bits in (
        (data.GetCellData(), data.GetNumberOfCells(), [0, 0, 0, 1, 2, 4, 8, 16, 32, 33]),
        (data.GetPointData(), data.GetNumberOfPoints() if points else 0, [0] * 30 + [1, 1, 1, 2]),
    ):
        if count:
            ghost = numpy_to_vtk(rng.choice(bits, count).astype(np.uint8), deep=1)
            ghost.SetName("vtkGhostType")
            attributes.AddArray(ghost)
    return data


def sorted_corners(found: Any) -> Any:
    """Triangles in an order of their own, each from its least corner on."""
    turned = [np.roll(each, -int(np.lexsort(each.T[::-1])[0]), axis=0) for each in found]
    return np.array(sorted(each.ravel().tolist() for each in turned))


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("ending", [".vtp", ".vtu"])
def test_ghosts_are_left_out_as_by_vtk(ending: str, points: bool, tmp_path: Path) -> None:
    data = filtered(filtered(source(), vtk.vtkTriangleFilter), vtk.vtkStripper)
    lines = vtk.vtkCellArray()
    for k in range(3):
        lines.InsertNextCell(2, [k, k + 1])
    data.SetLines(lines)
    data = with_ghosts(
        data if ending == ".vtp" else filtered(data, vtk.vtkAppendFilter), np.random.default_rng(5), points
    )
    path = write(data, tmp_path / f"a{ending}")
    shown = filtered(filtered(filtered(data, vtk.vtkAppendFilter), vtk.vtkGeometryFilter), vtk.vtkTriangleFilter)
    with pytest.warns(ReadingNote) as caught:
        found = corners(path)
    assert [re.sub("[0-9]+$", "", str(each.message)) for each in caught] == [
        f"{path}: hidden and duplicate cells left out: ",
        f"{path}: vertices and lines left out: ",
    ]
    wanted = vtk_to_numpy(shown.GetPoints().GetData()).astype(np.float64)
    wanted = wanted[vtk_to_numpy(shown.GetPolys().GetConnectivityArray()).reshape(-1, 3)]
    assert len(found) > 0
    np.testing.assert_array_equal(sorted_corners(found), sorted_corners(wanted))


def test_levels_of_ghosts(tmp_path: Path) -> None:
    data = source()
    levels = numpy_to_vtk(np.arange(data.GetNumberOfCells()) % 3, deep=1)
    levels.SetName("vtkGhostLevels")
    data.GetCellData().AddArray(levels)
    path = write(data, tmp_path / "a.vtp", "text")
    with pytest.warns(ReadingNote, match="hidden and duplicate cells left out"):
        assert np.array_equal(corners(path)[:30], corners(write(source(), tmp_path / "b.vtp", "text"))[:90:3])
    path.write_bytes(re.sub(rb'(?s)("vtkGhostLevels".*?>\s*)0 1', rb"\g<1>0", path.read_bytes()))
    with pytest.raises(InputError, match=r"CellData: .* values of vtkGhostLevels, but .* are needed"):
        load_mesh(path)


# ---- Pieces, and bounds ----


def pieces(count: int, shared: bool = False) -> bytes:
    """A file of so many triangles, each a piece; with one array of points for all, or one for each."""
    points, corner, end = (
        base64.b64encode(np.uint32(array.nbytes).tobytes() + array.tobytes()).decode()
        for array in (np.eye(3, dtype=np.float32), np.arange(3, dtype=np.int32), np.array([3], np.int32))
    )
    xml, behind, at = "", "", 0
    for _ in range(count):
        places = []
        for code in (points, corner, end):
            places.append(at)
            if not shared or at < len(points + corner + end):
                behind += code
            at = (at + len(code)) % (len(points + corner + end) if shared else 1 << 60)
        xml += '<Piece NumberOfPoints="3" NumberOfPolys="1"><Points><DataArray type="Float32" format="appended" '
        xml += f'offset="{places[0]}"/></Points><Polys>'
        for name, place in zip(("connectivity", "offsets"), places[1:], strict=True):
            xml += f'<DataArray type="Int32" Name="{name}" format="appended" offset="{place}"/>'
        xml += "</Polys></Piece>"
    return (
        f'<VTKFile type="PolyData" byte_order="LittleEndian"><PolyData>{xml}</PolyData>'
        f'<AppendedData encoding="base64">_{behind}</AppendedData></VTKFile>'
    ).encode()


def test_pieces_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, decoded, asked = tmp_path / "a.vtp", list[int](), list[int]()
    path.write_bytes(pieces(500))
    decode = vtk_xml._from_base64
    monkeypatch.setattr(vtk_xml, "_from_base64", lambda text: decoded.append(len(text)) or decode(text))
    monkeypatch.setattr(vtk_xml, "require", lambda size, _: asked.append(size))
    vertices, faces = vtk_xml.read_vtk(path)
    np.testing.assert_array_equal(vertices[faces], np.broadcast_to(np.eye(3), (500, 3, 3)))
    assert sum(decoded) < path.stat().st_size
    assert asked == []  # which takes longer than a piece


def test_arrays_that_share_their_data_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.vtp"
    path.write_bytes(pieces(1, shared=True))
    assert len(corners(path)) == 1
    head, tail = pieces(1).split(b"<Piece", 1)
    tail = tail.split(b"</Piece>", 1)[1]
    large = base64.b64encode(np.uint32(4 * 3 * 1000).tobytes() + bytes(4 * 3 * 1000))
    one = b'<Piece NumberOfPoints="1000"><Points><DataArray type="Float32" format="appended" offset="0"/></Points>'
    path.write_bytes(
        head + (one + b"</Piece>") * 200 + tail.split(b"_", 1)[0] + b"_" + large + b"</AppendedData></VTKFile>"
    )
    with pytest.raises(InputError, match="lies where other arrays lie, too"):
        load_mesh(path)


def test_data_behind_the_xml_are_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    class Pattern:
        @staticmethod
        def match(data: bytes, start: int, stop: int) -> Any:
            looked.append(min(stop, len(data)) - start)
            return pattern.match(data, start, stop)

    pattern = vtk_xml.APPENDED
    monkeypatch.setattr(vtk_xml, "APPENDED", Pattern)
    path = tmp_path / "a.vtp"
    path.write_bytes(b"<VTKFile>" + b"<AppendedData" * 10_000)
    with pytest.raises(InputError, match="not the XML of a VTK file"):
        load_mesh(path)
    assert len(looked) == 1
    assert looked[0] <= vtk_xml.LONGEST_TAG


def test_the_memory_that_arrays_need_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before small data are unpacked to large ones."""
    path = write(source(), tmp_path / "a.vtp", compressor="zlib")
    monkeypatch.setattr(vtk_xml, "ASK_FROM", 0)
    monkeypatch.setattr(memory, "free_memory", lambda: 1000)
    with pytest.raises(OutOfMemoryError, match="reading it takes about"):
        vtk_xml.read_vtk(path)


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
