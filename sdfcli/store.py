"""Fields in HDF5 files. docs/format.md describes them for other programs."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli import __version__
from sdfcli.backend.cpu import available_threads
from sdfcli.chunks import DEFLATE, packed
from sdfcli.errors import InputError
from sdfcli.field import Field, any_backend
from sdfcli.mesh import Domain, existing_file
from sdfcli.outputs import written_whole
from sdfcli.params import MAX_DEPTH
from sdfcli.stages.corners import corner_keys, quantise, restore
from sdfcli.stages.order import LATTICE_BITS

FORMAT, FORMAT_VERSION = "sdfcli-adf", 2
CHUNK = 1 << 16
MOST_LEAVES = 1 << 31
LEAF_BYTES = 150
"""What finding a leaf and its corners takes."""
RESIDUALS = (np.uint8, np.uint16, np.uint32)
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

    with h5py.File(secrets.token_hex(8), "w", driver="core", backing_store=False) as file:  # HDF5 opens no name twice
        _write(file, field)
        file.flush()
        return bytes(file.id.get_file_image())


def _write(file: Any, field: Field) -> None:
    residual = _residual(field)
    datasets = {"leaf_level": np.ascontiguousarray(field.leaf_level, np.uint8)}
    if residual is None:
        datasets["distance"] = np.ascontiguousarray(field.distance, np.float32)
    else:
        datasets["residual"] = residual
    if field.nearest is not None:
        datasets["nearest"] = np.ascontiguousarray(field.nearest, np.uint32)
    with ThreadPoolExecutor(available_threads()) as helpers:
        chunks = {name: _chunks(helpers, data, noisy=name == "residual") for name, data in datasets.items()}
        # Texts of fixed length: others lie in a heap, and HDF5 never comes back from some broken heaps.
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
        if residual is not None:
            file.attrs["distance_step"] = field.step
        for name, data in datasets.items():
            dataset = file.create_dataset(
                name,
                len(data),
                data.dtype,
                chunks=(min(CHUNK, len(data)),),
                compression="gzip",
                compression_opts=DEFLATE,
                shuffle=True,
                fletcher32=True,
            )
            for number, chunk in enumerate(chunks[name]):
                dataset.id.write_direct_chunk((number * CHUNK,), chunk)


def _chunks(helpers: ThreadPoolExecutor, data: npt.NDArray[Any], noisy: bool) -> Iterator[bytes]:
    """A dataset's chunks, packed side by side from now on."""
    length = min(CHUNK, len(data))
    return helpers.map(lambda first: packed(data[first : first + length], length, noisy), range(0, len(data), length))


def _residual(field: Field) -> npt.NDArray[Any] | None:
    """The distances as unsigned numbers of steps, 0 -1 1 -2 ..., in that order, if these give them back."""
    if field.step is None:
        return None
    steps = field.steps
    if steps is None:
        backend = field.home
        corner_key, distance = backend.from_host(field.corner_key), backend.from_host(field.distance)
        found, steps = (backend.to_host(array) for array in quantise(backend, corner_key, distance, field.step))
        if found.tobytes() != np.ascontiguousarray(field.distance, np.float32).tobytes():
            return None
    unsigned = (steps.view(np.uint32) << np.uint32(1)) ^ (steps >> 31).view(np.uint32)
    return unsigned.astype(np.min_scalar_type(unsigned.max()))


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
    if version not in (1, FORMAT_VERSION):
        raise InputError(f"format version {version}; this sdfcli reads versions 1 and {FORMAT_VERSION}")
    if int(_attribute(file, "lattice_bits")) != LATTICE_BITS:
        raise InputError(f"lattice_bits must be {LATTICE_BITS}")
    origin = np.asarray(_attribute(file, "domain_origin"), np.float64)
    length = float(_attribute(file, "domain_length"))
    if origin.shape != (3,) or not np.isfinite(origin).all() or not (np.isfinite(length) and length > 0):
        raise InputError("the domain is not a cube")
    info = json.loads(_text(_attribute(file, "info")))
    if not isinstance(info, dict):
        raise InputError("info is not a JSON object")
    level = _read_dataset(file, "leaf_level", np.uint8)
    if level.max() > MAX_DEPTH:
        raise InputError(f"a leaf is deeper than {MAX_DEPTH} levels")
    if len(level) >= MOST_LEAVES:
        raise InputError(f"more leaves than {MOST_LEAVES - 1:,}")
    arrays = _read_arrays_1(file, level) if version == 1 else _read_arrays(file, level)
    if not np.isfinite(arrays["distance"]).all():
        raise InputError("a distance is not finite")
    if "nearest" in file:
        arrays["nearest"] = _read_dataset(file, "nearest", np.uint32)
        if len(arrays["nearest"]) != len(arrays["corner_key"]):
            raise InputError("datasets of one kind differ in length")
    return Field(Domain(origin, length), leaf_level=level, **arrays, info=info)


