"""NVIDIA GPU backend: the only file that imports CuPy."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import LazyLoader, module_from_spec
from pathlib import Path
from threading import Lock, Thread
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sdfcli.backend.arguments import Array, C, argument_structs
from sdfcli.backend.base import Backend, Stream
from sdfcli.backend.headers import headers, joined, with_includes
from sdfcli.backend.staging import Staging
from sdfcli.backend.warps import LEAST_MANY, WarpBackend
from sdfcli.errors import DeviceError
from sdfcli.runtime import mps
from sdfcli.runtime.memory import free_memory

T = TypeVar("T")

BLOCK = C.WARP * C.BLOCK_WARPS
STAGED = 1 << 16
"""Maximum bytes of pageable host memory that the driver has staged when an asynchronous copy returns."""
FEW_BYTES = 1 << 21
"""Maximum bytes copied to the host by the driver; larger arrays use `Staging`."""
IDLE_SHARE = 64
"""Divisor of device memory: free blocks that the pool keeps for reuse, as freeing and allocating takes time."""
LARGE, LARGE_SHARE = 1 << 26, 0.75
"""Minimum bytes of a large array, and the share of the allowed device memory that large arrays may fill before they
move to host memory. The rest is for smaller arrays, most of which are read at once."""
BESIDE_SHARE = 16
"""Divisor of device memory: maximum held by asynchronous downloads, and meanwhile unavailable to other work."""
COMPILER_OPTIONS = ("-std=c++17", "--fmad=false")
FLUSH_DENORMALS = "-ftz=true"
"""Option added by CuPy."""
OPTIONS = (*COMPILER_OPTIONS, FLUSH_DENORMALS)
COMPILERS = 4
"""Compiler threads on a first run: one module takes as long as all others together."""
LAUNCH = "base/launch.h"


@functools.cache
def kernel_sources() -> dict[str, str]:
    """Module source by kernel: the header that defines it, after its includes. A command compiles only headers whose
    kernels it runs, and an edited header changes only the modules that include it.

    A single text, as CuPy's cache of compiled kernels does not follow #include.
    """
    sources = {}
    for name, text in headers().items():
        kernels = [declared.partition(",")[0] for declared in text.split("\nSDF_KERNEL(")[1:]]
        if kernels:
            *included, own = with_includes(name)
            sources.update(dict.fromkeys(kernels, joined([*included, LAUNCH, own])))
    return sources


def _cache_folder() -> Path:
    """CuPy's cache folder. Not Path.expanduser, which fails for users without a home, as in some containers."""
    return Path(os.path.expanduser(os.environ.get("CUPY_CACHE_DIR") or "~/.cupy/kernel_cache"))


def _intact(file: Path) -> bytes:
    """File content after its SHA-256; empty on a mismatch, or without a file."""
    try:
        stored = file.read_bytes()
    except OSError:
        return b""
    return stored[32:] if hashlib.sha256(stored[32:]).digest() == stored[:32] else b""


def import_cupy() -> Any:
    """Imports CuPy. Raises DeviceError where it is not installed."""
    try:
        with _without_cutensor():
            import cupy
    except ImportError as error:
        raise DeviceError(
            "CuPy is not installed: pip install 'sdfcli[cuda13]' (or [cuda12]), or use --device cpu"
        ) from error
    _load_when_touched("cupyx", "linalg")
    return cupy


@contextmanager
def _without_cutensor() -> Iterator[None]:
    """Within it, CuPy's import treats cuTENSOR as loaded where CUPY_ACCELERATORS excludes it: otherwise cuBLAS is
    loaded first (0.05 s), even without cuTENSOR."""
    try:
        pathfinder: Any = import_module("cuda.pathfinder")
    except ImportError:  # older CuPy
        pathfinder = None
    if pathfinder is None or "cupy" in sys.modules or os.environ.get("CUPY_ACCELERATORS") != "":
        yield
        return
    load = pathfinder.load_nvidia_dynamic_lib

    pathfinder.load_nvidia_dynamic_lib = lambda name: None if name == "cutensor" else load(name)
    try:
        yield
    finally:
        pathfinder.load_nvidia_dynamic_lib = load


