"""Reader notes: skipped or converted content in a file, one note each."""

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
"""Maximum notes per file."""


class _Reading(threading.local):
    """The file that a thread is reading.

    path  the file; None without one.
    told  notes on the file.
    """

    path: Path | None = None
    told: list[str]


_READING = _Reading()


@contextmanager
def noted(path: Path) -> Iterator[list[str]]:
    """Collects notes on a file, without its name, while this thread reads it."""
    _READING.path, _READING.told = path, []
    try:
        yield _READING.told
    finally:
        _READING.path = None


def file_that_is_read() -> Path | None:
    """The file that this thread is reading; for library warnings, which do not name it."""
    return _READING.path


def keep(text: str) -> None:
    """Adds a note to the collected notes on the file that this thread is reading, if any."""
    if _READING.path is not None and len(_READING.told) < MOST and text not in _READING.told:
        _READING.told.append(text)


def keep_warnings() -> None:
    """Collects library warnings during reading as notes, in place of showing them."""
    shown = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if _READING.path is None:
            shown(message, category, *place, **more)
        else:
            keep(str(message))

    warnings.simplefilter("ignore", ReadingNote)  # `note` keeps them
    warnings.showwarning = show


def note(path: Path, text: str) -> None:
    """Adds a note on a file: a ReadingNote warning with the file's name, and an entry for `noted`."""
    keep(text)
    warnings.warn(f"{known_as(path)}: {text}", ReadingNote, stacklevel=3)
