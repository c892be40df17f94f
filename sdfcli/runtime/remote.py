"""Remote files, through fsspec: https://, s3://, and archive members, as in zip://member.ply::file.zip.

Inputs are downloaded to a temporary folder; outputs are uploaded once complete. Existing remote files are never
replaced. Names and messages are shown without credentials.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sdfcli.errors import DeviceError, InputError, SdfError, UsageError
from sdfcli.runtime.files import existing_file
from sdfcli.runtime.ranges import Ranges

READ, RANGED, WRITTEN = ("http", "https", "s3", "zip"), ("http", "https", "s3"), ("s3",)
"""Protocols of inputs, of inputs read in parts, and of outputs."""
PIECE = 1 << 22
"""Chunk size of downloads, in bytes."""
SPARE = 64 << 20
"""Disk space that downloads leave free, in bytes."""


SILENCE = 60
"""Seconds without data after which a server is given up; a whole download may take any time."""

URL = r"\b[a-z][a-z0-9+.-]+:/+"
"""Start of a URL, or of a URL that became a path, which leaves one slash."""


def is_remote(name: Any) -> bool:
    """Whether a name starts with a protocol."""
    return isinstance(name, str) and re.match(r"[a-z][a-z0-9+.-]+://", name, re.IGNORECASE) is not None


def shown(text: str) -> str:
    """A text without credentials in its URLs: user names, passwords, and queries, as in signed URLs."""
    if ":/" not in text:
        return text
    text = re.sub(rf"({URL})[^/\s]*@", r"\1", text, flags=re.IGNORECASE)
    # The text after the first colon is not a port: a password with a slash.
    text = re.sub(rf"({URL})[^/\s@:\[]*:(?!\d*(?:[/?#:\s]|$))\S*@", r"\1", text, flags=re.IGNORECASE)
    end = r"(?=::[a-z][a-z0-9+.-]*://|:?(?:\s|$))"
    return re.sub(rf"({URL}[^\s?#]*)[?#]\S*?{end}", r"\1", text, flags=re.IGNORECASE)


def file_name(name: str) -> str:
    """Last part of a remote name, as `bunny.ply`. Raises UsageError if it cannot be a file name."""
    protocol, _, place = shown(name).partition("::")[0].partition("://")
    if protocol.lower() != "zip":
        place = place.partition("/")[2]  # path within a server or bucket
    last = place.rpartition("/")[2]
    if last in ("", ".", "..") or not last.isprintable():
        raise UsageError(f"{shown(name)}: names no file")
    return last


_NAMES: dict[str, str] = {}
"""Remote names, as shown, by the paths of their downloads."""


def known_as(path: Path) -> str:
    """The name to show for a file: the remote name of a download, else its path."""
    return _NAMES.get(str(path), str(path))


@contextlib.contextmanager
def local_input(name: str) -> Iterator[str]:
    """Name of a local file: a remote file's download, which exists while the block runs; other names are unchanged.

    Raises InputError if the download fails, UsageError for other protocols, DeviceError without fsspec. Errors within
    the block name the remote file.
    """
    if not is_remote(name):
        yield name
        return
    _check_protocols(name, READ, "read from")
    file = file_name(name)
    with tempfile.TemporaryDirectory(prefix="sdfcli-") as folder:
        path = Path(folder, file)
        with _faults(name, InputError, "fetched"):
            _fetch(name, path)
        _NAMES[str(path)] = shown(name)
        try:
            with _renamed(path, name):
                yield str(path)
        finally:
            del _NAMES[str(path)]


@contextlib.contextmanager
def remote_ranges(name: str) -> Iterator[Ranges]:
    """A remote file whose blocks are fetched when they are needed. Raises InputError if that fails or the server sends
    no ranges, UsageError for other protocols, DeviceError without fsspec."""
    _check_protocols(name, RANGED, "read in parts from")
    with contextlib.ExitStack() as opened:
        with _faults(name, InputError, "fetched"):
            system, place = _open(name)
            source = opened.enter_context(system.open(place, "rb", cache_type="none"))
            if not getattr(source, "size", None):
                raise InputError("the server does not send parts of files; download it first")

        def fetch(first: int, end: int) -> bytes:
            with _faults(name, InputError, "fetched"):
                source.seek(first)
                content: bytes = source.read(end - first)
                return content

        yield Ranges(fetch, source.size)


@contextlib.contextmanager
def local_output(name: str) -> Iterator[str]:
    """Name of a local file: for a remote name, a file uploaded when the block ends without an exception; other names
    are unchanged. Raises UsageError if the remote file exists or cannot be written."""
    if not is_remote(name):
        yield name
        return
    refuse_existing(name)
    file = file_name(name)
    with tempfile.TemporaryDirectory(prefix="sdfcli-") as folder:
        path = Path(folder, file)
        with _renamed(path, name):
            yield str(path)
        with _faults(name, UsageError, "written"):
            system, place = _open(name)
            try:
                system.put_file(str(path), place, mode="create")
            except FileExistsError as error:
                raise _exists(name) from error


def refuse_existing(name: str) -> None:
    """Raises UsageError if the remote file exists or cannot be written."""
    _check_protocols(name, WRITTEN, "written to")
    with _faults(name, UsageError, "written"):
        system, place = _open(name)
        if system.exists(place):
            raise _exists(name)


def _exists(name: str) -> UsageError:
    return UsageError(f"{shown(name)}: exists; what is elsewhere is never replaced, use another name")


def _check_protocols(name: str, known: tuple[str, ...], what: str) -> None:
    """Raises UsageError for a chain with a link of another protocol, and InputError if its archive on this machine is
    not a regular file."""
    *members, last = _chain(name)
    for link in [*members, last] if is_remote(last) else members:
        if link.partition("://")[0] not in known:
            kinds = ", ".join(f"{each}://" for each in known)
            raise UsageError(f"{shown(name)}: files are {what} {kinds}, or without a protocol")
    if any(not link.startswith("zip://") for link in members):
        raise UsageError(f"{shown(name)}: only zip://member:: may stand before another name")
    if not is_remote(last):
        existing_file(last)


def _chain(name: str) -> list[str]:
    """Links of a chained name, as zip://member and file.zip, with protocols in lower case."""
    return [re.sub("^[^:/]+://", lambda start: start[0].lower(), link) for link in name.split("::")]


