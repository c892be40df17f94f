"""Strict reader for surfaces and images in VTK's XML files, .vtp, .vtu and .vti, in every encoding except LZ4.

VTK's reader (9.7) takes 590 MB to install, aborts on damaged block sizes, and returns no faces, without an error, where
a count is damaged. meshio (5.3.5) has no reader for .vtp.
"""

from __future__ import annotations

import base64
import binascii
import lzma
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Bools, Floats, Ints
from sdfcli.mesh.formats.lines import REAL, WHOLE, check_range, odd_word
from sdfcli.mesh.formats.notes import note
from sdfcli.mesh.formats.polygons import Polygons, triangulated
from sdfcli.mesh.formats.xml_text import elements, in_utf8
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
TRIANGLE, STRIP, POLYGON, PIXEL, QUAD = range(5, 10)
"""Cell types; lower ones are vertices and lines, which have no area."""
MAX_RATIO = 1 << 14
"""Maximum compression ratio: zlib reaches 1,032, LZMA about 7,000."""
BASE64 = re.compile(rb"[A-Za-z0-9+/]+={0,2}")
APPENDED = re.compile(rb"<AppendedData[^>]*>\s*_")
LONGEST_TAG = 1 << 16
"""Maximum bytes in the tag before appended data."""
DUPLICATE_CELL, REFINED_CELL, HIDDEN_CELL, HIDDEN_POINT = 1, 8, 32, 2
GHOST_CELLS = DUPLICATE_CELL | REFINED_CELL | HIDDEN_CELL
"""Bits in vtkGhostType arrays for cells and points that VTK's surface filters skip."""
BYTES_PER_VALUE = 64
"""Minimum working bytes per array value in a mesh, for any type: corners become 64-bit triangles."""
BYTES_PER_SAMPLE = 8
"""Minimum working bytes per value in an image."""
ASK_FROM = 1 << 24
"""Minimum working bytes for a check against free memory."""


@dataclass
class _Encoding:
    """Array storage in a file.

    order, header  NumPy's byte order, and type for the sizes before an array.
    unpack         decompresses a block, up to a maximum byte count; None without compression.
    appended       data after the XML, and whether it is base64.
    starts         array offsets in it, and its end, ascending.
    size           file size in bytes.
    taken          bytes used by arrays so far.
    needed         working bytes for values since the last memory check, which is slow.
    each           working bytes per value.
    """

    order: str
    header: str
    unpack: Callable[[memoryview, int], bytes] | None
    appended: tuple[memoryview, bool]
    starts: list[int]
    size: int
    taken: int = 0
    needed: int = 0
    each: int = BYTES_PER_VALUE

    def take(self, packed: int, values: int) -> None:
        """Counts an array's bytes and values. Raises InputError if arrays overlap, having used more bytes than the file
        has; OutOfMemoryError."""
        self.taken += packed
        self.needed += values * self.each
        if self.taken > self.size:
            raise InputError("lies where other arrays lie, too")
        if self.needed > ASK_FROM:
            require(self.needed, "reading it")
            self.needed = 0


@dataclass(frozen=True)
class _Cells:
    """Cells in a piece.

    corner  (c,) points of all cells.
    count   (n,) corner count per cell.
    kind    (n,) VTK cell types.
    ghost   (n,) VTK ghost bits, for cells that are in another part or hidden.
    """

    corner: Ints
    count: Ints
    kind: Ints
    ghost: Ints


def read_vtk(path: Path) -> tuple[Floats, Ints]:
    """Vertices (v, 3) and triangles (f, 3) from polygons in all pieces of a .vtp or .vtu file.

    Warns with a ReadingNote about cells without area, ghost cells, and further time steps, which are skipped. Raises
    InputError for non-polygonal cells.
    """
    root, encoding = _parsed(path.read_bytes(), KINDS[path.suffix.lower()])
    vertices, triangles, before = [np.empty((0, 3))], [np.empty((0, 3), np.int64)], 0
    flat = ghosts = 0
    for piece in root.iterfind(f"./{KINDS[path.suffix.lower()]}/Piece"):
        points = _points(piece, encoding)
        is_hidden = (_ghost_types(piece, "PointData", len(points), encoding) & HIDDEN_POINT) > 0
        for cells in _cells_of(piece, encoding):
            check_range(Polygons(cells.corner, cells.count), len(points), lambda cell: f"cell {cell}", cells.corner)
            is_ghost = (cells.ghost & GHOST_CELLS) > 0
            is_ghost[np.repeat(np.arange(len(cells.count)), cells.count)[is_hidden[cells.corner]]] = True
            is_flat = cells.kind < TRIANGLE
            ghosts += int((is_ghost & ~is_flat).sum())
            flat += int(is_flat.sum())
            for polygons in _of_types(cells, ~is_ghost & ~is_flat):
                triangles.append(triangulated(points, polygons) + before)
        flat += _count(piece, "NumberOfVerts") + _count(piece, "NumberOfLines")
        vertices.append(points)
        before += len(points)
    steps = len(root.findall("./*[@TimeValues]"))
    for each in (
        f"hidden and duplicate cells left out: {ghosts:,}" if ghosts else "",
        f"vertices and lines left out: {flat:,}" if flat else "",
        "the first of its time steps is read" if steps else "",
    ):
        if each:
            note(path, each)
    return np.concatenate(vertices), np.concatenate(triangles)


