"""Readers of mesh files, by format; strict ones of OBJ, OFF and STL, which reject truncated and damaged files.

trimesh reads these three too, but accepts the readable part of a damaged file, and triangulates concave polygons
wrongly.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sdfcli.backend import C, any_backend
from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Faces, Floats, Ints
from sdfcli.mesh.formats.apart import EXTRAS, read_apart
from sdfcli.mesh.formats.lines import check_range, lines_of, numbers, polygons_of, texts_of
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


class _Part(NamedTuple):
    """A part of an OBJ file.

    vertices  (v, 3).
    names     (c,) the corners of its faces as they are written: from 1 on, or from -1 down.
    corners   (c,) from 0 on.
    counts    (f,) the corners of each face.
    places    (f,) the number of lines before each face.
    """

    vertices: Floats
    names: Ints
    corners: Ints
    counts: Ints
    places: Ints


def read_obj(path: Path) -> Arrays:
    """Vertices (v, 3) and triangles (f, 3) of the faces in a Wavefront OBJ file, of all its objects and groups."""
    data = path.read_bytes()
    if b"\\\n" in data or b"\\\r\n" in data:
        data = re.sub(rb"\\\r?\n", b" ", data)
    parts: list[_Part] = []
    plain, seen = True, 0
    for before, text in texts_of(data):
        part = _plain_part(text, before) if plain else None
        plain = part is not None  # else those after it are hardly
        parts.append(part or _any_part(text.split(b"\n"), before, seen))
        seen += len(parts[-1].vertices)
    del data, text, part
    position, names, corners, counts, places = (np.concatenate(each) for each in zip(*parts, strict=True))
    if len(counts) == 0:
        return position, np.empty((0, 3), np.int64)
    polygons = Polygons(corners, counts)
    check_range(polygons, len(position), lambda face: f"line {places[face] + 1}", names)
    return position, triangulated(position, polygons)


def _plain_part(text: bytes, before: int) -> _Part | None:
    """A part of triangles and vertices, by a kernel; None where a face is anything else, or a line is damaged."""
    backend, data = any_backend(), np.frombuffer(text, np.uint8)
    end = np.append(np.flatnonzero(data == ord("\n")), len(data)).astype(np.uint64)
    kinds, values = backend.xp.empty(len(end), np.uint8), backend.xp.empty((len(end), 3))
    given = {"text": backend.from_host(data), "end": backend.from_host(end)}
    backend.run("sdf_obj_lines", len(end), kind=kinds, value=values, **given)
    kind, value = backend.to_host(kinds), backend.to_host(values)
    if (kind == C.LINE_OTHER_FACE).any():
        return None
    other = np.flatnonzero(kind == C.LINE_OTHER_VERTEX)
    if len(other):
        start = np.concatenate([[0], end[:-1] + 1]).astype(np.int64)
        lines = [text[start[k] : int(end[k])] for k in other]
        try:
            value[other] = numbers(lines, range(len(lines)), (1, 2, 3))
        except InputError:
            return None
        kind[other] = C.LINE_VERTEX
    face = np.flatnonzero(kind == C.LINE_TRIANGLE)
    names = value[face].astype(np.int64).ravel()
    return _Part(value[kind == C.LINE_VERTEX], names, names - 1, np.full(len(face), 3), before + face)


def _any_part(lines: list[bytes], before: int, seen: int) -> _Part:
    """The same for all that there may be. seen: the vertices before. Raises InputError for a damaged line."""
    vertex_lines = [k for k, line in enumerate(lines) if line[:1] == b"v" and line[1:2].isspace()]
    face_lines = [k for k, line in enumerate(lines) if line[:1] == b"f" and line[1:2].isspace()]
    vertices, none = numbers(lines, vertex_lines, (1, 2, 3), before), np.empty(0, np.int64)
    if not face_lines:
        return _Part(vertices, none, none, none, none)
    text = re.sub(rb"/[^\s]*", b"", b"\n".join(lines[k][1:] for k in face_lines))
    places = before + np.array(face_lines)
    polygons = polygons_of(text.split(b"\n"), places.tolist())
    last = np.repeat(seen + np.searchsorted(vertex_lines, face_lines), polygons.count)
    corners = np.where(polygons.corner < 0, polygons.corner + last, polygons.corner - 1)
    return _Part(vertices, polygons.corner, corners, polygons.count, places)


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
