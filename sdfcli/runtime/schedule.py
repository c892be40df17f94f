"""Schedule: a build's work that runs concurrently, in threads and on streams; Deferred: a value that is ready later."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from functools import cached_property
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

from sdfcli.runtime.memory import memory_errors, release_frames
from sdfcli.runtime.threads import kept_threads

T = TypeVar("T")
Work = Callable[[], T]

THREADS = 3
"""Threads besides the caller's, if memory allows: one reads or hashes the mesh, one draws samples, one queries them."""


class Deferred(Generic[T]):
    """A value computed at most once: by the first `get`, from any thread, or elsewhere from `start` on. If the
    computation fails, every `get` raises its exception. Anything it refers to is released once it has succeeded."""

    def __init__(self, work: Work[T]) -> None:
        self._lock, self._started = Lock(), False
        self._work: Work[T] | None = work
        self._error: Exception | None = None
        self._value: T

    @classmethod
    def known(cls, value: T) -> Deferred[T]:
        """A value that exists already."""
        deferred = cls(lambda: value)
        deferred.get()
        return deferred

    def start(self, place: Callable[[Work[T]], Deferred[T]]) -> None:
        """Starts the computation at a place, such as `Schedule.thread`, unless it has been started."""
        with self._lock:
            if self._work is not None and not self._started:
                self._work = place(self._work).get
            self._started = True

    def get(self) -> T:
        """The value, after its computation."""
        with self._lock:
            if self._work is not None:
                try:
                    self._value = self._work()
                except Exception as error:
                    self._error = error
                self._work = None
        if self._error is not None:
            raise self._error
        return self._value


class Streams(Protocol):
    """A device's streams and copies; see backend/interfaces."""

    def low_priority(self, work: Work[T], /) -> T: ...

    def high_priority(self, work: Work[T], /) -> Work[T]: ...

    def to_host_async(self, arrays: list[Any], /) -> tuple[list[Any], Work[None]]: ...

    def to_host_now(self, arrays: list[Any], /) -> tuple[list[Any], Work[None]]: ...


class Schedule:
    """Places where a build's work can run concurrently with the calling thread."""

    @cached_property
    def _threads(self) -> Executor:
        return kept_threads(THREADS)

    def thread(self, work: Work[T]) -> Deferred[T]:
        """Runs work in a thread, from now on. It may wait for work started earlier."""
        return Deferred(self._threads.submit(work).result)

    def high_priority(self, device: Streams, work: Work[T]) -> Deferred[T]:
        """Runs work in a thread, on a device's high-priority stream: after the current stream's work so far, concurrent
        with later work. If memory runs out there, it is repeated in the thread that needs the value, whose arrays may
        overflow."""
        elsewhere = self.thread(device.high_priority(work))

        def value() -> T:
            try:
                return elsewhere.get()
            except MemoryError as error:
                release_frames(error)
            return work()

        return Deferred(value)

    @staticmethod
    def low_priority(device: Streams, launch: Callable[[], Work[T]]) -> Deferred[T]:
        """Launches work on a device's low-priority stream, concurrent with later work in the foreground. launch:
        returns a function that waits for the results."""
        return Deferred(device.low_priority(launch))

    @staticmethod
    def to_host(
        device: Streams, arrays: dict[str, Any], concurrent: bool
    ) -> tuple[dict[str, Deferred[Any]], Deferred[None]]:
        """Copies device arrays to the host, in order; returns each copy, and None once all have arrived. concurrent:
        start the copies now, concurrent with later work; the arrays must stay unchanged until they have arrived.

        Copies that fail for lack of memory raise OutOfMemoryError.
        """
        copy = device.to_host_async if concurrent else device.to_host_now
        copies, wait = copy(list(arrays.values()))
        arrived = Deferred(wait)

        def after_all(host: Any) -> Deferred[Any]:
            def copied() -> Any:
                with memory_errors():
                    arrived.get()
                return host

            return Deferred(copied)

        return {name: after_all(host) for name, host in zip(arrays, copies, strict=True)}, arrived
