"""Strict reader of the surfaces in VTK's XML files, .vtp and .vtu, in every encoding but LZ4."""

from __future__ import annotations

import base64
import binascii
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.lines import check_range
from sdfcli.mesh.formats.polygons import Polygons, triangulated
from sdfcli.runtime.memory import require

Values = npt.NDArray[np.generic]

KINDS = {".vtp": "PolyData", ".vtu": "UnstructuredGrid"}
TYPES = {
    f"{word}{8 * size}": f"{letter}{size}"
    for word, letter, sizes in (("Int", "i", (1, 2, 4, 8)), ("UInt", "u", (1, 2, 4, 8)), ("Float", "f", (4, 8)))
    for size in sizes
}
ORDERS = {"LittleEndian": "<", "BigEndian": ">"}
HEADERS = {"UInt32": "u4", "UInt64": "u8"}
FLAT, TRIANGLE, STRIP, POLYGON, PIXEL, QUAD = range(4, 10)
"""Types of cells; up to FLAT they are vertices and lines, which have no area."""
MAX_RATIO = 1 << 14
"""Maximum bytes from one that is compressed: zlib makes 1,032, LZMA some 7,000."""
BASE64 = re.compile(rb"[A-Za-z0-9+/]+={0,2}")
APPENDED = re.compile(rb"<AppendedData[^>]*>\s*_")


@dataclass
class _Encoding:
    """How a file stores arrays.

    order, header  byte order, and type of the sizes before an array, as NumPy names them.
    unpack         undoes the compression of a block, to at most so many bytes; None: there is none.
    appended       the data behind the XML, and whether that is base64.
    starts         where arrays begin in it, ascending.
    """

    order: str
    header: str
    unpack: Callable[[bytes, int], bytes] | None
    appended: tuple[bytes, bool]
    starts: list[int]


def read_vtk(path: Path) -> tuple[Floats, Ints]:
    """Vertices (v, 3) and triangles (f, 3) of the polygons in all pieces of a .vtp or .vtu file.

    Vertices and lines are left out. Raises InputError for cells that are no polygons.
    """
    root, encoding = _parsed(path.read_bytes(), KINDS[path.suffix.lower()])
    vertices, triangles, before = [np.empty((0, 3))], [np.empty((0, 3), np.int64)], 0
    for piece in root.iterfind("./*/Piece"):
        points = _points(piece, encoding)
        for polygons in _polygons(piece, encoding):
            check_range(polygons, len(points), lambda face: f"cell {face}", polygons.corner)
            triangles.append(triangulated(points, polygons) + before)
        vertices.append(points)
        before += len(points)
    return np.concatenate(vertices), np.concatenate(triangles)


def _parsed(data: bytes, kind: str) -> tuple[ElementTree.Element, _Encoding]:
    """The XML of a file, without the data behind it, and how its arrays are stored."""
    found = APPENDED.search(data)
    text, behind = (
        (data[: found.end() - 1] + b"</AppendedData></VTKFile>", data[found.end() :]) if found else (data, b"")
    )
    if b"<!DOCTYPE" in text:
        raise InputError("has a document type, as no file of VTK has")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError(f"not the XML of a VTK file: {error}" if data else "the file is empty") from error
    if root.tag != "VTKFile" or root.get("type") != kind:
        raise InputError(f"a VTK file of the type {kind} is needed, not {root.get('type', root.tag)[:40]!a}")
    compressor = root.get("compressor", "")
    if compressor not in UNPACK:
        raise InputError(f"compressed by {compressor[:40]!a}; save it with ZLib, or without compression")
    appended = root.find("AppendedData")
    is_base64 = appended is not None and appended.get("encoding", "base64") == "base64"
    return root, _Encoding(
        ORDERS[root.get("byte_order", "LittleEndian")],
        HEADERS[root.get("header_type", "UInt32")],
        UNPACK[compressor],
        (behind.split(b"<", 1)[0] if is_base64 else behind, is_base64),
        sorted({int(array.get("offset", 0)) for array in root.iter("DataArray")}),
    )