def read_image(path: Path) -> tuple[Values, Floats, Floats]:
    """Scalars (nx, ny, nz) of a .vti file, with spacing (3,) and origin (3,): value [i, j, k] lies at origin + spacing
    x (i, j, k).

    Raises InputError for a file without point scalars, with several pieces, or with turned axes.
    """
    root, encoding = _parsed(path.read_bytes(), "ImageData")
    encoding.each = BYTES_PER_SAMPLE
    image = root.find("./ImageData")
    pieces = root.findall("./ImageData/Piece")
    if image is None or len(pieces) != 1:
        raise InputError(f"an image of one piece is needed, not of {len(pieces)}")
    if not np.array_equal(_reals(image, "Direction", "1 0 0 0 1 0 0 0 1"), np.eye(3).ravel()):
        raise InputError("the image's axes are turned; resample it along x, y, z")
    extent = _reals(pieces[0], "Extent", image.get("WholeExtent", ""), 6)
    first, shape = extent[::2], extent[1::2] - extent[::2] + 1
    if (shape < 1).any() or (extent % 1).any():
        raise InputError(f"impossible extent {' '.join(f'{x:g}' for x in extent)}")
    data = pieces[0].find("./PointData")
    arrays = [] if data is None else data.findall("DataArray")
    name = None if data is None else data.get("Scalars")
    named = [array for array in arrays if name in (None, array.get("Name"))]
    if not named:
        raise InputError("no scalars at its points")
    values = _array(named[0], encoding)
    if len(values) != shape.prod():
        raise InputError(f"{len(values):,} values for {' x '.join(f'{n:.0f}' for n in shape)} points")
    spacing, origin = _reals(image, "Spacing", "1 1 1"), _reals(image, "Origin", "0 0 0")
    return values.reshape([int(n) for n in shape[::-1]]).transpose(), spacing, origin + spacing * first


def _reals(element: ElementTree.Element, name: str, default: str, count: int | None = None) -> Floats:
    """Numbers in an element's attribute, as many as in the default, or `count`."""
    words, count = element.get(name, default).split(), count or len(default.split())
    try:
        numbers = np.array([float(word) for word in words])
    except ValueError:
        numbers = np.empty(0)
    if len(numbers) != count or not np.isfinite(numbers).all():
        raise InputError(f"{name} must be {count} numbers, not {' '.join(words)[:40]!a}")
    return numbers


def _parsed(data: bytes, kind: str) -> tuple[ElementTree.Element, _Encoding]:
    """A file's XML without appended data, and its array encoding."""
    data, stated = in_utf8(data)
    tag = max(0, data.find(b"<AppendedData"))
    found = APPENDED.match(data, tag, tag + LONGEST_TAG)
    text, behind = (
        (data[: found.end() - 1] + b"</AppendedData></VTKFile>", memoryview(data)[found.end() :])
        if found
        else (data, memoryview(b""))
    )
    root = elements(text, stated, "VTK file")
    if root.tag != "VTKFile" or root.get("type") != kind:
        raise InputError(f"a VTK file of the type {kind} is needed, not {root.get('type', root.tag)[:40]!a}")
    compressor = root.get("compressor", "")
    if compressor not in UNPACK:
        raise InputError(f"compressed by {compressor[:40]!a}; save it with ZLib, or without compression")
    for name, known in (("byte_order", ORDERS), ("header_type", HEADERS)):
        if root.get(name, next(iter(known))) not in known:
            raise InputError(f"{name} {root.get(name, '')[:40]!a}; it must be {' or '.join(known)}")
    appended = root.find("AppendedData")
    is_base64 = appended is not None and appended.get("encoding", "base64") == "base64"
    if is_base64:
        end = data.find(b"<", len(data) - len(behind))
        behind = behind[: end - len(data)] if end >= 0 else behind
    return root, _Encoding(
        ORDERS[root.get("byte_order", "LittleEndian")],
        HEADERS[root.get("header_type", "UInt32")],
        UNPACK[compressor],
        (behind, is_base64),
        sorted({_count(array, "offset") for array in root.iter("DataArray")} | {len(behind)}),
        len(data),
    )


