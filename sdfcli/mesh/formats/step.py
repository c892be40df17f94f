"""Reader of STEP files by cascadio, a part of Open CASCADE: all solids of all assemblies, placed, as triangles."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.step_text import read_text
from sdfcli.runtime.libraries import import_trimesh
from sdfcli.runtime.memory import require

DEFLECTION = 1e-4
"""Maximum distance of the triangles from the surface, as a fraction of the bounding box's diagonal: a tenth of the
default tolerance of a build."""
ANGLE = 0.5
"""Maximum angle between neighbouring triangles of a curved face, in radians."""
BYTES = 200
"""Minimum working bytes per triangle."""
UNSIGNED_INT = 5125
"""The type of numbers in a GLB that is not of 16 bits."""
MILLIMETRES = 1000.0
"""Units of a result in one of Open CASCADE's GLB, which is in metres."""


def read(path: Path) -> tuple[Floats, Ints, str, list[str]]:
    """Vertices (v, 3) in millimetres, triangles (f, 3), the unit, and notes. For apart.py.

    Raises InputError for a file that Open CASCADE does not read, or that names other files.
    """
    text = read_text(path.read_bytes())
    glb = _tessellated(text.whole, 1e12)
    coarse, _ = _mesh(glb)
    diagonal = float(np.linalg.norm(np.ptp(coarse, axis=0))) if len(coarse) else 0.0
    if not diagonal > 0:
        raise InputError("no solids or faces in this STEP file, or damaged ones")
    vertices, faces = _mesh(_tessellated(text.whole, DEFLECTION * diagonal))
    near = f"triangles up to {DEFLECTION * diagonal:.2g} mm, {DEFLECTION:g} of the diagonal, from its surfaces"
    notes = [f"in millimetres, by {len(faces):,} {near}"]
    if (lost := text.faces - _count_faces(glb)) > 0:
        notes.append(f"not read: {lost:,} of its {text.faces:,} faces, damaged ones or such of no part")
    return vertices, faces, "millimeter", [*notes, *text.notes()]


def _tessellated(data: bytes, deflection: float) -> bytes:
    """A GLB in metres by Open CASCADE. deflection: in millimetres."""
    import cascadio

    # By one thread: the same file gives the same triangles.
    found: bytes = cascadio.load(data, tol_linear=deflection, tol_angular=ANGLE, use_parallel=False)
    if not found:
        raise InputError("Open CASCADE cannot read it")
    return found


def _mesh(glb: bytes) -> tuple[Floats, Ints]:
    """Vertices and triangles in millimetres."""
    scene = import_trimesh().load_scene(io.BytesIO(glb), file_type="glb", process=False, skip_materials=True)
    nodes = [scene.graph[name][1] for name in scene.graph.nodes_geometry]
    require(BYTES * sum(len(scene.geometry[name].faces) for name in nodes), "reading it")
    mesh = scene.to_mesh()
    if not hasattr(mesh, "faces"):
        return np.empty((0, 3)), np.empty((0, 3), np.int64)
    return MILLIMETRES * np.asarray(mesh.vertices, np.float64), np.asarray(mesh.faces, np.int64)


def _count_faces(glb: bytes) -> int:
    """The number of different faces of a GLB by Open CASCADE, which writes the triangles of one face after those of
    another, with vertices of its own."""
    size = int.from_bytes(glb[12:16], "little")
    tree, data = json.loads(glb[20 : 20 + size]), glb[28 + size :]
    faces = 0
    for number in {part["indices"] for mesh in tree.get("meshes", []) for part in mesh["primitives"]}:
        accessor = tree["accessors"][number]
        start = accessor.get("byteOffset", 0) + tree["bufferViews"][accessor["bufferView"]].get("byteOffset", 0)
        kind = np.dtype("<u4" if accessor["componentType"] == UNSIGNED_INT else "<u2")
        corner = np.frombuffer(data, kind, accessor["count"], start).reshape(-1, 3)
        least_after = np.minimum.accumulate(corner.min(axis=1)[::-1])[::-1]
        most_before = np.maximum.accumulate(corner.max(axis=1))
        faces += 1 + int((least_after[1:] > most_before[:-1]).sum())
    return faces
