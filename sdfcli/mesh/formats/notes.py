"""Notes of readers: each thing in a file that is left out, or read as another."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sdfcli.errors import ReadingNote
from sdfcli.runtime.remote import known_as

MOST = 100
"""Maximum notes on a file."""


class _Reading(threading.local):
    """What a thread reads.

    path  the file; None: none.
    told  the notes on it.
    """

    path: Path | None = None
    told: list[str]


_READING = _Reading()


@contextmanager
def noted(path: Path) -> Iterator[list[str]]:
    """Collects the notes on a file, without its name, while this thread reads it."""
    _READING.path, _READING.told = path, []
    try:
        yield _READING.told
    finally:
        _READING.path = None


def file_that_is_read() -> Path | None:
    """The file that this thread reads; for warnings of libraries, which do not name it."""
    return _READING.path


def keep(text: str) -> None:
    """Adds a note on the file that this thread reads, if any, to those that are collected."""
    if _READING.path is not None and len(_READING.told) < MOST and text not in _READING.told:
        _READING.told.append(text)


def keep_warnings() -> None:
    """Has warnings of libraries on a file that is read kept as notes, in place of being shown."""
    shown = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if _READING.path is None:
            shown(message, category, *place, **more)
        else:
            keep(str(message))

    warnings.simplefilter("ignore", ReadingNote)  # `note` keeps them
    warnings.showwarning = show


def note(path: Path, text: str) -> None:
    """A note on a file: a ReadingNote with the file's name, and one for `noted`."""
    keep(text)
    warnings.warn(f"{known_as(path)}: {text}", ReadingNote, stacklevel=3)
