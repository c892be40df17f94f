"""Overflow: arrays of a build beyond its memory limit, in scratch files or, for a GPU, in host memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from sdfcli.backend.base import Backend

LEAST_ROOM = 160 << 20
"""Minimum bytes of free memory when an overflow begins: arrays allocated earlier stay where they are."""


class _Overflow:
    """folder: for scratch files. until: closed at the end of the block in which arrays may overflow. begun: whether
    they do. used: bytes of memory in use at the first request; None before it."""

    def __init__(self, folder: Path, until: ExitStack) -> None:
        self.folder, self.until, self.begun = folder, until, False
        self.used: int | None = None


_here: ContextVar[_Overflow | None] = ContextVar("overflow", default=None)


@contextmanager
def overflow(folder: Path | None = None) -> Iterator[None]:
    """Lets arrays allocated within it exceed a build's memory limit: in scratch files of a folder, or for a GPU in host
    memory. Nested blocks have no effect. None: the temporary folder, if any."""
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
    """Whether `more` bytes fit: within `most` bytes of memory in use, or beyond where arrays may overflow. In the
    second case arrays allocated from then on do overflow.

    whole: returns the total bytes of the arrays; called once, before the overflow begins.
    """
    here, used = _here.get(), backend.memory_used()
    if here is not None and here.used is None:
        here.used = used
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
    """Bytes for arrays beyond `most` bytes of memory with `used` in use; 0 where they must not overflow."""
    here = _here.get()
    return backend.overflow_free(here.folder) if here and used + LEAST_ROOM <= most else 0


def least_limit(backend: Backend, used: int | None = None) -> int | None:
    """Minimum limit in bytes with which arrays may overflow; None where they must not, or before the first request.

    used: memory in use before the first request; by default as it was then.
    """
    here = _here.get()
    used = here.used if here and used is None else used
    if here is None or used is None or not backend.overflow_free(here.folder):
        return None
    return used + LEAST_ROOM
