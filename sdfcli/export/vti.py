"""VTK XML image data files: a text header, then raw values."""

from __future__ import annotations

import struct
from pathlib import Path

from sdfcli.export.lattice import Distances, Lattice, values

_HEADER = """<?xml version="1.0"?>
<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian" header_type="UInt64">
  <ImageData WholeExtent="{extent}" Origin="{origin}" Spacing="{spacing}">
    <Piece Extent="{extent}">
      <PointData Scalars="distance">
        <DataArray type="Float32" Name="distance" format="appended" offset="0"/>
      </PointData>
    </Piece>
  </ImageData>
  <AppendedData encoding="raw">
   _"""
_END = "\n  </AppendedData>\n</VTKFile>\n"


def write_vti(path: Path, field: Distances, lattice: Lattice) -> None:
    """Writes point data `distance`, float32, x fastest. The grid may exceed memory, unlike with VTK's own writer."""
    header = _HEADER.format(
        extent=" ".join(f"0 {n - 1}" for n in lattice.shape),
        origin=" ".join(repr(float(x)) for x in lattice.origin),
        spacing=" ".join([repr(lattice.spacing)] * 3),
    )
    with open(path, "wb") as file:
        file.write(header.encode())
        file.write(struct.pack("<Q", 4 * lattice.size))
        for piece in values(field, lattice, x_fastest=True):
            file.write(piece.tobytes())
        file.write(_END.encode())
