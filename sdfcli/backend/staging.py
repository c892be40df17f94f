"""Large copies between a GPU and the host's pageable memory, through page-locked buffers: threads fill or empty some of
these while the GPU copies others. Most of such a copy is the host's work: pages that are new, and the copy to or from
the buffers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend.arguments import Array
from sdfcli.runtime.hardware import available_threads

STAGE = 1 << 21
"""Bytes of a buffer."""
FEW, MOST, MANY = 4, 8, 1 << 26
"""Maximum threads; and those for at least so many bytes."""


class Staging:
    """Copies of one GPU, by threads with a buffer and a stream of their own. One copy at a time."""

    def __init__(self, cupy: Any, device: Any) -> None:
        self._cuda, self._device = cupy.cuda, device
        self._lock = Lock()
        self._lanes: list[_Lane] = []
        self._threads, self._courier = ThreadPoolExecutor(MOST), ThreadPoolExecutor(1)

    def upload(self, host: npt.NDArray[Any], array: Array) -> None:
        """Copies and converts values (n,) to a device array (n,), in order with the current stream."""

        def piece(lane: _Lane, part: slice) -> None:
            lane.wait()
            filled = lane.buffer.view(array.dtype)[: part.stop - part.start]
            filled[...] = host[part]
            lane.copy(array[part].data.ptr, filled.ctypes.data, filled.nbytes, self._cuda.runtime.memcpyHostToDevice)

        stream = self._cuda.get_current_stream()
        for lane in self._by_lanes(array, piece, stream.record()):
            stream.wait_event(lane.copied)

    def download(self, array: Array) -> npt.NDArray[Any]:
        """The values (n,) of a contiguous device array."""
        host = np.empty(len(array), array.dtype)
        self._fill(host, array, self._cuda.get_current_stream().record())
        return host

    def download_beside(self, arrays: list[Array]) -> tuple[list[npt.NDArray[Any]], Callable[[], None]]:
        """Begins to copy contiguous device arrays (n,), by a thread that lets go of each when it is copied. Returns the
        copies, and what waits until they are whole."""
        hosts = [np.empty(len(array), array.dtype) for array in arrays]
        waiting, before = [*zip(hosts, arrays, strict=True)], self._cuda.get_current_stream().record()

        def copies() -> None:
            with self._device:
                while waiting:
                    self._fill(*waiting.pop(0), before)

        return hosts, self._courier.submit(copies).result

    def _fill(self, host: npt.NDArray[Any], array: Array, before: Any) -> None:
        """Copies a contiguous device array (n,) to one of the host, after an event."""

        def piece(lane: _Lane, part: slice) -> None:
            taken = lane.buffer.view(array.dtype)[: part.stop - part.start]
            lane.copy(taken.ctypes.data, array[part].data.ptr, taken.nbytes, self._cuda.runtime.memcpyDeviceToHost)
            lane.wait()
            host[part] = taken

        if len(array):
            self._by_lanes(array, piece, before)

    def _by_lanes(self, array: Array, piece: Callable[[_Lane, slice], None], before: Any) -> list[_Lane]:
        """Does an array's pieces after the event `before`; returns those that did some."""
        most, count = STAGE // array.itemsize, len(array)
        lanes = min(-(-count // most), max(2, available_threads()), MOST if array.nbytes >= MANY else FEW)
        rounds = -(-count // (lanes * most))
        size = -(-count // (lanes * rounds))  # the same for all
        parts = [slice(first, min(first + size, count)) for first in range(0, count, size)]

        def work(number: int) -> _Lane:
            with self._device:
                lane = self._lanes[number]
                lane.stream.wait_event(before)
                for part in parts[number::lanes]:
                    piece(lane, part)
            return lane

        with self._lock:
            while len(self._lanes) < lanes:
                self._lanes.append(_Lane(self._cuda))
            if lanes == 1:
                return [work(0)]
            at_work = [self._threads.submit(work, number) for number in range(lanes)]
            try:
                return [each.result() for each in at_work]
            finally:
                wait(at_work)  # an interrupt must not leave buffers in use


class _Lane:
    """A buffer, a stream, and the event after its last copy."""

    def __init__(self, cuda: Any) -> None:
        self._runtime = cuda.runtime
        self.buffer = np.frombuffer(cuda.alloc_pinned_memory(STAGE), np.uint8, STAGE)
        self.stream, self.copied = cuda.Stream(non_blocking=True), cuda.Event(disable_timing=True)

    def copy(self, to: int, source: int, size: int, kind: int) -> None:
        self._runtime.memcpyAsync(to, source, size, kind, self.stream.ptr)
        self.copied.record(self.stream)

    def wait(self) -> None:
        self.copied.synchronize()
