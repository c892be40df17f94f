"""Blocks: a field's leaves in subtrees that are stored, read and decoded independently; see docs/reference/file.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, C, Group
from sdfcli.errors import InputError
from sdfcli.spatial.morton import LATTICE_BITS

MOST_LEAVES = 1 << 21
"""Leaves per block. Points on the border of blocks are stored more than once, which would take 8 % of a file with
blocks of 2^17; a single point's value takes a whole block, 60 ms."""

SUBTREE_LEAVES = 1 << 13
"""Leaves that a CPU's thread encodes at a time. A GPU's encodes a split cell."""

CELLS_TOGETHER = 1 << 18
"""Minimum subtrees encoded together, unless they are the last: 0.2 KB each."""

CHECKED_TOGETHER = 1 << 20
"""Leaves checked together, in temporary arrays of 30 bytes each."""

LEVELS: int = C.SPLIT_LEVELS
"""Levels with split cells."""
COLUMNS = 2 + LEVELS

TREE_FAULT, COUNT_FAULT, VALUE_FAULT = 1, 2, 4
"""Bits as in kernels/field/blocks.h."""

LEAF_INDEX = np.uint32(C.LEAF - 1)
"""Mask of a leaf's index among children."""

U32 = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Blocks:
    """Leaves and values by block, in Morton order.

    table  (b, 18) uint32: the level of a block's cell, its number of leaves, and of values by the split cells' level.
    outer  number of values before all blocks': at the domain's corners, and by the split cells around blocks.
    """

    table: U32
    outer: int

    @staticmethod
    def checked(table: U32, leaves: int, values: int) -> Blocks:
        """From a file. Raises InputError unless the table accounts for all leaves and values."""
        if len(table) % COLUMNS:
            raise InputError("block has an impossible size")
        table = table.reshape(-1, COLUMNS)
        outer = values - int(table[:, 2:].sum(dtype=np.uint64))
        held = int(table[:, 1].sum(dtype=np.uint64))
        # Splitting a cell adds seven. The kernels' arrays have the lengths that follow.
        sevens = len(table) % 7 == 1 and not np.any(table[:, 1] % 7 != 1)
        if held != leaves or not sevens or table[:, 0].max() > LEVELS:
            raise InputError("the blocks do not hold the leaves")
        if outer < 8:
            raise InputError("the blocks hold other values than there are")
        return Blocks(table, outer)

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def level(self) -> npt.NDArray[np.uint8]:
        """(b,): levels of the cells."""
        return np.ascontiguousarray(self.table[:, 0], np.uint8)

    @cached_property
    def key(self) -> npt.NDArray[np.uint64]:
        """(b,): Morton codes of the cells' lower corners on the lattice."""
        size = cell_size(self.level)
        return np.cumsum(size) - size

    @cached_property
    def leaf_end(self) -> U32:
        """(b,): index of each block's end among the leaves."""
        return np.cumsum(self.table[:, 1], dtype=np.uint32)

    @cached_property
    def begin(self) -> U32:
        """(16 b + 1,): index of the first value of each block's levels, and of the end."""
        return np.cumsum(np.append(self.outer, self.table[:, 2:]), dtype=np.uint32)


