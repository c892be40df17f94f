"""Fields in HDF5, in a separate file or in a group, as specified in docs/reference/file.md."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli import __version__
from sdfcli.backend import any_backend
from sdfcli.errors import InputError, OutOfMemoryError, SdfError
from sdfcli.field.chunks import packed
from sdfcli.field.field import Field
from sdfcli.field.hdf5 import (
    attribute,
    attributes_sha256,
    has,
    read_list,
    real_number,
    text,
    values_sha256,
    whole_number,
    write_chunks,
)
from sdfcli.field.schema import check_info
from sdfcli.mesh.mesh import Domain
from sdfcli.octree.causes import is_known
from sdfcli.octree.corners import corner_keys
from sdfcli.octree.quantise import quantise, restore
from sdfcli.params import ENDINGS, LENGTHS, MAX_DEPTH, MOST_AWAY
from sdfcli.runtime.files import check_ending, existing_file, written_whole
from sdfcli.runtime.hardware import available_threads
from sdfcli.runtime.libraries import import_h5py
from sdfcli.runtime.memory import unreadable
from sdfcli.runtime.threads import executor
from sdfcli.spatial.morton import LATTICE_BITS

FORMAT, FORMAT_VERSION = "sdfcli-adf", 3
SEQUENCE = "sdfcli-adf-sequence"
"""Format name for files with one field per frame (see sdfcli/sequence)."""
ATTRIBUTES_SUM = "attributes_sha256"
CHUNK = 1 << 16
MOST_LEAVES = 1 << 31
LEAF_BYTES = 150
"""Working memory per leaf, in bytes."""
RESIDUALS = (np.uint8, np.uint16, np.uint32)
FAULTS = SdfError, OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError
"""Exceptions from reading a file that is damaged, hostile, or too large for memory."""
OPTIONAL: dict[str, type] = {"nearest": np.uint32, "leaf_cause": np.uint8}
"""Optional arrays with their dtypes; each has a separate checksum."""
PARTS, MOST_STEPS = (2, 4, 8, 16, 32, 64, 128), 2**31 - 2**8


def save(field: Field, path: Path, force: bool = False) -> Path:
    """Writes a field, whole or not at all.

    Raises UsageError if the file cannot be written, exists without `force`, or has another format's ending or none;
    InputError for an `info` that `load` rejects.
    """
    check_ending(path, *ENDINGS)
    check_info(field.info)
    with written_whole(path, force) as temporary:
        temporary.write_bytes(_image(field))
    return path


def _image(field: Field) -> bytes:
    with executor(available_threads()) as helpers:
        return pack(field, helpers).image()


class PackedList(NamedTuple):
    """A dataset (length,) in HDF5's storage form: packed chunks of CHUNK entries."""

    length: int
    dtype: np.dtype[Any]
    chunks: Iterable[bytes]


@dataclass(frozen=True)
class PackedField:
    """A field in HDF5's storage form: attributes and datasets by name."""

    attributes: dict[str, Any]
    lists: dict[str, PackedList]

    def write(self, group: Any) -> None:
        """Writes the field into an open HDF5 file's root or an empty group."""
        write_summed(group, self.attributes)
        for name, (length, dtype, chunks) in self.lists.items():
            write_chunks(group, name, length, dtype, CHUNK, chunks)

    def image(self) -> bytes:
        """The field's file content, built in memory: on a full disk HDF5 may abort the process."""
        with self._in_memory() as file:
            return bytes(file.id.get_file_image())

    def field(self) -> Field:
        """The field, checked as if read from a file. Raises one of FAULTS if unreadable."""
        with self._in_memory() as file:
            return read(file)

    @contextmanager
    def _in_memory(self) -> Iterator[Any]:
        h5py = import_h5py()

        # HDF5 opens a name only once.
        with h5py.File(secrets.token_hex(8), "w", driver="core", backing_store=False) as file:
            self.write(file)
            file.flush()
            yield file


def write_summed(group: Any, attributes: dict[str, Any]) -> None:
    """Adds attributes and their checksum to a group."""
    for name, value in {**attributes, ATTRIBUTES_SUM: np.bytes_(values_sha256(attributes))}.items():
        group.attrs[name] = value


