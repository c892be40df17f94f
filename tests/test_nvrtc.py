"""The GPU kernels compile, as CuPy would have it. NVRTC needs no GPU for that."""

from __future__ import annotations

import ctypes
import functools
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sdfcli.backend.base import KERNELS, argument_structs
from sdfcli.backend.cuda import COMPILER_OPTIONS, kernel_sources

ADDED_BY_CUPY = ("-ftz=true",)


def kernel_names() -> list[str]:
    """The kernels of SDF_KERNELS, the list from which the CPU's entry points are made, and of SDF_WARP_KERNELS."""
    listed = re.findall(r"#define SDF_(?:WARP_)?KERNELS\(X\)((?:.*\\\n)*.*)", (KERNELS / "kernels.h").read_text())
    assert len(listed) == 2
    return re.findall(r"X\((\w+)\)", "".join(listed))


@functools.cache
def nvrtc() -> ctypes.CDLL:
    """The library from the wheel nvidia-cuda-nvrtc, which is part of the extra `test` on Linux."""
    found = [lib for folder in sys.path for lib in Path(folder, "nvidia").glob("**/libnvrtc.so*")]
    if not found and sys.platform != "linux":
        pytest.skip("there is no NVRTC for this system")
    assert found, "no NVRTC: pip install '.[test]'"
    path = max(found)
    for builtins in path.parent.glob("libnvrtc-builtins.so*"):
        ctypes.CDLL(str(builtins))  # some versions look for it in the system's folders only, unless it is there already
    return ctypes.CDLL(str(path))


def compile_kernels(source: str, *options: str) -> bytes:
    """The CUBIN. Fails the test with the compiler's log."""
    library, program = nvrtc(), ctypes.c_void_p()
    assert library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.h", 0, None, None) == 0
    try:
        arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        failed = library.nvrtcCompileProgram(program, len(options), arguments)
        if failed:
            pytest.fail(fetch(program, "ProgramLog").decode().rstrip("\0"), pytrace=False)
        return fetch(program, "CUBIN")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def fetch(program: ctypes.c_void_p, what: str) -> bytes:
    library, size = nvrtc(), ctypes.c_size_t()
    assert getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
    text = ctypes.create_string_buffer(size.value)
    assert getattr(library, f"nvrtcGet{what}")(program, text) == 0
    return text.raw


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_kernels_compile(architecture: str) -> None:
    options = (*COMPILER_OPTIONS, *ADDED_BY_CUPY, f"--gpu-architecture={architecture}")
    sources = kernel_sources()
    modules = list(dict.fromkeys(sources.values()))
    nvrtc()
    with ThreadPoolExecutor() as threads:  # the compiler needs no GIL
        cubins = dict(zip(modules, threads.map(lambda source: compile_kernels(source, *options), modules), strict=True))
    names = kernel_names()
    assert len(names) > 20
    assert [name for name in names if f".text.{name}\0".encode() not in cubins[sources[name]]] == []


def test_a_module_has_the_kernels_of_one_header() -> None:
    sources = kernel_sources()
    assert sources["sdf_bvh_build"] == sources["sdf_bvh_refit"] != sources["sdf_render"]
    assert "SDF_GPU_ENTRY(sdf_render)" not in sources["sdf_bvh_build"]
    assert "SDF_WARP_ENTRY(sdf_distance_lone)" in sources["sdf_distance_lone"]
    assert all(f"_ENTRY({kernel})" in source for kernel, source in sources.items())


def test_every_kernel_has_arguments() -> None:
    assert [name for name in kernel_names() if name not in argument_structs()] == []
