"""Parts of a file that takes long to compute: one file per finished part, in a hidden folder next to it, until all
exist.

A part consists of a line with the SHA-256 of the rest, a line of JSON, and bytes. It is written atomically, even if its
process is killed; a part damaged by a failing machine does not match its checksum. The folder is not trusted: only
files with the names below are read, replaced or removed, and links are not followed. Windows cannot open folders: there
files are addressed by path, and creating links needs special rights.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sdfcli.errors import UsageError
from sdfcli.runtime.memory import free_memory, unwritable

OWN = re.compile(r"\d{6}\.(part|[0-9a-f]{16}\.tmp)")
"""File names allowed in a parts folder."""

LOCK = "lock"
"""Name of the file that marks a folder as used, on Windows; removed when its process closes it or ends."""

NO_LINK: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

DIGITS = 6
"""Digits of a part's index in its name."""


class Folder(NamedTuple):
    """An open folder: its descriptor, or only its path if the system cannot open folders."""

    number: int | None
    path: Path

    def at(self, name: str) -> str | Path:
        """Name or path of a file in the folder, for functions with `dir_fd=number`."""
        return self.path / name if self.number is None else name


def part_name(index: int) -> str:
    """A part's file name. index: from 0, up to DIGITS digits."""
    return f"{index:0{DIGITS}d}.part"


def write_part(folder: Path, index: int, head: dict[str, Any], *content: bytes) -> None:
    """Writes a part under a temporary name, then renames it. Raises the error from `unwritable`."""
    text = json.dumps(head).encode() + b"\n"
    # A random name, not that of another process: processes of a killed command may live on for a moment.
    name, spare = part_name(index), f"{index:0{DIGITS}d}.{secrets.token_hex(8)}.tmp"
    try:
        with _opened(folder) as own:
            new = os.O_CREAT | os.O_EXCL | os.O_WRONLY | NO_LINK
            with open(os.open(own.at(spare), new, 0o666, dir_fd=own.number), "wb") as file:
                file.writelines((_sha256(text, *content), text, *content))
            os.replace(own.at(spare), own.at(name), src_dir_fd=own.number, dst_dir_fd=own.number)
    except OSError as error:
        raise unwritable(folder, error) from error


def read_part(folder: Path, index: int) -> tuple[Any, bytes] | None:
    """Head and content of a part; None if it is missing or damaged. The head may be any JSON value."""
    try:
        with _opened(folder) as own:
            old = os.O_RDONLY | NO_LINK | getattr(os, "O_NONBLOCK", 0)
            number = os.open(own.at(part_name(index)), old, dir_fd=own.number)
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
    """The folder for a file's parts, `.NAME.frames` next to it. When the block ends it is removed if empty, without an
    exception also with its parts.

    Raises UsageError if it holds parts and neither `resume`, which keeps them, nor `force`, which removes them, is set;
    if another process uses it; if it is not a folder or cannot be created.
    """
    folder = folder_of(path)
    with contextlib.ExitStack() as stack:
        try:
            with contextlib.suppress(FileExistsError):
                folder.mkdir(parents=True)
            own = stack.enter_context(_opened(folder))
            _lock(own, path, stack)
            if not resume:
                _refuse_kept(kept_frames(path), path, force)
                _remove(own)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be used: {error.strerror or error}") from error
        try:
            yield folder
            _remove(own)
        finally:
            if own.number is None:
                stack.close()  # the lock is in the folder
            with contextlib.suppress(OSError):  # not empty
                folder.rmdir()


def _refuse_kept(kept: int, path: Path, force: bool) -> None:
    if kept and not force:
        raise UsageError(
            f"{path}: {folder_of(path).name} holds {kept:,} frame{'s' * (kept != 1)} of an interrupted run; "
            "use --resume to go on with them, or --force to begin anew"
        )


def folder_of(path: Path) -> Path:
    """Path of the folder for a file's parts."""
    return path.with_name(f".{path.name}.frames")


def kept_frames(path: Path) -> int:
    """Number of parts stored for an unfinished file."""
    try:
        with _opened(folder_of(path)) as folder:
            return sum(name.endswith(".part") for name in _own_names(folder))
    except OSError:
        return 0


def _lock(folder: Folder, path: Path, stack: contextlib.ExitStack) -> None:
    """Locks a folder for this process until the folder or the stack is closed."""
    try:
        if folder.number is not None:
            _flock(folder.number)
        else:
            removed_at_the_end: int = getattr(os, "O_TEMPORARY", 0)
            new = os.O_CREAT | os.O_EXCL | os.O_WRONLY | removed_at_the_end
            stack.callback(os.close, os.open(folder.at(LOCK), new))
    except (BlockingIOError, FileExistsError, PermissionError):
        raise UsageError(f"{path}: another process is writing it") from None


def _flock(number: int) -> None:
    import fcntl

    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        pass


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[Folder]:
    """Opens a folder, which must not be a link."""
    if os.open not in os.supports_dir_fd:
        if folder.is_symlink() or not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        yield Folder(None, folder)
        return
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield Folder(number, folder)
    finally:
        os.close(number)


def _own_names(folder: Folder) -> list[str]:
    return sorted(
        name for name in os.listdir(folder.path if folder.number is None else folder.number) if OWN.fullmatch(name)
    )


def _remove(folder: Folder) -> None:
    for name in _own_names(folder):
        with contextlib.suppress(OSError):  # a folder, not one of ours
            os.unlink(folder.at(name), dir_fd=folder.number)


def _sha256(*content: bytes) -> bytes:
    """First line of a part: the SHA-256 of the rest, in hexadecimal."""
    digest = hashlib.sha256()
    for piece in content:
        digest.update(piece)
    return digest.hexdigest().encode() + b"\n"
