"""Parts of a file that takes long: what is done, a file each, in a hidden folder beside it, until all are there.

A part is a line with the SHA-256 of what follows, a line of JSON, and bytes. It appears whole where its process is
killed; what a failing machine has damaged does not fit the checksum. The folder is not trusted: only files of the names
below are read, replaced and removed, and no link is followed. Windows opens no folders: there files go by their paths,
and only people with special rights make links.
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
"""Names of files that a folder of parts may hold."""

LOCK = "lock"
"""Name of the file that says on Windows that a folder is used: it is there as long as the process."""

NO_LINK: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

DIGITS = 6
"""Digits of a part's number in its name."""


class Folder(NamedTuple):
    """A folder that is open: by its descriptor, or by its path where folders are not opened."""

    number: int | None
    path: Path

    def at(self, name: str) -> str | Path:
        """What names a file in it to functions that take `dir_fd=number`."""
        return self.path / name if self.number is None else name


def part_name(index: int) -> str:
    """The name of a part, from 0; of DIGITS digits at most."""
    return f"{index:0{DIGITS}d}.part"


def write_part(folder: Path, index: int, head: dict[str, Any], *content: bytes) -> None:
    """Writes a part, under a spare name, then renames it. Raises what `unwritable` gives."""
    text = json.dumps(head).encode() + b"\n"
    # Not the name of another process: those of a killed command may live on for a moment.
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
    """Head and content of a part; None where it is missing or damaged. The head may be any JSON."""
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


def _lock(folder: Folder, path: Path, stack: contextlib.ExitStack) -> None:
    """Keeps a folder to this process until it is closed, or until the stack is."""
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
    """A folder, which must not be a link."""
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
        with contextlib.suppress(OSError):  # a folder, which is not ours
            os.unlink(folder.at(name), dir_fd=folder.number)


def _sha256(*content: bytes) -> bytes:
    """The first line of a part."""
    digest = hashlib.sha256()
    for piece in content:
        digest.update(piece)
    return digest.hexdigest().encode() + b"\n"
