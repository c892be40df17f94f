"""Strict COLLADA reader (.dae, versions 1.4 and 1.5): all meshes in the scene, placed.

pycollada (0.9.3) rounds positions to single precision, takes numbers up to the first damaged one, fills polygons with
fans, and passes over holes and other kinds of geometry without an error.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.lines import REAL, WHOLE, check_range, odd_word
from sdfcli.mesh.formats.notes import keep_units, note
from sdfcli.mesh.formats.polygons import Polygons, triangulated
from sdfcli.mesh.formats.units import unit_name
from sdfcli.mesh.formats.xml_text import elements, in_utf8
from sdfcli.runtime.memory import require

Element = ElementTree.Element
Part = tuple[Floats, Ints]

LINES = {"lines", "linestrips"}
FACES = {"triangles", "polylist", "polygons", "tristrips", "trifans"}
SILENT = {"source", "vertices", "extra", "asset", "instance_camera", "instance_light", "node"}
"""Members of meshes and nodes that have no geometry of their own."""
MOST_NESTED, MOST_NODES = 100, 200_000
"""Maximum depth of instances of nodes, and maximum node count, a node counted once per instance."""
BYTES = 200
"""Working bytes per triangle and vertex of an instance."""
ASK_FROM = 1 << 24
"""Minimum working bytes for a check against free memory."""


def read_collada(path: Path) -> Part:
    """Vertices (v, 3) and triangles (f, 3) from the meshes in the file's scene, in the file's unit and axes.

    Warns with a ReadingNote about lines, animations, and geometry outside the scene, which are left out. Raises
    InputError for a damaged file, skins and morphs, curved and convex geometry, and references to other files.
    """
    file = _File(path)
    vertices, faces, before, needed = [np.empty((0, 3))], [np.empty((0, 3), np.int64)], 0, 0
    for name, matrix in file.instances():
        points, triangles = file.geometry(name)
        needed += BYTES * (len(points) + len(triangles))
        if needed > ASK_FROM:
            require(needed, "reading it")
            needed = 0
        with np.errstate(all="ignore"):  # what is not finite is refused later
            placed = points @ matrix[:3, :3].T + matrix[:3, 3]
            is_mirrored = np.linalg.det(matrix[:3, :3]) < 0
        vertices.append(placed)
        faces.append((triangles[:, ::-1] if is_mirrored else triangles) + before)
        before += len(points)
    for each in file.notes():
        note(path, each)
    keep_units(unit_name(file.metres()))
    return np.concatenate(vertices), np.concatenate(faces)


def _root(path: Path) -> Element:
    root = elements(*in_utf8(path.read_bytes()), "COLLADA file")
    for each in root.iter():
        each.tag = each.tag.rpartition("}")[2]  # 1.4 and 1.5 differ in their namespace
    if root.tag != "COLLADA":
        raise InputError(f"a COLLADA file is needed, not {root.tag[:40]!a}")
    return root


class _File:
    """A file's elements by id, its scene, and triangulated geometries."""

    def __init__(self, path: Path) -> None:
        self._root = _root(path)
        self._by_id: dict[str, list[Element]] = {}
        for each in self._root.iter():
            if "id" in each.attrib:
                self._by_id.setdefault(each.attrib["id"], []).append(each)
        self._done: dict[str, Part] = {}
        self._left_out = Counter[str]()

    def metres(self) -> float:
        """The file's unit in metres, 1 without one. Raises InputError for an impossible one."""
        unit = self._root.find("./asset/unit")
        text = "1" if unit is None else unit.get("meter", "1")
        found = _numbers(text, REAL, "unit")
        if len(found) != 1 or not 0 < found[0] < math.inf:
            raise InputError(f"its unit is {text[:40]!a} metres")
        return float(found[0])

    def _item(self, element: Element, attribute: str, tag: str) -> Element:
        """The element that an attribute refers to. Raises InputError unless it is one of this tag, in this file."""
        reference = element.get(attribute, "")
        if not reference.startswith("#"):
            raise InputError(f"{element.tag}: {reference[:80]!a} is no part of this file; save all in one file")
        found = [each for each in self._by_id.get(reference[1:], ()) if each.tag == tag]
        if len(found) != 1:
            count = "twice" if found else "not there"
            raise InputError(f"{element.tag}: the {tag} {reference[1:][:80]!a} is {count}")
        return found[0]

    def _scene(self) -> Element:
        """The scene that is shown; of a file that names none, its only one."""
        chosen, scenes = self._root.find("./scene/instance_visual_scene"), list(self._root.iter("visual_scene"))
        self._left_out["other scenes"] += max(0, len(scenes) - 1)
        if chosen is not None:
            return self._item(chosen, "url", "visual_scene")
        if len(scenes) != 1:
            raise InputError("says not which of its scenes to show" if scenes else "has no scene")
        return scenes[0]

    def instances(self) -> Iterator[tuple[str, Floats]]:
        """Geometry ids in the scene, each with a matrix (4, 4) per instance, in the order of the nodes."""
        waiting = [(node, np.eye(4), 0) for node in reversed(self._scene().findall("node"))]
        visited, used = 0, set[str]()
        while waiting:
            node, above, depth = waiting.pop()
            visited += 1
            if depth > MOST_NESTED or visited > MOST_NODES:
                what = (
                    f"more than {MOST_NODES:,} nodes" if visited > MOST_NODES else f"{MOST_NESTED} nodes in each other"
                )
                raise InputError(f"its scene has {what}, or nodes that are part of themselves")
            matrix, below = above, list[tuple[Element, Floats, int]]()
            for each in node:
                if each.tag in TRANSFORMS:
                    matrix = matrix @ _transform(each)
                elif each.tag == "instance_node":
                    below.append((self._item(each, "url", "node"), matrix, depth + 1))
                elif each.tag == "instance_geometry":
                    used.add(name := self._item(each, "url", "geometry").attrib["id"])
                    yield name, matrix
                elif each.tag == "instance_controller":
                    raise InputError("a mesh of its scene has a skin or a morph, which are not read; save it without")
                elif each.tag not in SILENT:
                    raise InputError(f"a node's {each.tag[:40]!a} is not read")
            below += [(each, matrix, depth + 1) for each in node.findall("node")]
            waiting.extend(reversed(below))
        self._left_out["geometries outside the scene"] += len(set(self._names("geometry")) - used)
        self._left_out["animations"] += len(self._root.findall("./library_animations/animation"))

    def _names(self, tag: str) -> Iterator[str]:
        return (each.get("id", "") for each in self._root.iter(tag))

    def notes(self) -> list[str]:
        """Notes on items left out."""
        return [f"{what} left out: {count:,}" for what, count in self._left_out.items() if count]

    def geometry(self, name: str) -> Part:
        """A geometry's vertices (v, 3) and triangles (f, 3). Raises InputError, with its id."""
        if name not in self._done:
            try:
                self._done[name] = self._triangles(self._by_id[name])
            except InputError as error:
                raise InputError(f"geometry {name[:80]!a}: {error}") from error
        return self._done[name]

    def _triangles(self, named: list[Element]) -> Part:
        mesh = next(each for each in named if each.tag == "geometry").find("./mesh")
        if mesh is None:
            raise InputError("is no mesh, but curved or convex; save it as a mesh")
        triangles: list[Ints] = [np.empty((0, 3), np.int64)]
        points, starts = [np.empty((0, 3))], dict[str, int]()
        for faces in mesh:
            if faces.tag in LINES:
                self._left_out["lines"] += _count(faces)
            elif faces.tag not in FACES:
                if faces.tag not in SILENT:
                    raise InputError(f"its {faces.tag[:40]!a} are not read")
            elif (found := _polygons(faces)) is not None:
                polygons, source = found
                vertices = self._item(source, "source", "vertices")
                key = vertices.attrib["id"]
                if key not in starts:  # most often all faces of a mesh share its vertices
                    starts[key] = sum(map(len, points))
                    points.append(self._positions(vertices))
                own = points[1 + list(starts).index(key)]
                check_range(polygons, len(own), lambda face: f"face {face}", polygons.corner)
                triangles.append(triangulated(own, polygons) + starts[key])
        return np.concatenate(points), np.concatenate(triangles)

    def _positions(self, vertices: Element) -> Floats:
        """Positions (v, 3) of a mesh's vertices."""
        inputs = [each for each in vertices.findall("./input") if each.get("semantic") == "POSITION"]
        if len(inputs) != 1:
            raise InputError("its vertices need one input POSITION")
        source = self._item(inputs[0], "source", "source")
        accessor = source.find("./technique_common/accessor")
        if accessor is None:
            raise InputError("its positions have no accessor")
        array = self._item(accessor, "source", "float_array")
        values = _numbers(array.text, REAL, "positions")
        if len(values) != _count(array):
            raise InputError(f"{_count(array):,} positions' numbers are stated, but there are {len(values):,}")
        count, stride, start = _count(accessor), _count(accessor, "stride", 1), _count(accessor, "offset", 0)
        names = [each.get("name", "").upper() for each in accessor.findall("./param")]
        columns = [names.index(axis) for axis in "XYZ"] if set("XYZ") <= set(names) else [0, 1, 2]
        if stride <= max(columns):
            raise InputError("its positions have no three coordinates")
        if start + count * stride > len(values):
            raise InputError(f"{start + count * stride:,} positions' numbers are needed, but there are {len(values):,}")
        return np.asarray(values[start : start + count * stride].reshape(count, stride)[:, columns])


