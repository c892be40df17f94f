"""NanoVDB files (`.nvdb`) with one level set: a grid of floats as NanoVDB.h lays it out in memory, version 32.7,
breadth first, behind a file header, uncompressed."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.vdb.level_set import NAME, UPPER, LevelSet, Nodes, make_tree

FILE_MAGIC, GRID_MAGIC = b"NanoVDB2", b"NanoVDB1"
VERSION = 32 << 21 | 7 << 10
FLOAT, LEVEL_SET_CLASS = 1, 1
HAS_BOX, HAS_RANGE, BREADTH_FIRST = 1 << 1, 1 << 2, 1 << 5
ACTIVE = 2
"""A node's flag: it has active voxels, so its box is valid."""
CHECKED = 4096
"""Bytes per block of the checksum; the last block has the rest, too."""

BOX = ("<i4", (2, 3))
FILE = np.dtype(
    [("magic", "S8"), ("version", "<u4"), ("grids", "<u2"), ("codec", "<u2")]
    + [("size", "<u8"), ("stored", "<u8"), ("key", "<u8"), ("voxels", "<u8"), ("type", "<u4"), ("class", "<u4")]
    + [("world", "<f8", (2, 3)), ("box", *BOX), ("voxel_size", "<f8", 3), ("name_size", "<u4")]
    + [("nodes", "<u4", 4), ("tiles", "<u4", 3), ("codec_2", "<u2"), ("blind", "<u2"), ("version_2", "<u4")]
)
"""FileHeader and FileMetaData, 192 bytes; the grid's name follows."""
GRID = np.dtype(
    [("magic", "S8"), ("head_sum", "<u4"), ("tail_sum", "<u4"), ("version", "<u4"), ("flags", "<u4")]
    + [("index", "<u4"), ("count", "<u4"), ("size", "<u8"), ("name", "S256")]
    + [(f"{name}_f", "<f4", shape) for name, shape in (("matrix", (3, 3)), ("inverse", (3, 3)), ("shift", 3))]
    + [("taper_f", "<f4"), ("matrix", "<f8", (3, 3)), ("inverse", "<f8", (3, 3)), ("shift", "<f8", 3), ("taper", "<f8")]
    + [("world", "<f8", (2, 3)), ("voxel_size", "<f8", 3), ("class", "<u4"), ("type", "<u4"), ("blind", "<i8")]
    + [("blinds", "<u4"), ("data_0", "<u4"), ("data_1", "<u8"), ("data_2", "<u8")]
)
"""GridData, 672 bytes."""
TREE = np.dtype([("offset", "<i8", 4), ("nodes", "<u4", 3), ("tiles", "<u4", 3), ("voxels", "<u8")])
"""TreeData, 64 bytes: offsets from its start to the first leaf, lower node, upper node and the root."""
RANGE = [("least", "<f4"), ("greatest", "<f4"), ("mean", "<f4"), ("deviation", "<f4")]
ROOT = np.dtype([("box", *BOX), ("tiles", "<u4"), ("background", "<f4"), *RANGE, ("padding", "V16")])
"""RootData, 64 bytes; its table follows."""
ROOT_TILE = np.dtype([("key", "<u8"), ("child", "<i8"), ("state", "<u4"), ("value", "<f4"), ("padding", "V8")])


