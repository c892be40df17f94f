"""StoredLeaves: the leaves of a field in a file, read and decoded block by block when they are needed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, any_backend
from sdfcli.errors import InputError, OutOfMemoryError, SdfError
from sdfcli.field.blocks import LEVELS, Blocks, Decoder, Values, cell_size, leaf_keys
from sdfcli.field.hdf5 import StoredList, damaged
from sdfcli.mesh.mesh import Domain
from sdfcli.octree.corners import corner_keys, leaf_corners
from sdfcli.runtime.hardware import available_threads
from sdfcli.runtime.threads import executor
from sdfcli.spatial.morton import LATTICE_BITS, MORTON_BITS, morton_keys

CHUNK = 1 << 16
"""Entries per chunk of a list."""
LEAF_BYTES = 45
"""Memory per decoded leaf, in bytes."""
ON_GPU = 100
"""The same on a GPU that decodes them."""
NUMBERED_ON_GPU = 200
"""The same on a GPU that numbers their corners."""
MANY = 1 << 20
"""Points for which all blocks are decoded, without looking where the points are."""

Indices = npt.NDArray[np.intp]


def chunk_sums(entries: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """SHA-256 (c, 32) of a list's chunks."""
    with executor(available_threads() if len(entries) > CHUNK else 1) as helpers:
        sums = list(helpers.map(_sha256, (entries[k : k + CHUNK] for k in range(0, len(entries), CHUNK))))
    return np.frombuffer(b"".join(sums), np.uint8).reshape(-1, 32)


def _sha256(entries: npt.NDArray[Any]) -> bytes:
    return hashlib.sha256(entries.data).digest()


