"""`.oct` files: a field's octree for the MuJoCo plugin, float32 as in the field; docs/reference/oct.md."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mujoco.octree import MOST_NODES, Octree
from sdfcli.params import LENGTHS
from sdfcli.runtime.files import written_whole
from sdfcli.runtime.memory import require

HEADER = struct.Struct("<8sIIQQ4d6d")
"""Magic, version, bytes of a value, nodes, leaves, domain's origin and edge, lower and upper corner of the box."""
MAGIC, VERSION = b"SDFCLIOC", 1
MOST_LEVELS = 32
LOADING = 300
"""Working bytes per node when an octree is loaded."""


def predicted_size(leaves: int) -> int:
    """Bytes of a file with so many leaves."""
    nodes = leaves + max(leaves - 1, 0) // 7
    return HEADER.size + -(-nodes // 8) * 8 + 32 * leaves


def write_oct(path: Path, octree: Octree, force: bool = False) -> None:
    """Writes an octree, whole or not at all. Raises UsageError if the file exists, without `force`."""
    nodes, leaves = len(octree.split), len(octree.value)
    with written_whole(path, force) as temporary, open(temporary, "wb") as file:
        place = (*octree.origin, octree.length, *octree.box.reshape(-1))
        file.write(HEADER.pack(MAGIC, VERSION, 4, nodes, leaves, *place))
        file.write(octree.split.astype(np.uint8).tobytes() + bytes(-nodes % 8))
        file.write(octree.value.astype("<f4").tobytes())


def read_oct(path: Path) -> Octree:
    """Reads and checks an octree. Raises InputError for anything else than a whole file of `write_oct`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) < HEADER.size or content[:8] != MAGIC:
        raise InputError(f"{path}: not an .oct file; write one with `sdfcli cook --for mujoco`")
    _, version, size, nodes, leaves, *place = HEADER.unpack_from(content)
    if (version, size) != (VERSION, 4):
        raise InputError(f"{path}: version {version} with values of {size} bytes; this sdfcli reads version {VERSION}")
    padded = -(-nodes // 8) * 8
    if not (0 < nodes <= MOST_NODES and nodes % 8 == 1 and leaves == nodes - nodes // 8):
        raise InputError(f"{path}: damaged: {nodes} nodes and {leaves} leaves are no octree")
    if len(content) != HEADER.size + padded + 32 * leaves:
        raise InputError(f"{path}: damaged: {len(content)} bytes, not {HEADER.size + padded + 32 * leaves}")
    require(LOADING * nodes, f"loading {path}")
    flags = np.frombuffer(content, np.uint8, nodes, HEADER.size)
    value = np.frombuffer(content, "<f4", 8 * leaves, HEADER.size + padded).reshape(-1, 8)
    low, high = np.array(place[4:7]), np.array(place[7:])
    if not (np.isfinite(place).all() and LENGTHS[0] < place[3] < LENGTHS[1] and (low < high).all()):
        raise InputError(f"{path}: damaged: an impossible domain")
    if not (flags <= 1).all() or np.count_nonzero(flags) != nodes // 8 or not np.isfinite(value).all():
        raise InputError(f"{path}: damaged: flags or distances that cannot be")
    octree = Octree(np.array(place[:3]), place[3], flags.astype(np.bool_), value.astype(np.float32))
    try:
        levels = len(octree.levels)
    except InputError as error:
        raise InputError(f"{path}: damaged: {error}") from error
    if levels > MOST_LEVELS:
        raise InputError(f"{path}: damaged: {levels} levels; at most {MOST_LEVELS}")
    return octree
