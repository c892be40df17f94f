"""Compiles the GPU kernels ahead: `python tools/cubins.py DIR [sm_90 ...]`, by default for this machine's GPUs.

A wheel ships the result as `sdfcli/cubins`: its first run compiles nothing. Needs NVRTC, and no GPU if architectures
are named.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nvrtc

ROOT = Path(__file__).resolve().parents[1]
ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")
"""For wheels: all GPUs since 2020, as machine code runs on later architectures of the same major version."""


def local_architectures() -> list[str]:
    """Architectures of this machine's GPUs; none without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count, found = ctypes.c_int(), set()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    for device in range(count.value):
        major, minor = ctypes.c_int(), ctypes.c_int()
        for attribute, value in ((75, major), (76, minor)):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
            driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        found.add(f"sm_{major.value}{minor.value}")
    return sorted(found)


def compile_ahead(output: Path, architectures: list[str], modules: list[str] | None = None) -> int:
    """Writes `output`/ARCHITECTURE/*.cubin for the modules' sources, by default all; returns the file count.

    Raises FileNotFoundError without NVRTC, and nvrtc.CompileError.
    """
    headers = runpy.run_path(str(ROOT / "sdfcli/backend/headers.py"))  # without sdfcli.backend, which needs NumPy
    cubins = runpy.run_path(str(ROOT / "sdfcli/startup/cubins.py"))
    options = headers["OPTIONS"]
    sources = sorted(modules or set(headers["kernel_sources"]().values()), key=len, reverse=True)  # growth first

    def write(architecture: str, source: str) -> None:
        code = nvrtc.compile_kernels(source, *headers["COMPILER_OPTIONS"], f"--gpu-architecture={architecture}")
        cubins["save_cubin"](output / architecture / cubins["shipped_name"](source, options), code)

    with ThreadPoolExecutor(os.cpu_count()) as threads:  # the compiler needs no GIL
        done = [threads.submit(write, each, source) for source in sources for each in architectures]
    return sum(each.result() is None for each in done)


def main() -> None:
    """Compiles for the named architectures."""
    output, *architectures = sys.argv[1:]
    count = compile_ahead(Path(output), architectures or local_architectures())
    print(f"{count} modules in {output}")


if __name__ == "__main__":
    main()
