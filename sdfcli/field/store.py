"""HDF5 files of fields, as specified in docs/reference/file.md."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli import __version__
from sdfcli.errors import InputError, OutOfMemoryError, SdfError
from sdfcli.field.chunks import DEFLATE, packed
from sdfcli.field.field import Field, any_backend
from sdfcli.field.hdf5 import attribute, attributes_sha256, has, read_list, real_number, text, whole_number
from sdfcli.field.schema import check_info
from sdfcli.mesh.mesh import Domain
from sdfcli.octree.corners import corner_keys
from sdfcli.octree.quantise import quantise, restore
from sdfcli.params import LENGTHS, MAX_DEPTH, MOST_AWAY
from sdfcli.runtime.files import existing_file, written_whole
from sdfcli.runtime.hardware import available_threads
from sdfcli.runtime.memory import unreadable
from sdfcli.spatial.morton import LATTICE_BITS

FORMAT, FORMAT_VERSION = "sdfcli-adf", 3
ATTRIBUTES_SUM = "attributes_sha256"
CHUNK = 1 << 16
MOST_LEAVES = 1 << 31
LEAF_BYTES = 150
"""Bytes of working memory per leaf."""
RESIDUALS = (np.uint8, np.uint16, np.uint32)
PARTS, MOST_STEPS = (2, 4, 8, 16, 32, 64, 128), 2**31 - 2**8


def save(field: Field, path: Path, force: bool = False) -> Path:
    """Writes a field, whole or not at all.

    Raises UsageError if the file exists and `force` is not given, or if it cannot be written; InputError for an `info`
    that `load` rejects.
    """
    check_info(field.info)
    with written_whole(path, force) as temporary:
        temporary.write_bytes(_image(field))
    return path


def _image(field: Field) -> bytes:
    """The file's content, made in memory: on a full disk HDF5 may abort the process."""
    import h5py

    with h5py.File(secrets.token_hex(8), "w", driver="core", backing_store=False) as file:  # HDF5 opens a name once
        _write(file, field)
        file.flush()
        return bytes(file.id.get_file_image())


def _write(file: Any, field: Field) -> None:
    residuals = _residuals(field)
    datasets = {"leaf_level": np.ascontiguousarray(field.leaf_level, np.uint8)}
    datasets |= residuals or {"distance": np.ascontiguousarray(field.distance, np.float32)}
    if field.nearest is not None:
        datasets["nearest"] = np.ascontiguousarray(field.nearest, np.uint32)
    with ThreadPoolExecutor(available_threads()) as helpers:
        chunks = {name: _chunks(helpers, data, noisy=name == "residual") for name, data in datasets.items()}
        # Texts of fixed length: others lie in a heap, and HDF5 hangs on some broken heaps.
        file.attrs["format"] = np.bytes_(FORMAT)
        file.attrs["format_version"] = FORMAT_VERSION
        file.attrs["tool_version"] = np.bytes_(__version__)
        file.attrs["domain_origin"] = np.asarray(field.domain.origin, np.float64)
        file.attrs["domain_length"] = float(field.domain.length)
        file.attrs["lattice_bits"] = LATTICE_BITS
        file.attrs["units"] = np.bytes_("those of the mesh")
        file.attrs["sign_convention"] = np.bytes_("negative inside")
        file.attrs["content_sha256"] = np.bytes_(field.content_sha256)
        file.attrs["info"] = np.bytes_(json.dumps(field.info, sort_keys=True))
        if residuals is not None and field.step is not None:
            file.attrs["distance_step"] = field.parts * field.step
        if "residual_part" in datasets:
            file.attrs["distance_parts"] = field.parts
        if "nearest" in datasets:
            file.attrs["nearest_sha256"] = np.bytes_(_sha256(datasets["nearest"]))
        file.attrs[ATTRIBUTES_SUM] = np.bytes_(attributes_sha256(file, ATTRIBUTES_SUM))
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
    """A dataset's chunks, packed in parallel."""
    length = min(CHUNK, len(data))
    return helpers.map(lambda first: packed(data[first : first + length], length, noisy), range(0, len(data), length))


