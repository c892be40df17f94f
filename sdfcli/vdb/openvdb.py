"""OpenVDB files (`.vdb`) with one level set: tree of floats 5-4-3, file version 224, after OpenVDB's io/Archive.cc,
io/Compression.h and tree/*.h. As in files of OpenVDB, a level set's values are not compressed; those outside the band
are left out (its COMPRESS_ACTIVE_MASK)."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sdfcli.vdb.level_set import NAME, LevelSet, Nodes, make_tree

MAGIC = struct.pack("<q", 0x56444220)
VERSION = 224
LIBRARY = (9, 0)
"""Version of OpenVDB that wrote such files."""
TREE, HALF = "Tree_float_5_4_3", "_HalfFloat"
MAP = "UniformScaleTranslateMap"
ACTIVE_MASK = 2
"""Bit of a grid's compression: inactive values are left out."""
PLUS, MINUS, BOTH = 0, 1, 3
"""A node's inactive values: all + background, all - background, or a mask chooses (1: +)."""


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
    """Each node's masks of children and active tiles, none, and its tiles' values."""
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
    """An identifier in the form of a UUID: equal files have equal ones."""
    text = digest.hex()[:32]
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])).encode()