def pack(field: Field, helpers: Executor, quick: bool = False) -> PackedField:
    """Packs a field for HDF5. `helpers` pack the chunks, also after the return.

    quick: see `packed`; a quarter of the time, for one to four percent more bytes.
    """
    residuals = _residuals(field)
    arrays = {"leaf_level": np.ascontiguousarray(field.leaf_level, np.uint8)}
    arrays |= residuals or {"distance": np.ascontiguousarray(field.distance, np.float32)}
    optional = {name: array for name in OPTIONAL if (array := getattr(field, name)) is not None}
    arrays |= {name: np.ascontiguousarray(array, OPTIONAL[name]) for name, array in optional.items()}

    def packed_list(name: str, array: npt.NDArray[Any]) -> PackedList:
        noisy, length = name == "residual", min(CHUNK, len(array))
        firsts = range(0, len(array), length)
        chunks = helpers.map(lambda first: packed(array[first : first + length], length, noisy, quick), firsts)
        return PackedList(len(array), array.dtype, chunks)

    lists = {name: packed_list(name, array) for name, array in arrays.items()}  # while the field is hashed
    attributes = attributes_of(field)
    if residuals is not None and field.step is not None:
        attributes["distance_step"] = field.parts * field.step
    if "residual_part" in arrays:
        attributes["distance_parts"] = field.parts
    attributes |= {f"{name}_sha256": np.bytes_(_sha256(arrays[name])) for name in optional}
    return PackedField(attributes, lists)


def attributes_of(field: Field) -> dict[str, Any]:
    """A field file's attributes, independent of its distance storage."""
    # Fixed-length texts: others are stored in a heap, and HDF5 hangs on some broken heaps.
    return {
        "format": np.bytes_(FORMAT),
        "format_version": FORMAT_VERSION,
        "tool_version": np.bytes_(__version__),
        "domain_origin": np.asarray(field.domain.origin, np.float64),
        "domain_length": float(field.domain.length),
        "lattice_bits": LATTICE_BITS,
        "units": np.bytes_("those of the mesh"),
        "sign_convention": np.bytes_("negative inside"),
        "content_sha256": np.bytes_(field.content_sha256),
        "info": np.bytes_(json.dumps(field.info, sort_keys=True)),
    }


def _residuals(field: Field) -> dict[str, npt.NDArray[Any]] | None:
    """Datasets for quantised distances: residuals in steps, coded as unsigned numbers (0 -1 1 -2 ...), and in parts of
    steps, if any. None if they do not restore the distances exactly."""
    if field.step is None:
        return None
    steps = field._steps
    if steps is None:
        backend = field._home
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
    """Whether a file starts with HDF5's signature."""
    try:
        if not path.is_file():  # opening a pipe would block
            return False
        with open(path, "rb") as file:
            return file.read(8) == b"\x89HDF\r\n\x1a\n"
    except OSError:
        return False


def load(path: str | PathLike[str]) -> Field:
    """Loads a field from an HDF5 file. Types, ranges and checksums are checked before use.

    Raises:
        InputError: the file is missing, damaged, or no field.
        OutOfMemoryError: the field does not fit into memory.
    """
    h5py = import_h5py()
    path = existing_file(path)
    try:
        with h5py.File(path, "r") as file:
            return read(file)
    except FAULTS as error:
        check_no_mesh(path)
        raise unreadable(path, "not an intact field file", error) from error


def check_no_mesh(path: Path) -> None:
    """Raises InputError for an existing file with a mesh's ending that is no HDF5 file."""
    from sdfcli.mesh.formats.readers import FORMATS

    if path.suffix.lower() in FORMATS and path.is_file() and not is_field(path):
        raise InputError(f"{path}: is a mesh, not a field; build its field: sdfcli build {path}")


def as_field(source: Field | str | PathLike[str]) -> Field:
    """A Field itself, or the one in a file. Raises the errors of `load`, and InputError for other objects."""
    if isinstance(source, Field):
        return source
    if not isinstance(source, str | PathLike):
        more = "; a sequence's frame is its at(frame)" if hasattr(source, "frame_at") else ""
        raise InputError(f"a Field, or the path that sdfcli.load takes, is needed, not {type(source).__name__}{more}")
    return load(source)


def read(file: Any) -> Field:
    """Reads and checks the field in an open HDF5 file or a group. Raises one of FAULTS for anything else."""
    found = text(file, "format")
    if found == SEQUENCE:
        frames = whole_number(file, "frames")
        raise InputError(
            f"is a sequence of {frames:,} frame{'s' * (frames != 1)}; choose one with --frame N (in "
            "Python: sdfcli.load_sequence)"
        )
    if found != FORMAT:
        raise InputError("not a field of sdfcli")
    version = whole_number(file, "format_version")
    if not 1 <= version <= FORMAT_VERSION:
        raise InputError(f"format version {version}; this sdfcli reads versions 1 to {FORMAT_VERSION}")
    summed = version >= 3 or ATTRIBUTES_SUM in file.attrs
    if summed:
        check_attributes(file)
    field = _field(file, version)
    if field.content_sha256 != text(file, "content_sha256"):
        raise damaged("content", "content_sha256")
    if summed:
        for name in OPTIONAL:
            _check_sum(file, name, getattr(field, name))
    field._arrays_on(field._home)  # raises InputError if a leaf's corner is missing
    return field