def inner(slots: int) -> np.dtype[Any]:
    """InternalData with a table of so many slots: a child's offset from the node's start, or a value."""
    masks = [("active", "u1", slots // 8), ("child", "u1", slots // 8)]
    return np.dtype([("box", *BOX), ("flags", "<u8"), *masks, *RANGE, ("padding", "V16"), ("table", "<i8", slots)])


UPPER_NODE, LOWER_NODE = inner(1 << 15), inner(1 << 12)
LEAF_NODE = np.dtype(
    [("low", "<i4", 3), ("extent", "u1", 3), ("flags", "u1"), ("active", "u1", 64), *RANGE, ("value", "<f4", 512)]
)
"""LeafData, 2,144 bytes."""


def grid_bytes(uppers: int, lowers: int, leaves: int, root_tiles: int) -> int:
    """Size of a grid."""
    nodes = ((LEAF_NODE, leaves), (LOWER_NODE, lowers), (UPPER_NODE, uppers), (ROOT_TILE, root_tiles))
    return GRID.itemsize + TREE.itemsize + ROOT.itemsize + sum(kind.itemsize * count for kind, count in nodes)


def write(path: Path, level_set: LevelSet) -> None:
    """Writes a level set, with the range and box of active voxels of each node, and checksums."""
    tree, leaves = make_tree(level_set), len(level_set.block)
    size = grid_bytes(len(tree.upper), len(tree.lower), leaves, len(tree.upper) + len(tree.roof))
    data = np.zeros(size, np.uint8)
    place = {"grid": 0}

    def part(kind: np.dtype[Any], count: int) -> Any:
        start = place["grid"]
        place["grid"] += count * kind.itemsize
        return data[start : place["grid"]].view(kind), start

    (grid,), _ = part(GRID, 1)
    (root_of, at) = part(TREE, 1)
    root, root_at = part(ROOT, 1)
    table, _ = part(ROOT_TILE, len(tree.upper) + len(tree.roof))
    upper, upper_at = part(UPPER_NODE, len(tree.upper))
    lower, lower_at = part(LOWER_NODE, len(tree.lower))
    leaf, leaf_at = part(LEAF_NODE, leaves)

    low, high = level_set.boxes
    met = level_set.active.any(axis=1)
    leaf["low"] = np.where(met[:, None], low, level_set.block)
    leaf["extent"] = np.where(met[:, None], high - low, 0)
    leaf["flags"] = np.where(met, ACTIVE, 0)
    leaf["active"] = np.packbits(level_set.active, axis=1, bitorder="little")
    leaf["value"] = level_set.value
    leaf["least"] = np.where(level_set.active, level_set.value, np.inf).min(axis=1)
    leaf["greatest"] = np.where(level_set.active, level_set.value, -np.inf).max(axis=1)
    boxes = np.stack((low, high), axis=1)
    boxes = _fill(lower, tree.lower, level_set, leaf, boxes, leaf_at - lower_at)
    boxes = _fill(upper, tree.upper, level_set, lower, boxes, lower_at - upper_at)
    for each in (leaf, lower, upper):
        none = each["flags"] & ACTIVE == 0
        each["least"][none] = each["greatest"][none] = 0

    corner = np.concatenate((tree.upper.corner, tree.roof))
    key = (corner.astype(np.int64).astype(np.uint64) & np.uint64(0xFFFFFFFF)) >> np.uint64(UPPER)
    table["key"] = key[:, 0] << np.uint64(42) | key[:, 1] << np.uint64(21) | key[:, 2]
    count = len(tree.upper)
    table["child"][:count] = upper_at - root_at + UPPER_NODE.itemsize * np.arange(count)
    table["value"][count:] = -level_set.background
    table[:] = table[np.argsort(table["key"])]

    box, world = level_set.box, np.empty((2, 3))
    world[0] = level_set.origin + level_set.spacing * box[0]
    world[1] = level_set.origin + level_set.spacing * (box[1] + 1.0)
    values = level_set.value[level_set.active]
    root["box"], root["tiles"], root["background"] = box, len(table), level_set.background
    root["least"], root["greatest"] = values.min(), values.max()
    counts = (leaves, len(tree.lower), len(tree.upper))
    root_of["offset"] = [leaf_at - at, lower_at - at, upper_at - at, root_at - at]
    root_of["nodes"], root_of["voxels"] = counts, level_set.voxels
    grid["magic"], grid["version"], grid["flags"] = GRID_MAGIC, VERSION, HAS_BOX | HAS_RANGE | BREADTH_FIRST
    grid["count"], grid["size"], grid["blind"], grid["name"] = 1, size, size, NAME.encode()
    for ending in ("", "_f"):
        grid[f"matrix{ending}"], grid[f"inverse{ending}"] = (
            np.eye(3) * each for each in (level_set.spacing, 1 / level_set.spacing)
        )
        grid[f"shift{ending}"], grid[f"taper{ending}"] = level_set.origin, 1
    grid["world"], grid["voxel_size"] = world, level_set.spacing
    grid["class"], grid["type"] = LEVEL_SET_CLASS, FLOAT
    head = GRID.itemsize + TREE.itemsize
    grid["head_sum"], grid["tail_sum"] = zlib.crc32(data[16:head]), _blocked_sum(data[head:])

    name = NAME.encode() + b"\0"
    file = np.zeros(1, FILE)
    for field, value in {
        "magic": FILE_MAGIC,
        "version": VERSION,
        "grids": 1,
        "size": size,
        "stored": size,
        "voxels": level_set.voxels,
        "type": FLOAT,
        "class": LEVEL_SET_CLASS,
        "world": world,
        "box": box,
        "voxel_size": level_set.spacing,
        "name_size": len(name),
        "nodes": (*counts, 1),
        "version_2": VERSION,
    }.items():
        file[field] = value
    with open(path, "wb") as out:
        out.write(file.tobytes() + name)
        out.write(data)


def _fill(
    node: Any, nodes: Nodes, level_set: LevelSet, child: Any, boxes: npt.NDArray[np.int32], apart: int
) -> npt.NDArray[np.int32]:
    """Fills inner nodes over their children, and returns the boxes (n, 2, 3) of their active voxels.

    boxes: the children's. apart: from the first node's start to the first child's, in bytes.
    """
    count, start = len(nodes), nodes.first[:-1]
    owner = np.repeat(np.arange(count), np.diff(nodes.first))
    signs = np.where(nodes.inside, -level_set.background, level_set.background)
    node["table"] = signs.astype("<f4").view("<u4")
    to = apart + child.itemsize * np.arange(len(child)) - node.itemsize * owner
    node["table"][owner, nodes.slot] = to
    has = np.zeros(nodes.inside.shape, np.bool_)
    has[owner, nodes.slot] = True
    node["child"] = np.packbits(has, axis=1, bitorder="little")
    boxes = np.stack((np.minimum.reduceat(boxes[:, 0], start), np.maximum.reduceat(boxes[:, 1], start)), axis=1)
    node["least"] = np.minimum.reduceat(child["least"], start)
    node["greatest"] = np.maximum.reduceat(child["greatest"], start)
    met = np.isfinite(node["least"])
    node["flags"] = np.where(met, ACTIVE, 0)
    node["box"] = np.where(met[:, None, None], boxes, nodes.corner[:, None])
    return boxes


def _blocked_sum(data: npt.NDArray[np.uint8]) -> int:
    """NanoVDB's checksum of nodes: the checksum of the blocks' checksums."""
    blocks = len(data) // CHECKED
    ends = [*range(CHECKED, CHECKED * blocks, CHECKED), len(data)]
    sums = [zlib.crc32(data[first:last]) for first, last in zip([0, *ends], ends, strict=False)]
    return zlib.crc32(struct.pack(f"<{blocks}I", *sums))
