"""PLY reader for binary and text files, with polygons of any size.

trimesh's reader (5.2) is no substitute: its import takes longer than a build on a GPU, it refuses binary files with
both triangles and squares, ignores strips, returns fewer faces from a truncated text file or one with a wrong corner
count, and cuts concave polygons into overlapping triangles.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.backend import any_backend
from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Faces, Floats, Ints, by_threads
from sdfcli.mesh.formats.lines import WHOLE, check_range, with_line_feeds
from sdfcli.mesh.formats.notes import note
from sdfcli.mesh.formats.plain import Words, tables_of, trailing_text
from sdfcli.mesh.formats.polygons import Polygons, triangulated
from sdfcli.runtime.memory import require

_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2",
    "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip
_LENGTHS = {name for name, kind in _TYPES.items() if kind[0] != "f"}
_FORMATS = {"binary_little_endian": "<", "binary_big_endian": ">", "ascii": ""}
_LONGEST_HEADER = 1 << 16
_LONGEST_COUNT = 16
_INDICES = ("vertex_indices", "vertex_index")
_READ = ("vertex", "face", "tristrips")
_MOST_NAMED = 8


@dataclass(frozen=True)
class Property:
    """A column in an element; a column of lists if it has a `length_kind`."""

    name: str
    kind: str
    length_kind: str | None = None

    def bytes_for(self, length: int) -> int:
        """Bytes in a row. length: list length; irrelevant to a scalar column."""
        item = np.dtype(self.kind).itemsize
        return np.dtype(self.length_kind).itemsize + length * item if self.length_kind else item


@dataclass(frozen=True)
class Element:
    """A table in a file, with contiguous rows."""

    name: str
    count: int
    columns: list[Property]

    @property
    def has_lists(self) -> bool:
        return any(column.length_kind for column in self.columns)

    def column(self, *names: str) -> int:
        """Index of the first column with one of these names; -1 without one."""
        return next((k for k, column in enumerate(self.columns) if column.name in names), -1)


def read_ply(path: Path) -> tuple[Floats, Ints | Faces]:
    """Vertices (v, 3) and triangles (f, 3).

    Warns with a ReadingNote about skipped elements, and text after the last one. Raises InputError for a truncated or
    damaged file, for one without vertices, and for surfaces in other elements.
    """
    data = np.fromfile(path, np.uint8)
    order, elements, start = _header(data[:_LONGEST_HEADER].tobytes())
    vertex = next((k for k, element in enumerate(elements) if element.name == "vertex"), None)
    if vertex is None or any(elements[vertex].column(axis) < 0 for axis in "xyz"):
        raise InputError("no vertices with x, y and z in the header")
    tables = _Text(data, elements, start) if order == "" else _Binary(data, elements, start, order)
    others = [f"{each.count:,} of {each.name[:20]!a}" for each in elements if each.count and each.name not in _READ]
    for each in (f"elements left out: {', '.join(others[:_MOST_NAMED])}" if others else "", tables.after):
        if each:
            note(path, each)
    if elements[vertex].has_lists:
        raise InputError("lists in element vertex are not supported")
    points = tables.points(vertex)
    triangles: list[Ints | Faces] = [np.empty((0, 3), np.int64)]
    for number, element in enumerate(elements):
        if element.name not in ("face", "tristrips") or element.count == 0:
            continue
        indices = element.column(*_INDICES)
        if indices < 0 or element.columns[indices].length_kind is None:
            raise InputError(f"no lists of vertex_indices for {element.name} in the header")
        sound = tables.triangles(number, indices, len(points)) if element.name == "face" else None
        if sound is not None:
            triangles.append(sound)
            continue
        polygons = tables.polygons(number, indices)
        if element.name == "tristrips":
            polygons = _triangles_of(polygons)
        check_range(polygons, len(points), lambda k: f"face {k}", polygons.corner)
        triangles.append(triangulated(points, polygons))
    if len(triangles) == 2:
        return points, triangles[1]
    return points, np.concatenate(triangles, dtype=np.int64)


def _triangles_of(strips: Polygons) -> Polygons:
    """Triangles from strips: each corner with the two before it, every second triangle reversed. A -1 starts a new
    strip. Degenerate triangles, which join parts of a strip, are skipped."""
    corner, ends = strips.corner, np.cumsum(strips.count)
    place = np.arange(len(corner))
    begins = np.zeros(len(corner), np.int64)
    begins[ends[:-1]] = ends[:-1]
    begins[1:][corner[:-1] == -1] = place[1:][corner[:-1] == -1]
    within = place - np.maximum.accumulate(begins)
    last = np.flatnonzero((within > 1) & (corner != -1))
    a, b, c = corner[last - 2], corner[last - 1], corner[last]
    odd = within[last] % 2 == 1
    triangles = np.stack([np.where(odd, b, a), np.where(odd, a, b), c], axis=1)[(a != b) & (b != c) & (c != a)]
    return Polygons(triangles.ravel(), np.full(len(triangles), 3))


def _header(head: bytes) -> tuple[str, list[Element], int]:
    """Byte order (empty for text), elements, and row offset."""
    first = re.match(rb"(?:\xef\xbb\xbf)?ply[ \t]*(\r?\n|\r)", head)
    line_end = b"\r" if first and first[1] == b"\r" else b"\n"  # binary data may follow a CR
    end = re.search(rb"[\r\n]end_header[ \t]*" + (b"\r" if line_end == b"\r" else b"\r?\n"), head)
    if first is None or end is None:
        raise InputError("no PLY header, or no end of it" if head else "the file is empty")
    order = None
    elements: list[Element] = []
    for number, line in enumerate(head[first.end() : end.start()].decode("ascii", "replace").split(line_end.decode())):
        match line.split():
            case ["format", name, "1.0"] if name in _FORMATS:
                order = _FORMATS[name]
            case ["element", name, count] if count.isdecimal() and len(count) < _LONGEST_COUNT:
                elements.append(Element(name, int(count), []))
            case ["property", "list", length, kind, name] if elements and length in _LENGTHS and kind in _TYPES:
                elements[-1].columns.append(Property(name, _TYPES[kind], _TYPES[length]))
            case ["property", kind, name] if elements and kind in _TYPES:
                elements[-1].columns.append(Property(name, _TYPES[kind]))
            case [] | ["comment", *_] | ["obj_info", *_]:
                pass
            case _:
                raise InputError(f"line {number + 2}: not understood in a PLY header: {line[:40]!a}")
    if order is None:
        raise InputError("the header names no format")
    _check(elements)
    return order, elements, end.end()


def _check(elements: list[Element]) -> None:
    """Raises InputError for duplicate names, and for surfaces in unknown elements."""
    if twice := _twice([element.name for element in elements]):
        raise InputError(f"two elements {twice[:40]!a} in the header")
    for element in elements:
        lists = [column.name for column in element.columns if column.length_kind and column.name in _INDICES]
        if twice := _twice([column.name for column in element.columns]):
            raise InputError(f"{element.name[:40]!a} has {twice[:40]!a} twice in the header")
        if len(lists) > 1:
            raise InputError(f"{element.name[:40]!a} has both {' and '.join(lists)}")
        if lists and element.count and element.name not in _READ:
            raise InputError(f"{lists[0]} of {element.name[:40]!a}, which is not read; save it as faces")


def _twice(names: list[str]) -> str | None:
    """First name with duplicates."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


