"""OpenVDB files (`.vdb`) with one level set: float tree 5-4-3, file version 224, after OpenVDB's io/Archive.cc,
io/Compression.h and tree/*.h. Values are not compressed, as in OpenVDB's level sets
without Blosc; outside the band they are left out (its COMPRESS_ACTIVE_MASK)."""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.errors import DeviceError, InputError
from sdfcli.vdb.level_set import (
    LEAF,
    LOWER,
    NAME,
    UPPER,
    VOXELS,
    LevelSet,
    Nodes,
    check_blocks,
    checked,
    inside_tiles,
    make_tree,
    slot_corners,
    uniform_spacing,
)

MAGIC = struct.pack("<q", 0x56444220)
VERSION = 224
LIBRARY = (9, 0)
"""An OpenVDB version that wrote such files."""
TREE, HALF = "Tree_float_5_4_3", "_HalfFloat"
MAP = "UniformScaleTranslateMap"
READABLE = range(222, 226)
"""File versions that are read: since values outside the band are left out, up to OpenVDB 13's."""
ZIP, ACTIVE_MASK, BLOSC = 1, 2, 4
"""A grid's compression, bits: values by zlib, inactive values left out, values by Blosc."""
PLUS, MINUS, ONE, BOTH, ONE_OR_PLUS, TWO, ALL = range(7)
"""A node's inactive values: all + background, all - background, all one value; or a mask chooses (1: the last one)
between - and + background, one value and the background, two values; or they are stored like active ones."""
MAPS = {
    "UniformScaleMap": (0, 15),
    "ScaleMap": (0, 15),
    MAP: (3, 18),
    "ScaleTranslateMap": (3, 18),
    "TranslationMap": (3, 3),
    "AffineMap": (0, 16),
}
"""Maps that are read: the scale's place, and the float64 count in all."""


def write(path: Path, level_set: LevelSet, half: bool) -> None:
    """Writes a level set. half: values in half precision."""
    tree = make_tree(level_set)
    background = np.float32(np.float16(level_set.background)) if half else level_set.background
    topology = [struct.pack("<ifII", 1, background, len(tree.roof), len(tree.upper))]
    topology += [struct.pack("<3if?", *corner, -background, False) for corner in tree.roof.tolist()]
    mask = np.packbits(level_set.active, axis=1, bitorder="little").tobytes()
    for i, upper in enumerate(_tables(tree.upper)):
        topology += [struct.pack("<3i", *tree.upper.corner[i].tolist()), upper]
        lower = slice(tree.upper.first[i], tree.upper.first[i + 1])
        ends = tree.lower.first[lower.start : lower.stop + 1].tolist()
        for table, first, last in zip(_tables(tree.lower, lower), ends, ends[1:], strict=False):
            topology += [table, mask[64 * first : 64 * last]]

    inside = level_set.value < 0
    out = ~(level_set.active | inside)
    selected = np.packbits(out, axis=1, bitorder="little").tobytes()
    code = np.where(out.any(axis=1), np.where((inside & ~level_set.active).any(axis=1), BOTH, PLUS), MINUS)
    code[level_set.active.all(axis=1)] = PLUS
    kind = np.dtype(np.float16 if half else np.float32).newbyteorder("<")
    ends = (kind.itemsize * np.cumsum(np.count_nonzero(level_set.active, axis=1))).tolist()
    values = memoryview(level_set.value[level_set.active].astype(kind).tobytes())
    buffers: list[bytes | memoryview] = []
    for k, (kept, first, last) in enumerate(zip(code.tolist(), [0, *ends], ends, strict=False)):
        bits = slice(64 * k, 64 * k + 64)
        buffers += [mask[bits], bytes((kept,)), selected[bits] if kept == BOTH else b"", values[first:last]]

    low, high = level_set.box
    head = struct.pack("<I", ACTIVE_MASK) + _metadata(
        class_=("string", b"level set"),
        creator=("string", b"sdfcli"),
        file_bbox_max=("vec3i", high.astype("<i4").tobytes()),
        file_bbox_min=("vec3i", low.astype("<i4").tobytes()),
        file_compression=("string", b"active values"),
        file_voxel_count=("int64", struct.pack("<q", level_set.voxels)),
        is_local_space=("bool", b"\0"),
        is_saved_as_half_float=("bool", bytes((half,))),
        name=("string", NAME.encode()),
    )
    head += _string(MAP) + _map(level_set)
    name = _string(NAME) + _string(TREE + half * HALF) + _string("")
    start = len(MAGIC) + 12 + 1 + 36 + 4 + 4 + len(name) + 24
    block = start + len(head) + sum(map(len, topology))
    end = block + sum(map(len, buffers))
    digest = hashlib.sha256()
    for piece in (head, *topology, *buffers):
        digest.update(piece)
    with open(path, "wb") as file:
        file.write(MAGIC + struct.pack("<3I?", VERSION, *LIBRARY, True) + _uuid(digest.digest()))
        file.write(_metadata() + struct.pack("<i", 1) + name + struct.pack("<3q", start, block, end) + head)
        file.writelines(topology)
        file.writelines(buffers)


