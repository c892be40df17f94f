"""Fields in HDF5, in a separate file or in a group, as specified in docs/reference/file.md."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from sdfcli import __version__
from sdfcli.backend import any_backend
from sdfcli.errors import InputError, OutOfMemoryError, SdfError
from sdfcli.field.blocks import Blocks, check_leaves, leaf_keys, signed
from sdfcli.field.chunks import packed
from sdfcli.field.coarse import MOST_COARSE, is_large, overview_of
from sdfcli.field.encoding import content_sha256
from sdfcli.field.field import Field
from sdfcli.field.hdf5 import (
    Bytes,
    StoredList,
    add_list,
    attribute,
    attributes_sha256,
    damaged,
    has,
    open_group,
    open_list,
    read_list,
    real_number,
    text,
    values_sha256,
    whole_number,
    write_chunks,
)
from sdfcli.field.schema import check_info
from sdfcli.field.stored import CHUNK, CheckedList, StoredLeaves
from sdfcli.mesh.mesh import Domain
from sdfcli.octree.causes import is_known
from sdfcli.octree.corners import corner_keys
from sdfcli.octree.quantise import restore
from sdfcli.params import ENDINGS, LENGTHS, MAX_DEPTH, MOST_AWAY
from sdfcli.runtime.files import check_ending, existing_file, written_whole
from sdfcli.runtime.hardware import available_threads
from sdfcli.runtime.libraries import import_h5py
from sdfcli.runtime.memory import unreadable
from sdfcli.runtime.remote import is_remote, remote_ranges, shown
from sdfcli.runtime.schedule import Deferred
from sdfcli.runtime.threads import executor
from sdfcli.spatial.morton import LATTICE_BITS

FORMAT, FORMAT_VERSION = "sdfcli-adf", 4
SEQUENCE = "sdfcli-adf-sequence"
"""Format name for files with one field per frame (see sdfcli/sequence)."""
ATTRIBUTES_SUM = "attributes_sha256"
COARSE, COARSE_SUM = "coarse", "coarse_sha256"
"""Group of the overview, and the attribute with its content_sha256."""
AT_ONCE = 1 << 20
"""Leaves up to which a file is read and checked whole when it is opened."""
MOST_LEAVES = 1 << 31
LEAF_BYTES = 150
"""Working memory per leaf, in bytes."""
RESIDUALS = (np.uint8, np.uint16, np.uint32)
FAULTS = SdfError, OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError
"""Exceptions from reading a file that is damaged, hostile, or too large for memory."""
HDF5 = b"\x89HDF\r\n\x1a\n"
LEVEL_SETS = b" BDV\0\0\0\0", b"NanoVDB"
"""First bytes of OpenVDB's and NanoVDB's files."""
UNPACKED = "block", "chunk_sha256"
"""Lists that are small, or random."""
OPTIONAL: dict[str, type] = {"nearest": np.uint32, "leaf_cause": np.uint8, "bound": np.uint8}
"""Optional datasets with their dtypes; each has a separate checksum."""
ATTRIBUTES = {"bound": "leaf_bound"}
"""A Field's attributes for datasets with other names."""
PARTS = (2, 4, 8, 16, 32, 64, 128)


def save(field: Field, path: Path, force: bool = False) -> Path:
    """Writes a field, whole or not at all.

    Raises UsageError if the file cannot be written, exists without `force`, or has another format's ending or none;
    InputError for an `info` that `load` rejects.
    """
    check_ending(path, *ENDINGS)
    with written_whole(path, force) as temporary:
        write(field, temporary)
    return path


def write(field: Field, path: Path) -> str:
    """Writes a field's file, not atomically. Returns its `content_sha256`. Raises InputError for an `info` that `load`
    rejects."""
    check_info(field.info)
    with executor(available_threads()) as helpers:
        packed_field = pack(field, helpers)
        path.write_bytes(packed_field.image())
    return str(packed_field.attributes["content_sha256"].decode())


