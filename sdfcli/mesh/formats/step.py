"""Reader of STEP files by cascadio, a part of Open CASCADE: all solids of all assemblies, placed, as triangles."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.runtime.libraries import import_trimesh

DEFLECTION = 1e-4
"""Maximum distance of the triangles from the surface, as a fraction of the bounding box's diagonal: a tenth of the
default tolerance of a build."""
ANGLE = 0.5
"""Maximum angle between neighbouring triangles of a curved face, in radians."""
MILLIMETRES = 1000.0
"""Units of a result in one of Open CASCADE's GLB, which is in metres."""


def read(path: Path) -> tuple[Floats, Ints, str, list[str]]:
    """Vertices (v, 3) in millimetres, triangles (f, 3), the unit, and notes. For apart.py."""
    data = path.read_bytes()
    if not data.lstrip()[:13].startswith(b"ISO-10303-21"):
        raise InputError("a STEP file starts with ISO-10303-21" if data else "the file is empty")
    coarse, _ = _tessellated(data, 1e12)
    diagonal = float(np.linalg.norm(np.ptp(coarse, axis=0))) if len(coarse) else 0.0
    if not diagonal > 0:
        raise InputError("no solids or faces in this STEP file, or damaged ones")
    vertices, faces = _tessellated(data, DEFLECTION * diagonal)
    near = f"triangles up to {DEFLECTION * diagonal:.2g} mm, {DEFLECTION:g} of the diagonal, from its surfaces"
    return vertices, faces, "millimeter", [f"in millimetres, by {len(faces):,} {near}"]


def _tessellated(data: bytes, deflection: float) -> tuple[Floats, Ints]:
    """Vertices and triangles in millimetres. deflection: in millimetres, too."""
    import cascadio

    trimesh = import_trimesh()
    # By one thread: the same file gives the same triangles.
    found = cascadio.load(data, tol_linear=deflection, tol_angular=ANGLE, use_parallel=False)
    if not found:
        raise InputError("Open CASCADE cannot read it")
    mesh = trimesh.load_scene(io.BytesIO(found), file_type="glb", process=False, skip_materials=True).to_mesh()
    if not hasattr(mesh, "faces"):
        return np.empty((0, 3)), np.empty((0, 3), np.int64)
    return MILLIMETRES * np.asarray(mesh.vertices, np.float64), np.asarray(mesh.faces, np.int64)