class CheckedList:
    """A list in a file whose chunks are read, and compared with their checksums, when they are needed.

    entries  (n,); undefined where not needed yet.
    """

    def __init__(self, given: StoredList, sums: npt.NDArray[np.uint8]) -> None:
        """sums: (c, 32), see `chunk_sums`."""
        self._given, self._sums = given, sums
        self.entries = np.empty(given.length, given.dtype)
        self._missing = np.ones(len(sums), bool)

    def need(self, begin: npt.ArrayLike, end: npt.ArrayLike) -> list[Callable[[], None]]:
        """Reads of the missing chunks with the entries begin (k,) to end (k,)."""
        wanted = np.zeros(len(self._sums) + 1, np.int64)
        first, last = np.asarray(begin, np.int64), np.asarray(end, np.int64)
        np.add.at(wanted, first[first < last] // CHUNK, 1)
        np.add.at(wanted, -(-last[first < last] // CHUNK), -1)
        return [partial(self._read, int(k)) for k in np.flatnonzero((wanted[:-1].cumsum() > 0) & self._missing)]

    def _read(self, number: int) -> None:
        here = slice(number * CHUNK, (number + 1) * CHUNK)
        self._given.read_into(self.entries, here)
        if _sha256(self.entries[here]) != self._sums[number].tobytes():
            raise damaged(f"chunk {number} of {self._given.name}", "chunk_sha256")
        self._missing[number] = False

    def close(self) -> None:
        """Closes the file, once all is read."""
        self._given.bytes = None


class StoredLeaves:
    """The leaves of a field in a file: checked and decoded when they are needed. Safe to use from several threads.

    blocks   the file's.
    corners  number of the leaves' corners, as stated in the file.
    level    the leaves' levels.
    name     the file's, for errors; empty while it is opened.
    """

    def __init__(
        self,
        blocks: Blocks,
        corners: int,
        level: CheckedList,
        values: list[CheckedList],
        step: float | None,
        parts: int,
    ) -> None:
        """values: Values' `stored` and, if there are any, `part`. step, parts: see Values."""
        self.blocks, self.corners, self.level = blocks, corners, level
        self._values, self._step, self._parts = values, step, parts
        self._lock, self._missing = Lock(), np.ones(len(blocks), bool)
        self.name = ""
        self._decoder: Decoder | None = None
        self._arrays: dict[str, Array] | None = None
        self._corner_key: Array = None

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except SdfError as error:
                raise type(error)(f"{self.name}: {error}" if self.name else str(error)) from error

    @property
    def complete(self) -> bool:
        """Whether all leaves are decoded."""
        return not self._missing.any()

    def levels(self) -> npt.NDArray[np.uint8]:
        """The leaves' levels (n,)."""
        with self._reading():
            _run(self.level.need([0], [len(self.level.entries)]))
        return self.level.entries

    def keys(self) -> npt.NDArray[np.uint64]:
        """Morton codes (n,) of the leaves' lower corners. Raises InputError unless the leaves fill the domain."""
        level = self.levels()
        with self._reading():
            return leaf_keys(level)

    def sampler(self, backend: Backend) -> dict[str, Any]:
        """Arrays for `Sampler` (kernels/field/sampler.h) on a device."""
        host = backend if backend.xp is np else any_backend()
        with self._reading():
            there = ON_GPU * len(self.level.entries) < backend.memory_free()
            if backend is not host and not self.complete and there:
                return _sampler(backend, *self._decoded_on(backend))
            arrays = _arrays_of(self._decoded(host, np.flatnonzero(self._missing)))
        return _sampler(
            backend, *(each if backend is host else backend.from_host(host.to_host(each)) for each in arrays)
        )

    def sampler_around(self, backend: Backend, points: npt.NDArray[Any], domain: Domain) -> dict[str, Any]:
        """The same on the CPU, only valid around points (p, 3)."""
        with self._reading():
            missing = np.flatnonzero(self._missing)
            if len(missing) and len(points) <= MANY:
                unit = np.clip(np.nan_to_num(domain.to_unit(points.astype(np.float64))), 0.0, 1.0)
                key = morton_keys(backend, unit) >> np.uint64(3 * (MORTON_BITS - LATTICE_BITS))
                around = np.unique(np.searchsorted(self.blocks.key, key, "right") - 1)
                missing = around[self._missing[around]]
            arrays = _arrays_of(self._decoded(backend, missing))
        return _sampler(backend, *arrays)

    def array(self, name: str) -> npt.NDArray[Any]:
        """One of `arrays`, or corner_key (m,) uint64, on the host."""
        backend = any_backend()
        arrays = self.arrays(backend)
        found: npt.NDArray[Any] = backend.to_host(self._corner_key if name == "corner_key" else arrays[name])
        return found

    def arrays(self, backend: Backend) -> dict[str, Array]:
        """leaf_key (n,), leaf_level (n,), leaf_corner (n, 8) and value (m,) on the host's device, `backend`; see
        DeviceField. Raises InputError if two blocks have different values at a point."""
        leaves = self.sampler(backend)
        with self._reading():
            if self._arrays is None:
                self._arrays, self._corner_key = self._numbered(backend, leaves)
            return self._arrays

    def fits(self, backend: Backend) -> bool:
        """Whether a GPU has memory for numbering the corners."""
        return NUMBERED_ON_GPU * len(self.level.entries) < backend.memory_free()

    def arrays_on(self, backend: Backend, leaves: dict[str, Any]) -> dict[str, Array]:
        """`arrays` on a GPU. leaves: its `sampler`."""
        with self._reading():
            return self._numbered(backend, leaves)[0]

    def _numbered(self, backend: Backend, leaves: dict[str, Any]) -> tuple[dict[str, Array], Array]:
        level, leaf_value = leaves["leaf_level"], leaves["leaf_value"]
        size = cell_size(level)
        key = backend.xp.cumsum(size) - size
        corner_key = corner_keys(backend, key, level)
        if len(corner_key) != self.corners:
            raise InputError(f"{self.corners:,} corners are stated, but the leaves have {len(corner_key):,}")
        leaf_corner = leaf_corners(backend, key, level, corner_key)
        value, marks = backend.xp.empty(len(corner_key), np.float32), backend.xp.zeros(1, np.uint32)
        given = {"corner": leaf_corner, "leaf_value": leaf_value, "value": value}
        backend.run("sdf_leaf_scatter", len(level), **given)
        backend.run("sdf_leaf_differ", len(level), marks=marks, **given)
        if int(marks[0]):
            raise InputError("two blocks have different distances at a point")
        return {"leaf_key": key, "leaf_level": level, "leaf_corner": leaf_corner, "value": value}, corner_key

    def _decoded_on(self, backend: Backend) -> tuple[Array, ...]:
        """All leaves, decoded on a GPU."""
        _run([read for each in (self.level, *self._values) for read in each.need([0], [len(each.entries)])])
        stored, *part = (backend.from_host(each.entries) for each in self._values)
        values = Values(stored, part[0] if part else None, self._parts, self._step)
        decoder = Decoder(backend, self.blocks, values, backend.from_host(self.level.entries))
        decoder.decode_all()
        return _arrays_of(decoder)

    def _decoded(self, backend: Backend, which: Indices) -> Decoder:
        """The decoder on the host's device, with some missing blocks (k,) decoded, too."""
        table, end, begin = self.blocks.table, self.blocks.leaf_end.astype(np.int64), self.blocks.begin
        self._check_memory(backend, int(table[which, 1].sum()))
        leaves = end[which] - table[which, 1], end[which]
        values = [0, *begin[LEVELS * which]], [self.blocks.outer, *begin[LEVELS * (which + 1)]]
        _run([*self.level.need(*leaves), *(read for each in self._values for read in each.need(*values))])
        if self._decoder is None:
            stored, *part = (backend.from_host(each.entries) for each in self._values)
            values_there = Values(stored, part[0] if part else None, self._parts, self._step)
            self._decoder = Decoder(backend, self.blocks, values_there, backend.from_host(self.level.entries))
        if len(which):
            self._decoder.decode(which.astype(np.uint32))
            self._missing[which] = False
        if self.complete:  # nothing more is read
            self._decoder.forget_values()
            self.level.close()
            self._values = []
        return self._decoder

    @staticmethod
    def _check_memory(backend: Backend, leaves: int) -> None:
        if LEAF_BYTES * leaves > backend.memory_free():
            raise OutOfMemoryError(f"{leaves:,} of its leaves do not fit into memory")


def _arrays_of(decoder: Decoder) -> tuple[Array, ...]:
    return decoder.leaf_level, decoder.leaf_value, decoder.top, decoder.child.reshape(-1)


def _sampler(backend: Backend, leaf_level: Array, leaf_value: Array, top: Array, child: Array) -> dict[str, Any]:
    tree = backend.group("LeafTree", top=top, child=child)
    return {"leaf_level": leaf_level, "leaf_value": leaf_value, "tree": tree}


def _run(reads: list[Callable[[], None]]) -> None:
    """Runs reads in threads."""
    count = max(1, min(available_threads(), len(reads)))

    def some(first: int) -> None:
        for read in reads[first::count]:
            read()

    with executor(count) as helpers:
        for done in [helpers.submit(some, first) for first in range(count)]:
            done.result()
