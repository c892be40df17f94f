"""Attributes, datasets and groups in HDF5 files. Input files may be damaged or hostile: nothing outside them is
opened."""

from __future__ import annotations

import hashlib
import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import any_backend
from sdfcli.errors import InputError, OutOfMemoryError
from sdfcli.field.chunks import DEFLATE, FLETCHER32, INFLATE, SHUFFLE, unpacked
from sdfcli.runtime.hardware import available_threads
from sdfcli.runtime.threads import executor

MOST_PACKED = 1100
"""Maximum packing ratio (deflate: 1032 to 1): a dataset claiming more is not allocated."""


def attribute(file: Any, name: str) -> Any:
    """An attribute's value: bytes, a NumPy number, or an array of these.

    Raises InputError if missing, empty, of variable length, or neither texts nor numbers.
    """
    import h5py

    if not h5py.h5a.exists(file.id, name.encode()):
        raise InputError(f"{name} is missing")
    kind = h5py.h5a.open(file.id, name.encode()).get_type()
    if isinstance(kind, h5py.h5t.TypeVlenID) or (isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str()):
        raise InputError(f"{name} is of variable length")
    if not isinstance(kind, h5py.h5t.TypeStringID | h5py.h5t.TypeIntegerID | h5py.h5t.TypeFloatID):
        raise InputError(f"{name} must be texts or numbers")
    value = file.attrs[name]
    if isinstance(value, h5py.Empty):
        raise InputError(f"{name} is empty")
    return value


def text(file: Any, name: str) -> str:
    """A UTF-8 text attribute. Raises InputError for another type."""
    value = attribute(file, name)
    if not isinstance(value, bytes):
        raise InputError(f"{name} must be a text")
    return value.decode()


def whole_number(file: Any, name: str) -> int:
    """An integer attribute. Raises InputError for another type."""
    value = attribute(file, name)
    if np.ndim(value) or np.asarray(value).dtype.kind not in "iu":
        raise InputError(f"{name} must be a whole number")
    return int(value)


def real_number(file: Any, name: str) -> float:
    """A finite number attribute. Raises InputError for another value."""
    value = attribute(file, name)
    if np.ndim(value) or np.asarray(value).dtype.kind not in "iuf" or not np.isfinite(value):
        raise InputError(f"{name} must be a finite number")
    return float(value)


def attributes_sha256(file: Any, without: str) -> str:
    """SHA-256 of a group's attributes except one; see `values_sha256`. Raises InputError as `attribute` does."""
    names = [name for name in file.attrs if name != without]
    if not all(isinstance(name, str) for name in names):  # bytes: not UTF-8
        raise InputError("the name of an attribute is not text")
    return values_sha256({name: attribute(file, name) for name in names})


