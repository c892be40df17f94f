"""Parts of a file that takes long: what is done, a file each, in a hidden folder beside it, until all are there.

A part is a line with the SHA-256 of what follows, a line of JSON, and bytes. It appears whole where its process is
killed; what a failing machine has damaged does not fit the checksum. The folder is not trusted: only files of the names
below are read, replaced and removed, and no link is followed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sdfcli.errors import UsageError
from sdfcli.runtime.memory import free_memory

OWN = re.compile(r"\d{6}\.(part|[0-9a-f]{16}\.tmp)")
"""Names of files that a folder of parts may hold."""

DIGITS = 6
"""Digits of a part's number in its name."""


def part_name(index: int) -> str:
    """The name of a part, from 0; of DIGITS digits at most."""
    return f"{index:0{DIGITS}d}.part"


def write_part(folder: Path, index: int, head: dict[str, Any], *content: bytes) -> None:
    """Writes a part, under a spare name, then renames it. Raises UsageError where it cannot be written."""
    text = json.dumps(head).encode() + b"\n"
    # Not the name of another process: those of a killed command may live on for a moment.
    name, spare = part_name(index), f"{index:0{DIGITS}d}.{secrets.token_hex(8)}.tmp"
    try:
        with _opened(folder) as number:
            new = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
            with open(os.open(spare, new, 0o666, dir_fd=number), "wb") as file:
                file.writelines((_sha256(text, *content), text, *content))
            os.rename(spare, name, src_dir_fd=number, dst_dir_fd=number)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror or error}") from error


def read_part(folder: Path, index: int) -> tuple[Any, bytes] | None:
    """Head and content of a part; None where it is missing or damaged. The head may be any JSON."""
    try:
        with _opened(folder) as own:
            number = os.open(part_name(index), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=own)
        with open(number, "rb") as file:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode) or status.st_size > free_memory() // 2:
                return None
            sums, text, content = file.readline(), file.readline(), file.read()
        return (json.loads(text), content) if _sha256(text, content) == sums else None
    except (OSError, ValueError, RecursionError):
        return None


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
