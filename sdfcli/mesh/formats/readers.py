"""Mesh file readers by format, and strict readers for OBJ, OFF and STL, which reject truncated and damaged files.

trimesh reads these three as well, but accepts the readable part of a damaged file, and triangulates concave polygons
incorrectly.
"""

from __future__ import annotations

import codecs
import re
import string
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sdfcli.backend import C
from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Faces, Floats, Ints
from sdfcli.mesh.formats.apart import EXTRAS, read_apart
from sdfcli.mesh.formats.lines import REAL, check_range, polygons_of, with_line_feeds
from sdfcli.mesh.formats.notes import note
from sdfcli.mesh.formats.plain import Lines, lines_of, tables_of, trailing_text
from sdfcli.mesh.formats.ply import read_ply
from sdfcli.mesh.formats.polygons import Polygons, triangulated
from sdfcli.mesh.formats.vtk_xml import read_vtk
from sdfcli.params import ENDINGS
from sdfcli.runtime import interrupts
from sdfcli.runtime.memory import require

PLAIN = (".3mf", ".dae", ".glb", ".gltf", ".obj", ".off", ".ply", ".stl", ".vtp", ".vtu")
"""File name endings that need no extras."""
FORMATS = (*PLAIN, *EXTRAS)
IS_FIELD = "is a field, not a mesh; `sdfcli info` describes it, `sdfcli extract` makes a mesh of it"
"""Supported file name endings."""

READING = {".obj": 4, ".dae": 6, ".vtp": 6, ".vtu": 6, ".step": 15, ".stp": 15}
"""Minimum working bytes per file byte, by format; LEAST_READING for the others."""
LEAST_READING = 3

Arrays = tuple[Floats, Ints | Faces]

LF = b"\n"
OBJ_REFUSED = dict.fromkeys(("surf", "bsp", "bzp", "cdp"), "is a surface that is no polygon; save it as polygons")
OBJ_REFUSED["call"] = "is a part in another file; save all in one file"
"""OBJ statements that cannot be skipped without changing the shape, and the reason."""
OBJ_IGNORED = {
    "vp", "cstype", "res", "deg", "bmat", "step", "parm", "trim", "hole", "scrv", "sp", "end", "con", "mg", "bevel",
    "c_interp", "d_interp", "lod", "maplib", "usemap", "mtllib", "shadow_obj", "trace_obj", "ctech", "stech",
}  # fmt: skip
"""OBJ statements about appearance, or belonging to curves and surfaces."""
MOST_NAMED, MOST_UNKNOWN = 8, 100
"""Maximum keywords in a note, and maximum distinct unknown keywords."""

_STL_HEAD, _STL_FACE = 84, 50
"""Bytes in a binary STL header, and per triangle without attribute bytes."""


LFS_POINTER = b"version https://git-lfs"
"""Start of the text that stands for a file in a clone without Git LFS."""


def read_file(path: Path) -> Arrays:
    """Vertices (v, 3) and triangles (f, 3), f >= 0, from a file in one of FORMATS.

    Raises InputError for another format, and for a truncated or damaged file; DeviceError if a required extra is
    missing.
    """
    suffix = path.suffix.lower()
    if suffix in ENDINGS:
        raise InputError(IS_FIELD)
    if suffix not in FORMATS:
        raise InputError(f"unknown mesh format; use {', '.join(FORMATS)}")
    with open(path, "rb") as file:
        if file.read(len(LFS_POINTER)) == LFS_POINTER:
            raise InputError("a Git LFS pointer in place of the file: run `git lfs pull`")
    require(READING.get(suffix, LEAST_READING) * path.stat().st_size, "reading it")
    try:
        return READERS.get(suffix, read_apart)(path)
    finally:
        interrupts.check()  # libraries swallow exceptions, even during import


def read_stl(path: Path) -> Arrays:
    """Vertices (3 f, 3) and faces (f, 3) from all solids in a binary or text STL file.

    Warns with a ReadingNote about data after the last triangle. Raises InputError for a damaged file.
    """
    data = path.read_bytes()
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if is_wide and _is_text_stl(data[:1000].decode("utf-16", "ignore").encode()):
        data = data.decode("utf-16").encode()
    count, (held, over) = int.from_bytes(data[80:84], "little"), divmod(len(data) - _STL_HEAD, _STL_FACE)
    if len(data) >= _STL_HEAD and count <= held and (count or not held):  # letters read as a count exceed 10^8
        corner, after = _binary_stl(data, count)
    elif _is_text_stl(data[:1000]):
        corner, after = _text_stl(data)
    elif len(data) < _STL_HEAD:
        raise InputError("too short for an STL file" if data else "the file is empty")
    elif not data[:_STL_HEAD].strip(string.printable.encode()):
        raise InputError("a text STL file begins with `solid`, a binary one with a header of 80 bytes and a count")
    else:
        parts = " and a part of one" if over else ""
        raise InputError(f"the header says {count:,} triangles, but the file holds {held:,}{parts}")
    if after:
        note(path, f"{after} left out")
    return corner, np.arange(len(corner), dtype=np.uint32).reshape(-1, 3)


