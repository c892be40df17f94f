"""Which GPU, its memory, profilers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from sdfcli.backend.interfaces.device import Device
from sdfcli.errors import DeviceError
from sdfcli.runtime import mps
from sdfcli.runtime.memory import free_memory
from sdfcli.startup.cupy import device_count, import_cupy

IDLE_SHARE = 64
"""Divisor of device memory: free blocks that the pool keeps for reuse, as freeing and allocating takes time."""
LARGE, LARGE_SHARE = 1 << 26, 0.75
"""Minimum bytes of a large array, and the share of the allowed device memory that large arrays may fill before they
move to host memory. The rest is for smaller arrays, most of which are read at once."""


class _Range(AbstractContextManager[None]):
    """A named profiler range. Not cupyx.profiler.time_range, whose import takes 0.25 s."""

    def __init__(self, nvtx: Any, name: str) -> None:
        self._nvtx, self._name = nvtx, name

    def __enter__(self) -> None:
        self._nvtx.RangePush(self._name)

    def __exit__(self, *_: object) -> None:
        self._nvtx.RangePop()


class CudaDevice(Device):
    """A GPU, current for the thread that makes this."""

    def __init__(self, device: int = 0) -> None:
        self.xp = import_cupy()
        count = device_count()
        if device >= count:
            raise DeviceError(f"there is no CUDA device {device} ({count} found); use --device cpu")
        self.device = self.xp.cuda.Device(device)
        self.device.use()
        self.name = f"cuda:{device}"
        # The threads of a grid wait for each other: the grids of all processes must fit on the GPU together.
        self.clients, multiprocessors = mps.clients(), self.device.attributes["MultiProcessorCount"]
        self.grids = self.clients is not None and self.clients <= multiprocessors
        self.total_bytes = int(self.device.mem_info[1])
        self.idle_bytes = self.total_bytes // IDLE_SHARE

    def memory_used(self) -> int:
        return int(self.xp.get_default_memory_pool().used_bytes())

    def memory_free(self) -> int:
        pool = self.xp.get_default_memory_pool()
        return int(self.device.mem_info[0]) + int(pool.total_bytes()) - int(pool.used_bytes())

    def release_cached(self) -> None:
        pool = self.xp.get_default_memory_pool()
        if pool.free_bytes() > self.idle_bytes:
            pool.free_all_blocks()

    @contextmanager
    def overflow(self, most: int, folder: Path) -> Iterator[None]:
        cuda = self.xp.cuda
        pool, host = self.xp.get_default_memory_pool(), cuda.MemoryPool(self._on_host)

        def malloc(size: int) -> Any:
            allowed = most if size < LARGE else LARGE_SHARE * most
            if pool.used_bytes() + size <= allowed:
                with suppress(cuda.memory.OutOfMemoryError):
                    return pool.malloc(size)
            return host.malloc(size)

        with cuda.using_allocator(malloc):
            yield

    def _on_host(self, size: int) -> Any:
        """Page-locked host memory, accessed by kernels over the bus."""
        cuda = self.xp.cuda
        memory = cuda.PinnedMemory(size)
        return cuda.MemoryPointer(cuda.UnownedMemory(memory.ptr, size, memory, self.device.id), 0)

    def overflow_free(self, folder: Path) -> int:
        return free_memory()

    @contextmanager
    def active(self) -> Iterator[None]:
        with self.device:
            yield

    def annotate(self, name: str) -> AbstractContextManager[Any]:
        return _Range(self.xp.cuda.nvtx, name)

    @contextmanager
    def profiled(self) -> Iterator[None]:
        self.xp.cuda.get_current_stream().synchronize()
        self.xp.cuda.runtime.profilerStart()
        try:
            yield
            self.xp.cuda.get_current_stream().synchronize()
        finally:
            self.xp.cuda.runtime.profilerStop()

    def copy_bytes(self, to: int, source: int, size: int, kind: int) -> None:
        """Starts the driver's copy in the current stream. kind: its direction, as CUDA has it."""
        stream = self.xp.cuda.get_current_stream().ptr
        self.xp.cuda.runtime.memcpyAsync(to, source, size, kind, stream)
