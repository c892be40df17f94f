"""Copies through page-locked memory, and between GPUs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend.arguments import Array
from sdfcli.backend.cuda.device import CudaDevice
from sdfcli.backend.cuda.staging import Staging
from sdfcli.backend.interfaces.transfers import Transfers

STAGED = 1 << 16
"""Maximum bytes of pageable host memory that the driver has staged when an asynchronous copy returns."""
FEW_BYTES = 1 << 21
"""Maximum bytes copied to the host by the driver; larger arrays use `Staging`."""
ASYNC_SHARE = 16
"""Divisor of device memory: maximum held by asynchronous downloads, and meanwhile unavailable to other work."""


class CudaTransfers(CudaDevice, Transfers):
    """Copies in order with the current stream."""

    def __init__(self, device: int = 0) -> None:
        super().__init__(device)
        self.async_bytes = self.total_bytes // ASYNC_SHARE
        self._reached: set[int] = set()  # other GPUs, see _reach
        self._coming: list[tuple[Any, npt.NDArray[Any]]] = []
        self._coming_lock = Lock()
        self._staging, self._async_staging = (
            Staging(self.xp, self.device) for _ in range(2)
        )  # the second waits for nobody

    def from_host(self, array: npt.ArrayLike, dtype: Any = None) -> Array:
        if isinstance(array, self.xp.ndarray):
            return super().from_host(array, dtype)
        host = np.asarray(array)
        copy = self.xp.empty(host.shape, host.dtype if dtype is None else dtype)
        if 0 < copy.nbytes <= STAGED:
            self.upload(np.ascontiguousarray(host, copy.dtype), copy)
        elif copy.nbytes:
            self._staging.upload(host.reshape(-1), copy.reshape(-1))
        return copy

    def to_host(self, array: Array, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        with self.device:  # the copy waits for its work, even if the thread's current device is another
            if isinstance(array, self.xp.ndarray) and array.nbytes > FEW_BYTES and array._c_contiguous:
                host = np.empty(array.shape, array.dtype) if out is None else out
                self._staging.download(array.reshape(-1), host.reshape(-1))
                return host
            return np.asarray(self.xp.asnumpy(array, out=out))

    def to_host_async(self, arrays: list[Array]) -> tuple[list[npt.NDArray[Any]], Callable[[], None]]:
        if sum(array.nbytes for array in arrays) > self.async_bytes:
            return self.to_host_now(arrays)
        with self.device:
            copies, wait = self._async_staging.download_async([array.reshape(-1) for array in arrays])
        return [copy.reshape(array.shape) for copy, array in zip(copies, arrays, strict=True)], wait

    def copy_async(self, array: Array) -> Callable[[], npt.NDArray[Any]]:
        cuda, size, width = self.xp.cuda, array.size, array.itemsize
        memory, stream = cuda.alloc_pinned_memory(max(size * width, 1)), cuda.get_current_stream()
        if size:  # row by row
            step = array.strides[0]
            kind = cuda.runtime.memcpyDeviceToHost
            cuda.runtime.memcpy2DAsync(memory.ptr, width, array.data.ptr, step, width, size, kind, stream.ptr)
        host = np.frombuffer(memory, array.dtype, size)
        copied = stream.record()
        # CuPy reuses pinned memory without a reference: keep one until the copy is done, even if nobody waits.
        with self._coming_lock:
            self._coming = [(each, memory) for each, memory in self._coming if not each.done] + [(copied, host)]

        def wait() -> npt.NDArray[Any]:
            copied.synchronize()
            return host

        return wait

    def pinned(self, n: int, dtype: Any) -> npt.NDArray[Any]:
        size = n * np.dtype(dtype).itemsize
        return np.frombuffer(self.xp.cuda.alloc_pinned_memory(max(size, 1)), dtype, n)

    def mapped(self, host: npt.NDArray[Any]) -> Array:
        cuda = self.xp.cuda
        memory = cuda.UnownedMemory(host.ctypes.data, host.nbytes, host, self.device.id)
        return self.xp.ndarray(host.shape, host.dtype, cuda.MemoryPointer(memory, 0))

    def upload(self, host: npt.NDArray[Any], array: Array) -> None:
        self.copy_bytes(array.data.ptr, host.ctypes.data, array.nbytes, self.xp.cuda.runtime.memcpyHostToDevice)

    def download(self, array: Array, host: npt.NDArray[Any]) -> None:
        self.copy_bytes(host.ctypes.data, array.data.ptr, array.nbytes, self.xp.cuda.runtime.memcpyDeviceToHost)

    def fetch(self, array: Array, other: Transfers) -> Array:
        if not isinstance(other, CudaTransfers):
            return super().fetch(array, other)
        cuda = self.xp.cuda
        self._reach(other)
        other._reach(self)
        with other.device:
            source, theirs = self.xp.ascontiguousarray(array), cuda.get_current_stream()
            ready = theirs.record()
        with self.device:
            copy, ours = self.xp.empty(source.shape, source.dtype), cuda.get_current_stream()
            ours.wait_event(ready)
            kind = cuda.runtime.memcpyDefault
            cuda.runtime.memcpyAsync(copy.data.ptr, source.data.ptr, source.nbytes, kind, ours.ptr)
            copied = ours.record()
        with other.device:
            theirs.wait_event(copied)  # its memory may be reused from then on
        return copy

    def _reach(self, other: CudaTransfers) -> None:
        """Enables direct copies between this GPU's memory and another's where supported, instead of through the
        host."""
        runtime, number = self.xp.cuda.runtime, other.device.id
        if number not in self._reached and runtime.deviceCanAccessPeer(self.device.id, number):
            with self.device, suppress(runtime.CUDARuntimeError):  # already enabled
                runtime.deviceEnablePeerAccess(number)
        self._reached.add(number)
