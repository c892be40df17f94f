"""Ranges: a remote file whose blocks are fetched when they are needed, for libraries that read Python files."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, TypeVar

from sdfcli.errors import InputError

T = TypeVar("T")

BLOCK, FIRST = 1 << 14, 1 << 16
"""Bytes per block, and in the first request."""
MOST_FETCHED = 1 << 26
"""Bytes fetched at most, whatever the file claims."""


class MissingError(OSError):
    """A block is not there yet."""


class Ranges(io.RawIOBase):
    """A read-only file over the blocks fetched so far.

    A read without its block fails, and `read_by` fetches the block and reads again: h5py holds a lock while it reads,
    for which the thread that fetches may have to wait, as Python collects garbage there, too.
    """

    def __init__(self, fetch: Callable[[int, int], bytes], size: int) -> None:
        """fetch: returns the file's bytes from an offset to another. size: the file's, in bytes."""
        super().__init__()
        self._fetch, self._size, self._place = fetch, size, 0
        self._blocks: dict[int, bytes] = {}
        self._missing: list[int] = []

    def read_by(self, work: Callable[[], T]) -> T:
        """The result of `work`, which reads the file, and is repeated until all that it needs is there. Raises its
        exceptions, those of `fetch`, and InputError if it needs too much."""
        self._add(0, FIRST)
        while True:
            self._missing.clear()
            try:
                found = work()
            except Exception:  # HDF5 turns MissingError into others
                if not self._missing:
                    raise
            else:
                if not self._missing:
                    return found
            first = min(self._missing)
            count = len(self._blocks) if first - 1 in self._blocks else 1
            end = next((k for k in range(first, first + count) if k in self._blocks), first + count)
            self._add(first * BLOCK, (end - first) * BLOCK)

    def _add(self, offset: int, size: int) -> None:
        end = min(offset + size, self._size)
        if len(self._blocks) * BLOCK + size > MOST_FETCHED:
            raise InputError(f"needs more than {MOST_FETCHED >> 20} MB of the file; download it first")
        content = self._fetch(offset, end) if offset < end else b""
        if len(content) != end - offset:
            raise InputError(f"the server sent {len(content):,} of {end - offset:,} bytes")
        for start in range(offset, end, BLOCK):
            self._blocks[start // BLOCK] = content[start - offset : start - offset + BLOCK]

    def piece(self, size: int, offset: int) -> bytes:
        """`size` bytes from `offset` on, or fewer at the file's end. Raises MissingError."""
        end = min(offset + size, self._size)
        numbers = range(offset // BLOCK, -(-end // BLOCK)) if offset < end else range(0)
        if missing := [number for number in numbers if number not in self._blocks]:
            self._missing.append(missing[0])
            raise MissingError("not fetched yet")
        first = numbers.start * BLOCK
        return b"".join(self._blocks[number] for number in numbers)[offset - first : max(offset, end) - first]

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads from the current place on. Raises MissingError."""
        content = self.piece(len(buffer), self._place)
        buffer[: len(content)] = content
        self._place += len(content)
        return len(content)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """The new place."""
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def tell(self) -> int:
        """The current place."""
        return self._place