def values_sha256(attributes: Mapping[str, Any]) -> str:
    """SHA-256 of attributes, sorted by name: each one's name, a zero byte, the value's size in bytes (uint64,
    little-endian), and the value."""
    digest = hashlib.sha256()
    for name in sorted(attributes):
        value = attributes[name]
        content = value if isinstance(value, bytes) else np.asarray(value).tobytes()
        digest.update(name.encode() + b"\0" + len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def add_list(group: Any, name: str, length: int, dtype: Any, chunk: int) -> Any:
    """Adds a dataset (length,) to a group in an open file, without its chunks of `chunk` entries. Returns it."""
    packing = {"compression": "gzip", "compression_opts": DEFLATE, "shuffle": True, "fletcher32": True}
    return group.create_dataset(name, length, dtype, chunks=(min(chunk, length),), **packing)


def write_chunks(dataset: Any, chunks: Iterable[bytes]) -> None:
    """Adds a dataset's chunks, packed as by `chunks.packed`."""
    for number, content in enumerate(chunks):
        dataset.id.write_direct_chunk((number * dataset.chunks[0],), content)


def damaged(what: str, checksum: str) -> InputError:
    """The error for a checksum mismatch."""
    return InputError(f"not an intact field: {checksum} does not match its {what}; the file was damaged or changed")


def has(file: Any, name: str) -> bool:
    """Whether a group has an entry called `name`, without opening it."""
    return bool(file.id.links.exists(name.encode()))


def _own_type(file: Any, name: str) -> int:
    """The type of a group's entry, without opening it. Raises InputError for a link."""
    import h5py

    # Opening follows links: HDF5 would open any file, and hang on a pipe.
    if file.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
        raise InputError(f"{name} is a link; it must lie in the file itself")
    return int(h5py.h5o.get_info(file.id, name.encode()).type)


def open_group(file: Any, name: str) -> Any:
    """A group within a group. Raises InputError if missing, a link, or no group."""
    import h5py

    if not has(file, name):
        raise InputError(f"{name} is missing")
    if _own_type(file, name) != h5py.h5o.TYPE_GROUP:
        raise InputError(f"{name} must be a group")
    return h5py.Group(h5py.h5g.open(file.id, name.encode()))


def read_list(file: Any, name: str, *dtypes: type) -> npt.NDArray[Any]:
    """A dataset (n,), n > 0, with one of these dtypes.

    Raises InputError for anything else, and for data outside the file; OutOfMemoryError if it does not fit.
    """
    return open_list(file, name, *dtypes).all()


def open_list(file: Any, name: str, *dtypes: type, content: Bytes | None = None) -> StoredList:
    """The same, without its entries. Raises as `read_list` for all that is known without them. content: the file's, if
    several lists share it."""
    import h5py

    wanted = f"{name} must be a list of {' or '.join(np.dtype(dtype).name for dtype in dtypes)}"
    if not has(file, name) or _own_type(file, name) != h5py.h5o.TYPE_DATASET:
        raise InputError(wanted)
    found = h5py.h5d.open(file.id, name.encode())
    plist = found.get_create_plist()
    # Before reading the size, which HDF5 may look up in a virtual dataset's source files.
    own = plist.get_layout() in (h5py.h5d.CONTIGUOUS, h5py.h5d.CHUNKED, h5py.h5d.COMPACT)
    if not own or plist.get_external_count():
        raise InputError(f"{name} lies in other files")
    dataset = h5py.Dataset(found)
    if dataset.ndim != 1 or not any(dataset.dtype == dtype for dtype in dtypes):
        raise InputError(wanted)
    if not 0 < len(dataset) < 2**32 - 16:
        raise InputError(f"{name} has an impossible size")
    if len(dataset) * dataset.dtype.itemsize > MOST_PACKED * dataset.id.get_storage_size():
        raise InputError(f"{name} claims more entries than the file holds")
    filters = _filters(dataset, name)
    if dataset.chunks is None:
        if dataset.id.get_storage_size() != len(dataset) * dataset.dtype.itemsize:
            raise InputError(f"{name} has another size than it claims")
        _check_memory(name, len(dataset), dataset.dtype)
        return StoredList(name, np.ascontiguousarray(dataset[()]))
    if dataset.chunks[0] > len(dataset):
        raise InputError(f"{name} has chunks that are longer than itself")
    places = _chunks(dataset, name)
    content = content or Bytes.of(file)
    return StoredList(name, None, len(dataset), dataset.dtype, dataset.chunks[0], filters, places, content)


def _check_memory(name: str, length: int, dtype: Any) -> None:
    """Raises OutOfMemoryError unless a list's entries fit into memory."""
    if length * dtype.itemsize > any_backend().memory_free():
        raise OutOfMemoryError(f"{name} does not fit into memory")


READ_ONLY: int = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


class Bytes:
    """The bytes of an open HDF5 file, also after it has been closed. Safe to use from several threads."""

    def __init__(self, piece: Callable[[int, int], bytes]) -> None:
        """piece: returns a number of bytes from an offset on, or fewer at the file's end."""
        self._piece = piece

    @classmethod
    def of(cls, file: Any) -> Bytes:
        """For a file in memory, or on this machine."""
        handle = file.file.id
        if file.file.driver == "core":
            return cls(partial(_piece, handle.get_file_image()))
        # Opened anew, as HDF5's own descriptor holds a lock. Kept open, as another file may get the name.
        number = os.open(file.file.filename, READ_ONLY)
        content = cls(partial(os.pread, number) if hasattr(os, "pread") else partial(_read_locked, Lock(), number))
        weakref.finalize(content, os.close, number)
        if os.name == "posix" and not os.path.sameopenfile(number, handle.get_vfd_handle()):
            raise InputError("was replaced while it was read")
        return content

    def read(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset` on, or fewer at the file's end."""
        return self._piece(size, offset)


def _piece(image: bytes, size: int, offset: int) -> bytes:
    return image[offset : offset + size]


def _read_locked(lock: Lock, number: int, size: int, offset: int) -> bytes:
    """os.pread, which Windows lacks."""
    with lock:
        os.lseek(number, offset, os.SEEK_SET)
        return os.read(number, size)


@dataclass
class StoredList:
    """A dataset (length,) in a file: its entries, or where its packed chunks of `chunk` entries lie.

    places  (c, 2) int64: the chunks' offsets and sizes in the file's bytes.
    """

    name: str
    entries: npt.NDArray[Any] | None
    length: int = 0
    dtype: Any = None
    chunk: int = 0
    filters: Sequence[int] = ()
    places: Any = None
    bytes: Bytes | None = None

    def __post_init__(self) -> None:
        if self.entries is not None:
            self.length, self.dtype, self.chunk = len(self.entries), self.entries.dtype, len(self.entries)

    def all(self) -> npt.NDArray[Any]:
        """The entries. Raises InputError for a damaged chunk; OutOfMemoryError if they do not fit."""
        if self.entries is not None:
            return self.entries
        _check_memory(self.name, self.length, self.dtype)
        entries = np.empty(self.length, self.dtype)
        count = len(self.places)
        with executor(available_threads() if count > 1 else 1) as helpers:
            for _ in helpers.map(partial(self._place, entries, slice(0, self.length)), range(count)):
                pass
        return entries

    def read_into(self, entries: npt.NDArray[Any], here: slice) -> None:
        """Places some entries among all. Raises InputError for a damaged chunk."""
        if self.entries is not None:
            entries[here] = self.entries[here]
        else:
            for number in range(here.start // self.chunk, -(-min(here.stop, self.length) // self.chunk)):
                self._place(entries, here, number)

    def _place(self, entries: npt.NDArray[Any], here: slice, number: int) -> None:
        """Unpacks a chunk's entries among some to their place."""
        chunk = slice(number * self.chunk, (number + 1) * self.chunk)
        part = entries[max(here.start, chunk.start) : min(here.stop, chunk.stop)]
        offset, size = self.places[number].tolist()
        itemsize = self.dtype.itemsize
        try:
            data = self.bytes.read(offset, size)  # type: ignore[union-attr]
            rows = unpacked(data, self.filters, itemsize, self.chunk * itemsize)
        except (ValueError, OSError) as error:
            raise InputError(f"{self.name} has a chunk that cannot be unpacked") from error
        part.view(np.uint8).reshape(-1, itemsize)[:] = rows[max(0, here.start - chunk.start) :][: len(part)]


def _filters(dataset: Any, name: str) -> list[int]:
    """A dataset's filter codes, in order. Raises InputError for repeated filters, and for unknown ones, which HDF5
    would load from elsewhere."""
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(k) for k in range(plist.get_nfilters())]
    codes = [code for code, _, _, _ in filters]
    shuffled = all(values == (dataset.dtype.itemsize,) for code, _, values, _ in filters if code == SHUFFLE)
    known = {INFLATE, SHUFFLE, FLETCHER32}.issuperset(codes)
    # Deflated twice, a byte may expand to a million.
    if not (known and shuffled and len(set(codes)) == len(codes)) or (codes[:1] != [SHUFFLE] and SHUFFLE in codes):
        raise InputError(f"{name} is packed in an unknown way")
    return codes


def _chunks(dataset: Any, name: str) -> npt.NDArray[np.int64]:
    """Offsets and sizes (c, 2) of a dataset's chunks in the file. Raises InputError if one is missing, lies outside the
    file, or skips a filter, or if they take more bytes than the file has."""
    end, length = dataset.file.id.get_filesize(), dataset.chunks[0]
    places = np.zeros((-(-len(dataset) // length), 2), np.int64)
    wrong: list[Any] = []

    def look(chunk: Any) -> None:
        number, rest = divmod(chunk.chunk_offset[0], length)
        outside = number >= len(places) or chunk.byte_offset is None or chunk.byte_offset + chunk.size > end
        if rest or chunk.filter_mask or outside:
            wrong.append(chunk)
        else:
            places[number] = chunk.byte_offset, chunk.size

    dataset.id.chunk_iter(look)
    if wrong or not places[:, 1].all() or places[:, 1].sum() > end:
        raise InputError(f"{name} has a chunk that cannot be unpacked")
    return places