class PackedList(NamedTuple):
    """A dataset (length,) in HDF5's storage form: packed chunks of CHUNK entries; one of UNPACKED as it is."""

    length: int
    dtype: np.dtype[Any]
    chunks: Iterable[bytes]


@dataclass(frozen=True)
class PackedField:
    """A field in HDF5's storage form: attributes and datasets by name, and its overview."""

    attributes: dict[str, Any]
    lists: dict[str, PackedList]
    coarse: PackedField | None = None

    def write(self, group: Any) -> None:
        """Writes the field into an open HDF5 file's root or an empty group."""
        write_summed(group, self.attributes)
        # Names first, then the overview: its readers need only the file's beginning.
        added = {
            name: group.create_dataset(name, length, dtype)
            if name in UNPACKED
            else add_list(group, name, length, dtype, CHUNK)
            for name, (length, dtype, _) in self.lists.items()
        }
        if self.coarse:
            self.coarse.write(group.create_group(COARSE))
        for name, (_, dtype, chunks) in self.lists.items():
            if name in UNPACKED:
                added[name][...] = np.frombuffer(b"".join(chunks), dtype)
            else:
                write_chunks(added[name], chunks)

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


def pack(field: Field, helpers: Executor, as_frame: bool = False) -> PackedField:
    """Packs a field for HDF5. `helpers` pack the chunks, also after the return.

    as_frame: for a sequence: without OPTIONAL lists and overview, and packed quickly (see `packed`), in a quarter of
    the time, for one to four percent more bytes.
    """
    encoded = field._encoded
    names = () if as_frame else OPTIONAL
    optional = {name: array for name in names if (array := getattr(field, attribute_of(name))) is not None}
    optional = {name: np.ascontiguousarray(array, OPTIONAL[name]) for name, array in optional.items()}

    def packed_list(name: str, array: npt.NDArray[Any]) -> PackedList:
        noisy, length = name == "residual", min(CHUNK, len(array))
        firsts = range(0, len(array), length)
        chunks = helpers.map(lambda first: packed(array[first : first + length], length, noisy, as_frame), firsts)
        return PackedList(len(array), array.dtype, chunks)

    lists = {name: packed_list(name, array) for name, array in {**encoded.lists, **optional}.items()}
    unpacked: dict[str, npt.NDArray[Any]] = {"block": encoded.blocks.table, "chunk_sha256": encoded.sums}
    for name, table in unpacked.items():
        lists[name] = PackedList(table.size, table.dtype, [np.ascontiguousarray(table).tobytes()])
    attributes = attributes_of(field) | encoded.attributes
    attributes |= {f"{name}_sha256": np.bytes_(_sha256(array)) for name, array in optional.items()}
    if as_frame or not is_large(field):
        return PackedField(attributes, lists)
    coarse = pack(overview_of(field), helpers)
    return PackedField(attributes | {COARSE_SUM: coarse.attributes["content_sha256"]}, lists, coarse)


def attribute_of(name: str) -> str:
    """The Field attribute that holds an optional dataset."""
    return ATTRIBUTES.get(name, name)


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
        "corners": field.corners,
        "content_sha256": np.bytes_(field._content_sha256),
        "info": np.bytes_(json.dumps(field.info, sort_keys=True)),
    }


def is_field(path: Path) -> bool:
    """Whether a file starts with the signature of HDF5, or of a level set's file."""
    return _starts_with(path, HDF5, *LEVEL_SETS)


def is_level_set(path: Path) -> bool:
    """Whether a file starts with OpenVDB's or NanoVDB's signature."""
    return _starts_with(path, *LEVEL_SETS)


def _starts_with(path: Path, *signatures: bytes) -> bool:
    try:
        if not path.is_file():  # opening a pipe would block
            return False
        with open(path, "rb", buffering=0) as file:
            return file.read(8).startswith(signatures)
    except OSError:
        return False


