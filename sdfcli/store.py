"""Fields in HDF5 files. docs/format.md describes them for other programs."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli import __version__
from sdfcli.errors import InputError, UsageError
from sdfcli.field import LATTICE_BITS, Field
from sdfcli.mesh import Domain, existing_file
from sdfcli.params import MAX_DEPTH

FORMAT, FORMAT_VERSION = "sdfcli-adf", 1
CHUNK = 1 << 16
DATASETS = {"leaf_key": np.uint64, "leaf_level": np.uint8, "corner_key": np.uint64, "distance": np.float32}
NEAREST = "nearest"
FILTERS = {1: "deflate", 2: "shuffle", 3: "fletcher32"}
LEAST_PACKED = 8
"""Bytes of a chunk: deflate needs some, and the checksum four."""
MOST_PACKED = 1100
"""Deflate packs at most 1032 to 1: a dataset that claims more than it can hold is not even allocated."""


def save(field: Field, path: Path, force: bool = False) -> Path:
    """Writes a field, whole or not at all.

    Raises UsageError if the file exists and `force` is not given, or cannot be written.
    """
    with written_whole(path, force) as temporary:
        temporary.write_bytes(_image(field))
    return path


def _image(field: Field) -> bytes:
    """The file's content. It is made in memory: where a disk is full, HDF5 may take the whole process down."""
    import h5py

    with h5py.File("field.h5", "w", driver="core", backing_store=False) as file:
        _write(file, field)
        file.flush()
        return bytes(file.id.get_file_image())


def refuse_existing(path: Path, force: bool) -> None:
    """Raises UsageError if a file to be written exists and `force` is not given."""
    if path.exists() and not force:
        raise _exists(path)


def _exists(path: Path) -> UsageError:
    return UsageError(f"{path}: exists; use --force to replace it")


@contextlib.contextmanager
def written_whole(path: Path, force: bool) -> Iterator[Path]:
    """A temporary file beside `path`, which gets its name at once when the block ends well.

    Raises UsageError if `path` exists and `force` is not given, or cannot be written.
    """
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        refuse_existing(path, force)
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        _put_in_place(temporary, path, force)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _put_in_place(temporary: Path, path: Path, force: bool) -> None:
    if force:
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)  # fails, unlike a rename, where someone else has just written the file
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError:  # a file system without links
        os.rename(temporary, path)


def _write(file: Any, field: Field) -> None:
    # Texts of fixed length: those of variable length lie in a heap, and HDF5 never comes back from some broken heaps.
    file.attrs["format"] = np.bytes_(FORMAT)
    file.attrs["format_version"] = FORMAT_VERSION
    file.attrs["tool_version"] = np.bytes_(__version__)
    file.attrs["domain_origin"] = field.domain.origin
    file.attrs["domain_length"] = field.domain.length
    file.attrs["lattice_bits"] = LATTICE_BITS
    file.attrs["units"] = np.bytes_("those of the mesh")
    file.attrs["sign_convention"] = np.bytes_("negative inside")
    file.attrs["content_sha256"] = np.bytes_(field.content_sha256)
    file.attrs["info"] = np.bytes_(json.dumps(field.info, sort_keys=True))
    datasets = DATASETS if field.nearest is None else DATASETS | {NEAREST: np.uint32}
    for name, dtype in datasets.items():
        data = np.ascontiguousarray(getattr(field, name), dtype)
        file.create_dataset(
            name,
            data=data,
            chunks=(min(CHUNK, len(data)),),
            compression="gzip",
            compression_opts=1,
            shuffle=True,
            fletcher32=True,
        )


def is_field(path: Path) -> bool:
    """Whether a file is HDF5 at all."""
    try:
        with open(path, "rb") as file:
            return file.read(8) == b"\x89HDF\r\n\x1a\n"
    except OSError:
        return False


def load(path: str | Path) -> Field:
    """A field from a file. Everything is checked before it is used.

    Raises InputError, with the file's name and what is wrong in it, for anything but an intact file of this format.
    """
    import h5py

    path = existing_file(path)
    try:
        with h5py.File(path, "r") as file:
            field = _read(file)
        field.check_corners()
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError) as error:
        reason = str(error).strip().splitlines()
        raise InputError(
            f"{path}: not an intact field file: {reason[0] if reason else type(error).__name__}"
        ) from error
    return field