def check_attributes(file: Any) -> None:
    """Raises InputError if a group's attributes do not match their checksum."""
    if attributes_sha256(file, ATTRIBUTES_SUM) != text(file, ATTRIBUTES_SUM):
        raise damaged("attributes", ATTRIBUTES_SUM)


def _check_sum(file: Any, name: str, array: npt.NDArray[Any] | None) -> None:
    """Raises InputError if an optional array does not match its checksum, or only one of the two exists."""
    checksum = f"{name}_sha256"
    if (array is None) == (checksum in file.attrs):
        raise damaged("datasets", checksum)
    if array is not None and _sha256(array) != text(file, checksum):
        raise damaged(name, checksum)


def _field(file: Any, version: int) -> Field:
    """Reads a file's field without its checksums, which a hostile file gets right: every value is checked."""
    if whole_number(file, "lattice_bits") != LATTICE_BITS:
        raise InputError(f"lattice_bits must be {LATTICE_BITS}")
    domain = read_domain(file)
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
    lengths = {"nearest": len(arrays["corner_key"]), "leaf_cause": len(level)}
    for name, dtype in OPTIONAL.items():
        if has(file, name):
            arrays[name] = read_list(file, name, dtype)
            if len(arrays[name]) != lengths[name]:
                raise InputError("datasets of one kind differ in length")
    if "leaf_cause" in arrays and not is_known(arrays["leaf_cause"]):
        raise InputError("a leaf has an unknown cause")
    return Field(domain, leaf_level=level, **arrays, info=info)


def read_domain(file: Any) -> Domain:
    """The domain from a group's attributes. Raises InputError for an impossible domain."""
    origin, length = attribute(file, "domain_origin"), real_number(file, "domain_length")
    if np.shape(origin) != (3,) or origin.dtype.kind not in "iuf" or not np.isfinite(origin).all():
        raise InputError("domain_origin must be three finite numbers")
    if not LENGTHS[0] < length < LENGTHS[1]:
        raise InputError(f"domain_length must lie between {LENGTHS[0]:g} and {LENGTHS[1]:g}, not be {length:g}")
    if np.abs(origin).max() > MOST_AWAY * length:
        raise InputError("domain_origin is farther away than float64 tells places in the domain apart")
    return Domain(origin.astype(np.float64), length)


def damaged(what: str, checksum: str) -> InputError:
    """The error for a checksum mismatch."""
    return InputError(f"not an intact field: {checksum} does not match its {what}; the file was damaged or changed")


def _sha256(array: npt.NDArray[Any]) -> str:
    return hashlib.sha256(array.data).hexdigest()


def _read_arrays_1(file: Any, level: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """leaf_key, corner_key and distance in format version 1, which stores all three."""
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
    """leaf_key, corner_key, distance and, if quantised, step and parts in later versions; keys follow from levels."""
    coded = has(file, "residual")
    stored = read_list(file, "residual", *RESIDUALS) if coded else read_list(file, "distance", np.float32)
    if len(stored) <= len(level):  # each leaf has its own lower corner
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
    """Morton codes (n,), from the levels of leaves that fill the domain in Morton order."""
    size = _size(level)
    key = np.zeros(len(level), np.uint64)
    np.cumsum(size[:-1], out=key[1:])
    _check_leaves(key, level)
    return key


def _size(level: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Leaf volumes (n,) uint64, in lattice cells."""
    return np.uint64(1) << (np.uint64(3) * (np.uint64(LATTICE_BITS) - level))


def _check_leaves(key: npt.NDArray[np.uint64], level: npt.NDArray[np.uint8]) -> None:
    """Raises InputError unless the leaves are octree cells filling the domain, in Morton order."""
    size = _size(level)
    whole = np.uint64(1) << np.uint64(3 * LATTICE_BITS)
    end = np.append(key[1:], whole)
    if key[0] != 0 or np.any(key >= whole) or np.any(key % size) or np.any(end <= key) or np.any(end - key != size):
        raise InputError("the leaves do not fill the domain")
