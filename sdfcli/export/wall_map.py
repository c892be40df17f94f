"""Meshes with wall thickness per face or vertex: .vtp and .ply files."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from sdfcli.quality.walls import Thickness
from sdfcli.runtime.files import check_ending, written_whole

ENDINGS = (".vtp", ".ply")

ROWS = 1 << 16
"""Rows converted per batch."""

_VTP = """<?xml version="1.0"?>
<VTKFile type="PolyData" version="1.0" byte_order="LittleEndian" header_type="UInt64">
  <PolyData>
    <Piece NumberOfPoints="{points}" NumberOfVerts="0" NumberOfLines="0" NumberOfStrips="0" NumberOfPolys="{faces}">
      <Points>
{vertices}
      </Points>
      <Polys>
{corners}
{ends}
      </Polys>
      <{data} Scalars="thickness">
{thickness}
{opposite}
      </{data}>
    </Piece>
  </PolyData>
  <AppendedData encoding="raw">
   _"""
_END = "\n  </AppendedData>\n</VTKFile>\n"


def write_wall_map(path: Path, walls: Thickness, force: bool) -> None:
    """Writes a mesh with `thickness` and `opposite`, float32, in the format of the path's ending: whole or not at all.

    .vtp  cell or point data, for ParaView.
    .ply  properties of faces or vertices; a missing thickness is NaN.

    Coordinates are float32 if that is exact, else float64. Raises UsageError for another ending, if the file exists
    and `force` is not set, or if it cannot be written.
    """
    check_ending(path, *ENDINGS)
    with written_whole(path, force) as temporary, open(temporary, "wb") as file:
        (_write_vtp if path.suffix.lower() == ".vtp" else _write_ply)(file, walls)


def _coordinates(walls: Thickness) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):
        single = walls.vertices.astype("<f4")
    return single if np.array_equal(single, walls.vertices) else walls.vertices.astype("<f8")


def _write_vtp(file: BinaryIO, walls: Thickness) -> None:
    faces = len(walls.faces)
    names = {"vertices": "Points", "corners": "connectivity", "ends": "offsets"}
    arrays: dict[str, npt.NDArray[Any]] = {
        "vertices": _coordinates(walls),
        "corners": walls.faces.astype("<i8"),
        "ends": np.arange(3, 3 * faces + 1, 3, dtype="<i8"),
        "thickness": walls.thickness.astype("<f4"),
        "opposite": walls.opposite.astype("<f4"),
    }
    tags, offset = {}, 0
    for name, array in arrays.items():
        kind = {"f": "Float", "i": "Int"}[array.dtype.kind] + str(8 * array.itemsize)
        parts = ' NumberOfComponents="3"' if name == "vertices" else ""
        tags[name] = (
            f'        <DataArray type="{kind}" Name="{names.get(name, name)}"{parts} format="appended" '
            f'offset="{offset}"/>'
        )
        offset += 8 + array.nbytes
    data = "CellData" if walls.at == "faces" else "PointData"
    file.write(_VTP.format(points=len(walls.vertices), faces=faces, data=data, **tags).encode())
    for array in arrays.values():
        file.write(struct.pack("<Q", array.nbytes))
        file.write(array.data)
    file.write(_END.encode())


def _write_ply(file: BinaryIO, walls: Thickness) -> None:
    vertices, of_faces = _coordinates(walls), walls.at == "faces"
    kind = "float" if vertices.itemsize == 4 else "double"
    values = [("thickness", "<f4"), ("opposite", "<f4")]
    described = [f"property float {name}" for name, _ in values]
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(vertices)}"]
    header += [f"property {kind} {axis}" for axis in "xyz"] + ([] if of_faces else described)
    header += [f"element face {len(walls.faces)}", "property list uchar int vertex_indices"]
    header += [*(described if of_faces else []), "end_header", ""]
    file.write("\n".join(header).encode())
    own: list[Any] = [("at", vertices.dtype, 3)]
    corners: list[Any] = [("count", "u1"), ("vertex", "<i4", 3)]
    for fields, is_faces, length in ((own, False, len(vertices)), (corners, True, len(walls.faces))):
        measured = is_faces == of_faces
        row = np.dtype(fields + (values if measured else []))
        for first in range(0, length, ROWS):
            part = slice(first, min(first + ROWS, length))
            rows = np.empty(part.stop - first, row)
            if is_faces:
                rows["count"], rows["vertex"] = 3, walls.faces[part]
            else:
                rows["at"] = vertices[part]
            if measured:
                rows["thickness"], rows["opposite"] = walls.thickness[part], walls.opposite[part]
            file.write(rows.data)