def _points(piece: ElementTree.Element, encoding: _Encoding) -> Floats:
    """The points (v, 3) of a piece."""
    count = _count(piece, "NumberOfPoints")
    array = piece.find("./Points/DataArray")
    if array is None:
        if count:
            raise InputError(f"{count:,} points, but no data for them")
        return np.empty((0, 3))
    values = _array(array, encoding).astype(np.float64)
    if len(values) != 3 * count:
        raise InputError(f"{count:,} points need {3 * count:,} coordinates, but there are {len(values):,}")
    return values.reshape(-1, 3)


def _polygons(piece: ElementTree.Element, encoding: _Encoding) -> Iterator[Polygons]:
    """The polygons of a piece; strips become triangles."""
    if piece.find("Cells") is None:
        for name, kind in (("Polys", POLYGON), ("Strips", STRIP)):
            corner, count = _cells(piece, name, _count(piece, f"NumberOf{name}"), encoding)
            yield from _of_types(corner, count, np.full(len(count), kind))
        return
    cells = _count(piece, "NumberOfCells")
    corner, count = _cells(piece, "Cells", cells, encoding)
    types = _named(piece, "Cells", "types", encoding) if cells else np.empty(0, np.int64)
    if len(types) != cells:
        raise InputError(f"{cells:,} cells, but {len(types):,} types of cells")
    if cells and types.max() > QUAD:
        at = int(types.argmax())
        raise InputError(
            f"cell {at}: of the type {types[at]}, which is no flat polygon; in ParaView apply Extract Surface, then "
            "Triangulate, and save that as .vtp"
        )
    yield from _of_types(corner, count, types)


def _of_types(corner: Ints, count: Ints, types: Ints) -> Iterator[Polygons]:
    """The polygons among cells, each type by itself."""
    first = np.cumsum(count) - count
    for kind in np.unique(types[types > FLAT]).tolist():
        chosen = np.flatnonzero(types == kind)
        least = {PIXEL: 4, QUAD: 4}.get(kind, 3)
        few = chosen[(count[chosen] < least) | ((count[chosen] > least) & (kind not in (STRIP, POLYGON)))]
        if len(few):
            raise InputError(f"cell {few[0]}: of the type {kind}, with {count[few[0]]} corners")
        if kind == STRIP:
            starts = np.concatenate([first[k] + np.arange(count[k] - 2) for k in chosen.tolist()])
            odd = np.concatenate([np.arange(count[k] - 2) % 2 for k in chosen.tolist()])
            three = np.stack([starts, starts + 1 + odd, starts + 2 - odd], axis=1)
            yield Polygons(corner[three].ravel(), np.full(len(three), 3))
            continue
        own = count[chosen]
        place = np.repeat(first[chosen] - (np.cumsum(own) - own), own) + np.arange(own.sum())
        corners = corner[place]
        if kind == PIXEL:  # its corners are those of a lattice, row by row
            corners = corners.reshape(-1, 4)[:, [0, 1, 3, 2]].ravel()
        yield Polygons(corners, own)


def _cells(piece: ElementTree.Element, name: str, cells: int, encoding: _Encoding) -> tuple[Ints, Ints]:
    """The corners of all cells (c,), and their number for each."""
    if not cells:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    corner, end = (_named(piece, name, part, encoding) for part in ("connectivity", "offsets"))
    if len(end) == cells + 1 and end[0] == 0:
        end = end[1:]
    if len(end) != cells or end[-1] != len(corner):
        raise InputError(f"{cells:,} {name}, but {len(end):,} offsets, and {len(corner):,} corners")
    count = np.diff(end, prepend=0)
    if count.min() < 0:
        raise InputError(f"{name}: offsets must not fall")
    return corner, count


