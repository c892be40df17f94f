"""HDF5 sequence files, a group per frame, as specified in docs/reference/file.md."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sdfcli import __version__
from sdfcli.errors import InputError
from sdfcli.field.chunks import packed
from sdfcli.field.field import Field
from sdfcli.field.hdf5 import add_list, damaged, open_group, read_list, text, whole_number, write_chunks
from sdfcli.field.schema import check_info
from sdfcli.field.store import (
    FAULTS,
    FORMAT,
    SEQUENCE,
    PackedField,
    check_attributes,
    is_field,
    read,
    read_domain,
    write_summed,
)
from sdfcli.field.stored import CHUNK
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.mesh import Domain
from sdfcli.runtime.files import existing_file
from sdfcli.runtime.libraries import import_h5py
from sdfcli.runtime.memory import unreadable
from sdfcli.sequence.field_sequence import FieldSequence

T = TypeVar("T")

FORMAT_VERSION = 1
FRAMES = "frame"
"""Parent group of the frames' groups."""
MOST_FRAMES = 1_000_000
DIGITS = 6


def frame_name(index: int) -> str:
    """Name of a frame's group."""
    return f"{index:0{DIGITS}d}"


class SequenceWriter:
    """Writer for a sequence file's content, frame by frame.

    times: (t,), seconds, increasing. info: the file's; None: from the frames'.
    """

    def __init__(self, file: Any, domain: Domain, times: Floats, info: dict[str, Any] | None = None) -> None:
        self._given = info
        self._file, self._domain, self._times = file, domain, times
        self._frames = file.create_group(FRAMES)
        self._hashes: list[str] = []
        self._motion: list[float] = []
        self._parameters: dict[str, Any] = {}
        self._largest_error = 0.0
        self._counts: dict[str, Counter[str]] = {"sign": Counter(), "verdict": Counter()}

    def add(self, field: PackedField, motion: float | None) -> None:
        """Adds the next frame's field and motion, None if undefined."""
        field.write(self._frames.create_group(frame_name(len(self._hashes))))
        self._hashes.append(field.attributes["content_sha256"].decode())
        self._motion.append(np.nan if motion is None else motion)
        if self._given is not None:
            return
        info = json.loads(field.attributes["info"])
        self._parameters = info["parameters"]
        self._largest_error = max(self._largest_error, info["max_error"])
        for name, counts in self._counts.items():
            counts[info[name]] += 1

    def finish(self) -> dict[str, Any]:
        """Writes the data shared by all frames. Returns `info` with `content_sha256`."""
        motion, info = np.array(self._motion), self._info() if self._given is None else self._given
        content = content_sha256(self._domain, self._times, motion, self._hashes)
        for name, values in (("time", self._times), ("motion", motion)):
            length = min(CHUNK, len(values))
            chunks = (packed(values[k : k + length], length) for k in range(0, len(values), length))
            write_chunks(add_list(self._file, name, len(values), np.float64, CHUNK), chunks)
        write_summed(
            self._file,
            {
                "format": np.bytes_(SEQUENCE),
                "format_version": FORMAT_VERSION,
                "tool_version": np.bytes_(__version__),
                "frames": len(motion),
                "domain_origin": np.asarray(self._domain.origin, np.float64),
                "domain_length": float(self._domain.length),
                "units": np.bytes_("those of the mesh; seconds"),
                "content_sha256": np.bytes_(content),
                "info": np.bytes_(json.dumps(info, sort_keys=True)),
            },
        )
        return {**info, "content_sha256": content}

    def _info(self) -> dict[str, Any]:
        """Parameters and maximum error of all frames, and frame counts by sign and verdict."""
        counts = {f"{name}s": dict(counts) for name, counts in self._counts.items()}
        return {"parameters": self._parameters, "max_error": self._largest_error, **counts}


