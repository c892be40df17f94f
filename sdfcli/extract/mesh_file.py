"""Mesh files: PLY, OBJ, STL and GLB."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.extract.marching_cubes import Surface
from sdfcli.runtime.libraries import import_trimesh

ENDINGS = (".ply", ".obj", ".stl", ".glb")
DOUBLES = (".ply", ".obj")
"""Formats with coordinates in double precision."""

FINE = 1e-4
"""Maximum float32 rounding error of coordinates, in cells: a tenth of the clearance between vertices and nodes."""

ROWS = 1 << 16
"""Text rows converted to Python objects per batch."""


def rounding(surface: Surface, cell: float) -> float | None:
    """Float32 rounding error of the largest coordinate if too coarse for cells with edge `cell`, infinite on overflow;
    else None."""
    largest = max(-surface.vertices.min(initial=0.0), surface.vertices.max(initial=0.0))
    if largest > np.finfo(np.float32).max:
        return math.inf
    error = float(np.spacing(np.float32(largest))) / 2
    return error if error > FINE * cell else None


def largest_rounding(surface: Surface, ending: str) -> float:
    """Largest distance that a vertex may move by the rounding of coordinates in a file."""
    if ending == ".obj":
        return 0.0
    largest = max(-surface.vertices.min(initial=0.0), surface.vertices.max(initial=0.0))
    return math.sqrt(3.0) * float(np.spacing(np.float32(min(largest, np.finfo(np.float32).max)))) / 2


def write_mesh(temporary: Path, ending: str, surface: Surface, cell: float) -> None:
    """Writes PLY, OBJ, STL or GLB. Coordinates are float64 in OBJ and, if float32 is too coarse, PLY; else float32."""
    if ending == ".ply":
        write_ply(temporary, surface, np.float32 if rounding(surface, cell) is None else np.float64)
        return
    if ending == ".obj":
        write_obj(temporary, surface)
        return
    mesh = import_trimesh().Trimesh(surface.vertices, surface.faces.astype(np.int64), process=False)
    temporary.write_bytes(mesh.export(file_type=ending[1:]))


def write_obj(path: Path, surface: Surface) -> None:
    """Writes OBJ with enough digits to distinguish float64 coordinates of any magnitude."""
    with open(path, "wb") as file:
        file.writelines(obj_pieces(surface.vertices, surface.faces))


def obj_pieces(vertices: npt.NDArray[np.float64], faces: npt.NDArray[np.integer[Any]]) -> Iterator[bytes]:
    """A mesh (v, 3), (f, 3) as an OBJ file, in pieces."""
    for keyword, rows in (("v", vertices), ("f", faces.astype(np.int64) + 1)):
        for start in range(0, len(rows), ROWS):
            part = rows[start : start + ROWS]
            yield (f"{keyword} %r %r %r\n" * len(part) % tuple(part.reshape(-1).tolist())).encode()


def write_ply(path: Path, surface: Surface, dtype: type) -> None:
    """Writes binary little-endian PLY with float32 or float64 coordinates."""
    coordinate = "float" if dtype is np.float32 else "double"
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(surface.vertices)}"]
    header += [f"property {coordinate} {axis}" for axis in "xyz"]
    header += [f"element face {len(surface.faces)}", "property list uchar int vertex_indices", "end_header", ""]
    faces = np.empty(len(surface.faces), [("count", "u1"), ("vertex", "<i4", 3)])
    faces["count"], faces["vertex"] = 3, surface.faces
    with open(path, "wb") as file:
        file.write("\n".join(header).encode())
        file.write(surface.vertices.astype(np.dtype(dtype).newbyteorder("<")).data)
        file.write(faces.data)