def _is_text_stl(start: bytes) -> bool:
    return with_line_feeds(start).lstrip()[:5].lower() == b"solid" and b"\0" not in start


def _binary_stl(data: bytes, count: int) -> tuple[Floats, str]:
    """Corners (3 f, 3) in a binary STL file, and a description of trailing data. count: triangle count, which fits the
    file."""
    over, first = len(data) - _STL_HEAD - count * _STL_FACE, _STL_HEAD + _STL_FACE
    more = int.from_bytes(data[first - 2 : first], "little")  # attribute byte count of the first triangle
    names, formats = ["normal", "corner", "more"], [("<f4", 3), ("<f4", (3, 3)), "<u2"]

    def rows_of(size: int) -> Any:
        row = np.dtype({"names": names, "formats": formats, "offsets": [0, 12, 48], "itemsize": size})
        return np.frombuffer(data, row, count, _STL_HEAD)

    rows = rows_of(_STL_FACE)
    if over and over == count * more:
        wide = rows_of(_STL_FACE + more)
        if np.all(wide["more"] == more):  # otherwise the word is a colour, and the rest is not attributes
            rows, over = wide, 0
    rest = data[len(data) - over :]
    if rest.strip(b"\0 \t\r\n"):
        _check_rest(rest, rows["normal"].astype(np.float64))
    after = f"{over:,} bytes behind its last triangle are" if over else ""
    return rows["corner"].reshape(-1, 3).astype(np.float64), after


def _check_rest(rest: bytes, normal: Floats) -> None:
    """Raises InputError if the data after a binary STL file's triangles is more triangles, another STL file, or a sign
    of misplaced triangles. normal: (f, 3), as in the file."""
    count = len(normal)
    if len(rest) % _STL_FACE == 0:
        held = count + len(rest) // _STL_FACE
        raise InputError(f"the header says {count:,} triangles, but the file holds {held:,}")
    own = int.from_bytes(rest[80:84], "little")
    if _is_text_stl(rest[:1000]) or 0 < own <= (len(rest) - _STL_HEAD) // _STL_FACE:
        raise InputError(f"another STL file follows its {count:,} triangles; give each a file of its own")
    if len(rest) > _STL_FACE:
        nine = np.frombuffer(rest, "<f4", 12)
        if np.isfinite(nine).all() and np.abs(np.linalg.norm(nine[:3].astype(np.float64)) - 1) < 1e-4:
            raise InputError(f"another triangle follows the {count:,} that the header says: its count is wrong")
    length = np.linalg.norm(normal, axis=1)
    if not np.all((length == 0) | (np.abs(length - 1) < 0.01)):
        raise InputError(
            f"{len(rest):,} bytes more than its {count:,} triangles take, and they have odd normals: damaged"
        )


def _text_stl(data: bytes) -> tuple[Floats, str]:
    """Corners (3 f, 3) in a text STL file, and a description of trailing text."""
    corners, kinds, damage, behind = [np.empty((0, 3))], [], None, list[bytes]()
    for lines in lines_of(with_line_feeds(data), C.TEXT_STL):
        kinds.append(lines.kind)
        try:
            corners.append(lines.vertices((1, 2, 3)))
        except InputError as error:
            damage = damage or error
        ends = np.flatnonzero(lines.kind == C.LINE_END_FACET)
        if len(ends):
            behind = []
        behind.append(lines.text[int(lines.end[ends[-1]]) :] if len(ends) else lines.text)
    kind = np.concatenate(kinds)
    text, end = b"\n".join(behind), -1
    for found in re.finditer(rb"(?im)^[^\S\n]*endsolid(?!\S).*$", text):
        end = found.end()
    rest = text[end:].strip()
    is_cut = end < 0 or (rest and b"solid".startswith(rest.lower()))
    if is_cut or re.search(rb"(?im)^[^\S\n]*solid(?!\S)", rest):
        raise InputError(f"line {len(kind)}: the file ends before `endsolid`")
    vertices = np.flatnonzero((kind == C.LINE_VERTEX) | (kind == C.LINE_ODD_VERTEX))
    faces, ends = np.flatnonzero(kind == C.LINE_FACET), np.flatnonzero(kind == C.LINE_END_FACET)
    place = np.searchsorted(vertices, faces)
    if len(faces) != len(ends) or len(vertices) != 3 * len(faces) or np.any(place != 3 * np.arange(len(faces))):
        wrong = np.flatnonzero(np.diff(np.append(place, len(vertices))) != 3)
        line = int(faces[wrong[0]]) if len(wrong) else len(kind) - 1
        raise InputError(f"line {line + 1}: a facet must have three vertices, and an end")
    if damage:
        raise damage
    return np.concatenate(corners), f"{len(rest):,} bytes behind `endsolid` are" if rest else ""


