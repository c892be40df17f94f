"""Kernels as modules that NVRTC compiles, one for each header."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import numpy as np

from sdfcli.backend.arguments import Array, C, argument_structs
from sdfcli.backend.cuda.device import CudaDevice
from sdfcli.backend.headers import COMPILER_OPTIONS, OPTIONS, kernel_sources
from sdfcli.backend.interfaces.kernels import Kernels
from sdfcli.startup import PLAIN
from sdfcli.startup.cubins import cubin_file, load_cubin, save_cubin, shipped_file

BLOCK = C.WARP * C.BLOCK_WARPS
COMPILERS = 4
"""Compiler threads on a first run: one module takes as long as all others together."""


class CudaKernels(CudaDevice, Kernels):
    """Launches on CuPy's current stream."""

    def __init__(self, device: int = 0) -> None:
        super().__init__(device)
        self._modules: dict[str, Any] = {}
        self._files: dict[str, Path] = {}
        self._compiling: dict[str, Lock] = defaultdict(Lock)
        self._functions: dict[str, tuple[Any, int, int]] = {}
        self._block = BLOCK

    def run(self, kernel: str, n: int, **values: Any) -> None:
        if n:
            self.ready(kernel, n, **values)()

    def ready(self, kernel: str, n: int, **values: Any) -> Callable[[], None]:
        function, block, resident = self._functions.get(kernel) or self._load(kernel)
        if resident:
            n = min(resident, -(-n // block) * block)
        values["n"] = n
        grid, of_block = ((n + block - 1) // block,), (block,)
        arguments = (np.void(argument_structs()[kernel].pack(values, self.address)),)  # passed by value

        def launch(_: Any = values) -> None:  # keeps the arrays alive
            function(grid, of_block, arguments, enable_cooperative_groups=resident > 0)

        return launch

    def run_packed(self, kernel: str, arguments: bytes) -> None:
        (n,) = np.frombuffer(arguments, np.uint32, 1)
        function, block, _ = self._functions.get(kernel) or self._load(kernel)
        if n:
            function(((int(n) + block - 1) // block,), (block,), (np.void(arguments),))

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
        by_grid = f"SDF_KERNEL({kernel}, GRID," in source or f"SDF_KERNEL({kernel}, STEPS," in source
        by_warps = by_grid or f"SDF_KERNEL({kernel}, WARP," in source  # shares memory among BLOCK threads
        function, resident = module.get_function(kernel), 0
        if by_grid:
            of_one = self.xp.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, BLOCK, 0)
            of_all = of_one * self.device.attributes["MultiProcessorCount"]
            resident = BLOCK * (of_all // (self.clients or 1) if self.grids else 1)
        self._functions[kernel] = function, BLOCK if by_warps else self._block, resident
        return self._functions[kernel]

    def _module(self, source: str) -> Any:
        """A module, compiled and loaded by the first thread that asks for it."""
        with self._compiling[source]:
            if source not in self._modules:
                if PLAIN:
                    self._modules[source] = self.xp.RawModule(code=source, options=COMPILER_OPTIONS).module
                else:
                    self._modules[source] = self._loaded(source)
            return self._modules[source]

    def _loaded(self, source: str) -> Any:
        """A module from its machine code: from the package, else from the disk cache or the compiler."""
        module, shipped = self.xp.cuda.function.Module(), self._shipped(source)
        code = load_cubin(shipped) if shipped else b""
        try:
            module.load(code or self._compiled(source))
        except self.xp.cuda.driver.CUDADriverError:
            if not code:
                raise
            module.load(self._compiled(source))  # the driver is older than the package's compiler
        return module

    def _shipped(self, source: str) -> Path | None:
        return shipped_file(source, OPTIONS, self.device.compute_capability)

    def _compiled(self, source: str) -> bytes:
        """A module's machine code by this machine's compiler, from the disk cache if present.

        CuPy's own cache compiles an empty file in each process to learn the compiler's version: 50 ms.
        """
        file = self._file(source)
        code: bytes = load_cubin(file)
        if not code:
            code, _ = self.xp.cuda.compiler.compile_using_nvrtc(source, OPTIONS)
            save_cubin(file, code)
        return code

    def _has_code(self, source: str) -> bool:
        return self._shipped(source) is not None or source in self._files or self._file(source).exists()

    def _file(self, source: str) -> Path:
        """The file of a module's machine code; its name is computed once."""
        if source not in self._files:
            versions = self.xp.cuda.nvrtc.getVersion(), self.xp.__version__
            self._files[source] = cubin_file(source, OPTIONS, self.device.compute_capability, *versions)
        return self._files[source]

    def prepare(self, kernels: Iterable[str]) -> None:
        if PLAIN:
            return
        sources = dict.fromkeys(kernel_sources()[kernel] for kernel in kernels)
        missing = [source for source in sources if source not in self._modules and not self._has_code(source)]

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
