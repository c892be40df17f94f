"""Facts that readers tell beside a file's arrays: its unit, and notes on skipped or converted content."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sdfcli.errors import ReadingNote
from sdfcli.runtime.remote import known_as

MOST = 100
"""Maximum notes per file."""


@dataclass
class Told:
    """Facts about a mesh file.

    notes       skipped or converted content, one note each, without the file's name.
    units       coordinate unit: a name in UNITS, or a length such as `0.5 m`; None for files without one.
    deflection  maximum distance between triangles and curved surfaces, in that unit; None for files of triangles.
    """

    notes: list[str] = field(default_factory=list)
    units: str | None = None
    deflection: float | None = None


class _Reading(threading.local):
    """The file that a thread is reading.

    path  the file; None without one.
    told  facts about the file.
    """

    path: Path | None = None
    told: Told


_READING = _Reading()


@contextmanager
def noted(path: Path) -> Iterator[Told]:
    """Collects facts about a file while this thread reads it."""
    _READING.path, _READING.told = path, Told()
    try:
        yield _READING.told
    finally:
        _READING.path = None


def file_that_is_read() -> Path | None:
    """The file that this thread is reading; for library warnings, which do not name it."""
    return _READING.path


def keep(text: str) -> None:
    """Adds a note to the collected notes on the file that this thread is reading, if any."""
    if _READING.path is not None and len(_READING.told.notes) < MOST and text not in _READING.told.notes:
        _READING.told.notes.append(text)


def keep_units(units: str, deflection: float | None = None) -> None:
    """Stores the unit, and the deflection, of the file that this thread is reading, if any; see Told."""
    if _READING.path is not None:
        _READING.told.units, _READING.told.deflection = units, deflection


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
