"""The plainest PLY files, read at once.

trimesh reads every mesh format, but importing it takes longer than building a field on a GPU. Scans come as binary
little-endian PLY with triangles only, so those are read here; whatever differs in the slightest is left to trimesh.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "<i2", "int16": "<i2", "ushort": "<u2",
    "uint16": "<u2", "int": "<i4", "int32": "<i4", "uint": "<u4", "uint32": "<u4", "float": "<f4", "float32": "<f4",
    "double": "<f8", "float64": "<f8",
}  # fmt: skip
_LONGEST_HEADER = 1 << 16

Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def read_plain_ply(path: Path) -> Arrays | None:
    """Vertices (v, 3) and faces (f, 3) of a binary little-endian PLY file of vertices, then triangles; else None."""
    data = np.fromfile(path, np.uint8)
    head, found, _ = data[:_LONGEST_HEADER].tobytes().partition(b"end_header\n")
    lines = [line.split() for line in head.decode("ascii", "replace").splitlines()]
    if not found or lines[:2] != [["ply"], ["format", "binary_little_endian", "1.0"]]:
        return None
    lines = [line for line in lines[2:] if line and line[0] not in ("comment", "obj_info")]
    elements = [k for k, line in enumerate(lines) if line[0] == "element"]
    if [lines[k][1:2] for k in elements] != [["vertex"], ["face"]] or elements[0] != 0:
        return None
    if not all(len(lines[k]) == 3 and lines[k][2].isdecimal() for k in elements):
        return None
    vertex, face = lines[: elements[1]], lines[elements[1] :]
    if not (_is_plain(vertex) and _is_one_list(face)):
        return None
    point = np.dtype([(name, _TYPES[kind]) for _, kind, name in vertex[1:]])
    corner = np.dtype([("count", "u1"), ("vertex", _TYPES[face[1][3]], (3,))])
    points, triangles = int(vertex[0][2]), int(face[0][2])
    body = len(head) + len(found)
    split = body + points * point.itemsize
    if len(data) != split + triangles * corner.itemsize:
        return None
    faces = data[split:].view(corner)
    if not (faces["count"] == 3).all():
        return None
    table = data[body:split].view(point)
    return np.stack([table[axis].astype(np.float64) for axis in "xyz"], axis=1), faces["vertex"]


def _is_plain(vertex: list[list[str]]) -> bool:
    """A vertex element with scalar properties of known types and different names, x, y and z among them."""
    properties = vertex[1:]
    names = [line[-1] for line in properties]
    scalar = all(len(line) == 3 and line[0] == "property" and line[1] in _TYPES for line in properties)
    return scalar and len(set(names)) == len(names) and {"x", "y", "z"} <= set(names)


def _is_one_list(face: list[list[str]]) -> bool:
    """A face element with nothing but a list of vertex numbers."""
    if len(face) != 2 or len(face[1]) != 5:
        return False
    word, kind, count, number, name = face[1]
    whole = number in ("int", "int32", "uint", "uint32")
    return (
        (word, kind) == ("property", "list") and count in ("uchar", "uint8") and whole and name.startswith("vertex_ind")
    )
