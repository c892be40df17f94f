"""Parts of a sequence's file: frames that are done, a file each, until all are there.

A part is a line with the SHA-256 of what follows, a line of JSON, and the packed chunks of the frame's field as HDF5
stores them. It appears whole where its process is killed; what a failing machine has damaged does not fit the checksum.
The folder is not trusted: only files of the names below are read, replaced and removed, and no link is followed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sdfcli import __version__
from sdfcli.errors import UsageError
from sdfcli.field.field import Field
from sdfcli.field.store import CHUNK, PackedField, PackedList, pack
from sdfcli.runtime.hardware import available_threads
from sdfcli.runtime.memory import free_memory
from sdfcli.sequence.file import SequenceWriter, frame_name

if TYPE_CHECKING:
    from sdfcli.sequence.build import SequenceBuild

OWN = re.compile(r"\d{6}\.(part|[0-9a-f]{16}\.tmp)")
"""Names of files that a folder of parts may hold."""
DATASETS = {
    "leaf_level": ("uint8",),
    "residual": ("uint8", "uint16", "uint32"),
    "residual_part": ("uint8",),
    "distance": ("float32",),
}
Row = dict[str, Any]
"""Facts of a frame, as JSON: see `Parts.write`."""


class NamedFrame(Protocol):
    """What is known of a frame before its build; see build.Frame."""

    @property
    def index(self) -> int:
        """Its number."""

    @property
    def sha256(self) -> str:
        """The hash of its mesh."""

    @property
    def motion(self) -> float | None:
        """Its motion."""

    @property
    def coherent(self) -> bool:
        """Whether its build rests on the frame before."""


class Parts:
    """The parts in a folder, for the parameters in `key`. Processes may share it."""

    def __init__(self, folder: Path, key: dict[str, Any], threads: int | None = None) -> None:
        """key: that of `part_key`. threads: those that pack; None: as many as there are CPUs."""
        self.folder, self.key = folder, key
        self._helpers = ThreadPoolExecutor(threads or available_threads())

    def write(self, frame: NamedFrame, field: Field) -> Row:
        """Writes the part of a frame's field. Raises UsageError where it cannot be written.

        Returns the frame's row: index, coherent, motion, sign, sign_reason, verdict, max_error, leaves, corners, bytes,
        content_sha256, device, seconds. Those of a part that was found have no coherent, device and seconds.
        """
        start = time.perf_counter()
        field = without_nearest(field)
        packed = pack(field, self._helpers, quick=True)
        lists = {name: (each.length, each.dtype.name, list(each.chunks)) for name, each in packed.lists.items()}
        chunks = b"".join(chunk for _, _, chunks in lists.values() for chunk in chunks)
        facts = {
            **{name: field.info[name] for name in ("sign", "sign_reason", "verdict", "max_error")},
            "leaves": len(field.leaf_key),
            "corners": len(field.corner_key),
            "bytes": len(chunks),
            "content_sha256": field.content_sha256,
        }
        head = {
            "key": self.key,
            "mesh": frame.sha256,
            "facts": facts,
            "attributes": {name: _as_json(value) for name, value in packed.attributes.items()},
            "lists": {name: [length, dtype, list(map(len, each))] for name, (length, dtype, each) in lists.items()},
        }
        self._replace(frame.index, json.dumps(head).encode() + b"\n", chunks)
        seconds = {**field.run["seconds"], "write": time.perf_counter() - start}
        seconds["total"] = seconds.pop("total") + seconds["write"]
        known = {"index": frame.index, "coherent": frame.coherent, "motion": frame.motion}
        return {**known, **facts, "device": field.run["device"], "seconds": seconds}

    def find(self, frame: NamedFrame) -> Row | None:
        """The row of a part of this frame, of the same mesh and parameters; None where there is none that is whole."""
        found = self._read(frame.index)
        if found is None or found[0]["key"] != self.key or found[0]["mesh"] != frame.sha256:
            return None
        rest = {"coherent": None, "device": None, "seconds": None}
        return {"index": frame.index, "motion": frame.motion, **found[0]["facts"], **rest}

    def append(self, row: Row, writer: SequenceWriter) -> None:
        """Adds the frame of a row to a sequence's file. Raises UsageError where its part is no longer there."""
        found = self._read(row["index"])
        if found is None or found[0]["facts"]["content_sha256"] != row["content_sha256"]:
            raise UsageError(f"{self.folder / part_name(row['index'])}: was removed or changed by another process")
        writer.add(found[1], row["motion"])

    def _replace(self, index: int, *content: bytes) -> None:
        """Writes a part under a spare name, then renames it."""
        # Not the name of another process: those of a killed command may live on for a moment.
        name, spare = part_name(index), f"{frame_name(index)}.{secrets.token_hex(8)}.tmp"
        try:
            with _opened(self.folder) as folder:
                new = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
                with open(os.open(spare, new, 0o666, dir_fd=folder), "wb") as file:
                    file.writelines((_sha256(*content), *content))
                os.rename(spare, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            raise UsageError(f"{self.folder}: cannot be written: {error.strerror or error}") from error

    def _read(self, index: int) -> tuple[dict[str, Any], PackedField] | None:
        """Head and field of a part; None where it is missing, damaged or impossible."""
        try:
            with _opened(self.folder) as folder:
                number = os.open(part_name(index), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            with open(number, "rb") as file:
                status = os.fstat(number)
                if not stat.S_ISREG(status.st_mode) or status.st_size > free_memory() // 2:
                    return None
                sums, text, chunks = file.readline(), file.readline(), file.read()
            if _sha256(text, chunks) != sums:
                return None
            head = json.loads(text)
            return head, _packed_field(head, chunks)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None


def part_key(build: SequenceBuild) -> dict[str, Any]:
    """What determines, with a frame's mesh, its part."""
    return {"tool_version": __version__, "parameters": build.params.resolved(build.unit / build.domain.length)}


def part_name(index: int) -> str:
    """The name of a frame's part."""
    return f"{frame_name(index)}.part"


@contextlib.contextmanager
def parts_folder(path: Path, resume: bool, force: bool) -> Iterator[Path]:
    """The folder for the parts of a file: `.NAME.frames` beside it. It is removed when the block ends without an
    exception, and where it is empty.

    Raises UsageError where it holds parts and neither `resume` is given, which keeps them, nor `force`, which removes
    them; where another process uses it; and where it is no folder, or cannot be made.
    """
    folder = folder_of(path)
    with contextlib.ExitStack() as stack:
        try:
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
            number = stack.enter_context(_opened(folder))
            _lock(number, path)
            if not resume:
                _refuse_kept(kept_frames(path), path, force)
                _remove(number)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be used: {error.strerror or error}") from error
        try:
            yield folder
            _remove(number)
        finally:
            with contextlib.suppress(OSError):  # not empty
                folder.rmdir()


def _refuse_kept(kept: int, path: Path, force: bool) -> None:
    if kept and not force:
        raise UsageError(
            f"{path}: {folder_of(path).name} holds {kept} frame{'s' * (kept != 1)} of an interrupted run; "
            "use --resume to go on with them, or --force to begin anew"
        )


def folder_of(path: Path) -> Path:
    """The folder of a file's parts."""
    return path.with_name(f".{path.name}.frames")


def kept_frames(path: Path) -> int:
    """The number of parts beside a file that is not done."""
    try:
        with _opened(folder_of(path)) as folder:
            return sum(name.endswith(".part") for name in _own_names(folder))
    except OSError:
        return 0


def without_nearest(field: Field) -> Field:
    """The same field on the host alone, without the triangles nearest to its corners."""
    found = replace(field, nearest=None)
    if field.steps is not None:
        found.keep_steps(field.steps)
    return found


def _lock(folder: int, path: Path) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"{path}: another process is writing it") from None
    except OSError:  # a file system without locks
        pass


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """The descriptor of a folder, which must not be a link."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield number
    finally:
        os.close(number)


def _own_names(folder: int) -> list[str]:
    return sorted(name for name in os.listdir(folder) if OWN.fullmatch(name))


def _remove(folder: int) -> None:
    for name in _own_names(folder):
        with contextlib.suppress(OSError):  # a folder, which is not ours
            os.unlink(name, dir_fd=folder)


def _sha256(*content: bytes) -> bytes:
    """The first line of a part."""
    digest = hashlib.sha256()
    for piece in content:
        digest.update(piece)
    return digest.hexdigest().encode() + b"\n"


def _as_json(value: Any) -> Any:
    """An attribute of a field as JSON: texts, numbers, and lists of numbers."""
    return value.decode() if isinstance(value, bytes) else value.tolist() if isinstance(value, np.ndarray) else value


def _packed_field(head: dict[str, Any], chunks: bytes) -> PackedField:
    """The field of a part. Raises ValueError, TypeError, KeyError or AttributeError for an impossible one."""
    kinds: dict[type, Any] = {str: lambda text: np.bytes_(text.encode()), list: lambda row: np.array(row, np.float64)}
    attributes = {name: kinds.get(type(value), lambda one: one)(value) for name, value in head["attributes"].items()}
    lists, first = {}, 0
    for name, (length, dtype, sizes) in head["lists"].items():
        if dtype not in DATASETS[name] or len(sizes) != -(-length // CHUNK) or min(sizes) < 1:
            raise ValueError(name)
        ends = first + np.cumsum([0, *sizes])
        pieces = [chunks[one:two] for one, two in itertools.pairwise(ends.tolist())]
        lists[name] = PackedList(length, np.dtype(dtype), pieces)
        first = int(ends[-1])
    if first != len(chunks):
        raise ValueError("chunks")
    return PackedField(attributes, lists)