class _Text:
    """Rows in a text file, one per line."""

    def __init__(self, data: npt.NDArray[np.uint8], elements: list[Element], start: int) -> None:
        self.elements = elements
        lines = with_line_feeds(data[:start].tobytes()).count(b"\n")
        body = with_line_feeds(data[start:].tobytes())
        self.tables, rows = tables_of(body, lines, 0, [element.count for element in elements])
        needed = sum(element.count for element in elements)
        self.after = trailing_text(
            self.tables, rows - needed, f"the header says {needed:,} rows, but {rows:,} lines follow"
        )

    def points(self, vertex: int) -> Floats:
        return self.tables[vertex].points(tuple(self.elements[vertex].column(axis) for axis in "xyz"))

    def triangles(self, face: int, indices: int, vertices: int) -> None:
        """None: rows of text are polygons of any size."""

    def polygons(self, face: int, indices: int) -> Polygons:
        columns = self.elements[face].columns

        def corners_of(row: bytes, line: int) -> bytes:
            words = row.split()
            ends = [0]
            try:
                for column in columns:
                    size = words[ends[-1]] if column.length_kind else b"0"
                    ends.append(ends[-1] + 1 + (int(size) if re.fullmatch(WHOLE, size) else -len(words) - 1))
            except (ValueError, IndexError):
                ends = [len(words) + 1]
            if ends[-1] != len(words) or sorted(ends) != ends:
                raise InputError(f"line {line + 1}: a face that does not have the numbers it says")
            return b" ".join(words[ends[indices] + 1 : ends[indices + 1]])

        lists = sum(column.length_kind is not None for column in columns)
        after = len(columns) - 1 - indices
        words = Words(indices, after, after) if lists == 1 else None
        return self.tables[face].polygons(corners_of, words)[0]


