"""Parts of HDF5 files that may be damaged, or made to do harm: nothing is opened but what lies in the file itself."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError, OutOfMemoryError
from sdfcli.field.field import any_backend

FILTERS = {1: "deflate", 2: "shuffle", 3: "fletcher32"}
LEAST_PACKED = 8
"""Bytes of a chunk: deflate needs some, and the checksum four."""
MOST_PACKED = 1100
"""Deflate packs at most 1032 to 1: a dataset that claims more than it can hold is not even allocated."""


def attribute(file: Any, name: str) -> Any:
    """The value of a root attribute: bytes, a NumPy number, or an array of these.

    Raises InputError where it is missing, empty, of variable length, or neither texts nor numbers.
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
    """A root attribute that is a text in UTF-8."""
    value = attribute(file, name)
    if not isinstance(value, bytes):
        raise InputError(f"{name} must be a text")
    return value.decode()


def whole_number(file: Any, name: str) -> int:
    """A root attribute that is a whole number."""
    value = attribute(file, name)
    if np.ndim(value) or np.asarray(value).dtype.kind not in "iu":
        raise InputError(f"{name} must be a whole number")
    return int(value)


def real_number(file: Any, name: str) -> float:
    """A root attribute that is a finite number."""
    value = attribute(file, name)
    if np.ndim(value) or np.asarray(value).dtype.kind not in "iuf" or not np.isfinite(value):
        raise InputError(f"{name} must be a finite number")
    return float(value)


def attributes_sha256(file: Any, without: str) -> str:
    """Of all root attributes but one: of each, in the order of names, the name, a zero byte, the number of the value's
    bytes (uint64, little-endian), and these bytes."""
    digest = hashlib.sha256()
    for name in sorted(file.attrs):
        if name != without:
            value = attribute(file, name)
            content = value if isinstance(value, bytes) else value.tobytes()
            digest.update(name.encode() + b"\0" + len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def has(file: Any, name: str) -> bool:
    """Whether the root group has something of that name. It is not opened."""
    return bool(file.id.links.exists(name.encode()))


def read_list(file: Any, name: str, *dtypes: type) -> npt.NDArray[Any]:
    """A dataset of one dimension, of one of these types, at least one entry long.

    Raises InputError for anything else, and where it does not lie in the file as a whole.
    """
    import h5py

    wanted = f"{name} must be a list of {' or '.join(np.dtype(dtype).name for dtype in dtypes)}"
    if not has(file, name):
        raise InputError(wanted)
    # A link is followed when what it names is opened: HDF5 would open any file, and never come back from a pipe.
    if file.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
        raise InputError(f"{name} is a link; it must lie in the file itself")
    if h5py.h5o.get_info(file.id, name.encode()).type != h5py.h5o.TYPE_DATASET:
        raise InputError(wanted)
    found = h5py.h5d.open(file.id, name.encode())
    plist = found.get_create_plist()
    # Before its size is asked for, too, which HDF5 may look up in the files that a virtual dataset is made of.
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
    _check_chunks(dataset, name)
    if len(dataset) * dataset.dtype.itemsize > any_backend().memory_free():
        raise OutOfMemoryError(f"{name} does not fit into memory")
    return np.ascontiguousarray(dataset[()])


def _check_chunks(dataset: Any, name: str) -> None:
    """Chunks must lie in the file, and be packed in known ways: HDF5 itself crashes on a chunk of fewer bytes than its
    checksum has."""
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(k) for k in range(plist.get_nfilters())]
    for code, _, values, _ in filters:
        if code not in FILTERS or (FILTERS[code] == "shuffle" and values != (dataset.dtype.itemsize,)):
            raise InputError(f"{name} is packed in an unknown way")
    if len({code for code, _, _, _ in filters}) < len(filters):  # deflated twice, a byte may hold a million
        raise InputError(f"{name} is packed in an unknown way")
    if dataset.chunks is None:
        return
    end, least = dataset.file.id.get_filesize(), LEAST_PACKED if filters else 1
    wrong = []

    def look(chunk: Any) -> None:
        if chunk.filter_mask or chunk.size < least or chunk.byte_offset is None or chunk.byte_offset + chunk.size > end:
            wrong.append(chunk)

    dataset.id.chunk_iter(look)
    if wrong:
        raise InputError(f"{name} has a chunk that cannot be unpacked")
