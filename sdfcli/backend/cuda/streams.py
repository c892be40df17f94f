"""CuPy's streams and events."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from sdfcli.backend.cuda.device import CudaDevice
from sdfcli.backend.interfaces.streams import Stream, Streams

T = TypeVar("T")


class CudaStream(Stream):
    """A GPU's stream."""

    def __init__(self, cupy: Any, device: Any) -> None:
        self._device = device
        self._open = ExitStack()
        with device:
            self._stream = cupy.cuda.Stream(non_blocking=True)

    def __enter__(self) -> CudaStream:
        self._open.enter_context(self._device)
        self._open.enter_context(self._stream)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def synchronize(self) -> None:
        self._stream.synchronize()


class CudaStreams(CudaDevice, Streams):
    """Streams of three priorities."""

    def __init__(self, device: int = 0) -> None:
        super().__init__(device)
        self._streams: list[Stream] = []

    def synchronize(self) -> None:
        self.xp.cuda.get_current_stream().synchronize()

    def streams(self, n: int) -> list[Stream]:
        while len(self._streams) < n:
            self._streams.append(CudaStream(self.xp, self.device))
        return self._streams[:n]

    @contextmanager
    def foreground(self) -> Iterator[None]:
        _, stream, low_priority = self._by_priority
        before = self.xp.cuda.get_current_stream()
        stream.wait_event(before.record())
        with stream:
            try:
                yield
            finally:
                before.wait_event(stream.record())
                before.wait_event(low_priority.record())

    def low_priority(self, work: Callable[[], T]) -> T:
        _, _, stream = self._by_priority
        stream.wait_event(self.xp.cuda.get_current_stream().record())
        with stream:
            return work()

    def high_priority(self, work: Callable[[], T]) -> Callable[[], T]:
        stream, _, _ = self._by_priority
        so_far = self.xp.cuda.get_current_stream().record()

        def in_thread() -> T:
            stream.wait_event(so_far)
            with self.device, stream:
                try:
                    return work()
                finally:
                    stream.synchronize()

        return in_thread

    @functools.cached_property
    def _by_priority(self) -> tuple[Any, Any, Any]:
        """Streams of `high_priority`, `foreground` and `low_priority`. The second is ordered with the default stream,
        so either may reuse memory freed by the other, from any thread."""
        of = self.xp.cuda.Stream
        with self.device:
            return of(non_blocking=True, priority=-2), of(priority=-1), of(non_blocking=True, priority=0)

    def done_so_far(self) -> Callable[[], None]:
        done = self.xp.cuda.Event(disable_timing=True)
        done.record()

        wait: Callable[[], None] = done.synchronize
        return wait

    def record_event(self) -> Any:
        event = self.xp.cuda.Event()
        event.record()
        return event

    def elapsed(self, start: Any, end: Any) -> float:
        end.synchronize()
        return float(self.xp.cuda.get_elapsed_time(start, end)) / 1e3