def _named(piece: ElementTree.Element, part: str, name: str, encoding: _Encoding) -> Ints:
    for array in piece.iterfind(f"./{part}/DataArray"):
        if array.get("Name") == name:
            values = _array(array, encoding)
            if values.dtype.kind not in "iu":
                raise InputError(f"{name} must be whole numbers")
            return values.astype(np.int64)
    raise InputError(f"{part} without {name}")


def _count(piece: ElementTree.Element, name: str) -> int:
    word = piece.get(name, "0")
    if not re.fullmatch(r"\s*\d{1,15}\s*", word):
        raise InputError(f"{name} must be a whole number, not {word[:40]!a}")
    return int(word)


def _array(array: ElementTree.Element, encoding: _Encoding) -> Values:
    """The values of an array, one after the other."""
    name, form = array.get("Name", "an array")[:40], array.get("format", "ascii")
    dtype = TYPES.get(array.get("type", ""))
    if dtype is None:
        raise InputError(f"{name!a}: values of the type {array.get('type', '')[:40]!a}")
    if form == "ascii":
        words = (array.text or "").split()
        try:
            return np.array(words, np.float64 if dtype[0] == "f" else np.int64)
        except (ValueError, OverflowError) as error:
            raise InputError(f"{name!a}: {error}") from error
    try:
        if form == "binary":
            data = _from_base64((array.text or "").encode())
        else:
            behind, is_base64 = encoding.appended
            start = int(array.get("offset", "-1"))
            if not 0 <= start < len(behind):
                raise InputError(f"starts at byte {start:,} of {len(behind):,}")
            end = next((each for each in encoding.starts if each > start), len(behind))
            data = _from_base64(behind[start:end]) if is_base64 else behind[start:]
        return np.frombuffer(_content(data, encoding), encoding.order + dtype)
    except (InputError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{name!a}: {error}") from error


def _from_base64(text: bytes) -> bytes:
    """Data of one or several codes one after the other, each with its own end."""
    try:
        return b"".join(base64.b64decode(part, validate=True) for part in BASE64.findall(b"".join(text.split())))
    except binascii.Error as error:
        raise InputError(f"not base64: {error}") from error


def _content(data: bytes, encoding: _Encoding) -> bytes:
    """The bytes of an array, behind the header with their number, or with those of compressed blocks."""
    kind = np.dtype(encoding.order + encoding.header)
    if len(data) < kind.itemsize:
        raise InputError("the data end before the array")
    if encoding.unpack is None:
        size = int(np.frombuffer(data, kind, 1)[0])
        return _part(data, kind.itemsize, size)
    blocks = int(np.frombuffer(data, kind, 1)[0])
    if blocks == 0:
        return b""
    if (3 + blocks) * kind.itemsize > len(data):
        raise InputError(f"{blocks:,} compressed blocks, but {len(data):,} bytes for them")
    sizes = np.frombuffer(data, kind, 3 + blocks)
    packed, place, found = sizes[3:].tolist(), (3 + blocks) * kind.itemsize, []
    whole = [int(sizes[1])] * blocks
    whole[-1] = int(sizes[2]) or whole[-1]
    if sum(whole) > MAX_RATIO * sum(packed):
        raise InputError(f"{sum(whole):,} bytes from {sum(packed):,} compressed ones")
    require(sum(whole), "unpacking it")
    for size, unpacked in zip(packed, whole, strict=True):
        block = encoding.unpack(_part(data, place, size), unpacked + 1)
        if len(block) != unpacked:
            raise InputError(f"a compressed block of {len(block):,} bytes, not of {unpacked:,}")
        found.append(block)
        place += size
    return b"".join(found)


def _part(data: bytes, start: int, size: int) -> bytes:
    if start + size > len(data):
        raise InputError(f"{size:,} bytes are needed, but the data end after {len(data) - start:,}")
    return data[start : start + size]


UNPACK: dict[str, Callable[[bytes, int], bytes] | None] = {
    "": None,
    "vtkZLibDataCompressor": lambda data, most: zlib.decompressobj().decompress(data, most),
    "vtkLZMADataCompressor": lambda data, most: lzma.LZMADecompressor().decompress(data, most),
}
