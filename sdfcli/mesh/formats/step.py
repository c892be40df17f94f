"""Reader of STEP files by cascadio, a part of Open CASCADE: all solids of all assemblies, placed, as triangles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.step_text import read_text
from sdfcli.runtime.memory import require

DEFLECTION = 1e-4
"""Maximum distance of the triangles from the surface, as a fraction of the bounding box's diagonal: a tenth of the
default tolerance of a build."""
ANGLE = 0.5
"""Maximum angle between neighbouring triangles of a curved face, in radians."""
BYTES = 200
"""Minimum working bytes per triangle."""
KINDS = {5123: "<u2", 5125: "<u4", 5126: "<f4"}
"""Types of numbers in a GLB."""
TRIANGLES = 4
"""The mode of a GLB's triangles."""
MILLIMETRES = 1000.0
"""Units of a result in one of Open CASCADE's GLB, which is in metres."""


def read(path: Path) -> tuple[Floats, Ints, str, list[str]]:
    """Vertices (v, 3) in millimetres, triangles (f, 3), the unit, and notes. For apart.py.

    Raises InputError for a file that Open CASCADE does not read, or that names other files.
    """
    text = read_text(path.read_bytes())
    coarse, _, _ = _tessellated(text.whole, 1e12)
    diagonal = float(np.linalg.norm(np.ptp(coarse, axis=0))) if len(coarse) else 0.0
    if not diagonal > 0:
        raise InputError("no solids or faces in this STEP file, or damaged ones")
    vertices, faces, read = _tessellated(text.whole, DEFLECTION * diagonal)
    near = f"triangles up to {DEFLECTION * diagonal:.2g} mm, {DEFLECTION:g} of the diagonal, from its surfaces"
    notes = [f"in millimetres, by {len(faces):,} {near}"]
    if read < (held := text.faces):
        notes.append(f"not read: {held - read:,} of its {held:,} faces, damaged ones or such of no part")
    return vertices, faces, "millimeter", [*notes, *text.notes()]


def _tessellated(data: bytes, deflection: float) -> tuple[Floats, Ints, int]:
    """Vertices and triangles in millimetres, and the number of different faces. deflection: in millimetres, too."""
    import cascadio

    # By one thread: the same file gives the same triangles.
    glb = cascadio.load(data, tol_linear=deflection, tol_angular=ANGLE, use_parallel=False)
    if not glb:
        raise InputError("Open CASCADE cannot read it")
    scene = _Scene(glb)
    vertices, faces, before, different = [np.empty((0, 3))], [np.empty((0, 3), np.int64)], 0, 0
    for (position, corner), matrices in scene.parts().items():
        points, triangles = (
            scene.array(position).astype(np.float64),
            scene.array(corner).reshape(-1, 3).astype(np.int64),
        )
        different += _count_faces(triangles)
        require(BYTES * (before + len(matrices) * (len(points) + len(triangles))), "reading it")
        places = np.array(list(matrices.values()))
        vertices.append((points @ places[:, :3, :3] + places[:, 3:, :3]).reshape(-1, 3))
        starts = before + len(points) * np.arange(len(places))
        faces.append((triangles + starts[:, None, None]).reshape(-1, 3))
        before += len(points) * len(places)
    return MILLIMETRES * np.concatenate(vertices), np.concatenate(faces), different


class _Scene:
    """A GLB as Open CASCADE writes it: nodes with matrices, and triangles in float32 with indices."""

    def __init__(self, glb: bytes) -> None:
        size = int.from_bytes(glb[12:16], "little")
        self._tree, self._data = json.loads(glb[20 : 20 + size]), glb[28 + size :]

    def parts(self) -> dict[tuple[int, int], dict[bytes, Floats]]:
        """The accessors of vertices and of corners of each part, and its different places (4, 4), which are applied to
        rows. Open CASCADE reads a solid twice that has a tessellated twin."""
        found: dict[tuple[int, int], dict[bytes, Floats]] = {}
        waiting = [(node, np.eye(4)) for node in reversed(self._tree["scenes"][0].get("nodes", []))]
        while waiting:
            number, above = waiting.pop()
            node = self._tree["nodes"][number]
            matrix = np.reshape(node["matrix"], (4, 4)) @ above if "matrix" in node else above
            waiting.extend((child, matrix) for child in reversed(node.get("children", [])))
            for part in self._tree["meshes"][node["mesh"]]["primitives"] if "mesh" in node else []:
                if part.get("mode", TRIANGLES) == TRIANGLES:
                    places = found.setdefault((part["attributes"]["POSITION"], part["indices"]), {})
                    places[matrix.tobytes()] = matrix
        return found

    def array(self, number: int) -> npt.NDArray[Any]:
        """The numbers of an accessor."""
        accessor = self._tree["accessors"][number]
        view = self._tree["bufferViews"][accessor["bufferView"]]
        start = view.get("byteOffset", 0) + accessor.get("byteOffset", 0)
        shape = (accessor["count"], 3) if accessor["type"] == "VEC3" else (accessor["count"],)
        kind = np.dtype(KINDS[accessor["componentType"]])
        return np.frombuffer(self._data, kind, int(np.prod(shape)), start).reshape(shape)


def _count_faces(corner: Ints) -> int:
    """The number of faces of a part: Open CASCADE writes the triangles of one after those of another, with vertices of
    its own."""
    least_after = np.minimum.accumulate(corner.min(axis=1)[::-1])[::-1]
    most_before = np.maximum.accumulate(corner.max(axis=1))
    return 1 + int((least_after[1:] > most_before[:-1]).sum())
