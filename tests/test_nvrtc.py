"""The GPU kernels compile, as CuPy would have it. NVRTC needs no GPU for that."""

from __future__ import annotations

import ctypes
import functools
import re
import sys
from pathlib import Path

import pytest

from sdfcli.backend.base import KERNELS, argument_structs
from sdfcli.backend.cuda import COMPILER_OPTIONS, kernel_source

ADDED_BY_CUPY = ("-ftz=true",)


def kernel_names() -> list[str]:
    """The kernels of SDF_KERNELS, the list from which the entry points are made."""
    listed = re.search(r"#define SDF_KERNELS\(X\)((?:.*\\\n)*.*)", (KERNELS / "kernels.h").read_text())
    assert listed
    return re.findall(r"X\((\w+)\)", listed.group(1))


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


def compile_kernels(*options: str) -> bytes:
    """The CUBIN. Fails the test with the compiler's log."""
    library, program = nvrtc(), ctypes.c_void_p()
    source = kernel_source().encode()
    assert library.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels.h", 0, None, None) == 0
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
    cubin = compile_kernels(*COMPILER_OPTIONS, *ADDED_BY_CUPY, f"--gpu-architecture={architecture}")
    names = kernel_names()
    assert len(names) > 20
    assert [name for name in names if f".text.{name}\0".encode() not in cubin] == []


def test_every_kernel_has_arguments() -> None:
    assert [name for name in kernel_names() if name not in argument_structs()] == []