def _polygons(faces: Element) -> tuple[Polygons, Element] | None:
    """Faces, and the input with their vertices; None without any. Raises InputError for damaged ones, and holes."""
    inputs = faces.findall("./input")
    sources = [each for each in inputs if each.get("semantic") == "VERTEX"]
    rows = [_numbers(each.text, WHOLE, "indices") for each in faces.findall("./p")]
    if not sum(map(len, rows)) and not _count(faces, "count", 0):
        return None
    if faces.find("./ph") is not None:
        raise InputError("has faces with holes; cut them into faces without")
    if len(sources) != 1:
        raise InputError(f"its {faces.tag} need one input VERTEX")
    stride, offset = 1 + max(_count(each, "offset", 0) for each in inputs), _count(sources[0], "offset", 0)
    for row in rows:
        if len(row) % stride:
            raise InputError(f"its {faces.tag} have {len(row):,} indices, no multiple of {stride}")
    corners = [row[offset::stride] for row in rows]
    polygons = SHAPES[faces.tag](faces, corners)
    counted = len(rows) if faces.tag in ("tristrips", "trifans") else len(polygons.count)
    if counted != _count(faces):
        raise InputError(f"{_count(faces):,} {faces.tag} are stated, but there are {counted:,}")
    if len(polygons.count) and polygons.count.min() < 3:
        raise InputError(f"its {faces.tag} include a face of {polygons.count.min()} corners")
    return polygons, sources[0]