def cell_size(level: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Volumes (n,) uint64 of cells, in lattice cells."""
    return np.uint64(1) << (np.uint64(3) * (np.uint64(LATTICE_BITS) - level))


def leaf_keys(level: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Morton codes (n,) of leaves' lower corners, from their levels. Raises InputError unless they fill the domain."""
    key = np.zeros(len(level), np.uint64)
    np.cumsum(cell_size(level[:-1]), out=key[1:])
    check_leaves(key, level)
    return key


def check_leaves(key: npt.NDArray[np.uint64], level: npt.NDArray[np.uint8]) -> None:
    """Raises InputError unless leaves (n,) are octree cells that fill the domain, in Morton order."""
    filled, whole = 0, 1 << 3 * LATTICE_BITS
    if len(key) != len(level):
        raise InputError("the leaves do not fill the domain")
    for first in range(0, len(key), CHECKED_TOGETHER):
        own, levels = key[first : first + CHECKED_TOGETHER], level[first : first + CHECKED_TOGETHER]
        size = cell_size(levels)
        wrong = (levels > LEVELS) | (own >= np.uint64(whole)) | (own & (size - np.uint64(1)) != 0)
        wrong[1:] |= own[1:] - own[:-1] != size[:-1]
        if int(own[0]) != filled or bool(wrong.any()):
            raise InputError("the leaves do not fill the domain")
        filled += int(size.sum())
    if filled != whole:
        raise InputError("the leaves do not fill the domain")


class Cells(NamedTuple):
    """Cells in Morton order: lower corners' Morton codes (k,) on the lattice, levels (k,), and leaf counts (k,)."""

    key: npt.NDArray[np.uint64]
    level: npt.NDArray[np.uint8]
    leaves: U32


def cut(backend: Backend, leaf_key: Array, most: int) -> tuple[Cells, Cells]:
    """The largest cells with at most `most` leaves, and the cells that contain several of these. leaf_key: (n,) uint64
    on the backend."""
    found: list[npt.NDArray[np.uint64]] = []
    key, begin, end = np.zeros(1, np.uint64), np.zeros(1, np.int64), np.array([len(leaf_key)])
    level = 0
    while len(key):
        count = (end - begin).astype(np.uint64)
        found.append(np.stack((key, np.full_like(key, level), count)))
        level += 1
        size, large = cell_size(np.full(1, level, np.uint8)), count > most
        key = (key[large, None] + np.arange(8, dtype=np.uint64) * size).ravel()
        edges, leaf = backend.from_host(np.append(key, key + size)), backend.xp.empty(2 * len(key), np.uint32)
        backend.run("sdf_block_search", len(edges), leaves=len(leaf_key), leaf_key=leaf_key, key=edges, leaf=leaf)
        begin, end = np.split(backend.to_host(leaf).astype(np.int64), 2)
    key, levels, count = np.concatenate(found, axis=1)
    order = np.lexsort((levels, key))

    def chosen(which: npt.NDArray[np.bool_]) -> Cells:
        own = order[which[order]]
        return Cells(key[own], levels[own].astype(np.uint8), count[own].astype(np.uint32))

    return chosen(count <= most), chosen(count > most)


@dataclass(frozen=True)
class Values:
    """Values at a field's points, in the file's order.

    stored   (v,) uint8, uint16 or uint32: numbers of steps, 0, -1, 1, -2, ... as 0, 1, 2, 3, ..., as differences from
             the interpolation of coarser corners; or (v,) float32: the distances.
    part     (v,) uint8: parts of steps, in the same code; None: none.
    parts    per step.
    step     a part, in mesh units; None for distances.
    """

    stored: Array
    part: Array | None = None
    parts: int = 1
    step: float | None = None

    @property
    def hanging(self) -> bool:
        """Whether values at hanging points are stored: they follow from steps of zero."""
        return self.step is None


class Trees:
    """The trees of blocks over a field's leaves, and the tree around the blocks.

    child  (s, 8) uint32: the split cells' children in Morton order: leaves, with the highest bit set, or split cells.
           The cells around blocks come first, then each block's, depth first.
    root   (b,) uint32: the blocks' cells, as children.
    """

    def __init__(self, backend: Backend, level: npt.NDArray[np.uint8], leaf_end: U32, leaf_level: Array) -> None:
        """level, leaf_end: as in Blocks. leaf_level: (n,) uint8 on the backend; only those of blocks whose tree is
        made are read."""
        xp, count, splits = backend.xp, len(level), (len(leaf_level) - 1) // 7
        self.backend, self.inner = backend, (count - 1) // 7
        self.child, self._faults = xp.empty((max(1, splits), 8), np.uint32), xp.zeros(1, np.uint32)
        self._work = {name: xp.empty(max(1, splits), np.uint32) for name in ("mask", "before")}
        levels, ends = backend.from_host(level), backend.from_host(leaf_end)
        self.blocks = self._group(levels, ends, leaf_level)
        self.around = self._group(xp.zeros(1, np.uint8), backend.from_host(np.full(1, count, np.uint32)), levels)
        self.only = xp.zeros(1, np.uint32)
        """The index of the only block around blocks."""
        self.run("tree", self.only, self.around)
        leaves = np.diff(leaf_end, prepend=np.uint32(0))
        first = np.uint32(self.inner) + (leaf_end - leaves - np.arange(count, dtype=np.uint32)) // np.uint32(7)
        self.root = np.where(leaves == 1, np.uint32(C.LEAF) | (leaf_end - leaves), first)

    def _group(self, level: Array, leaf_end: Array, leaf_level: Array) -> Group:
        counts = {"blocks": len(level), "leaves": len(leaf_level), "splits": (len(leaf_level) - 1) // 7}
        counts["inner"] = (len(level) - 1) // 7
        own = {"level": level, "leaf_end": leaf_end, "leaf_level": leaf_level, "child": self.child}
        return self.backend.group("Blocks", **counts, **own, faults=self._faults, **self._work)

    def run(self, kernel: str, which: Array, blocks: Group, **arguments: Any) -> None:
        """Runs a kernel of kernels/field/blocks.h on some blocks (k,) uint32."""
        self.backend.run(f"sdf_block_{kernel}", len(which), all=blocks, block=which, **arguments)

    def faults(self) -> int:
        """The faults found, as bits."""
        return int(self.backend.to_host(self._faults)[0])

    def check(self) -> None:
        """Raises InputError for a fault."""
        faults = self.faults()
        if faults & TREE_FAULT:
            raise InputError("the leaves do not fill the domain")
        if faults & COUNT_FAULT:
            raise InputError("the blocks hold other values than there are")
        if faults & VALUE_FAULT:
            raise InputError("a distance is not finite")

    def split_cells(self, leaf_key: Array) -> Subtrees:
        """Makes all blocks' trees, leaf by leaf in parallel. Returns their split cells, in Morton order, one by one."""
        backend, xp, blocks = self.backend, self.backend.xp, self.blocks
        n, cells = len(leaf_key), (len(leaf_key) - len(self.root)) // 7
        sums = _room_for_sums(backend, n)
        backend.run("sdf_block_begun", n, all=blocks, leaf_key=leaf_key, begun=sums[1:])
        _scan(backend, sums)
        self.check()
        if int(backend.to_host(sums[-1:])[0]) != cells:
            raise InputError("the leaves do not fill the domain")
        block, key = xp.empty(cells, np.uint32), xp.empty(cells, np.uint64)
        own = Subtrees(block, key, xp.empty(cells, np.uint8), xp.empty(cells, np.uint8))
        backend.run("sdf_block_link", n, all=blocks, leaf_key=leaf_key, sums=sums, of=own.group(backend))
        self.check()
        return own

    def counts(self, subtrees: Subtrees, blocks: Group, hanging: bool) -> Array:
        """0, then value counts (16 k,) of subtrees, by level."""
        n = len(subtrees.block)
        found, of = _room_for_sums(self.backend, LEVELS * n), subtrees.group(self.backend)
        self.backend.run("sdf_block_count", n, all=blocks, of=of, hanging=int(hanging), count=found[1:])
        return found

    def all_around(self) -> Subtrees:
        """All cells around blocks, as one subtree."""
        return Subtrees(*(self.backend.xp.zeros(1, dtype) for dtype in (np.uint32, np.uint64, np.uint8, np.uint8)))

    def begin_around(self) -> U32:
        """(17,): index of the first value of each level around blocks, and of the end."""
        counts = self.backend.to_host(self.counts(self.all_around(), self.around, hanging=True))
        return np.cumsum([8, *counts[1:]], dtype=np.uint32)

    def together(
        self, subtrees: Subtrees, end: npt.NDArray[np.int64], hanging: bool
    ) -> Iterator[tuple[Subtrees, Array, npt.NDArray[np.int64]]]:
        """Consecutive blocks' subtrees (k,), each one's index (k, 16) uint32 of its first value of a level among these
        blocks' values, and the blocks' value counts (b, 16) by level. end: index (b,) of the end of each block's
        subtrees."""
        backend, xp, first, done = self.backend, self.backend.xp, 0, 0
        while first < len(end):
            last = max(first + 1, int(np.searchsorted(end, done + CELLS_TOGETHER)))
            own = Subtrees(*(each[done : int(end[last - 1])] for each in subtrees))
            sums, n = self.counts(own, self.blocks, hanging), len(own.block)
            _scan(backend, sums)
            ends = backend.from_host(np.append(0, end[first:last] - done).astype(np.uint32))
            until, begin = xp.empty((len(ends), LEVELS), np.uint32), xp.empty((n, LEVELS), np.uint32)
            backend.run("sdf_block_ends", len(ends), subtrees=n, sums=sums, end=ends, until=until)
            sums_there = backend.to_host(until)
            of_blocks = np.diff(sums_there, axis=0).astype(np.int64)
            starts = (of_blocks.cumsum() - of_blocks.ravel()).reshape(of_blocks.shape) - sums_there[:-1]
            given = {"block": own.block, "starts": backend.from_host(starts.astype(np.uint32))}
            backend.run("sdf_block_begin", n, first=first, sums=sums, **given, begin=begin)
            yield own, begin, of_blocks
            first, done = last, int(end[last - 1])

    def corners(self, cell: Array, blocks: Group, leaf_corner: Array | None, value: Array) -> Array:
        """Values (k, 8) float32 at the corners of cells (k,), as children. leaf_corner, value: see `encode`."""
        corner, given = self.backend.xp.empty((len(cell), 8), np.float32), {"leaf_corner": leaf_corner, "value": value}
        self.backend.run("sdf_block_corners", len(cell), all=blocks, cell=cell, **given, corner=corner)
        return corner


def _room_for_sums(backend: Backend, n: int) -> Array:
    """(n + 1,) uint32: 0, then undefined numbers."""
    sums = backend.xp.empty(n + 1, np.uint32)
    backend.fill(sums[:1], 0)
    return sums


def _scan(backend: Backend, sums: Array) -> None:
    """0 and n numbers become each one's exclusive sum, and the total."""
    if len(sums) > 1:
        backend.inclusive_scan(sums[1:])


class Subtrees(NamedTuple):
    """Cells in blocks, on a device: their blocks (k,) uint32, lower corners' Morton codes (k,) uint64, levels (k,)
    uint8, and (k,) uint8 1: without the cells in them."""

    block: Array
    key: Array
    level: Array
    alone: Array

    def group(self, backend: Backend) -> Group:
        """Kernel arguments."""
        return backend.group("Subtrees", **self._asdict())


def encode(
    backend: Backend,
    leaf_key: Array,
    leaf_level: Array,
    leaf_corner: Array | None,
    value: Array,
    step: float | None,
) -> tuple[Blocks, list[Array], bool]:
    """A field's blocks, and its values (v,) in pieces: int32 numbers of steps, or distances' bits if `step` is None.

    leaf_corner: (n, 8) uint32: the leaves' corners among value (m,); None: value is (n, 8). Also returns whether the
    values are exact: steps need not restore them. The leaves must be as `check_leaves` has them: the kernels write
    where an octree's split cells are.
    """
    xp, ((_, level, leaves), _) = backend.xp, cut(backend, leaf_key, MOST_LEAVES)
    trees = Trees(backend, level, np.cumsum(leaves, dtype=np.uint32), leaf_level)
    subtrees, end = _subtrees_of(trees, leaf_key, level, leaves)
    hanging, around = step is None, trees.begin_around()
    values = {"leaf_corner": leaf_corner, "value": value}
    corner = trees.corners(backend.from_host(trees.root), trees.blocks, **values)
    top = backend.from_host(np.full(1, 0 if trees.inner else C.LEAF, np.uint32))
    domain = trees.corners(top, trees.around, None, corner)
    whole = backend.to_host(domain).ravel()

    def steps_of(
        of: Subtrees, blocks: Group, begin: Array, count: int, hanging: bool, values: dict[str, Array | None]
    ) -> Array:
        steps = xp.empty(count, np.int32)
        own = {"all": blocks, "of": of.group(backend), "begin": begin, **values}
        backend.run("sdf_block_encode", len(of.block), **own, hanging=int(hanging), step=step or 0.0, steps=steps)
        return steps

    given: dict[str, Array | None] = {"leaf_corner": None, "value": corner}
    begin, count = backend.from_host(around[:-1] - np.uint32(8)), int(around[-1]) - 8
    found = [steps_of(trees.all_around(), trees.around, begin, count, True, given)]
    if step is None:
        first = whole.view(np.int32)
    else:
        first = np.rint(np.clip(whole / np.float64(step), -(2**30), 2**30)).astype(np.int32)
    found.insert(0, backend.from_host(first))
    counts = []
    for own, begin, of_blocks in trees.together(subtrees, end, hanging):
        found.append(steps_of(own, trees.blocks, begin, int(of_blocks.sum()), hanging, values))
        counts.append(of_blocks)
    table = np.column_stack((level, leaves, np.concatenate(counts))).astype(np.uint32)
    exact = step is None or (first * step).astype(np.float32).tobytes() == whole.tobytes()
    return Blocks(table, int(around[-1])), found, exact and not trees.faults()


def _subtrees_of(
    trees: Trees, leaf_key: Array, level: npt.NDArray[np.uint8], leaves: U32
) -> tuple[Subtrees, npt.NDArray[np.int64]]:
    """Makes the blocks' trees. Returns their split cells in subtrees, in Morton order, for as many threads, and the
    index (b,) of the end of each block's. level, leaves: the blocks'."""
    backend, most = trees.backend, min(SUBTREE_LEAVES, MOST_LEAVES)
    if backend.xp is not np or most == 1:
        return trees.split_cells(leaf_key), np.cumsum(leaves // 7, dtype=np.int64)
    trees.run("tree", np.arange(len(level), dtype=np.uint32), trees.blocks)
    trees.check()
    small, large = cut(backend, leaf_key, most)
    key, levels = np.append(small.key, large.key), np.append(small.level, large.level)
    alone = np.repeat(np.array([0, 1], np.uint8), [len(small.key), len(large.key)])
    block = np.searchsorted(np.cumsum(cell_size(level)), key, "right").astype(np.uint32)
    own = np.flatnonzero((np.append(small.leaves, large.leaves) > 1) & (levels >= level[block]))
    own = own[np.lexsort((levels[own], key[own]))]
    end = np.searchsorted(block[own], np.arange(len(level)), "right")
    return Subtrees(block[own], key[own], levels[own], alone[own]), end


class Decoder:
    """A stored field's leaves with their corner values and the tree for sampling (kernels/field/sampler.h), block by
    block.

    leaf_level  (n,) uint8; given.
    leaf_value  (n, 8) float32.
    child       (s, 8) uint32: the nodes' children.
    top         (2^18,) uint32: what is in the cells on level 6.
    """

    def __init__(self, backend: Backend, blocks: Blocks, values: Values, leaf_level: Array) -> None:
        """values: on the backend, but for those around blocks, which must be there, only read by `decode`. Raises
        InputError for impossible blocks."""
        xp = backend.xp
        self._trees = trees = Trees(backend, blocks.level, blocks.leaf_end, leaf_level)
        trees.check()
        around = trees.begin_around()
        if around[-1] != blocks.outer:
            raise InputError("the blocks hold other values than there are")
        self._blocks, self._hanging = blocks, values.hanging
        self.leaf_level, self.child = leaf_level, trees.child
        self.leaf_value = backend.empty_aligned((len(leaf_level), 8), np.float32)
        self.top = backend.empty_aligned((1 << 3 * C.TOP_LEVEL,), np.uint32)
        known = {
            "stored": values.stored.view(np.uint8),
            "width": values.stored.dtype.itemsize,
            "part": values.part,
            "parts": values.parts,
            "step": values.step or 0.0,
            "entry": self.top,
        }
        whole, corner = backend.from_host(_first_eight(backend, values)), xp.empty((len(blocks), 8), np.float32)
        key, begin = backend.from_host(np.zeros(1, np.uint64)), backend.from_host(around)
        own = backend.group("Stored", **known, begin=begin, corner=whole, leaf_value=corner, hanging=1)
        trees.run("decode", trees.only, trees.around, key=key, of=own)
        self._trees.check()
        outer, root = trees.child[: trees.inner], backend.from_host(trees.root)
        leaf = outer >= C.LEAF
        outer[leaf] = root[outer[leaf] & LEAF_INDEX]
        self._key, begin = backend.from_host(blocks.key), backend.from_host(blocks.begin)
        known |= {"begin": begin, "corner": corner, "leaf_value": self.leaf_value, "hanging": int(values.hanging)}
        self._of: Group | None = backend.group("Stored", **known)

    def decode(self, which: U32) -> None:
        """Decodes blocks (k,), whose levels and values must be there. Raises InputError if they contradict."""
        blocks = self._trees.backend.from_host(which)
        self._trees.run("tree", blocks, self._trees.blocks)
        self._trees.check()
        self._decode(blocks)

    def _decode(self, which: Array) -> None:
        self._trees.run("decode", which, self._trees.blocks, key=self._key, of=self._of)
        self._trees.check()

    def decode_all(self) -> None:
        """Decodes all blocks, split cell by split cell, level by level: for GPUs. Raises the errors of `decode`."""
        trees, blocks, (backend, xp) = self._trees, self._blocks, (self._trees.backend, self._trees.backend.xp)
        size = cell_size(self.leaf_level)
        cells, end = trees.split_cells(xp.cumsum(size) - size), np.cumsum(blocks.table[:, 1] // 7, dtype=np.int64)
        before, counts, first = trees.blocks.values["before"], [], np.uint32(blocks.outer)
        place = trees.inner
        for own, begin, of_blocks in trees.together(cells, end, self._hanging):
            level = own.level[:, None].astype(np.int64)
            before[place : place + len(level)] = xp.take_along_axis(begin, level, axis=1)[:, 0] + first
            counts.append(of_blocks)
            place, first = place + len(level), first + np.uint32(of_blocks.sum())
        if np.any(np.concatenate(counts) != blocks.table[:, 2:]):
            raise InputError("the blocks hold other values than there are")
        point, each = xp.empty((len(trees.child), 27), np.float32), cells.group(backend)
        for level in range(LEVELS):
            which = xp.flatnonzero(cells.level == level).astype(np.uint32)
            given = {"all": trees.blocks, "which": which, "each": each, "of": self._of, "point": point}
            backend.run("sdf_block_points", len(which), **given)
            trees.check()
        self._decode(backend.from_host(np.flatnonzero(blocks.table[:, 1] == 1).astype(np.uint32)))

    def forget_values(self) -> None:
        """Frees the stored values, once all blocks are decoded."""
        self._of = None


def _first_eight(backend: Backend, values: Values) -> npt.NDArray[np.float32]:
    """The field's values (8,) at the domain's corners."""
    stored = backend.to_host(values.stored[:8])
    if values.step is None:
        found: npt.NDArray[np.float32] = stored
    else:
        steps = signed(stored) * np.int64(values.parts)
        steps += 0 if values.part is None else signed(backend.to_host(values.part[:8]))
        with np.errstate(over="ignore"):
            found = (steps * values.step).astype(np.float32)
    if not np.isfinite(found).all():
        raise InputError("a distance is not finite")
    return found


def code(backend: Backend, steps: list[Array], parts: int) -> dict[str, npt.NDArray[Any]]:
    """Steps as a file's lists: residual, in the smallest type, and residual_part if there are several parts per step.

    steps: pieces of (v,) int32 numbers of parts, on the backend. 0, -1, 1, -2, ... are coded as 0, 1, 2, 3, ...
    """
    xp, bits = backend.xp, backend.xp.zeros(1, np.uint32)
    for each in steps:
        backend.run("sdf_block_bits", len(each), steps=each, parts=parts, bits=bits)
    total, kind = sum(map(len, steps)), np.min_scalar_type(int(backend.to_host(bits)[0]))
    lists = {"residual": np.empty(total, kind)} | ({"residual_part": np.empty(total, np.uint8)} if parts > 1 else {})
    end = 0
    for each in steps:
        own = [xp.empty(len(each), array.dtype) for array in lists.values()]
        given = {"stored": own[0].view(np.uint8), "part": own[1] if parts > 1 else None}
        backend.run("sdf_block_code", len(each), steps=each, parts=parts, width=kind.itemsize, **given)
        for array, piece in zip(lists.values(), own, strict=True):
            array[end : end + len(each)] = backend.to_host(piece)
        end += len(each)
    return lists


def signed(stored: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The inverse of `unsigned`."""
    wide = stored.astype(np.int64)
    return (wide >> 1) ^ -(wide & 1)
