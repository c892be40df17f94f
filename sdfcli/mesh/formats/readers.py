"""Readers of mesh files, by format; strict ones of OBJ, OFF and STL, which reject truncated and damaged files.

trimesh reads these three too, but accepts the readable part of a damaged file, and triangulates concave polygons
wrongly.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Faces, Floats, Ints
from sdfcli.mesh.formats.apart import EXTRAS, read_apart
from sdfcli.mesh.formats.lines import check_range, lines_of, numbers, pieces_of, polygons_of
from sdfcli.mesh.formats.ply import read_ply
from sdfcli.mesh.formats.polygons import Polygons, triangulated
from sdfcli.mesh.formats.vtk_xml import read_vtk
from sdfcli.runtime import interrupts
from sdfcli.runtime.memory import require

PLAIN = (".3mf", ".glb", ".gltf", ".obj", ".off", ".ply", ".stl", ".vtp", ".vtu")
"""Endings of files that are read without extras. Not trimesh's others: archives may unpack to any size."""
FORMATS = (*PLAIN, *EXTRAS)
"""Endings of supported files."""

READING = {".obj": 4, ".off": 15, ".vtp": 6, ".vtu": 6, ".step": 15, ".stp": 15}
"""Minimum working bytes per byte of a file, by format; LEAST_READING for the others."""
LEAST_READING = 3

Arrays = tuple[Floats, Ints | Faces]

_STL_HEAD, _STL_FACE = 84, np.dtype([("normal", "<f4", 3), ("corner", "<f4", (3, 3)), ("more", "<u2")])


def read_file(path: Path) -> Arrays:
    """Vertices (v, 3) and triangles (f, 3), f >= 0, of a file in one of FORMATS.

    Raises InputError for another format, and for a truncated or damaged file; DeviceError where it needs an extra; and
    exceptions of trimesh.
    """
    reader = READERS.get(suffix := path.suffix.lower())
    if reader is None and suffix not in FORMATS:
        raise InputError(f"unknown mesh format; use {', '.join(FORMATS)}")
    require(READING.get(suffix, LEAST_READING) * path.stat().st_size, "reading it")
    try:
        if reader is not None:
            return reader(path)
        if suffix in EXTRAS:
            return read_apart(path)
        from sdfcli.mesh.formats.scenes import read_scene

        return read_scene(path)
    finally:
        interrupts.check()  # libraries catch every exception, also while they are imported


def read_stl(path: Path) -> Arrays:
    """Vertices (3 f, 3) and faces (f, 3) of a binary or text STL file."""
    data = path.read_bytes()
    count = int.from_bytes(data[80:84], "little")
    if len(data) == _STL_HEAD + count * _STL_FACE.itemsize:
        corner = np.frombuffer(data, _STL_FACE, count, _STL_HEAD)["corner"].reshape(-1, 3).astype(np.float64)
    elif data[:300].lstrip().lower().startswith(b"solid") and b"\0" not in data[:1000]:
        corner = _text_stl(data)
    elif len(data) < _STL_HEAD:
        raise InputError("too short for an STL file" if data else "the file is empty")
    else:
        held, over = divmod(len(data) - _STL_HEAD, _STL_FACE.itemsize)
        parts = " and a part of one" if over else ""
        raise InputError(f"the header says {count:,} triangles, but the file holds {held:,}{parts}")
    return corner, np.arange(len(corner), dtype=np.uint32).reshape(-1, 3)


def _text_stl(data: bytes) -> Floats:
    lines = lines_of(data.lower())
    first = [line.split(None, 1)[0] if line.strip() else b"" for line in lines]
    corners, faces, ends = (
        [k for k, word in enumerate(first) if word == wanted] for wanted in (b"vertex", b"facet", b"endfacet")
    )
    if next((word for word in reversed(first) if word), b"") != b"endsolid":
        raise InputError(f"line {len(lines)}: the file ends before `endsolid`")
    place = np.searchsorted(corners, faces)
    if len(faces) != len(ends) or len(corners) != 3 * len(faces) or np.any(place != 3 * np.arange(len(faces))):
        wrong = np.flatnonzero(np.diff(np.append(place, len(corners))) != 3)
        line = faces[int(wrong[0])] if len(wrong) else len(lines) - 1
        raise InputError(f"line {line + 1}: a facet must have three vertices, and an end")
    return numbers(lines, corners, (1, 2, 3))


