"""An NVIDIA GPU through CuPy: the only file that imports it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend.base import KERNELS, Array, Backend, Queue, argument_structs
from sdfcli.errors import DeviceError

BLOCK = 128
COMPILER_OPTIONS = ("-std=c++17", "--fmad=false")


def kernel_source() -> str:
    """All headers as one text. CuPy's cache of compiled kernels is keyed by the text, and does not follow #include."""
    done: set[str] = set()

    def expand(name: str) -> str:
        if name in done:
            return ""
        done.add(name)
        lines = []
        for line in (KERNELS / name).read_text().splitlines():
            if line.startswith('#include "'):
                lines.append(expand(line.split('"')[1]))
            else:
                lines.append(line)
        return "\n".join(lines)

    return expand("kernels.h")


def import_cupy() -> Any:
    """CuPy, or a DeviceError that says what is missing."""
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            "CuPy is not installed: pip install 'sdfcli[cuda13]' (or [cuda12]), or use --device cpu"
        ) from error
    return cupy


def device_count() -> int:
    """The number of NVIDIA GPUs that CuPy can use; 0 without CuPy or a driver."""
    try:
        return int(import_cupy().cuda.runtime.getDeviceCount())
    except Exception:
        return 0


@functools.cache
def cuda_backend(device: int) -> CudaBackend:
    """The backend of one GPU, on which kernels are loaded once."""
    return CudaBackend(device)


class CudaQueue(Queue):
    """A stream of one GPU."""

    def __init__(self, cupy: Any, device: Any) -> None:
        self._device = device
        self._open = ExitStack()
        with device:
            self._stream = cupy.cuda.Stream(non_blocking=True)

    def __enter__(self) -> CudaQueue:
        self._open.enter_context(self._device)
        self._open.enter_context(self._stream)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def synchronize(self) -> None:
        self._stream.synchronize()


class CudaBackend(Backend):
    """Runs kernels on one GPU, on CuPy's current stream."""

    warps = True

    def __init__(self, device: int = 0) -> None:
        self.xp = import_cupy()
        count = device_count()
        if device >= count:
            raise DeviceError(f"there is no CUDA device {device} ({count} found); use --device cpu")
        self.device = self.xp.cuda.Device(device)
        self.device.use()
        self.name = f"cuda:{device}"
        self._module = self.xp.RawModule(code=kernel_source(), options=COMPILER_OPTIONS)
        self._functions: dict[str, Any] = {}
        self._queues: list[Queue] = []

    def run(self, kernel: str, n: int, **values: Any) -> None:
        if n == 0:
            return
        if kernel not in self._functions:
            self._functions[kernel] = self._module.get_function(kernel)
        struct = argument_structs()[kernel].pack({"n": n, **values}, lambda array: array.data.ptr)
        raw = bytes(struct)
        # CuPy hands a void scalar to a kernel by value.
        argument = np.frombuffer(raw, np.dtype(("V", len(raw))))[0]
        self._functions[kernel](((n + BLOCK - 1) // BLOCK,), (BLOCK,), (argument,))

    def to_host(self, array: Array) -> npt.NDArray[Any]:
        return np.asarray(self.xp.asnumpy(array))

    def synchronize(self) -> None:
        self.xp.cuda.get_current_stream().synchronize()

    @contextmanager
    def annotate(self, name: str) -> Iterator[None]:
        # Not cupyx.profiler.time_range: importing that takes a quarter of a second.
        self.xp.cuda.nvtx.RangePush(name)
        try:
            yield
        finally:
            self.xp.cuda.nvtx.RangePop()

    def mark(self) -> Any:
        event = self.xp.cuda.Event()
        event.record()
        return event

    def elapsed(self, start: Any, end: Any) -> float:
        end.synchronize()
        return float(self.xp.cuda.get_elapsed_time(start, end)) / 1e3

    @contextmanager
    def profiled(self) -> Iterator[None]:
        self.synchronize()
        self.xp.cuda.runtime.profilerStart()
        try:
            yield
            self.synchronize()
        finally:
            self.xp.cuda.runtime.profilerStop()

    def memory_used(self) -> int:
        return int(self.xp.get_default_memory_pool().used_bytes())

    def memory_free(self) -> int:
        pool = self.xp.get_default_memory_pool()
        return int(self.device.mem_info[0]) + int(pool.total_bytes()) - int(pool.used_bytes())

    def sort_order(self, keys: Array) -> Array:
        return self.xp.argsort(keys, kind="stable").astype(np.uint32)

    def inclusive_scan(self, values: Array) -> None:
        # CUB itself, in place. cupy.cumsum takes three to five times as long.
        from cupy.cuda import cub

        cub.device_scan(values, cub.CUPY_CUB_CUMSUM)

    @contextmanager
    def active(self) -> Iterator[None]:
        with self.device:
            yield

    def queues(self, n: int) -> list[Queue]:
        while len(self._queues) < n:
            self._queues.append(CudaQueue(self.xp, self.device))
        return self._queues[:n]

    def pinned(self, n: int, dtype: Any) -> npt.NDArray[Any]:
        size = n * np.dtype(dtype).itemsize
        return np.frombuffer(self.xp.cuda.alloc_pinned_memory(max(size, 1)), dtype, n)

    def upload(self, host: npt.NDArray[Any], array: Array) -> None:
        self._copy(array.data.ptr, host.ctypes.data, array.nbytes, self.xp.cuda.runtime.memcpyHostToDevice)

    def download(self, array: Array, host: npt.NDArray[Any]) -> None:
        self._copy(host.ctypes.data, array.data.ptr, array.nbytes, self.xp.cuda.runtime.memcpyDeviceToHost)

    def _copy(self, to: int, source: int, size: int, kind: int) -> None:
        stream = self.xp.cuda.get_current_stream().ptr
        self.xp.cuda.runtime.memcpyAsync(to, source, size, kind, stream)