class _Lists(NamedTuple):
    """Lists with different lengths in a file: offsets, and lengths."""

    at: npt.NDArray[np.uint64]
    size: npt.NDArray[np.uint64]


def _signed_bytes(kind: str | None) -> int:
    """Size of an integer type in bytes, negative if signed."""
    return 0 if kind is None else np.dtype(kind).itemsize * (1 if kind[0] == "u" else -1)


class _Binary:
    """Contiguous rows in a binary file."""

    def __init__(self, data: npt.NDArray[np.uint8], elements: list[Element], start: int, order: str) -> None:
        self.data, self.elements, self.order, self.after = data, elements, order, ""
        self.tables: list[Any] = []
        for element in elements:
            table, start = self._table(element, start)
            self.tables.append(table)
        if start < len(data):
            raise InputError(f"{len(data) - start:,} bytes follow the {elements[-1].count:,} of {elements[-1].name}")

    def points(self, vertex: int) -> Floats:
        element, table = self.elements[vertex], self.tables[vertex]
        columns = [table[f"f{element.column(axis)}"] for axis in "xyz"]
        points = np.empty((len(table), 3))

        def take(part: slice) -> None:
            for axis, column in enumerate(columns):
                points[part, axis] = column[part]

        by_threads(take, len(points))
        return points

    def triangles(self, face: int, indices: int, vertices: int) -> Faces | None:
        """Faces (f, 3) if all are triangles with known vertices and 32-bit indices; otherwise None."""
        table, kind = self.tables[face], self.elements[face].columns[indices].kind
        if not isinstance(table, np.ndarray) or kind not in ("i4", "u4") or table[f"f{indices}"].shape[1] != 3:
            return None
        given = table[f"f{indices}"].view(f"{self.order}u4")
        triangles = np.empty(given.shape, given.dtype)
        whole, rows = triangles.view("V12"), given.view("V12")  # whole rows: a third of the time

        def take(part: slice) -> int:
            whole[part] = rows[part]
            return int(triangles[part].max())

        if max(by_threads(take, len(given))) >= vertices:
            return None
        return triangles.astype(np.uint32, copy=False)

    def polygons(self, face: int, indices: int) -> Polygons:
        table = self.tables[face]
        if self.elements[face].columns[indices].kind[0] == "f":
            raise InputError("vertex_indices must be whole numbers")
        if isinstance(table, np.ndarray):
            corner = table[f"f{indices}"].astype(np.int64)
            polygons = Polygons(corner.ravel(), np.full(len(corner), corner.shape[1], np.int64))
        else:
            polygons = self._polygons(table, self.elements[face].columns[indices].kind)
        if polygons.count.min() < 3:
            raise InputError(f"face {int(polygons.count.argmin())}: has {int(polygons.count.min())} corners")
        return polygons

    def _polygons(self, lists: _Lists, kind: str) -> Polygons:
        backend, end = any_backend(), np.cumsum(lists.size)
        corner = backend.xp.empty(int(end[-1]), np.int64)
        sizes = {"swapped": self.order == ">", "item": _signed_bytes(kind), "bytes": len(self.data)}
        given: dict[str, Any] = {"data": self.data, "at": lists.at, "end": end}
        device = {name: backend.from_host(array) for name, array in given.items()}
        backend.run("sdf_ply_lists", len(end), number=corner, **sizes, **device)
        return Polygons(backend.to_host(corner), lists.size.astype(np.int64))

    def _table(self, element: Element, start: int) -> tuple[Any, int]:
        """Rows as a structured array if all lists in each column have equal lengths, otherwise vertex lists; and the
        rows' end offset."""
        if element.count == 0 or not element.columns:
            return np.empty(0), start
        fields, lists, place = list[Any](), [], start
        for k, column in enumerate(element.columns):
            size = self._length(column, place, element, 0) if column.length_kind else 0
            place += column.bytes_for(size)
            if column.length_kind:
                lists.append((f"n{k}", size))
                fields.append((f"n{k}", self.order + column.length_kind))
            fields.append((f"f{k}", self.order + column.kind, (size,) if column.length_kind else ()))
        dtype = np.dtype(fields)
        end = start + element.count * dtype.itemsize
        if end <= len(self.data):
            table = self.data[start:end].view(dtype)
            lengths = [(table[name], size) for name, size in lists]

            def alike(part: slice) -> bool:
                return all((length[part] == size).all() for length, size in lengths)

            if all(by_threads(alike, len(table))):
                return table, end
        if not element.has_lists:
            raise InputError(
                f"the file ends within {element.name} {(len(self.data) - start) // dtype.itemsize:,}"
                f" of {element.count:,}"
            )
        return self._ragged(element, start)

    def _ragged(self, element: Element, start: int) -> tuple[_Lists, int]:
        """Vertex lists, where some column has lists with different lengths; and the rows' end offset."""
        rows = min(element.count, (len(self.data) - start) // sum(each.bytes_for(0) for each in element.columns) + 1)
        require(2 * 8 * rows, "finding its lists")
        backend = any_backend()
        length = np.array([_signed_bytes(column.length_kind) for column in element.columns], np.int32)
        item = np.array([np.dtype(column.kind).itemsize for column in element.columns], np.int32)
        numbers = {"columns": len(item), "chosen": max(element.column(*_INDICES), 0), "rows": rows, "start": start}
        numbers |= {"swapped": self.order == ">", "bytes": len(self.data)}
        given: dict[str, Any] = {"data": self.data, "length": length, "item": item}
        device = {name: backend.from_host(array) for name, array in given.items()}
        at, count, end = (backend.xp.empty(size, np.uint64) for size in (rows, rows, 2))
        backend.run("sdf_ply_rows", 1, at=at, count=count, end=end, **numbers, **device)
        row, stop = map(int, backend.to_host(end))
        if row == element.count:
            return _Lists(backend.to_host(at), backend.to_host(count)), stop
        for column in element.columns:
            size = self._length(column, stop, element, row) if column.length_kind else 1
            stop += column.bytes_for(size)
        raise InputError(f"the file ends within {element.name} {row:,} of {element.count:,}")

    def _length(self, column: Property, place: int, element: Element, row: int) -> int:
        """A list's length. Raises InputError if it exceeds the file."""
        kind = np.dtype(self.order + str(column.length_kind))
        if place + kind.itemsize > len(self.data):
            raise InputError(f"the file ends within {element.name} {row:,} of {element.count:,}")
        size = int(self.data[place : place + kind.itemsize].view(kind)[0])
        if not 0 <= size <= len(self.data):
            raise InputError(f"{element.name} {row:,}: a list of {size:,} cannot be")
        return size