def _tables(nodes: Nodes, which: slice | None = None) -> list[bytes]:
    """Each node's masks, for children and active tiles, none, and its tiles' values."""
    found = []
    for i in range(*(which or slice(None)).indices(len(nodes))):
        child = np.zeros(nodes.inside.shape[1], np.bool_)
        child[nodes.slot[nodes.first[i] : nodes.first[i + 1]]] = True
        inside = nodes.inside[i]
        out = ~(child | inside)
        code = BOTH if inside.any() and out.any() else MINUS if inside.any() else PLUS
        masks = [child, np.zeros_like(child)]
        found.append(_bits(*masks) + bytes((code,)) + (_bits(out) if code == BOTH else b""))
    return found


def _bits(*masks: npt.NDArray[np.bool_]) -> bytes:
    return b"".join(np.packbits(mask, bitorder="little").tobytes() for mask in masks)


def _string(text: str) -> bytes:
    return struct.pack("<I", len(text.encode())) + text.encode()


def _metadata(**entries: tuple[str, bytes]) -> bytes:
    """Entries by name: their type and bytes."""
    found = [struct.pack("<I", len(entries))]
    for name, (kind, value) in entries.items():
        found += [_string(name.rstrip("_")), _string(kind), struct.pack("<I", len(value)), value]
    return b"".join(found)


def _map(level_set: LevelSet) -> bytes:
    """The translation, the scale, and what OpenVDB derives from that: voxel size, inverse, its square, and half."""
    scale = level_set.spacing
    derived = (scale, scale, 1 / scale, 1 / scale**2, 1 / (2 * scale))
    return struct.pack("<18d", *level_set.origin.tolist(), *(each for each in derived for _ in range(3)))


def _uuid(digest: bytes) -> bytes:
    """An identifier formed like a UUID: equal files have equal ones."""
    text = digest.hex()[:32]
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])).encode()


class Cursor:
    """A place in a file's bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = memoryview(data), 0

    def take(self, count: int) -> memoryview:
        """The next bytes. Raises InputError if there are fewer."""
        if not 0 <= count <= len(self.data) - self.at:
            raise InputError("it ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def unpack(self, form: str) -> Any:
        found = struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))
        return found[0] if len(found) == 1 else found

    def string(self) -> str:
        return _shown(bytes(self.take(self.unpack("I"))))

    def array(self, kind: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        dtype = np.dtype(kind)
        return np.frombuffer(self.take(count * dtype.itemsize), dtype)

    def bits(self, count: int) -> npt.NDArray[np.bool_]:
        return np.unpackbits(self.array("u1", count // 8), bitorder="little").view(np.bool_)

    def metadata(self) -> dict[str, bytes]:
        """Entries' bytes by name."""
        found = {}
        for _ in range(self.unpack("I")):
            name, _ = self.string(), self.string()
            found[name] = bytes(self.take(self.unpack("I")))
        return found


def _shown(text: bytes) -> str:
    """Text from a file, for messages, too: a line without control characters."""
    return "".join(each if each.isprintable() else "?" for each in text[:100].decode("utf-8", "replace"))


class Head(NamedTuple):
    """A grid in a file: its name, type, class, and where its content starts."""

    name: str
    kind: str
    grid_class: str
    start: int


def read(data: bytes) -> LevelSet:
    """The first float level set in a file.

    Raises InputError for a file without one or damaged, DeviceError if a library for its compression is missing,
    OutOfMemoryError.
    """
    file = Cursor(data)
    if bytes(file.take(len(MAGIC))) != MAGIC:
        raise InputError("not an OpenVDB file")
    version, _, _, seekable = file.unpack("3I?")
    if version not in READABLE:
        raise InputError(f"file version {version}; versions {READABLE[0]} to {READABLE[-1]} are read")
    file.take(36)
    file.metadata()
    heads = []
    for _ in range(file.unpack("i")):
        name, kind, parent = file.string(), file.string(), file.string()
        start, _, end = file.unpack("3q")
        file.at = start if seekable and 0 <= start <= len(data) else file.at
        here = file.at
        file.take(4)
        grid_class = _shown(file.metadata().get("class", b"unknown"))
        heads.append(Head(name, kind, grid_class, here))
        if kind in (TREE, TREE + HALF) and grid_class == "level set" and not parent:
            file.at = here
            return _read_grid(file, kind.endswith(HALF))
        if not (seekable and here < end <= len(data)):
            break
        file.at = end
    held = ", ".join(f"{head.name} ({head.kind}, {head.grid_class})" for head in heads[:5])
    raise InputError(f"no level set of floats in it; it has {held or 'no grid'}")