def _points(piece: ElementTree.Element, encoding: _Encoding) -> Floats:
    """A piece's points (v, 3)."""
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


def _ghost_types(piece: ElementTree.Element, part: str, count: int, encoding: _Encoding) -> Ints:
    """Ghost bits (count,) marking excluded points or cells in a piece; 0 without any."""
    bits = np.zeros(count, np.int64)
    for array in piece.iterfind(f"./{part}/DataArray"):
        if (name := array.get("Name")) in ("vtkGhostType", "vtkGhostLevels"):
            values = _array(array, encoding)
            if len(values) != count or values.dtype.kind not in "iu":
                raise InputError(
                    f"{part}: {len(values):,} values of {name}, but {count:,} are needed, all whole numbers"
                )
            types = values.astype(np.int64)
            bits |= types if name == "vtkGhostType" else types > 0  # layer behind the part's border
    return bits


def _cells_of(piece: ElementTree.Element, encoding: _Encoding) -> Iterator[_Cells]:
    """A piece's cells, except a surface's vertices and lines."""
    if piece.find("Cells") is None:
        names = ("Verts", "Lines", "Polys", "Strips")
        ends = np.cumsum([_count(piece, f"NumberOf{name}") for name in names]).tolist()
        ghost = _ghost_types(piece, "CellData", ends[-1], encoding)
        for place, name, kind in ((1, "Polys", POLYGON), (2, "Strips", STRIP)):
            corner, count = _cells(piece, name, ends[place + 1] - ends[place], encoding)
            yield _Cells(corner, count, np.full(len(count), kind), ghost[ends[place] : ends[place + 1]])
        return
    cells = _count(piece, "NumberOfCells")
    corner, count = _cells(piece, "Cells", cells, encoding)
    types = _named(piece, "Cells", "types", encoding) if cells else np.empty(0, np.int64)
    if len(types) != cells:
        raise InputError(f"{cells:,} cells, but {len(types):,} types of cells")
    unknown = np.flatnonzero((types < 0) | (types > QUAD))
    if len(unknown):
        raise InputError(
            f"cell {unknown[0]}: of the type {types[unknown[0]]}, which is no flat polygon; in ParaView apply Extract "
            "Surface, then Triangulate, and save that as .vtp"
        )
    yield _Cells(corner, count, types, _ghost_types(piece, "CellData", cells, encoding))


def _of_types(cells: _Cells, is_wanted: Bools) -> Iterator[Polygons]:
    """Polygons among cells, type by type; strips become triangles."""
    first = np.cumsum(cells.count) - cells.count
    for kind in np.unique(cells.kind[is_wanted]).tolist():
        chosen = np.flatnonzero(is_wanted & (cells.kind == kind))
        least, own = {PIXEL: 4, QUAD: 4}.get(kind, 3), cells.count[chosen]
        few = np.flatnonzero((own < least) | ((own > least) & (kind not in (STRIP, POLYGON))))
        if len(few):
            raise InputError(f"cell {chosen[few[0]]}: of the type {kind}, with {own[few[0]]} corners")
        own = own - 2 if kind == STRIP else own
        within = np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
        place = np.repeat(first[chosen], own) + within
        if kind == STRIP:
            odd = within % 2
            three = np.stack([place, place + 1 + odd, place + 2 - odd], axis=1)
            yield Polygons(cells.corner[three].ravel(), np.full(len(three), 3))
            continue
        corners = cells.corner[place]
        if kind == PIXEL:  # its corners are in lattice order, row by row
            corners = corners.reshape(-1, 4)[:, [0, 1, 3, 2]].ravel()
        yield Polygons(corners, own)