def _read(file: Any) -> Field:
    if _text(_attribute(file, "format")) != FORMAT:
        raise InputError("not a field of sdfcli")
    version = int(_attribute(file, "format_version"))
    if version != FORMAT_VERSION:
        raise InputError(f"format version {version}; this sdfcli reads version {FORMAT_VERSION}")
    if int(_attribute(file, "lattice_bits")) != LATTICE_BITS:
        raise InputError(f"lattice_bits must be {LATTICE_BITS}")
    origin = np.asarray(_attribute(file, "domain_origin"), np.float64)
    length = float(_attribute(file, "domain_length"))
    if origin.shape != (3,) or not np.isfinite(origin).all() or not (np.isfinite(length) and length > 0):
        raise InputError("the domain is not a cube")
    info = json.loads(_text(_attribute(file, "info")))
    if not isinstance(info, dict):
        raise InputError("info is not a JSON object")
    arrays: dict[str, Any] = {name: _read_dataset(file, name, dtype) for name, dtype in DATASETS.items()}
    if len(arrays["leaf_level"]) != len(arrays["leaf_key"]) or len(arrays["distance"]) != len(arrays["corner_key"]):
        raise InputError("datasets of one kind differ in length")
    _check_leaves(arrays["leaf_key"], arrays["leaf_level"])
    if np.any(arrays["corner_key"][1:] <= arrays["corner_key"][:-1]):
        raise InputError("corner_key is not sorted")
    if not np.isfinite(arrays["distance"]).all():
        raise InputError("a distance is not finite")
    if NEAREST in file:
        arrays[NEAREST] = _read_dataset(file, NEAREST, np.uint32)
        if len(arrays[NEAREST]) != len(arrays["corner_key"]):
            raise InputError("datasets of one kind differ in length")
    return Field(Domain(origin, length), **arrays, info=info)


def _attribute(file: Any, name: str) -> Any:
    """An attribute's value. Raises InputError where it is missing, or of variable length."""
    import h5py

    if not h5py.h5a.exists(file.id, name.encode()):
        raise InputError(f"{name} is missing")
    kind = h5py.h5a.open(file.id, name.encode()).get_type()
    if isinstance(kind, h5py.h5t.TypeVlenID) or (isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str()):
        raise InputError(f"{name} is of variable length")
    return file.attrs[name]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _read_dataset(file: Any, name: str, dtype: type) -> npt.NDArray[Any]:
    import h5py

    dataset = file.get(name)
    if not isinstance(dataset, h5py.Dataset) or dataset.dtype != dtype or dataset.ndim != 1 or dataset.is_virtual:
        raise InputError(f"{name} must be a list of {np.dtype(dtype).name}")
    if dataset.file.filename != file.filename or dataset.external or not 0 < len(dataset) < 2**32 - 16:
        raise InputError(f"{name} lies in another file, or has an impossible size")
    if len(dataset) * dataset.dtype.itemsize > MOST_PACKED * dataset.id.get_storage_size():
        raise InputError(f"{name} claims more entries than the file holds")
    _check_chunks(dataset, name)
    return np.ascontiguousarray(dataset[()])


def _check_chunks(dataset: Any, name: str) -> None:
    """Chunks must lie in the file, and be packed in known ways: HDF5 itself crashes on a chunk of fewer bytes than its
    checksum has."""
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(k) for k in range(plist.get_nfilters())]
    for code, _, values, _ in filters:
        if code not in FILTERS or (FILTERS[code] == "shuffle" and values != (dataset.dtype.itemsize,)):
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


def _check_leaves(key: npt.NDArray[np.uint64], level: npt.NDArray[np.uint8]) -> None:
    """The leaves must be cells of an octree that fill the domain, one after the other along the Morton curve."""
    if level.max() > MAX_DEPTH:
        raise InputError(f"a leaf is deeper than {MAX_DEPTH} levels")
    size = np.uint64(1) << (np.uint64(3) * (np.uint64(LATTICE_BITS) - level))
    whole = np.uint64(1) << np.uint64(3 * LATTICE_BITS)
    end = np.append(key[1:], whole)
    if key[0] != 0 or np.any(key >= whole) or np.any(key % size) or np.any(end <= key) or np.any(end - key != size):
        raise InputError("the leaves do not fill the domain")
