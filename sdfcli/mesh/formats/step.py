"""STEP reader based on cascadio (Open CASCADE): all solids in all assemblies, placed, as triangles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.notes import Told
from sdfcli.mesh.formats.step_text import read_text
from sdfcli.runtime.memory import require

DEFLECTION = 1e-4
"""Maximum distance between triangles and surface, as a fraction of the bounding box diagonal: a tenth of a build's
default tolerance."""
ANGLE = 0.5
"""Maximum angle between neighbouring triangles on a curved face, in radians."""
BYTES = 200
"""Minimum working bytes per triangle."""
KINDS = {5123: "<u2", 5125: "<u4", 5126: "<f4"}
"""NumPy types by GLB component code."""
TRIANGLES = 4
"""GLB primitive mode for triangles."""
MILLIMETRES = 1000.0
"""Millimetres per metre, the unit in Open CASCADE's GLB."""


def read(path: Path) -> tuple[Floats, Ints, Told]:
    """Vertices (v, 3) in millimetres, triangles (f, 3), and facts about the file. Called by apart.py.

    Raises InputError for a file that Open CASCADE cannot read, or with references to other files.
    """
    text = read_text(path.read_bytes())
    coarse, _, _ = _tessellated(text.whole, 1e12)
    diagonal = float(np.linalg.norm(np.ptp(coarse, axis=0))) if len(coarse) else 0.0
    if not diagonal > 0:
        raise InputError("no solids or faces in this STEP file, or damaged ones")
    deflection = DEFLECTION * diagonal
    vertices, faces, read = _tessellated(text.whole, deflection)
    near = f"triangles up to {deflection:.2g} mm, {DEFLECTION:g} of the diagonal, from its surfaces"
    notes = [f"read in millimetres, as {len(faces):,} {near}"]
    if read < (held := text.faces):
        notes.append(f"not read: {held - read:,} of its {held:,} faces, damaged ones or such of no part")
    return vertices, faces, Told([*notes, *text.notes()], "mm", deflection)


def _tessellated(data: bytes, deflection: float) -> tuple[Floats, Ints, int]:
    """Vertices and triangles in millimetres, and the distinct face count. deflection: in millimetres."""
    import cascadio

    # Single-threaded: the same file gives the same triangles.
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
    """A GLB as written by Open CASCADE: nodes with matrices, and indexed float32 triangles."""

    def __init__(self, glb: bytes) -> None:
        size = int.from_bytes(glb[12:16], "little")
        self._tree, self._data = json.loads(glb[20 : 20 + size]), glb[28 + size :]

    def parts(self) -> dict[tuple[int, int], dict[bytes, Floats]]:
        """Each part's position and index accessors, and its distinct matrices (4, 4), applied to row vectors.
        Duplicates occur: Open CASCADE reads a solid twice if it has a tessellated twin."""
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
        """An accessor's numbers."""
        accessor = self._tree["accessors"][number]
        view = self._tree["bufferViews"][accessor["bufferView"]]
        start = view.get("byteOffset", 0) + accessor.get("byteOffset", 0)
        shape = (accessor["count"], 3) if accessor["type"] == "VEC3" else (accessor["count"],)
        kind = np.dtype(KINDS[accessor["componentType"]])
        return np.frombuffer(self._data, kind, int(np.prod(shape)), start).reshape(shape)


def _count_faces(corner: Ints) -> int:
    """Face count of a part: Open CASCADE writes triangles face by face, each face with its own vertices."""
    least_after = np.minimum.accumulate(corner.min(axis=1)[::-1])[::-1]
    most_before = np.maximum.accumulate(corner.max(axis=1))
    return 1 + int((least_after[1:] > most_before[:-1]).sum())