def load(path: str | PathLike[str], *, coarse: bool = False) -> Field:
    """Loads a field from an HDF5 file, or makes one of the level set in an OpenVDB or NanoVDB file. Types, ranges and
    checksums are checked before use.

    Up to 2^20 leaves are read at once. Larger fields are read block by block when their values are needed: methods and
    attributes then raise these errors, too.

    coarse: of a field of more than 2^21 leaves, load its overview: the octree cut at a level, with at most 2^17 leaves
        and the field's distances at their corners. It states no error, and `info["overview"]["leaves"]` is the field's
        leaf count. `path` may be an http://, https:// or s3:// address: only the beginning of the file is fetched.

    Raises:
        InputError: the file is missing, damaged, or no field.
        DeviceError: a level set is compressed with Blosc, and the package for that is missing.
        OutOfMemoryError: the field does not fit into memory.
    """
    if coarse and is_remote(path):
        return _load_remote_overview(str(path))
    path = existing_file(path)
    if is_level_set(path):
        from sdfcli.field.level_set import load_level_set

        field = load_level_set(path)
        return overview_of(field) if coarse else field
    h5py = import_h5py()
    try:
        with h5py.File(path, "r") as file:
            overview = read_overview(file) if coarse else None
            field = overview or read(file)
    except FAULTS as error:
        check_no_mesh(path)
        raise unreadable(path, "not an intact field file", error) from error
    field._opened_as(str(path))
    return overview_of(field) if coarse and not overview else field


def _load_remote_overview(name: str) -> Field:
    h5py = import_h5py()
    with remote_ranges(name) as ranges:

        def opened() -> Field:
            with h5py.File(ranges, "r") as file:
                content = Bytes(ranges.piece)
                return read_overview(file, content) or _read_small(file, content)

        try:
            return ranges.read_by(opened)
        except FAULTS as error:
            if str(error).startswith(shown(name)):  # a failed request
                raise
            raise unreadable(shown(name), "not an intact field file", error) from error


def _read_small(file: Any, content: Bytes) -> Field:
    """A field without an overview, read at once. Raises InputError for a large one."""
    field = read(file, content)
    if is_large(field):
        raise InputError("has no overview; download it, and rewrite it with one: sdfcli export FIELD.h5 -o NEW.h5")
    field._check()
    return field


def read_overview(file: Any, content: Bytes | None = None) -> Field | None:
    """Reads and checks the overview in an open HDF5 file; None without one. Raises one of FAULTS."""
    if not has(file, COARSE) or text(file, "format") != FORMAT:
        return None
    _check_version(file)
    check_attributes(file)
    coarse = read(open_group(file, COARSE), content)
    if coarse.content_sha256 != text(file, COARSE_SUM):
        raise damaged("overview", COARSE_SUM)
    domain = read_domain(file)
    if coarse.domain.length != domain.length or np.any(coarse.domain.origin != domain.origin):
        raise InputError("the overview has another domain than the field")
    if coarse.leaves > MOST_COARSE:
        raise InputError(f"the overview has more leaves than {MOST_COARSE:,}")
    return coarse


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


def read(file: Any, content: Bytes | None = None) -> Field:
    """Reads and checks the field in an open HDF5 file or a group. Raises one of FAULTS for anything else. content: the
    file's, unless it is local."""
    found = text(file, "format")
    if found == SEQUENCE:
        frames = whole_number(file, "frames")
        raise InputError(
            f"is a sequence of {frames:,} frame{'s' * (frames != 1)}; choose one with --frame N (in "
            "Python: sdfcli.load_sequence)"
        )
    if found != FORMAT:
        raise InputError("not a field of sdfcli")
    version = _check_version(file)
    summed = version >= 3 or ATTRIBUTES_SUM in file.attrs
    if summed:
        check_attributes(file)
    if version >= 4:
        return _read_blocks(file, content or Bytes.of(file))
    field = _field(file, version)
    field.__dict__["_version"] = version
    if _content_sha256_3(field) != text(file, "content_sha256"):
        raise damaged("content", "content_sha256")
    field.__dict__["content_sha256"] = text(file, "content_sha256")
    if summed:
        for name in OPTIONAL:
            _check_sum(file, name, getattr(field, attribute_of(name)))
    field._arrays_on(field._home)  # raises InputError if a leaf's corner is missing
    return field