def content_sha256(domain: Domain, times: Floats, motion: Floats, hashes: Iterable[str]) -> str:
    """SHA-256 of domain, times, motions and the fields' content hashes, in hexadecimal."""
    digest = hashlib.sha256(np.array([*domain.origin, domain.length], "<f8").tobytes())
    for values in (times, motion):
        digest.update(np.ascontiguousarray(values, "<f8").tobytes())
    for each in hashes:
        digest.update(bytes.fromhex(each))
    return digest.hexdigest()


def is_sequence(path: Path) -> bool:
    """Whether a file is a sequence file, by its attribute `format`."""
    if not is_field(path):
        return False
    h5py = import_h5py()
    try:
        with h5py.File(path, "r") as file:
            return text(file, "format") == SEQUENCE
    except FAULTS:
        return False


def earliest_version(path: Path) -> int:
    """The earliest format version among the fields in a sequence's file. Raises InputError as `load_sequence`."""

    def reader(file: Any) -> int:
        groups, count = open_group(file, FRAMES), whole_number(file, "frames")
        return min(whole_number(open_group(groups, frame_name(index)), "format_version") for index in range(count))

    return _of_file(path, reader, "not an intact sequence file")


def load_sequence(path: str | PathLike[str]) -> FieldSequence:
    """Loads a sequence from an HDF5 file. Frames are read and checked on first use.

    Raises:
        InputError: the file is missing, damaged, or not a sequence.
    """
    path = existing_file(path)
    return _of_file(path, partial(_read_sequence, path), "not an intact sequence file")


def _of_file(path: Path, reader: Callable[[Any], T], fault: str) -> T:
    """The result of `reader` for the open file. Raises SdfError, with the file name, for any fault in the file.

    fault: description of faults found by HDF5 or by parsing, placed before the library's message.
    """
    h5py = import_h5py()
    try:
        with h5py.File(path, "r") as file:
            return reader(file)
    except FAULTS as error:
        raise unreadable(path, fault, error) from error


def _read_sequence(path: Path, file: Any) -> FieldSequence:
    found = text(file, "format")
    if found != SEQUENCE:
        raise InputError("is a field, not a sequence" if found == FORMAT else "not a sequence of sdfcli")
    version = whole_number(file, "format_version")
    if version != FORMAT_VERSION:
        raise InputError(f"format version {version}; this sdfcli reads version {FORMAT_VERSION}")
    check_attributes(file)
    domain, count = read_domain(file), whole_number(file, "frames")
    info = json.loads(text(file, "info"))
    check_info(info)
    times, motion = read_list(file, "time", np.float64), read_list(file, "motion", np.float64)
    groups = open_group(file, FRAMES)
    if not (1 <= count <= MOST_FRAMES and count == len(times) == len(motion) == len(groups)):
        raise InputError("the number of frames, of times, of motions and of groups must be one")
    if not (np.isfinite(times).all() and np.all(times[1:] > times[:-1])):
        raise InputError("time must be finite and increase")
    if not np.all((motion >= 0) & (motion < np.inf) | np.isnan(motion)):
        raise InputError("motion must be distances, or nan")
    hashes = [text(open_group(groups, frame_name(index)), "content_sha256") for index in range(count)]
    content = content_sha256(domain, times, motion, hashes)
    if content != text(file, "content_sha256"):
        raise damaged("content", "content_sha256")
    return FieldSequence(domain, times, motion, info, content, partial(read_frame, path, domain, hashes))


def read_frame(path: Path, domain: Domain, hashes: list[str], index: int) -> Field:
    """A frame's field, checked. hashes: the frames' content hashes when the sequence was loaded.

    Raises InputError, with file name and frame index, for a damaged or replaced field.
    """

    def reader(file: Any) -> Field:
        try:
            field = read(open_group(open_group(file, FRAMES), frame_name(index)))
            same_cube = np.array_equal(field.domain.origin, domain.origin) and field.domain.length == domain.length
            if not same_cube or field.content_sha256 != hashes[index]:
                raise InputError("another field than when the sequence was loaded or written")
        except InputError as error:
            raise InputError(f"frame {index}: {error}") from error
        return field

    field = _of_file(path, reader, f"frame {index}: not an intact field")
    field._opened_as(f"{path}: frame {index}")
    return field
