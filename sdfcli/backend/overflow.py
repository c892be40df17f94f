"""Where the arrays of a build go that its memory has no room for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from sdfcli.backend.base import Backend

LEAST_ROOM = 160 << 20
"""Bytes of memory that are left for an overflow: arrays that are there when it begins stay where they are."""


class _Overflow:
    """folder: for scratch files. until: what ends with the block in which arrays may overflow. begun: if they do."""

    def __init__(self, folder: Path, until: ExitStack) -> None:
        self.folder, self.until, self.begun = folder, until, False


_here: ContextVar[_Overflow | None] = ContextVar("overflow", default=None)


@contextmanager
def overflow(folder: Path | None = None) -> Iterator[None]:
    """Within it, arrays may lie outside of the memory that a build may use: in scratch files of a folder, or for a GPU
    in the host's memory. Within another one, the outer holds. None: the folder for temporary files, if there is one."""
    with suppress(FileNotFoundError):
        folder = folder or Path(tempfile.gettempdir())
    if folder is None or _here.get() is not None:
        yield
        return
    with ExitStack() as until:
        token = _here.set(_Overflow(folder, until))
        try:
            yield
        finally:
            _here.reset(token)


def has_room(backend: Backend, more: int, most: int, whole: Callable[[], int] | None = None) -> bool:
    """Whether `more` bytes can be had with `most` bytes of memory in use: within these, or beyond, where arrays may lie
    elsewhere. Then those that are made from now on do.

    whole: the bytes that all of them will take, asked for once, before any lies elsewhere.
    """
    here, used = _here.get(), backend.memory_used()
    if here is None or (used + LEAST_ROOM > most and not here.begun):
        return used + more <= most
    if not here.begun:
        if used + more + LEAST_ROOM <= most:
            return True
        if whole and whole() > backend.overflow_free(here.folder):
            return False
        try:
            here.until.enter_context(backend.overflow(most, here.folder))
        except OSError:
            return used + more <= most
        here.begun = True
    return more <= backend.overflow_free(here.folder)


def room_elsewhere(backend: Backend, used: int, most: int) -> int:
    """Bytes for arrays outside of `most` bytes of memory, of which some are in use; 0 where they may not lie there."""
    here = _here.get()
    return backend.overflow_free(here.folder) if here and used + LEAST_ROOM <= most else 0