def _cells(piece: ElementTree.Element, name: str, cells: int, encoding: _Encoding) -> tuple[Ints, Ints]:
    """Corners (c,) of all cells, and each cell's corner count."""
    if not cells and piece.find(f"./{name}/DataArray") is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    corner, end = (_named(piece, name, part, encoding) for part in ("connectivity", "offsets"))
    if len(end) == cells + 1 and end[0] == 0:
        end = end[1:]
    if len(end) != cells or (end[-1] if cells else 0) != len(corner):
        raise InputError(f"{cells:,} {name}, but {len(end):,} offsets, and {len(corner):,} corners")
    count = np.diff(end, prepend=0)
    if (count < 0).any():
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


def _count(element: ElementTree.Element, name: str) -> int:
    """A whole number in an element's attribute; 0 without it."""
    word = element.get(name, "0")
    if not re.fullmatch(r"\s*[0-9]{1,15}\s*", word):
        raise InputError(f"{name} must be a whole number, not {word[:40]!a}")
    return int(word)


def _array(array: ElementTree.Element, encoding: _Encoding) -> Values:
    """An array's values, flat."""
    name, form = array.get("Name", "an array")[:40], array.get("format", "ascii")
    dtype = TYPES.get(array.get("type", ""))
    if dtype is None:
        raise InputError(f"{name!a}: values of the type {array.get('type', '')[:40]!a}")
    try:
        if form == "ascii":
            text, is_real = (array.text or "").encode(), dtype[0] == "f"
            if odd := odd_word(text, REAL if is_real else WHOLE):
                raise InputError(
                    f"{'numbers are' if is_real else 'whole numbers are'} needed, not {odd[0][:40].decode()!a}"
                )
            encoding.take(len(text), len(text) // 2)
            return (
                np.fromstring(text, np.float64 if is_real else np.int64, sep=" ")
                if text.strip()
                else np.empty(0, dtype)
            )
        if form == "binary":
            data = memoryview(_from_base64((array.text or "").encode()))
        elif form == "appended":
            data = _behind(array, encoding)
        else:
            raise InputError(f"its format is {form[:40]!a}; it must be ascii, binary or appended")
        return np.frombuffer(_content(data, encoding, int(dtype[1])), encoding.order + dtype)
    except (InputError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{name!a}: {error}") from error


def _behind(array: ElementTree.Element, encoding: _Encoding) -> memoryview:
    """Appended bytes, from an array's start."""
    behind, is_base64 = encoding.appended
    start = _count(array, "offset")
    if "offset" not in array.attrib:
        raise InputError("appended, but without an offset")
    if start >= len(behind):
        raise InputError(f"starts at byte {start:,} of {len(behind):,}")
    if not is_base64:
        return behind[start:]
    end = encoding.starts[bisect_right(encoding.starts, start)]
    return memoryview(_from_base64(bytes(behind[start:end])))


def _from_base64(text: bytes) -> bytes:
    """Bytes from one or several concatenated base64 codes, each with its own padding."""
    try:
        return b"".join(base64.b64decode(part, validate=True) for part in BASE64.findall(b"".join(text.split())))
    except binascii.Error as error:
        raise InputError(f"not base64: {error}") from error


def _content(data: memoryview, encoding: _Encoding, item: int) -> bytes | memoryview:
    """An array's bytes, after the header with its size, or decompressed from blocks. item: bytes per value."""
    kind = np.dtype(encoding.order + encoding.header)
    if len(data) < kind.itemsize:
        raise InputError("the data end before the array")
    if encoding.unpack is None:
        size = int(np.frombuffer(data, kind, 1)[0])
        content = _part(data, kind.itemsize, size)
        encoding.take(kind.itemsize + size, size // item)
        return content
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
    encoding.take(place + sum(packed), sum(whole) // item)
    for size, unpacked in zip(packed, whole, strict=True):
        block = encoding.unpack(_part(data, place, size), unpacked + 1)
        if len(block) != unpacked:
            raise InputError(f"a compressed block of {len(block):,} bytes, not of {unpacked:,}")
        found.append(block)
        place += size
    return b"".join(found)


def _part(data: memoryview, start: int, size: int) -> memoryview:
    if start + size > len(data):
        raise InputError(f"{size:,} bytes are needed, but the data end after {len(data) - start:,}")
    return data[start : start + size]


UNPACK: dict[str, Callable[[memoryview, int], bytes] | None] = {
    "": None,
    "vtkZLibDataCompressor": lambda data, most: zlib.decompressobj().decompress(data, most),
    "vtkLZMADataCompressor": lambda data, most: lzma.LZMADecompressor().decompress(data, most),
}