def read_obj(path: Path) -> Arrays:
    """Vertices (v, 3) and triangles (f, 3) of the faces in a Wavefront OBJ file, of all its objects and groups."""
    data = path.read_bytes()
    if b"\\\n" in data or b"\\\r\n" in data:
        data = re.sub(rb"\\\r?\n", b" ", data)
    vertices, corners, names, counts, places, seen = [], [], [], [], [], 0
    for before, lines in pieces_of(data):
        vertex_lines = [k for k, line in enumerate(lines) if line[:1] == b"v" and line[1:2].isspace()]
        face_lines = [k for k, line in enumerate(lines) if line[:1] == b"f" and line[1:2].isspace()]
        vertices.append(numbers(lines, vertex_lines, (1, 2, 3), before))
        if face_lines:
            text = re.sub(rb"/[^\s]*", b"", b"\n".join(lines[k][1:] for k in face_lines))
            places.append(before + np.array(face_lines))
            polygons = polygons_of(text.split(b"\n"), places[-1].tolist())
            # From 1 on, or from -1 down for the vertices before the line.
            last = np.repeat(seen + np.searchsorted(vertex_lines, face_lines), polygons.count)
            names.append(polygons.corner)
            corners.append(np.where(polygons.corner < 0, polygons.corner + last, polygons.corner - 1))
            counts.append(polygons.count)
        seen += len(vertex_lines)
    del data, lines
    position = np.concatenate(vertices)
    if not corners:
        return position, np.empty((0, 3), np.int64)
    polygons, place = Polygons(np.concatenate(corners), np.concatenate(counts)), np.concatenate(places)
    check_range(polygons, len(position), lambda face: f"line {place[face] + 1}", np.concatenate(names))
    return position, triangulated(position, polygons)


def read_off(path: Path) -> Arrays:
    """Vertices (v, 3) and triangles (f, 3) of an OFF file, with or without colours or normals."""
    data = path.read_bytes()
    lines = [line.split(b"#", 1)[0].strip() for line in lines_of(data)]
    full = [k for k, line in enumerate(lines) if line]
    head = re.match(rb"(ST)?C?N?OFF\b\s*", lines[full[0]].upper()) if full else None
    if full and head is None:  # `OFF490 518 0` is common, too
        head = re.match(rb"(ST)?C?N?OFF", lines[full[0]].upper())
    if head is None:
        raise InputError("line 1: an OFF file starts with OFF")
    rest = lines[full[0]][head.end() :]
    if rest:
        lines[full[0]] = rest
    else:
        full = full[1:]
    counts = lines[full[0]].split() if full else []
    if len(counts) < 2 or not all(word.isdigit() for word in counts[:2]):
        raise InputError(f"line {full[0] + 1 if full else len(lines)}: two or three counts are needed")
    vertices, faces = int(counts[0]), int(counts[1])
    if len(full) < 1 + vertices + faces:
        raise InputError(
            f"the header says {vertices:,} vertices and {faces:,} faces, but {len(full) - 1:,} lines follow"
        )
    position = numbers(lines, full[1 : 1 + vertices], (0, 1, 2))
    face_lines = full[1 + vertices : 1 + vertices + faces]
    if not face_lines:
        return position, np.empty((0, 3), np.int64)
    rows = []
    for k in face_lines:
        words = lines[k].split()
        size = int(words[0]) if words[0].isdigit() else 0
        if len(words) <= size:
            raise InputError(f"line {k + 1}: a face of {size} corners names {len(words) - 1}")
        rows.append(b" ".join(words[1 : 1 + size]))
    polygons = polygons_of(rows, face_lines)
    check_range(polygons, vertices, lambda face: f"line {face_lines[face] + 1}", polygons.corner)
    return position, triangulated(position, polygons)


READERS = {
    ".ply": read_ply,
    ".stl": read_stl,
    ".obj": read_obj,
    ".off": read_off,
    ".vtp": read_vtk,
    ".vtu": read_vtk,
}
"""Our own readers."""
