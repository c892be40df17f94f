"""OBJ, OFF and STL files, read strictly: what is cut off or damaged is refused, with the line. The rest by trimesh.

trimesh reads these three too, but takes what it understands of a damaged file for the whole, and cuts concave polygons
wrong.
"""

from __future__ import annotations

import json
import re
import warnings
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from sdfcli.errors import InputError
from sdfcli.polygons import Floats, Ints, Polygons, triangulated
from sdfcli.text import check_range, lines_of, numbers, polygons_of

MOST_WITHOUT_DATA = 10_000
"""An accessor of glTF without a buffer is all zeros: no mesh needs many of those."""

Arrays = tuple[Floats, Ints]

MOST_PACKED = 200
"""No scene packs better than 1 to this: what claims to is not unpacked."""

_STL_HEAD, _STL_FACE = 84, np.dtype([("normal", "<f4", 3), ("corner", "<f4", (3, 3)), ("more", "<u2")])


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
    return corner, np.arange(len(corner)).reshape(-1, 3)


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
    lines = lines_of(data)
    vertex_lines = [k for k, line in enumerate(lines) if line[:1] == b"v" and line[1:2].isspace()]
    face_lines = [k for k, line in enumerate(lines) if line[:1] == b"f" and line[1:2].isspace()]
    vertices = numbers(lines, vertex_lines, (1, 2, 3))
    if not face_lines:
        return vertices, np.empty((0, 3), np.int64)
    text = re.sub(rb"/[^\s]*", b"", b"\n".join(lines[k] for k in face_lines))
    polygons = polygons_of(text.split(b"\n"), face_lines, 1)
    # From 1 on, or from -1 down for the vertices before the line.
    before = np.repeat(np.searchsorted(vertex_lines, face_lines), polygons.count)
    corner = np.where(polygons.corner < 0, polygons.corner + before, polygons.corner - 1)
    named, polygons = polygons.corner, Polygons(corner, polygons.count)
    check_range(polygons, len(vertices), lambda face: f"line {face_lines[face] + 1}", named)
    return vertices, triangulated(vertices, polygons)


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
    polygons = polygons_of(rows, face_lines, 0)
    check_range(polygons, vertices, lambda face: f"line {face_lines[face] + 1}", polygons.corner)
    return position, triangulated(position, polygons)


def read_scene(path: Path) -> Arrays:
    """All triangles of a file that trimesh reads (GLB, glTF, 3MF ...), each geometry with its transforms."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
            packed = sum(entry.compress_size for entry in archive.infolist())
        if packed > path.stat().st_size:
            raise InputError(f"holds {packed:,} packed bytes by its own account, but has {path.stat().st_size:,}")
        if unpacked > MOST_PACKED * path.stat().st_size:
            raise InputError(f"unpacks to {unpacked:,} bytes, more than {MOST_PACKED} times its size")
    if path.suffix.lower() in (".glb", ".gltf"):
        _check_gltf(path.read_bytes())
    import trimesh

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = trimesh.load_mesh(str(path), process=False)
    if not hasattr(loaded, "faces"):
        return np.empty((0, 3)), np.empty((0, 3), np.int64)
    if path.suffix.lower() == ".3mf":
        _check_3mf(path, len(loaded.faces))
    return np.asarray(loaded.vertices, np.float64), np.asarray(loaded.faces, np.int64)


def _check_3mf(path: Path, read: int) -> None:
    """Refuses what trimesh reads a part of only: it gives up where components are nested into many instances."""
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if "3d/3dmodel.model" in name.lower())
        triangles: dict[str | None, int] = {}
        held = 0
        with archive.open(name) as model:
            for _, element in ElementTree.iterparse(model):
                kind = element.tag.rpartition("}")[2]
                if kind == "object":
                    parts = [part.get("objectid") for part in element.iterfind("{*}components/{*}component")]
                    own = len(element.findall("{*}mesh/{*}triangles/{*}triangle"))
                    # What comes later or from other files is not counted.
                    triangles[element.get("id")] = own + sum(triangles.get(part, 0) for part in parts)
                    element.clear()
                elif kind == "item":
                    held += triangles.get(element.get("objectid"), 0)
    if read < held:
        raise InputError(f"{held:,} triangles, of which trimesh reads {read:,}: merge the file's nested components")


def _check_gltf(data: bytes) -> None:
    """Refuses what claims to be larger than it is: trimesh makes room for it first."""
    text = data
    if data.startswith(b"glTF"):
        claimed, place = int.from_bytes(data[8:12], "little"), 12
        if claimed != len(data):
            raise InputError(f"the header says {claimed:,} bytes, the file has {len(data):,}")
        while place < len(data):
            end = place + 8 + int.from_bytes(data[place : place + 4], "little")
            if end > len(data):
                raise InputError(f"byte {place:,}: a chunk that ends {end - len(data):,} bytes after the file")
            if data[place + 4 : place + 8] == b"JSON":
                text = data[place + 8 : end]
            place = end
    tree = json.loads(text)
    for number, accessor in enumerate(tree.get("accessors", [])):
        if "bufferView" not in accessor and accessor.get("count", 0) > MOST_WITHOUT_DATA:
            raise InputError(f"accessor {number}: {accessor['count']:,} entries, but no data")


def units_of(path: Path) -> str | None:
    """The unit of a file's coordinates, where its format has one."""
    suffix = path.suffix.lower()
    if suffix in (".glb", ".gltf"):
        return "metre"
    if suffix != ".3mf":
        return None
    try:
        with zipfile.ZipFile(path) as archive, archive.open("3D/3dmodel.model") as model:
            head = model.read(4096)
    except (OSError, KeyError, zipfile.BadZipFile):
        return None
    found = re.search(rb"<model[^>]*\bunit=[\"'](\w+)", head)
    return found[1].decode() if found else "millimeter"
