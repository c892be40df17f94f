"""Output files: written whole or not at all, replaced only with `force`; and input file checks."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import Any

from sdfcli.errors import InputError, UsageError
from sdfcli.runtime.memory import unwritable

Identity = tuple[int, int]
"""Device and inode number of a file: the same under all its names."""


def check_target(path: Path, force: bool, *inputs: str | Path | int) -> None:
    """Checks before any work that a file can be written: `check_folder`, `refuse_input`, `refuse_existing`. inputs:
    input files, as paths or file descriptors."""
    check_folder(path.parent)
    refuse_input(path, identities(inputs))
    refuse_existing(path, force)


def check_folder(folder: Path) -> None:
    """Raises UsageError if a folder does not exist and cannot be created, because a part of its path is a file."""
    for each in (folder, *folder.parents):
        if os.path.lexists(each):
            if not each.is_dir():
                raise UsageError(f"{each}: cannot be used: that is not a folder")
            return


def check_ending(path: str | Path, *endings: str) -> None:
    """Raises UsageError for a file name without one of the endings; "" allows names without any."""
    found = Path(path).suffixes
    if not {"".join(found[-2:]).lower(), Path(path).suffix.lower()} & set(endings):
        raise UsageError(f"{path}: use a name that ends in {', '.join(filter(None, endings))}")


def refuse_input(path: Path, inputs: Set[Identity]) -> None:
    """Raises UsageError if the output is an input, under any name, with or without `force`."""
    if identities([path]) & inputs:
        raise UsageError(f"{path}: cannot be written: that is an input; use another name for the output")


def refuse_existing(path: Path, force: bool) -> None:
    """Raises UsageError if the output exists and `force` is not set, or if it is a folder, device, pipe or link, which
    are never replaced."""
    found = _status(path)
    if found is None:
        return
    if stat.S_ISLNK(found.st_mode):  # its target may be anything: /dev/stdout, or outside the folder
        raise UsageError(f"{path}: cannot be written: that is a link; name the file that it leads to, or remove it")
    if not stat.S_ISREG(found.st_mode):  # root would replace /dev/null
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
        raise UsageError(f"{path}: cannot be written: that is {kind}")
    if not force:
        raise _exists(path)


def identities(files: Iterable[str | Path | int]) -> set[Identity]:
    """Identities of files, given as paths or file descriptors; missing files are omitted."""
    found = set()
    for each in files:
        with contextlib.suppress(OSError, ValueError):  # reported when it is read
            status = os.stat(each)
            found.add((status.st_dev, status.st_ino))
    return found


def _status(path: Path) -> os.stat_result | None:
    """Status of a path, links not followed; None if it does not exist. Raises UsageError for an impossible path."""
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unwritable(path, error) from error


def _exists(path: Path) -> UsageError:
    return UsageError(f"{path}: exists; use --force (in Python force=True) to replace it")


@contextlib.contextmanager
def written_whole(path: Path, force: bool) -> Iterator[Path]:
    """A temporary file that atomically becomes `path` when the block ends without an exception. Missing folders are
    created. A replaced file's permissions are kept.

    Raises UsageError if `path` cannot be written, as `refuse_existing` does; OutOfMemoryError.
    """
    if not path.name:
        raise UsageError(f"{path}: cannot be written: that is a folder")
    spare = path.with_name(f".{secrets.token_hex(8)}.tmp")
    number = None
    try:
        refuse_existing(path, force)
        path.parent.mkdir(parents=True, exist_ok=True)
        replaced = _status(path)
        # Without setuid and setgid bits: someone else may have created the file.
        mode = None if replaced is None else replaced.st_mode & 0o777
        number, temporary = _open_temporary(spare, 0o666 if mode is None else mode | 0o600)
        yield temporary
        with open(temporary, "r+b") as written:  # Windows does not sync files opened for reading
            os.fsync(written.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        if number is not None:
            _name(number, temporary, spare)
        _put_in_place(spare, path, force)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            spare.unlink(missing_ok=True)
        if number is not None:
            os.close(number)


def _open_temporary(spare: Path, mode: int) -> tuple[int | None, Path]:
    """Creates a file; returns its descriptor and path. Unnamed if the file system supports O_TMPFILE, so that a killed
    process leaves nothing behind; else under the spare name and closed, as Windows cannot rename open files."""
    with contextlib.suppress(OSError, AttributeError):
        number = os.open(spare.parent, os.O_TMPFILE | os.O_RDWR, mode)
        temporary = Path(f"/proc/self/fd/{number}")
        if temporary.exists():
            return number, temporary
        os.close(number)
    os.close(os.open(spare, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode))
    return None, spare


def _name(number: int, temporary: Path, spare: Path) -> None:
    """Gives an unnamed file the spare name."""
    try:
        os.link(temporary, spare, src_dir_fd=number)  # src_dir_fd is unused, but makes Python follow links
    except OSError:  # a file system without links
        copy = os.open(spare, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(temporary, "rb") as source, open(copy, "wb") as target:
            shutil.copyfileobj(source, target)
            target.flush()
            os.fchmod(copy, stat.S_IMODE(os.fstat(number).st_mode))
            os.fsync(copy)


def _put_in_place(temporary: Path, path: Path, force: bool) -> None:
    if force:
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)  # unlike a rename, fails if the file exists by now
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError:  # a file system without links: the one process that creates the file may replace it
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError as error:
            raise _exists(path) from error
        try:
            os.replace(temporary, path)
        except BaseException:
            path.unlink()
            raise


def existing_file(source: Any) -> Path:
    """Path of an existing regular file. Raises InputError for anything else."""
    from sdfcli.runtime.remote import is_remote, shown

    if is_remote(source):
        takers = "only `sdfcli build`, `samples` and `check` take addresses"
        raise InputError(f"{shown(source)}: {takers}; download it first")
    path = Path(source)
    try:
        if path.is_file():
            return path
        pipe = "is not a regular file; save the output of a pipe to one first"
        fault = "is a folder" if path.is_dir() else pipe if path.exists() else "no such file"
    except OSError as error:
        fault = error.strerror or str(error)
    raise InputError(f"{path}: {fault}")