def _load_when_touched(package: str, name: str) -> None:
    """Makes the import of `package.name` lazy: loaded on first attribute access.

    CuPy imports cupyx for an operator with a number on the right; with SciPy installed, cupyx.linalg then takes 0.25 s.
    """
    full = f"{package}.{name}"
    if full in sys.modules or package not in sys.modules:
        return
    found = PathFinder.find_spec(package)
    spec = found and PathFinder.find_spec(full, found.submodule_search_locations)
    if spec is None or spec.loader is None:
        return
    spec.loader = LazyLoader(spec.loader)
    module = sys.modules[full] = module_from_spec(spec)
    spec.loader.exec_module(module)
    setattr(sys.modules[package], name, module)


def device_count() -> int:
    """Number of NVIDIA GPUs that CuPy can use; 0 without CuPy or a driver."""
    try:
        return int(import_cupy().cuda.runtime.getDeviceCount())
    except Exception:
        return 0


@functools.cache
def cuda_backend(device: int) -> CudaBackend:
    """A GPU's backend, cached: kernels are loaded once."""
    return CudaBackend(device)


class _Range(AbstractContextManager[None]):
    """A named profiler range. Not cupyx.profiler.time_range, whose import takes 0.25 s."""

    def __init__(self, nvtx: Any, name: str) -> None:
        self._nvtx, self._name = nvtx, name

    def __enter__(self) -> None:
        self._nvtx.RangePush(self._name)

    def __exit__(self, *_: object) -> None:
        self._nvtx.RangePop()


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