def _check_version(file: Any) -> int:
    """The format version. Raises InputError for an unknown one."""
    version = whole_number(file, "format_version")
    if not 1 <= version <= FORMAT_VERSION:
        raise InputError(f"format version {version}; this sdfcli reads versions 1 to {FORMAT_VERSION}")
    return version


def _read_blocks(file: Any, content: Bytes) -> Field:
    """The field in a file whose leaves are in blocks. Large ones are read when they are needed."""
    domain, info = _head(file)
    if has(file, COARSE) != (COARSE_SUM in file.attrs):
        raise damaged("datasets", COARSE_SUM)
    opened = partial(open_list, file, content=content)
    level = opened("leaf_level", np.uint8)
    coded = has(file, "residual")
    values = [opened("residual", *RESIDUALS) if coded else opened("distance", np.float32)]
    attributes: dict[str, Any] = {}
    if coded:
        attributes["distance_step"] = real_number(file, "distance_step")
    if coded and has(file, "residual_part"):
        values.append(opened("residual_part", np.uint8))
        attributes["distance_parts"] = whole_number(file, "distance_parts")
    step, parts = attributes.get("distance_step"), attributes.get("distance_parts", 1)
    impossible = parts not in (PARTS if "distance_parts" in attributes else (1,))
    if not (step is None or step > 0) or impossible or len({each.length for each in values}) != 1:
        raise InputError(f"distance_step must be a positive number, and distance_parts one of {PARTS}")
    if level.length >= MOST_LEAVES:
        raise InputError(f"more leaves than {MOST_LEAVES - 1:,}")
    table, sums = read_list(file, "block", np.uint32), read_list(file, "chunk_sha256", np.uint8)
    counts = [-(-each.length // CHUNK) for each in (level, *values)]
    if len(sums) != 32 * sum(counts):
        raise InputError("chunk_sha256 has an impossible size")
    blocks = Blocks.checked(table, level.length, values[0].length)
    sums = sums.reshape(-1, 32)
    if content_sha256(domain, attributes, table, sums) != text(file, "content_sha256"):
        raise damaged("checksums", "content_sha256")
    own = np.split(sums, np.cumsum(counts)[:-1])
    levels, *lists = (CheckedList(each, part) for each, part in zip((level, *values), own, strict=True))
    corners = whole_number(file, "corners")
    leaves = StoredLeaves(blocks, corners, levels, lists, step and step / parts, parts)
    given = {"leaf_level": Deferred(leaves.levels), "leaf_key": Deferred(leaves.keys)}
    for name, of in {"corner_key": "corner_key", "distance": "value"}.items():
        given[name] = Deferred(partial(leaves.array, of))
    given |= _optional(file, content, {"nearest": corners, "leaf_cause": level.length, "bound": level.length})
    field = Field(domain, **cast("dict[str, Any]", given), info=info, step=step and step / parts, parts=parts)
    field.__dict__.update(content_sha256=text(file, "content_sha256"), _stored=leaves, _version=FORMAT_VERSION)
    if level.length <= AT_ONCE:
        field._check()
    return field


def _optional(file: Any, content: Bytes, lengths: dict[str, int]) -> dict[str, Deferred[npt.NDArray[Any]]]:
    """The optional arrays in a file, read and checked on first use."""
    found = {}
    for name, length in lengths.items():
        if has(file, name) != (f"{name}_sha256" in file.attrs):
            raise damaged("datasets", f"{name}_sha256")
        if has(file, name):
            given, checksum = open_list(file, name, OPTIONAL[name], content=content), text(file, f"{name}_sha256")
            if given.length != length:
                raise InputError("datasets of one kind differ in length")
            found[attribute_of(name)] = Deferred(partial(_checked, given, checksum))
    return found


def _checked(given: StoredList, checksum: str) -> npt.NDArray[Any]:
    array = given.all()
    if _sha256(array) != checksum:
        raise damaged(given.name, f"{given.name}_sha256")
    if given.name == "leaf_cause" and not is_known(array):
        raise InputError("a leaf has an unknown cause")
    return array


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
    """Reads the field of a file of versions 1 to 3 without its checksums, which a hostile file gets right: every value
    is checked."""
    domain, info = _head(file)
    level = read_list(file, "leaf_level", np.uint8)
    if level.max() > MAX_DEPTH:
        raise InputError(f"a leaf is deeper than {MAX_DEPTH} levels")
    if len(level) >= MOST_LEAVES:
        raise InputError(f"more leaves than {MOST_LEAVES - 1:,}")
    arrays = _read_arrays_1(file, level) if version == 1 else _read_arrays(file, level)
    if not np.isfinite(arrays["distance"]).all():
        raise InputError("a distance is not finite")
    lengths = {"nearest": len(arrays["corner_key"]), "leaf_cause": len(level), "bound": len(level)}
    for name, dtype in OPTIONAL.items():
        if has(file, name):
            own = arrays[attribute_of(name)] = read_list(file, name, dtype)
            if len(own) != lengths[name]:
                raise InputError("datasets of one kind differ in length")
    if "leaf_cause" in arrays and not is_known(arrays["leaf_cause"]):
        raise InputError("a leaf has an unknown cause")
    return Field(domain, leaf_level=level, **arrays, info=info)


def _head(file: Any) -> tuple[Domain, dict[str, Any]]:
    """A field's domain and `info`."""
    if whole_number(file, "lattice_bits") != LATTICE_BITS:
        raise InputError(f"lattice_bits must be {LATTICE_BITS}")
    domain = read_domain(file)
    info = json.loads(text(file, "info"))
    check_info(info)
    return domain, info


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


def _content_sha256_3(field: Field) -> str:
    """A field's content_sha256 in files of versions 1 to 3."""
    digest = hashlib.sha256(np.array([*field.domain.origin, field.domain.length], "<f8").tobytes())
    for array, dtype in (
        (field.leaf_key, "<u8"),
        (field.leaf_level, "u1"),
        (field.corner_key, "<u8"),
        (field.distance, "<f4"),
    ):
        digest.update(np.ascontiguousarray(array, dtype).data)
    return digest.hexdigest()


def _sha256(array: npt.NDArray[Any]) -> str:
    return hashlib.sha256(array.data).hexdigest()


def _read_arrays_1(file: Any, level: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """leaf_key, corner_key and distance in format version 1, which stores all three."""
    key = read_list(file, "leaf_key", np.uint64)
    corner_key, distance = read_list(file, "corner_key", np.uint64), read_list(file, "distance", np.float32)
    if len(level) != len(key) or len(distance) != len(corner_key):
        raise InputError("datasets of one kind differ in length")
    check_leaves(key, level)
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
    key = leaf_keys(level)
    corner_key = corner_keys(backend, backend.from_host(key), backend.from_host(level))
    if len(corner_key) != len(stored):
        raise InputError(f"{len(stored):,} corners have distances, but the leaves have {len(corner_key):,}")
    arrays = {"leaf_key": key, "corner_key": backend.to_host(corner_key)}
    if not coded:
        return {**arrays, "distance": stored}
    step = real_number(file, "distance_step")
    if not step > 0:
        raise InputError("distance_step must be a positive number")
    steps, parts = signed(stored), 1
    if has(file, "residual_part"):
        part, parts = read_list(file, "residual_part", np.uint8), whole_number(file, "distance_parts")
        if len(part) != len(stored) or parts not in PARTS:
            raise InputError(f"residual_part must be as long as residual, and distance_parts one of {PARTS}")
        steps = steps * parts + signed(part)
    if max(int(steps.max()), -int(steps.min())) >= 2**31:
        raise InputError("residual has an impossible number of steps")
    steps = steps.astype(np.int32)
    distance = restore(backend, corner_key, backend.from_host(steps), step / parts)
    return {**arrays, "distance": backend.to_host(distance), "step": step / parts, "parts": parts}
