"""Medical images: NRRD and MetaImage, a text header, then raw values."""

from __future__ import annotations

from pathlib import Path

from sdfcli.export.lattice import Distances, Lattice, values

_NRRD = """NRRD0004
type: float
dimension: 3
space dimension: 3
sizes: {sizes}
space directions: ({s},0,0) (0,{s},0) (0,0,{s})
space origin: ({x},{y},{z})
kinds: domain domain domain
endian: little
encoding: raw

"""
_MHA = """ObjectType = Image
NDims = 3
BinaryData = True
BinaryDataByteOrderMSB = False
CompressedData = False
TransformMatrix = 1 0 0 0 1 0 0 0 1
Offset = {x} {y} {z}
ElementSpacing = {s} {s} {s}
DimSize = {sizes}
ElementType = MET_FLOAT
ElementDataFile = LOCAL
"""


def write_nrrd(path: Path, field: Distances, lattice: Lattice) -> None:
    """Writes a NRRD file, version 4, with float32 values, x fastest."""
    _write(path, _NRRD, field, lattice)


def write_mha(path: Path, field: Distances, lattice: Lattice) -> None:
    """Writes a MetaImage file with float32 values, x fastest."""
    _write(path, _MHA, field, lattice)


def _write(path: Path, header: str, field: Distances, lattice: Lattice) -> None:
    x, y, z = (repr(float(each)) for each in lattice.origin)
    text = header.format(x=x, y=y, z=z, s=repr(lattice.spacing), sizes=" ".join(map(str, lattice.shape)))
    with open(path, "wb") as file:
        file.write(text.encode())
        for piece in values(field, lattice, x_fastest=True):
            file.write(piece.tobytes())
