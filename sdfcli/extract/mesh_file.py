"""Meshes to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sdfcli.errors import UsageError
from sdfcli.extract.marching_cubes import Surface

ENDINGS = (".ply", ".obj", ".stl", ".glb")
DOUBLES = (".ply", ".obj")
"""Formats that can hold coordinates in double precision."""

FINE = 1e-4
"""Of a cell: single precision will do where it is finer than this, a tenth of what keeps vertices apart."""


def check_ending(path: Path) -> None:
    """Raises UsageError for the name of a file in no known format."""
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"{path}: use a name that ends in {', '.join(ENDINGS)}")


def rounding(surface: Surface, cell: float) -> float | None:
    """What single precision makes of the coordinates, if that is too coarse for cells of this edge."""
    error = float(np.spacing(np.float32(max(-surface.vertices.min(), surface.vertices.max())))) / 2
    return error if error > FINE * cell else None


def write_mesh(temporary: Path, ending: str, surface: Surface, cell: float) -> None:
    """Writes PLY, OBJ, STL or GLB. Coordinates are single, or double where that is too coarse and the format can."""
    if ending == ".ply":
        write_ply(temporary, surface, np.float32 if rounding(surface, cell) is None else np.float64)
        return
    import trimesh

    mesh = trimesh.Trimesh(surface.vertices, surface.faces.astype(np.int64), process=False)
    options: dict[str, Any] = {"digits": 12, "include_normals": False} if ending == ".obj" else {}
    exported = mesh.export(file_type=ending[1:], **options)
    temporary.write_bytes(exported.encode() if isinstance(exported, str) else exported)


def write_ply(path: Path, surface: Surface, dtype: type) -> None:
    """A binary little-endian PLY file with coordinates of type float32 or float64."""
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