def _read_arrays_1(file: Any, level: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """leaf_key, corner_key and distance of version 1, which stores all three."""
    key = _read_dataset(file, "leaf_key", np.uint64)
    corner_key, distance = _read_dataset(file, "corner_key", np.uint64), _read_dataset(file, "distance", np.float32)
    if len(level) != len(key) or len(distance) != len(corner_key):
        raise InputError("datasets of one kind differ in length")
    _check_leaves(key, level)
    if np.any(corner_key[1:] <= corner_key[:-1]):
        raise InputError("corner_key is not sorted")
    backend = any_backend()
    own = corner_keys(backend, backend.from_host(key), backend.from_host(level))
    if len(corner_key) > len(own):
        raise InputError("corner_key has keys of no leaf's corner")
    return {"leaf_key": key, "corner_key": corner_key, "distance": distance}


def _read_arrays(file: Any, level: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """leaf_key, corner_key, distance and step. The keys follow from the levels."""
    coded = "residual" in file
    stored = _read_dataset(file, "residual", *RESIDUALS) if coded else _read_dataset(file, "distance", np.float32)
    if len(stored) <= len(level):  # the lower corners of the leaves alone are as many
        raise InputError("there are fewer corners than leaves")
    backend = any_backend()
    if LEAF_BYTES * len(level) > backend.memory_free():
        raise InputError(f"its {len(level):,} leaves do not fit into memory")
    key = _leaf_keys(level)
    corner_key = corner_keys(backend, backend.from_host(key), backend.from_host(level))
    if len(corner_key) != len(stored):
        raise InputError(f"{len(stored):,} corners have distances, but the leaves have {len(corner_key):,}")
    arrays = {"leaf_key": key, "corner_key": backend.to_host(corner_key)}
    if not coded:
        return {**arrays, "distance": stored}
    step = float(_attribute(file, "distance_step"))
    if not (np.isfinite(step) and step > 0):
        raise InputError("distance_step must be a positive number")
    unsigned = stored.astype(np.uint32)
    steps = (unsigned >> np.uint32(1)).view(np.int32) ^ -(unsigned & np.uint32(1)).view(np.int32)
    distance = restore(backend, corner_key, backend.from_host(steps), step)
    return {**arrays, "distance": backend.to_host(distance), "step": step}


def _leaf_keys(level: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Where the leaves lie, one after the other along the Morton curve."""
    size = _size(level)
    key = np.zeros(len(level), np.uint64)
    np.cumsum(size[:-1], out=key[1:])
    _check_leaves(key, level)
    return key


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


def _read_dataset(file: Any, name: str, *dtypes: type) -> npt.NDArray[Any]:
    """A list of one of these types."""
    import h5py

    dataset = file.get(name)
    wanted = isinstance(dataset, h5py.Dataset) and any(dataset.dtype == dtype for dtype in dtypes)
    if not wanted or dataset.ndim != 1 or dataset.is_virtual:
        raise InputError(f"{name} must be a list of {' or '.join(np.dtype(dtype).name for dtype in dtypes)}")
    if dataset.file.filename != file.filename or dataset.external or not 0 < len(dataset) < 2**32 - 16:
        raise InputError(f"{name} lies in another file, or has an impossible size")
    if len(dataset) * dataset.dtype.itemsize > MOST_PACKED * dataset.id.get_storage_size():
        raise InputError(f"{name} claims more entries than the file holds")
    _check_chunks(dataset, name)
    if len(dataset) * dataset.dtype.itemsize > any_backend().memory_free():
        raise InputError(f"{name} does not fit into memory")
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


def _size(level: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """How many cells of the lattice leaves hold."""
    return np.uint64(1) << (np.uint64(3) * (np.uint64(LATTICE_BITS) - level))


def _check_leaves(key: npt.NDArray[np.uint64], level: npt.NDArray[np.uint8]) -> None:
    """The leaves must be cells of an octree that fill the domain, one after the other along the Morton curve."""
    size = _size(level)
    whole = np.uint64(1) << np.uint64(3 * LATTICE_BITS)
    end = np.append(key[1:], whole)
    if key[0] != 0 or np.any(key >= whole) or np.any(key % size) or np.any(end <= key) or np.any(end - key != size):
        raise InputError("the leaves do not fill the domain")