def _open(name: str) -> tuple[Any, str]:
    """A name's file system, and the path in it."""
    import fsspec

    chain = _chain(name)
    options: dict[str, Any] = {}
    if web := {"http", "https"} & {link.partition("://")[0] for link in chain}:
        from aiohttp import ClientTimeout

        # By default, a whole download is limited to five minutes.
        patient = {"client_kwargs": {"timeout": ClientTimeout(total=None, sock_connect=SILENCE, sock_read=SILENCE)}}
        options = patient if len(chain) == 1 else dict.fromkeys(web, patient)
    found: tuple[Any, str] = fsspec.core.url_to_fs("::".join(chain), **options)
    return found


def _fetch(name: str, path: Path) -> None:
    """Downloads a remote file. Raises InputError if it does not fit on the disk."""
    system, place = _open(name)
    with system.open(place, "rb") as source, open(path, "wb") as target:
        _check_room(path, getattr(source, "size", None) or 0)
        while piece := source.read(PIECE):
            _check_room(path, len(piece))
            target.write(piece)


def _check_room(path: Path, size: int) -> None:
    free = shutil.disk_usage(path.parent).free - SPARE
    if size > free:
        raise InputError(f"{size / 1e6:,.0f} MB do not fit into {path.parent.parent}: set TMPDIR to a larger disk")


@contextlib.contextmanager
def _faults(name: str, kind: type[SdfError], what: str) -> Iterator[None]:
    """Turns library errors into this package's, one line each, without credentials."""
    try:
        yield
    except UsageError:
        raise
    except InputError as error:
        raise InputError(f"{shown(name)}: {error}") from error
    except ImportError as error:
        message = f"{shown(name)}: needs libraries that are not installed: pip install 'sdfcli[remote]'"
        raise DeviceError(message) from error
    except FileNotFoundError as error:
        raise kind(f"{shown(name)}: no such file, or no such place") from error
    except Exception as error:  # each protocol has its own exceptions
        reason = shown(str(error).strip().split("\n")[0]) or type(error).__name__
        raise kind(f"{shown(name)}: cannot be {what}: {reason}") from error


@contextlib.contextmanager
def _renamed(path: Path, name: str) -> Iterator[None]:
    """Makes errors within the block name the remote file."""
    try:
        yield
    except SdfError as error:
        raise type(error)(str(error).replace(os.fspath(path), shown(name))) from error
