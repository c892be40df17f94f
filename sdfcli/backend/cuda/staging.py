"""Copies between a GPU and pageable host memory through page-locked buffers: CPU threads fill or empty one while the
GPU copies another. Most time is host work, page faults and copies to or from the buffers, while other threads may hold
the GIL and use the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend.arguments import Array, C
from sdfcli.backend.base import Backend
from sdfcli.backend.select import any_backend

BUFFERS, SIZE = 2, 1 << 23
"""Buffer count, and bytes per buffer."""
ALIGNED = 256
"""Alignment of copies within a buffer, bytes."""


class Staging:
    """One GPU's copies, executed one at a time."""

    def __init__(self, cupy: Any, device: Any) -> None:
        self._cuda, self._device = cupy.cuda, device
        self._lock = Lock()
        self._used, self._filled = 0, SIZE  # buffers used so far, and bytes filled in the last
        self._courier = ThreadPoolExecutor(1)

    def upload(self, host: npt.NDArray[Any], array: Array) -> None:
        """Copies and converts values (n,) to a device array (n,), in order with the current stream."""
        stream = self._cuda.get_current_stream()
        before, kind = stream.record(), self._cuda.runtime.memcpyHostToDevice
        with self._lock:
            for part in _parts(array):
                given = np.ascontiguousarray(host[part], array.dtype)
                buffer, filled = self._room(given.nbytes)
                self._copy("sdf_bytes_handed", given.view(np.uint8), filled)
                buffer.copy(array[part].data.ptr, filled.ctypes.data, filled.nbytes, kind, before)
                stream.wait_event(buffer.copied)

    def download(self, array: Array, host: npt.NDArray[Any]) -> None:
        """Copies the values of a contiguous device array (n,) to a host array (n,)."""
        self._fill([(host, array)], self._cuda.get_current_stream().record())

    def download_async(self, arrays: list[Array]) -> tuple[list[npt.NDArray[Any]], Callable[[], None]]:
        """Starts copying contiguous device arrays (n,) in a thread that releases each once copied. Returns the copies,
        and a function that waits for all of them."""
        hosts = [np.empty(len(array), array.dtype) for array in arrays]
        waiting, before = [*zip(hosts, arrays, strict=True)], self._cuda.get_current_stream().record()

        def copies() -> None:
            with self._device:
                self._fill(waiting, before)

        return hosts, self._courier.submit(copies).result

    def _fill(self, waiting: list[tuple[npt.NDArray[Any], Array]], before: Any) -> None:
        """Copies contiguous device arrays (n,) to host arrays, after an event. Empties the list."""
        kind = self._cuda.runtime.memcpyDeviceToHost
        on_the_way: list[tuple[_Buffer, npt.NDArray[Any], Array]] = []

        def arrive() -> None:
            buffer, target, _ = on_the_way.pop(0)
            buffer.copied.synchronize()
            self._copy("sdf_bytes_copied", buffer.memory[: target.nbytes], target.view(np.uint8))

        with self._lock:
            while waiting:
                host, array = waiting.pop(0)
                self._begin(host)
                for part in _parts(array):
                    if len(on_the_way) == BUFFERS:
                        arrive()
                    buffer, source = self._next(), array[part]
                    buffer.copy(buffer.memory.ctypes.data, source.data.ptr, source.nbytes, kind, before)
                    on_the_way.append((buffer, host[part], source))
            while on_the_way:
                arrive()

    def _room(self, size: int) -> tuple[_Buffer, npt.NDArray[np.uint8]]:
        """Reserves bytes (size,) of a buffer after earlier ones, whose copies may still wait for device work."""
        if self._filled + size > SIZE:
            self._next().copied.synchronize()
            self._filled = 0
        buffer, first = self._buffers[self._used % BUFFERS], self._filled
        self._filled = -(-(first + size) // ALIGNED) * ALIGNED
        return buffer, buffer.memory[first : first + size]

    def _next(self) -> _Buffer:
        """The next buffer, whole."""
        self._used += 1
        self._filled = SIZE
        return self._buffers[self._used % BUFFERS]

    @cached_property
    def _buffers(self) -> list[_Buffer]:
        return [_Buffer(self._cuda) for _ in range(BUFFERS)]

    @cached_property
    def _host(self) -> Backend:
        return any_backend()

    def _begin(self, host: npt.NDArray[Any]) -> None:
        """Faults in an array's (n,) pages on all threads: a buffer covers few if they are huge pages."""
        if self._host.name == "cpu" and host.nbytes:
            pieces = -(-host.nbytes // C.BYTES_APART)
            self._host.run("sdf_bytes_begun", pieces, size=host.nbytes, bytes=host.view(np.uint8))

    def _copy(self, kernel: str, source: npt.NDArray[np.uint8], target: npt.NDArray[np.uint8]) -> None:
        """Copies host bytes (n,)."""
        if self._host.name == "cpu":
            size = len(target)
            pieces = -(-size // C.BYTES_PIECE)
            self._host.run(kernel, pieces, size=size, source=source, target=target)
        else:
            target[...] = source


def _parts(array: Array) -> Iterator[slice]:
    """Slices of an array (n,) that fit into a buffer."""
    most = SIZE // array.itemsize
    return (slice(first, first + most) for first in range(0, len(array), most))


class _Buffer:
    """Page-locked memory, a stream, and its last copy's event."""

    def __init__(self, cuda: Any) -> None:
        self._runtime = cuda.runtime
        self.memory = np.frombuffer(cuda.alloc_pinned_memory(SIZE), np.uint8, SIZE)
        self._stream, self.copied = cuda.Stream(non_blocking=True), cuda.Event(disable_timing=True)

    def copy(self, to: int, source: int, size: int, kind: int, before: Any) -> None:
        """Starts a copy, after an event."""
        self._stream.wait_event(before)
        self._runtime.memcpyAsync(to, source, size, kind, self._stream.ptr)
        self.copied.record(self._stream)