class _Part(NamedTuple):
    """Parsed lines of an OBJ file.

    vertices  (v, 3).
    names     (c,) face corners as written: from 1 on, or from -1 down.
    corners   (c,) face corners from 0 on.
    counts    (f,) corner count per face.
    places    (f,) zero-based line number of each face.
    """

    vertices: Floats
    names: Ints
    corners: Ints
    counts: Ints
    places: Ints


def read_obj(path: Path) -> Arrays:
    """Vertices (v, 3) and triangles (f, 3) of the faces in a Wavefront OBJ file, over all objects and groups.

    Warns with a ReadingNote about elements without faces, and unknown statements. Raises InputError for a damaged file,
    for non-polygonal surfaces, and for parts in other files.
    """
    data = _joined(with_line_feeds(path.read_bytes()))
    if (place := data.find(b"\0")) >= 0:
        raise InputError(f"line {data.count(LF, 0, place) + 1}: a byte that is 0: damaged, or no text")
    parts: list[_Part] = []
    seen, left_out = 0, Counter[str]()
    for lines in lines_of(data, C.TEXT_OBJ):
        parts.append(_obj_part(lines, seen))
        seen += len(parts[-1].vertices)
        left_out.update(_unread(lines))
        if len(left_out) > MOST_UNKNOWN:
            raise InputError(f"more than {MOST_UNKNOWN} keywords that are not known: damaged, or no OBJ file")
    if left_out:
        words = ", ".join(f"{count:,} of {keyword!a}" for keyword, count in sorted(left_out.items())[:MOST_NAMED])
        note(path, f"statements left out: {words}")
    del data, lines
    position, names, corners, counts, places = (np.concatenate(each) for each in zip(*parts, strict=True))
    if len(counts) == 0:
        return position, np.empty((0, 3), np.int64)
    polygons = Polygons(corners, counts)
    check_range(polygons, len(position), lambda face: f"line {places[face] + 1}", names)
    return position, triangulated(position, polygons)


def _joined(data: bytes) -> bytes:
    """A text with backslash continuations joined, outside comments. The line count does not change: blank lines follow
    each joined line."""
    if b"\\\n" not in data:
        return data

    def join(found: re.Match[bytes]) -> bytes:
        return found[0].replace(b"\\\n", b" ") + LF * found[0].count(LF)

    return re.sub(rb"(?m)^(?:[^#\n]*\\\n)+[^\n]*", join, data)


def _unread(lines: Lines) -> Counter[str]:
    """Statement counts by keyword, for keywords that have geometry or are unknown. Raises InputError for a statement
    that changes the shape."""
    rows, at = lines.rows(lines.kind == C.LINE_UNKNOWN)
    found = Counter[str]()
    for row, line in zip(rows, at, strict=True):
        keyword = row.split(None, 1)[0][:20].decode("ascii", "replace")
        if re.fullmatch(REAL, row.split(None, 1)[0][:20]):
            raise InputError(
                f"line {line + 1}: begins with a number, {keyword}; a line goes on behind a backslash only"
            )
        if keyword.lower() in OBJ_REFUSED:
            raise InputError(f"line {line + 1}: {keyword!a} {OBJ_REFUSED[keyword.lower()]}")
        if keyword.lower() not in OBJ_IGNORED:
            found[keyword] += 1
    return found