def _residuals(field: Field) -> dict[str, npt.NDArray[Any]] | None:
    """The datasets of quantised distances: residuals in steps, coded as unsigned numbers (0 -1 1 -2 ...), and in parts
    of steps if there are any. None where they do not restore the distances exactly."""
    if field.step is None:
        return None
    steps = field.steps
    if steps is None:
        backend = field.home
        corner_key, distance = backend.from_host(field.corner_key), backend.from_host(field.distance)
        found, steps = (backend.to_host(array) for array in quantise(backend, corner_key, distance, field.step))
        if found.tobytes() != np.ascontiguousarray(field.distance, np.float32).tobytes():
            return None
    if field.parts == 1:
        return {"residual": _unsigned(steps)}
    whole = (steps + np.int32(field.parts // 2)) // np.int32(field.parts)
    return {"residual": _unsigned(whole), "residual_part": _unsigned(steps - whole * np.int32(field.parts))}


def _unsigned(steps: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
    unsigned = (steps.view(np.uint32) << np.uint32(1)) ^ (steps >> 31).view(np.uint32)
    return unsigned.astype(np.min_scalar_type(unsigned.max()))


def _signed(unsigned: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    wide = unsigned.astype(np.uint32)
    return np.asarray((wide >> np.uint32(1)).view(np.int32) ^ -(wide & np.uint32(1)).view(np.int32))


def is_field(path: Path) -> bool:
    """Whether a file starts as HDF5."""
    try:
        if not path.is_file():  # opening a pipe would block
            return False
        with open(path, "rb") as file:
            return file.read(8) == b"\x89HDF\r\n\x1a\n"
    except OSError:
        return False


def load(path: str | Path) -> Field:
    """Loads a field from an HDF5 file. Types, ranges and checksums are checked before use.

    Raises:
        InputError: the file is missing, damaged, or no field.
        OutOfMemoryError: the field does not fit into memory.
    """
    import h5py

    path = existing_file(path)
    try:
        with h5py.File(path, "r") as file:
            field = _read(file)
        field.check_corners()
    except (SdfError, OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise unreadable(path, "not an intact field file", error) from error
    return field


def _read(file: Any) -> Field:
    if text(file, "format") != FORMAT:
        raise InputError("not a field of sdfcli")
    version = whole_number(file, "format_version")
    if not 1 <= version <= FORMAT_VERSION:
        raise InputError(f"format version {version}; this sdfcli reads versions 1 to {FORMAT_VERSION}")
    summed = version >= 3 or ATTRIBUTES_SUM in file.attrs
    if summed and attributes_sha256(file, ATTRIBUTES_SUM) != text(file, ATTRIBUTES_SUM):
        raise _damaged("attributes", ATTRIBUTES_SUM)
    field = _field(file, version)
    if field.content_sha256 != text(file, "content_sha256"):
        raise _damaged("content", "content_sha256")
    if summed and field.nearest is not None and _sha256(field.nearest) != text(file, "nearest_sha256"):
        raise _damaged("nearest", "nearest_sha256")
    return field


def _field(file: Any, version: int) -> Field:
    """The field in a file, without its checksums, which a hostile file has right: every value is checked."""
    if whole_number(file, "lattice_bits") != LATTICE_BITS:
        raise InputError(f"lattice_bits must be {LATTICE_BITS}")
    domain = _read_domain(file)
    info = json.loads(text(file, "info"))
    check_info(info)
    level = read_list(file, "leaf_level", np.uint8)
    if level.max() > MAX_DEPTH:
        raise InputError(f"a leaf is deeper than {MAX_DEPTH} levels")
    if len(level) >= MOST_LEAVES:
        raise InputError(f"more leaves than {MOST_LEAVES - 1:,}")
    arrays = _read_arrays_1(file, level) if version == 1 else _read_arrays(file, level)
    if not np.isfinite(arrays["distance"]).all():
        raise InputError("a distance is not finite")
    if has(file, "nearest"):
        arrays["nearest"] = read_list(file, "nearest", np.uint32)
        if len(arrays["nearest"]) != len(arrays["corner_key"]):
            raise InputError("datasets of one kind differ in length")
    return Field(domain, leaf_level=level, **arrays, info=info)


def _read_domain(file: Any) -> Domain:
    origin, length = attribute(file, "domain_origin"), real_number(file, "domain_length")
    if np.shape(origin) != (3,) or origin.dtype.kind not in "iuf" or not np.isfinite(origin).all():
        raise InputError("domain_origin must be three finite numbers")
    if not LENGTHS[0] < length < LENGTHS[1]:
        raise InputError(f"domain_length must lie between {LENGTHS[0]:g} and {LENGTHS[1]:g}, not be {length:g}")
    if np.abs(origin).max() > MOST_AWAY * length:
        raise InputError("domain_origin is farther away than float64 tells places in the domain apart")
    return Domain(origin.astype(np.float64), length)


def _damaged(what: str, checksum: str) -> InputError:
    return InputError(f"not an intact field: {checksum} does not match its {what}; the file was damaged or changed")


def _sha256(array: npt.NDArray[Any]) -> str:
    return hashlib.sha256(array.data).hexdigest()


def _read_arrays_1(file: Any, level: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """leaf_key, corner_key and distance of format version 1, which stores all three."""
    key = read_list(file, "leaf_key", np.uint64)
    corner_key, distance = read_list(file, "corner_key", np.uint64), read_list(file, "distance", np.float32)
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
    """leaf_key, corner_key, distance and step of later versions, whose keys follow from the levels."""
    coded = has(file, "residual")
    stored = read_list(file, "residual", *RESIDUALS) if coded else read_list(file, "distance", np.float32)
    if len(stored) <= len(level):  # each leaf has a lower corner of its own
        raise InputError("there are fewer corners than leaves")
    backend = any_backend()
    if LEAF_BYTES * len(level) > backend.memory_free():
        raise OutOfMemoryError(f"its {len(level):,} leaves do not fit into memory")
    key = _leaf_keys(level)
    corner_key = corner_keys(backend, backend.from_host(key), backend.from_host(level))
    if len(corner_key) != len(stored):
        raise InputError(f"{len(stored):,} corners have distances, but the leaves have {len(corner_key):,}")
    arrays = {"leaf_key": key, "corner_key": backend.to_host(corner_key)}
    if not coded:
        return {**arrays, "distance": stored}
    step = real_number(file, "distance_step")
    if not step > 0:
        raise InputError("distance_step must be a positive number")
    steps, parts = _signed(stored), 1
    if has(file, "residual_part"):
        part, parts = read_list(file, "residual_part", np.uint8), whole_number(file, "distance_parts")
        if len(part) != len(stored) or parts not in PARTS:
            raise InputError(f"residual_part must be as long as residual, and distance_parts one of {PARTS}")
        if max(int(steps.max()), -int(steps.min())) >= MOST_STEPS // parts:
            raise InputError("residual has an impossible number of steps")
        steps = steps * np.int32(parts) + _signed(part)
    distance = restore(backend, corner_key, backend.from_host(steps), step / parts)
    return {**arrays, "distance": backend.to_host(distance), "step": step / parts, "parts": parts}


def _leaf_keys(level: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Morton codes (n,) of leaves that fill the domain in Morton order, from their levels."""
    size = _size(level)
    key = np.zeros(len(level), np.uint64)
    np.cumsum(size[:-1], out=key[1:])
    _check_leaves(key, level)
    return key


def _size(level: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """The number of lattice cells in leaves."""
    return np.uint64(1) << (np.uint64(3) * (np.uint64(LATTICE_BITS) - level))


def _check_leaves(key: npt.NDArray[np.uint64], level: npt.NDArray[np.uint8]) -> None:
    """Raises InputError unless the leaves are cells of an octree that fill the domain, in Morton order."""
    size = _size(level)
    whole = np.uint64(1) << np.uint64(3 * LATTICE_BITS)
    end = np.append(key[1:], whole)
    if key[0] != 0 or np.any(key >= whole) or np.any(key % size) or np.any(end <= key) or np.any(end - key != size):
        raise InputError("the leaves do not fill the domain")