def _triangles(faces: Element, corners: list[Ints]) -> Polygons:
    corner = np.concatenate([np.empty(0, np.int64), *corners])
    if len(corner) % 3:
        raise InputError(f"its triangles have {len(corner):,} corners, no multiple of 3")
    return Polygons(corner, np.full(len(corner) // 3, 3))


def _polylist(faces: Element, corners: list[Ints]) -> Polygons:
    vcount = faces.find("./vcount")
    counts = _numbers("" if vcount is None else vcount.text, WHOLE, "vcount")
    corner = np.concatenate([np.empty(0, np.int64), *corners])
    if (counts < 0).any() or counts.sum() != len(corner):
        raise InputError(f"its polylist states {counts.sum():,} corners, but there are {len(corner):,}")
    return Polygons(corner, counts)


def _separate(faces: Element, corners: list[Ints]) -> Polygons:
    return Polygons(
        np.concatenate([np.empty(0, np.int64), *corners]), np.array([len(each) for each in corners], np.int64)
    )


def _strips(faces: Element, corners: list[Ints]) -> Polygons:
    """Triangles from strips, every second of which is turned, or from fans."""
    found = [np.empty((0, 3), np.int64)]
    for row in corners:
        if faces.tag == "trifans":
            made = np.column_stack([np.broadcast_to(row[:1], max(0, len(row) - 2)), row[1:-1], row[2:]])
        else:
            made = np.column_stack([row[:-2], row[1:-1], row[2:]])
            made[1::2] = made[1::2, [1, 0, 2]]
        found.append(made)
    return _triangles(faces, [np.concatenate(found).ravel()])


SHAPES: dict[str, Callable[[Element, list[Ints]], Polygons]] = {
    "triangles": _triangles,
    "polylist": _polylist,
    "polygons": _separate,
    "tristrips": _strips,
    "trifans": _strips,
}


def _transform(element: Element) -> Floats:
    """A node's transform (4, 4). Raises InputError for damaged numbers, and for one that is not affine."""
    values, size = _numbers(element.text, REAL, element.tag), TRANSFORMS[element.tag]
    if len(values) != size or not np.isfinite(values).all():
        raise InputError(f"a node's {element.tag} needs {size} finite numbers")
    matrix = np.eye(4)
    if element.tag == "matrix":
        matrix = values.reshape(4, 4)
        if not np.array_equal(matrix[3], [0, 0, 0, 1]):
            raise InputError("a node's matrix has another last row than 0 0 0 1")
    elif element.tag == "translate":
        matrix[:3, 3] = values
    elif element.tag == "scale":
        matrix[:3, :3] = np.diag(values)
    else:
        x, y, z = values[:3] / (np.linalg.norm(values[:3]) or 1.0)
        cosine, sine = math.cos(math.radians(values[3])), math.sin(math.radians(values[3]))
        across = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        matrix[:3, :3] += sine * across + (1 - cosine) * across @ across  # Rodrigues
    return matrix


TRANSFORMS = {"matrix": 16, "translate": 3, "rotate": 4, "scale": 3}
"""Transforms that are read, and their numbers."""


def _numbers(text: str | None, pattern: bytes, what: str) -> Any:
    """Numbers in a text: float64 for REAL, int64 for WHOLE. Raises InputError for other words."""
    data = (text or "").encode()
    if odd := odd_word(data, pattern):
        kind = "number" if pattern == REAL else "whole number"
        raise InputError(f"its {what} have a word that is no {kind}: {odd[0][:40].decode()!a}")
    dtype: Any = np.float64 if pattern == REAL else np.int64
    return np.fromstring(data, dtype, sep=" ") if data.strip() else np.empty(0, dtype)


def _count(element: Element, name: str = "count", default: int | None = None) -> int:
    """A count in an attribute. Raises InputError for another value, or a missing one without a default."""
    text = element.get(name, "" if default is None else str(default))
    if not (text.isascii() and text.strip().isdecimal() and len(text) < 19):
        raise InputError(f"its {element.tag} state the {name} {text[:40]!a}")
    return int(text)
