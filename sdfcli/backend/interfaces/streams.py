"""Interface: streams, priorities and events."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from sdfcli.backend.interfaces.device import Device

T = TypeVar("T")


class Stream(AbstractContextManager["Stream"]):
    """A device's work queue: in order within a stream, concurrent with other streams. Immediate on the CPU."""

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        """Waits for all work of the stream."""


class Streams(Device):
    """Order of the device's work. A device without streams works at once.

    Optional: streams, foreground, low_priority, high_priority, done_so_far, record_event, elapsed.
    """

    @abstractmethod
    def synchronize(self) -> None:
        """Waits for all work of the current stream."""

    def streams(self, n: int) -> list[Stream]:
        """The device's first n streams, the same on every call."""
        return [Stream()] * n

    def foreground(self) -> AbstractContextManager[Any]:
        """Within it, this thread's work has priority over `low_priority` and yields to `high_priority`. Work
        after the block waits for the work in it and in `low_priority`."""
        return nullcontext()

    def low_priority(self, work: Callable[[], T]) -> T:
        """Starts work on a low-priority stream, after the current stream's work so far. Later work in `foreground`,
        whose end waits for it, runs concurrently, and must neither write nor free its inputs before its results are
        ready."""
        return work()

    def high_priority(self, work: Callable[[], T]) -> Callable[[], T]:
        """`work` for another thread, on a high-priority stream: after the current stream's work so far, concurrent with
        later work. Waits for its end."""
        return work

    def done_so_far(self) -> Callable[[], None]:
        """Returns a function that waits for the current stream's work so far, and for none added later."""
        return lambda: None

    def record_event(self) -> Any:
        """An event in the current stream, for `elapsed`."""
        return time.perf_counter()

    def elapsed(self, start: Any, end: Any) -> float:
        """Seconds between two events; waits for the second."""
        return float(end - start)
