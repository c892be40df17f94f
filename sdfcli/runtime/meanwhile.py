"""Work of the host in pieces, which are done while a device is busy."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Pieces = Generator[None, None, T]
"""Work that yields wherever it would wait for the device, and returns its result."""


class Meanwhile(Generic[T]):
    """Such work, whose pieces are asked for one by one. It begins when `after` is done."""

    def __init__(self, work: Pieces[T], after: Future[Any]) -> None:
        self._work, self._after, self._results = work, after, list[T]()

    @property
    def ready(self) -> bool:
        """Whether there is a piece to do."""
        return not self._results and self._after.done()

    def go_on(self) -> None:
        """Does the next piece."""
        try:
            next(self._work)
        except StopIteration as end:
            self._results.append(end.value)

    def result(self) -> T:
        """The result, once all is done."""
        while not self._results:
            self.go_on()
        return self._results[0]


def ended(work: Pieces[T]) -> T:
    """The result of such work, all pieces one after the other."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