class CudaBackend(WarpBackend):
    """Runs kernels on one GPU, on CuPy's current stream."""

    def __init__(self, device: int = 0) -> None:
        self.xp = import_cupy()
        count = device_count()
        if device >= count:
            raise DeviceError(f"there is no CUDA device {device} ({count} found); use --device cpu")
        self.device = self.xp.cuda.Device(device)
        self.device.use()
        self.name = f"cuda:{device}"
        # Threads of a grid wait for each other: all processes' grids must fit on the GPU together.
        self._clients, multiprocessors = mps.clients(), self.device.attributes["MultiProcessorCount"]
        self.grids = self._clients is not None and self._clients <= multiprocessors
        self._modules: dict[str, Any] = {}
        self._files: dict[str, Path] = {}
        self._compiling: dict[str, Lock] = defaultdict(Lock)
        memory = int(self.device.mem_info[1])
        self.idle_bytes, self.beside_bytes = memory // IDLE_SHARE, memory // BESIDE_SHARE
        self._functions: dict[str, tuple[Any, int, int]] = {}
        self._block = BLOCK
        self._reached: set[int] = set()  # other GPUs, see _reach
        self._streams: list[Stream] = []
        self._coming: list[tuple[Any, npt.NDArray[Any]]] = []
        self._coming_lock = Lock()
        self._staging, self._beside = (Staging(self.xp, self.device) for _ in range(2))  # each with its own buffers

    def __reduce__(self) -> tuple[Any, ...]:
        return cuda_backend, (self.device.id,)  # its modules and streams belong to this process

    def run(self, kernel: str, n: int, **values: Any) -> None:
        if n:
            self.ready(kernel, n, **values)()

    def ready(self, kernel: str, n: int, **values: Any) -> Callable[[], None]:
        function, block, resident = self._functions.get(kernel) or self._load(kernel)
        if resident:
            n = min(resident, -(-n // block) * block)
        values["n"] = n
        raw = argument_structs()[kernel].pack(values, self.address)
        grid, of_block = ((n + block - 1) // block,), (block,)
        arguments = (np.void(raw),)  # passed by value

        def launch(_: Any = values) -> None:  # keeps the arrays alive
            function(grid, of_block, arguments, enable_cooperative_groups=resident > 0)

        return launch

    @contextmanager
    def blocks_of(self, threads: int) -> Iterator[None]:
        kept = self._functions, self._block
        self._functions, self._block = {}, threads
        try:
            yield
        finally:
            self._functions, self._block = kept

    def recorded(self, work: Callable[[], None]) -> Callable[[], None]:
        cuda = self.xp.cuda
        pool = cuda.MemoryPool()  # private: nobody else may use memory that `work` has freed between replays
        with cuda.using_allocator(pool.malloc), cuda.Stream(non_blocking=True) as stream:
            stream.begin_capture(cuda.runtime.streamCaptureModeRelaxed)
            try:
                work()
            finally:
                graph = stream.end_capture()

        def replay(kept: Any = pool) -> None:
            graph.launch()

        return replay

    @staticmethod
    def address(array: Array) -> int | None:
        # Not array.flags, which creates an object: half the time of packing a launch's arguments.
        return array.data.ptr if array._c_contiguous else None

    def _load(self, kernel: str) -> tuple[Any, int, int]:
        """A kernel, its block size, and a GRID kernel's resident thread count (else 0)."""
        source = kernel_sources()[kernel]
        module = self._module(source)
        by_grid = f"SDF_KERNEL({kernel}, GRID," in source
        by_warps = by_grid or f"SDF_KERNEL({kernel}, WARP," in source  # shares memory among BLOCK threads
        function, resident = module.get_function(kernel), 0
        if by_grid:
            of_one = self.xp.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, BLOCK, 0)
            resident = BLOCK * (of_one * self.device.attributes["MultiProcessorCount"] // (self._clients or 1))
        self._functions[kernel] = function, BLOCK if by_warps else self._block, resident
        return self._functions[kernel]

    def _module(self, source: str) -> Any:
        """A module, compiled and loaded by the first thread that requests it."""
        with self._compiling[source]:
            if source not in self._modules:
                module = self.xp.cuda.function.Module()
                module.load(self._compiled(source))
                self._modules[source] = module
            return self._modules[source]

    def _compiled(self, source: str) -> bytes:
        """A module's machine code, from the disk cache if present.

        CuPy's own cache compiles an empty file in each process to learn the compiler's version: 50 ms.
        """
        file = self._file(source)
        compiled: bytes = _intact(file)
        if not compiled:
            compiled, _ = self.xp.cuda.compiler.compile_using_nvrtc(source, OPTIONS)
            with suppress(OSError):  # the next process compiles it again
                file.parent.mkdir(parents=True, exist_ok=True)
                temporary = file.with_name(f"{file.name}.{os.getpid()}")
                temporary.write_bytes(hashlib.sha256(compiled).digest() + compiled)
                temporary.replace(file)
        return compiled

    def _file(self, source: str) -> Path:
        """The cache file of a module's machine code; its name is computed once."""
        if source not in self._files:
            made_for = (OPTIONS, self.device.compute_capability, self.xp.cuda.nvrtc.getVersion(), self.xp.__version__)
            name = hashlib.sha256(f"{made_for} {source}".encode()).hexdigest()
            self._files[source] = _cache_folder() / f"sdfcli-{name}.cubin"
        return self._files[source]

    def prepare(self, kernels: Iterable[str]) -> None:
        sources = dict.fromkeys(kernel_sources()[kernel] for kernel in kernels)
        missing = [source for source in sources if source not in self._files and not self._file(source).exists()]

        def compiles(source: str) -> None:
            with suppress(Exception), self.device, self._compiling[source]:  # raised again on first use
                self._compiled(source)

        def loads() -> None:
            with suppress(Exception), self.device:
                for source in sources:
                    self._module(source)

        if not missing and not self._modules.keys() >= sources.keys():
            Thread(target=loads, daemon=True).start()
        # Non-daemon threads: the interpreter must not end while the compiler runs.
        if missing:
            compilers = ThreadPoolExecutor(COMPILERS)
            for source in missing:
                compilers.submit(compiles, source)
            compilers.shutdown(wait=False)

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

    def to_host(self, array: Array) -> npt.NDArray[Any]:
        with self.device:  # the copy waits for its work, even if the thread's current device is another
            if isinstance(array, self.xp.ndarray) and array.nbytes > FEW_BYTES and self.address(array) is not None:
                return self._staging.download(array.reshape(-1)).reshape(array.shape)
            return np.asarray(self.xp.asnumpy(array))

    def to_host_beside(self, arrays: list[Array]) -> tuple[list[npt.NDArray[Any]], Callable[[], None]]:
        if sum(array.nbytes for array in arrays) > self.beside_bytes:
            return self.to_host_at_once(arrays)
        with self.device:
            copies, wait = self._beside.download_beside([array.reshape(-1) for array in arrays])
        return [copy.reshape(array.shape) for copy, array in zip(copies, arrays, strict=True)], wait

    def synchronize(self) -> None:
        self.xp.cuda.get_current_stream().synchronize()

    def fetch(self, array: Array, other: Backend) -> Array:
        if not isinstance(other, CudaBackend):
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

    def _reach(self, other: CudaBackend) -> None:
        """Enables direct copies between this GPU's memory and another's where supported, instead of through the
        host."""
        runtime, number = self.xp.cuda.runtime, other.device.id
        if number not in self._reached and runtime.deviceCanAccessPeer(self.device.id, number):
            with self.device, suppress(runtime.CUDARuntimeError):  # already enabled
                runtime.deviceEnablePeerAccess(number)
        self._reached.add(number)

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

    def done_so_far(self) -> Callable[[], None]:
        done = self.xp.cuda.Event(disable_timing=True)
        done.record()

        wait: Callable[[], None] = done.synchronize
        return wait

    def annotate(self, name: str) -> AbstractContextManager[Any]:
        return _Range(self.xp.cuda.nvtx, name)

    def record_event(self) -> Any:
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

    def sort(self, keys: Array) -> Array:
        if self._by_grid(keys):
            return self.grid_sort(keys)
        # Thrust directly, in place: cupy.argsort sorts a copy.
        order = self.xp.empty(len(keys), np.int64)
        if len(keys):
            self.xp.cuda.thrust.argsort(keys.dtype, order.data.ptr, keys.data.ptr, 0, keys.shape)
        return order

    def sort_alone(self, keys: Array) -> None:
        if self._by_grid(keys):
            self.grid_sort(keys, ordered=False)
        else:
            keys.sort()

    def _by_grid(self, array: Array) -> bool:
        """Whether a grid sorts or scans the array. Not where processes share the GPU by MPS: two grids of this process
        may not fit next to the others'."""
        return self._clients == 1 and array.size < LEAST_MANY and self.address(array) is not None

    def inclusive_scan(self, values: Array) -> None:
        if self._by_grid(values):
            self.grid_scan(values)
            return
        # CUB directly, in place: cupy.cumsum takes three to five times as long.
        cub = self.xp.cuda.cub
        cub.device_scan(values, cub.CUPY_CUB_CUMSUM)

    @contextmanager
    def active(self) -> Iterator[None]:
        with self.device:
            yield

    def streams(self, n: int) -> list[Stream]:
        while len(self._streams) < n:
            self._streams.append(CudaStream(self.xp, self.device))
        return self._streams[:n]

    @contextmanager
    def foreground(self) -> Iterator[None]:
        _, stream, behind = self._by_priority
        before = self.xp.cuda.get_current_stream()
        stream.wait_event(before.record())
        with stream:
            try:
                yield
            finally:
                before.wait_event(stream.record())
                before.wait_event(behind.record())

    def behind(self, work: Callable[[], T]) -> T:
        _, _, stream = self._by_priority
        stream.wait_event(self.xp.cuda.get_current_stream().record())
        with stream:
            return work()

    def beside(self, work: Callable[[], T]) -> Callable[[], T]:
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
        """Streams of `beside`, `foreground` and `behind`. The second is ordered with the default stream, so either may
        reuse memory freed by the other, from any thread."""
        of = self.xp.cuda.Stream
        with self.device:
            return of(non_blocking=True, priority=-2), of(priority=-1), of(non_blocking=True, priority=0)

    def grown(self, array: Array, entries: int, kept: int) -> Array:
        # The driver's copy: a fifth of the time of CuPy's assignment.
        new = self.xp.empty((entries, *array.shape[1:]), array.dtype)
        size = kept * (array.nbytes // max(1, len(array)))
        if size:
            self._copy(new.data.ptr, array.data.ptr, size, self.xp.cuda.runtime.memcpyDefault)
        return new

    def fill(self, array: Array, value: Any) -> None:
        pattern = set(np.array(value, array.dtype).tobytes())
        if len(pattern) == 1:
            array.data.memset_async(pattern.pop(), array.nbytes)
        else:
            array.fill(value)

    def pinned(self, n: int, dtype: Any) -> npt.NDArray[Any]:
        size = n * np.dtype(dtype).itemsize
        return np.frombuffer(self.xp.cuda.alloc_pinned_memory(max(size, 1)), dtype, n)

    def mapped(self, host: npt.NDArray[Any]) -> Array:
        cuda = self.xp.cuda
        memory = cuda.UnownedMemory(host.ctypes.data, host.nbytes, host, self.device.id)
        return self.xp.ndarray(host.shape, host.dtype, cuda.MemoryPointer(memory, 0))

    def upload(self, host: npt.NDArray[Any], array: Array) -> None:
        self._copy(array.data.ptr, host.ctypes.data, array.nbytes, self.xp.cuda.runtime.memcpyHostToDevice)

    def download(self, array: Array, host: npt.NDArray[Any]) -> None:
        self._copy(host.ctypes.data, array.data.ptr, array.nbytes, self.xp.cuda.runtime.memcpyDeviceToHost)

    def _copy(self, to: int, source: int, size: int, kind: int) -> None:
        stream = self.xp.cuda.get_current_stream().ptr
        self.xp.cuda.runtime.memcpyAsync(to, source, size, kind, stream)
