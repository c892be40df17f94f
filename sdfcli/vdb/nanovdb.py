"""NanoVDB files (`.nvdb`) with one level set: a float grid as NanoVDB.h lays it out in memory, version 32.7,
breadth first, behind a file header, uncompressed."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError
from sdfcli.vdb.level_set import (
    LEAF,
    LOWER,
    NAME,
    UPPER,
    LevelSet,
    Nodes,
    check_blocks,
    checked,
    inside_tiles,
    make_tree,
    slot_corners,
    uniform_spacing,
)

FILE_MAGIC, GRID_MAGIC, OLD_MAGIC = b"NanoVDB2", b"NanoVDB1", b"NanoVDB0"
"""Of files, grids, and both before version 32.7."""
VERSION = 32 << 21 | 7 << 10
MAJOR = 32
FLOAT, UNKNOWN_CLASS, LEVEL_SET_CLASS = 1, 0, 1
UNPACKED, ZIPPED = 0, 1
"""Codecs."""
HAS_BOX, HAS_RANGE, BREADTH_FIRST = 1 << 1, 1 << 2, 1 << 5
ACTIVE = 2
"""A node's flag: it has active voxels, so its box is valid."""
CHECKED = 4096
"""Bytes per checksum block; the last block has the rest, too."""

BOX = ("<i4", (2, 3))
HEADER = np.dtype([("magic", "S8"), ("version", "<u4"), ("grids", "<u2"), ("codec", "<u2")])
"""FileHeader, 16 bytes."""
FACTS = np.dtype(
    [(name, "<u8") for name in ("size", "stored", "key", "voxels")]
    + [("type", "<u4"), ("class", "<u4")]
    + [("world", "<f8", (2, 3)), ("box", *BOX), ("voxel_size", "<f8", 3), ("name_size", "<u4")]
    + [("nodes", "<u4", 4), ("tiles", "<u4", 3), ("codec", "<u2"), ("blind", "<u2"), ("version", "<u4")]
)
"""FileMetaData, 176 bytes; the grid's name follows; after all names come the grids."""
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
    """InternalData with so many slots in its table: a child's offset from the node's start, or a value."""
    masks = [("active", "u1", slots // 8), ("child", "u1", slots // 8)]
    return np.dtype([("box", *BOX), ("flags", "<u8"), *masks, *RANGE, ("padding", "V16"), ("table", "<i8", slots)])


UPPER_NODE, LOWER_NODE = inner(1 << 15), inner(1 << 12)
LEAF_NODE = np.dtype(
    [("low", "<i4", 3), ("extent", "u1", 3), ("flags", "u1"), ("active", "u1", 64), *RANGE, ("value", "<f4", 512)]
)
"""LeafData, 2,144 bytes."""


def grid_bytes(uppers: int, lowers: int, leaves: int, root_tiles: int) -> int:
    """A grid's size."""
    nodes = ((LEAF_NODE, leaves), (LOWER_NODE, lowers), (UPPER_NODE, uppers), (ROOT_TILE, root_tiles))
    return GRID.itemsize + TREE.itemsize + ROOT.itemsize + sum(kind.itemsize * count for kind, count in nodes)


def write(path: Path, level_set: LevelSet) -> None:
    """Writes a level set, with each node's range and box, over its active voxels, and checksums."""
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
    met: npt.NDArray[np.bool_] = np.any(level_set.active, axis=1)
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
    grid["head_sum"], grid["tail_sum"] = zlib.crc32(data[16:head].data), _blocked_sum(data[head:])

    name = NAME.encode() + b"\0"
    facts = np.zeros(1, FACTS)
    for field, value in {
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
        "version": VERSION,
    }.items():
        facts[field] = value
    with open(path, "wb") as out:
        out.write(np.array((FILE_MAGIC, VERSION, 1, UNPACKED), HEADER).tobytes() + facts.tobytes() + name)
        out.write(data.data)


def _fill(
    node: Any, nodes: Nodes, level_set: LevelSet, child: Any, boxes: npt.NDArray[np.int32], apart: int
) -> npt.NDArray[np.int32]:
    """Fills inner nodes over their children, and returns their boxes (n, 2, 3) around active voxels.

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
    """NanoVDB's node checksum: over the blocks' checksums."""
    blocks = len(data) // CHECKED
    ends = [*range(CHECKED, CHECKED * blocks, CHECKED), len(data)]
    sums = [zlib.crc32(data[first:last].data) for first, last in zip([0, *ends], ends, strict=False)]
    return zlib.crc32(struct.pack(f"<{blocks}I", *sums))


def read(data: bytes) -> LevelSet:
    """The first float grid that is a level set, or has no class, as Warp's, in a file or a bare grid.

    Raises InputError for a file without one or damaged; OutOfMemoryError.
    """
    at, held = 0, []
    if data[:8] == GRID_MAGIC:
        return _read_grid(memoryview(data))
    while at < len(data):
        (head,) = _view(data, HEADER, at, 1)
        if head["magic"] not in (FILE_MAGIC, OLD_MAGIC) or int(head["version"]) >> 21 != MAJOR:
            raise InputError(f"not a NanoVDB file of version {MAJOR}")
        at += HEADER.itemsize
        grids = []
        for _ in range(int(head["grids"])):
            (facts,) = _view(data, FACTS, at, 1)
            at += FACTS.itemsize + int(facts["name_size"])
            grids.append(facts)
        for facts in grids:
            if facts["type"] == FLOAT and facts["class"] in (UNKNOWN_CLASS, LEVEL_SET_CLASS):
                return _read_grid(_unpacked(data, at, facts))
            held.append(f"type {facts['type']}, class {facts['class']}")
            at += int(facts["stored"])
    raise InputError(f"no level set of floats in it; it has {'; '.join(held[:5]) or 'no grid'}")


def _view(data: bytes | memoryview, kind: np.dtype[Any], at: int, count: int) -> Any:
    """An array in a file. Raises InputError if it is not within it."""
    if not (at >= 0 and count >= 0 and at + count * kind.itemsize <= len(data)):
        raise InputError("it ends too early, or an offset leads out of it")
    return np.frombuffer(data, kind, count, at)


def _unpacked(data: bytes, at: int, facts: Any) -> memoryview:
    """A grid's bytes."""
    size, stored, codec = int(facts["size"]), int(facts["stored"]), int(facts["codec"])
    content = memoryview(data)[at : at + stored]
    if len(content) != stored:
        raise InputError("it ends too early")
    if codec == ZIPPED:
        try:
            content = memoryview(zlib.decompressobj().decompress(content[8:], size + 1))
        except (zlib.error, OverflowError) as error:
            raise InputError(f"it is damaged: {error}") from error
    elif codec != UNPACKED:
        raise InputError("its grid is compressed with Blosc; store it without, or with zip")
    if len(content) != size:
        raise InputError("it is damaged: a grid has another size")
    return content


def _read_grid(data: memoryview) -> LevelSet:
    (grid,) = _view(data, GRID, 0, 1)
    if grid["magic"] not in (GRID_MAGIC, OLD_MAGIC) or grid["type"] != FLOAT or int(grid["version"]) >> 21 != MAJOR:
        raise InputError("not a grid of floats")
    matrix = grid["matrix"]
    if (matrix != np.diag(matrix.diagonal())).any():
        raise InputError("its voxels are turned or sheared; resample it along the axes")
    spacing = uniform_spacing(matrix.diagonal())
    (tree,) = _view(data, TREE, GRID.itemsize, 1)
    first = [GRID.itemsize + int(offset) for offset in tree["offset"]]
    leaf, lower, upper = (
        _view(data, kind, at, int(count))
        for kind, at, count in zip((LEAF_NODE, LOWER_NODE, UPPER_NODE), first, tree["nodes"], strict=False)
    )
    (root,) = _view(data, ROOT, first[3], 1)
    table = _view(data, ROOT_TILE, first[3] + ROOT.itemsize, int(root["tiles"]))
    background = root["background"]
    place = np.stack([(table["key"] >> np.uint64(shift)).astype(np.int64) & 0x1FFFFF for shift in (42, 21, 0)], axis=1)
    place = (((place << UPPER) + (1 << 31)) % (1 << 32) - (1 << 31)).astype(np.int32)
    linked = table["child"] != 0
    tiles = [place[~linked][inside_tiles(table["value"][~linked], background)]]
    offset, corner = table["child"][linked] + first[3], place[linked]
    for nodes, log2, above, start in ((upper, LOWER, UPPER, first[2]), (lower, LEAF, LOWER, first[1])):
        order = _nodes_at(offset, start, nodes)
        check_blocks(len(nodes) * (1 << 3 * (above - log2)) // 512)
        child = np.unpackbits(nodes["child"], axis=1, bitorder="little").view(np.bool_)[order]
        row, slot = np.nonzero(~child)
        places = corner[row] + slot_corners(log2, above)[slot]
        value = nodes["table"].astype("<u8")[order][row, slot].astype("<u4").view("<f4")
        tiles.append(places[inside_tiles(value, background)])
        row, slot = np.nonzero(child)
        offset = nodes["table"][order][row, slot] + start + nodes.itemsize * order[row]
        corner = corner[row] + slot_corners(log2, above)[slot]
    order = _nodes_at(offset, first[0], leaf)
    check_blocks(len(order))
    active = np.unpackbits(leaf["active"][order], axis=1, bitorder="little").view(np.bool_)
    sizes = np.repeat(np.array([UPPER, LOWER, LEAF], np.uint8), [len(each) for each in tiles])
    value, tile = leaf["value"][order], np.concatenate(tiles)
    return checked(LevelSet(grid["shift"].copy(), spacing, background, corner, value, active, tile, sizes))


def _nodes_at(offset: npt.NDArray[np.int64], start: int, nodes: Any) -> npt.NDArray[np.int64]:
    """Node indices (n,), each once, from offsets (n,). Raises InputError for others."""
    number, rest = np.divmod(offset - start, nodes.itemsize)
    if rest.any() or len(number) != len(nodes) or (np.sort(number) != np.arange(len(nodes))).any():
        raise InputError("it is damaged: its nodes are not all linked once")
    return np.asarray(number)