def _obj_part(lines: Lines, seen: int) -> _Part:
    """Parses a batch of lines. seen: vertex count before it."""
    vertices = lines.vertices((1, 2, 3))
    faces, polygons = lines.is_face, lines.polygons()
    if polygons is None:
        rows, at = lines.rows(faces)
        polygons = polygons_of([re.sub(rb"^\s*\S+|(?<=\S)/\S*|(?<!\S)#.*", b"", row) for row in rows], at)
    places = lines.before + np.flatnonzero(faces)
    corners = polygons.corner - 1
    if len(corners) and polygons.corner.min() < 1:
        known = np.repeat(seen + np.cumsum(lines.is_vertex)[faces], polygons.count)
        wrong = np.flatnonzero((polygons.corner < 1) & ((polygons.corner == 0) | (polygons.corner < -known)))
        if len(wrong):
            name, face = int(polygons.corner[wrong[0]]), np.searchsorted(np.cumsum(polygons.count), wrong[0], "right")
            before = f"{int(known[wrong[0]]):,} come before it" if name else "the first one is 1"
            raise InputError(f"line {places[face] + 1}: names vertex {name}, but {before}")
        corners = np.where(polygons.corner < 0, polygons.corner + known, corners)
    return _Part(vertices, polygons.corner, corners, polygons.count, places)


def read_off(path: Path) -> Arrays:
    """Vertices (v, 3) and triangles (f, 3) from an OFF file, with or without colours, normals and textures.

    Warns with a ReadingNote about text after the last face. Raises InputError for a damaged or binary file, and for
    dimensions other than three.
    """
    data = path.read_bytes()
    if b"#" in data:
        data = re.sub(rb"#[^\r\n]*", b"", data)
    data, start, line = with_line_feeds(data), 0, 0

    def words() -> bytes:
        """The next non-blank line."""
        nonlocal start, line
        text = b""
        while not text and start < len(data):
            end = data.find(b"\n", start)
            end = len(data) if end < 0 else end
            text = data[start:end].strip()
            start, line = end + 1, line + 1
        return text

    first = words()
    # `OFF490 518 0` is also common.
    head = re.match(rb"(?:ST)?C?N?(4?n?)OFF(?i:\s+(BINARY))?", first) or re.match(rb"(?:st)?c?n?off()()", first)
    if head is None:
        raise InputError("line 1: an OFF file starts with OFF")
    if head[1] or head[2]:
        what = "binary" if head[2] else "in other than three dimensions"
        raise InputError(f"line {line}: {head[0].decode()}, an OFF file that is {what}, is not read")
    counts = (first[head.end() :] or words()).split()
    if len(counts) < 2 or not all(word.isdigit() and len(word) < 100 for word in counts[:2]):
        raise InputError(f"line {line}: two or three counts are needed")
    vertices, faces = int(counts[0]), int(counts[1])
    tables, rows = tables_of(data, line, start, [vertices, faces])
    fault = f"the header says {vertices:,} vertices and {faces:,} faces, but {rows:,} lines follow"
    if behind := trailing_text(tables, rows - vertices - faces, fault):
        note(path, behind)
    position = tables[0].points()
    polygons, places = tables[1].polygons(_off_corners)
    check_range(polygons, vertices, lambda face: f"line {places[face] + 1}", polygons.corner)
    return position, triangulated(position, polygons)


def _off_corners(row: bytes, line: int) -> bytes:
    words = row.split()
    if not re.fullmatch(rb"0*[0-9]{1,9}", words[0]):
        raise InputError(f"line {line + 1}: a face begins with the number of its corners")
    size = int(words[0])
    if len(words) <= size:
        raise InputError(f"line {line + 1}: a face of {size} corners names {len(words) - 1}")
    return b" ".join(words[1 : 1 + size])


def _read_gltf(path: Path) -> Arrays:
    from sdfcli.mesh.formats.gltf import read_gltf

    return read_gltf(path)


def _read_3mf(path: Path) -> Arrays:
    from sdfcli.mesh.formats.threemf import read_3mf  # imports modules that few other formats need

    return read_3mf(path)


def _read_collada(path: Path) -> Arrays:
    from sdfcli.mesh.formats.collada import read_collada

    return read_collada(path)


READERS = {
    ".3mf": _read_3mf,
    ".dae": _read_collada,
    ".ply": read_ply,
    ".stl": read_stl,
    ".obj": read_obj,
    ".off": read_off,
    ".glb": _read_gltf,
    ".gltf": _read_gltf,
    ".vtp": read_vtk,
    ".vtu": read_vtk,
}
"""Built-in readers."""