def _read_grid(file: Cursor, half: bool) -> LevelSet:
    compression = file.unpack("I")
    file.metadata()
    origin, spacing = _read_map(file)
    _, background, tiles, children = file.unpack("ifII")
    grid = _Grid(file, np.float32(background), half, compression)
    roof = np.array([file.unpack("3if?")[:4] for _ in range(tiles)], np.float64).reshape(-1, 4)
    inside = roof[inside_tiles(roof[:, 3].astype(np.float32), grid.background), :3].astype(np.int32)
    tile, log2, corner, masks = [inside], [UPPER] * len(inside), [], []
    for _ in range(children):
        upper = file.array("<i4", 3)
        child, inside = grid.table(upper, LOWER, UPPER)
        tile.append(inside)
        log2 += [LOWER] * len(inside)
        for lower in child:
            blocks, inside = grid.table(lower, LEAF, LOWER)
            tile.append(inside)
            log2 += [LEAF] * len(inside)
            corner.append(blocks)
            masks.append(file.take(VOXELS // 8 * len(blocks)))
    block = np.concatenate([np.empty((0, 3), np.int32), *corner])
    check_blocks(len(block))
    mask = np.frombuffer(b"".join(masks), np.uint8).reshape(-1, VOXELS // 8)
    active = np.unpackbits(mask, axis=1, bitorder="little").view(np.bool_)
    value = np.empty((len(block), VOXELS), np.float32)
    for k in range(len(block)):
        file.take(VOXELS // 8)
        value[k] = grid.values(active[k])
    sizes = np.array(log2, np.uint8)
    return checked(LevelSet(origin, spacing, grid.background, block, value, active, np.concatenate(tile), sizes))


@dataclass(frozen=True)
class _Grid:
    """A grid, for reading its nodes."""

    file: Cursor
    background: np.float32
    half: bool
    compression: int

    def table(
        self, corner: npt.NDArray[np.int32], log2: int, above: int
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Lower corners: an inner node's children (n, 3), and its tiles that are inside (m, 3)."""
        count = 1 << 3 * (above - log2)
        child, active = self.file.bits(count), self.file.bits(count)
        value, places = self.values(active), corner + slot_corners(log2, above)
        tiles = ~child
        return places[child], places[tiles][inside_tiles(value[tiles], self.background)]

    def values(self, active: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
        """A node's values."""
        code = self.file.unpack("B")
        if code > ALL:
            raise InputError(f"it is damaged: a node with code {code}")
        first = self.background if code == PLUS else -self.background
        other = self.background
        if code in (ONE, ONE_OR_PLUS, TWO):
            first = np.float32(self.file.unpack("f"))
        if code == TWO:
            other = np.float32(self.file.unpack("f"))
        chosen = self.file.bits(len(active)) if code in (BOTH, ONE_OR_PLUS, TWO) else None
        if code == ALL or not self.compression & ACTIVE_MASK:
            return self.stored(len(active))
        found = np.full(len(active), first, np.float32) if chosen is None else np.where(chosen, other, first)
        found[active] = self.stored(int(np.count_nonzero(active)))
        return found

    def stored(self, count: int) -> npt.NDArray[np.float32]:
        """Values as they are in the file, single or half, compressed or not."""
        kind = np.dtype("<f2" if self.half else "<f4")
        size = kind.itemsize * count
        if not self.compression & (ZIP | BLOSC):
            return self.file.array(kind, count).astype(np.float32)
        if self.half and not count:
            return np.empty(0, np.float32)
        stated = self.file.unpack("q")
        content: Any = self.file.take(abs(stated))
        if stated > 0:
            content = (_unblosced if self.compression & BLOSC else _unzipped)(content, size)
        if len(content) != size:
            raise InputError("it is damaged: a node has too many or too few values")
        return np.frombuffer(content, kind).astype(np.float32)


def _unzipped(content: memoryview, size: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(content, size + 1)
    except zlib.error as error:
        raise InputError(f"it is damaged: {error}") from error


def _unblosced(content: memoryview, size: int) -> bytes:
    """Decompresses one Blosc 1 buffer, whose header states both sizes."""
    try:
        from numcodecs import blosc
    except ImportError as error:
        raise DeviceError("its values are compressed with Blosc: pip install 'sdfcli[vdb]'") from error
    if len(content) < 16 or struct.unpack_from("<I4xI", content, 4) != (size, len(content)):
        raise InputError("it is damaged: a buffer of Blosc with another size")
    try:
        return bytes(blosc.decompress(bytes(content))) if size else b""  # an empty buffer has a header, too
    except (RuntimeError, ValueError) as error:
        raise InputError(f"it is damaged: {error}") from error


def _read_map(file: Cursor) -> tuple[npt.NDArray[np.float64], float]:
    """Voxel (0, 0, 0)'s position, and the spacing."""
    kind = file.string()
    if kind not in MAPS:
        raise InputError(f"its transform, {kind}, is not read; resample it with cubes along the axes as voxels")
    place, count = MAPS[kind]
    numbers = file.array("<f8", count).copy()
    if kind == "AffineMap":
        matrix = numbers.reshape(4, 4)
        if (matrix[:3, :3] != np.diag(matrix.diagonal()[:3])).any() or (matrix[:, 3] != [0, 0, 0, 1]).any():
            raise InputError("its voxels are turned or sheared; resample it along the axes")
        return matrix[3, :3].copy(), uniform_spacing(matrix.diagonal()[:3])
    origin = numbers[:3] if place else np.zeros(3)
    return origin, uniform_spacing(np.ones(3) if count == 3 else numbers[place : place + 3])
