"""NVRTC, NVIDIA's run-time CUDA compiler; needs no GPU."""

from __future__ import annotations

import ctypes
import functools
import sys
from contextlib import suppress
from pathlib import Path

ADDED_BY_CUPY = ("-ftz=true",)


class CompileError(Exception):
    """The compiler's log."""


@functools.cache
def library() -> ctypes.CDLL:
    """The library of the nvidia-cuda-nvrtc wheel, part of the extra `test` on Linux, or of an installed CUDA toolkit.

    Raises FileNotFoundError if missing.
    """
    found = [lib for folder in sys.path for lib in Path(folder, "nvidia").glob("**/libnvrtc.so*")]
    if not found:
        for name in ("libnvrtc.so.13", "libnvrtc.so.12"):
            with suppress(OSError):
                return ctypes.CDLL(name)
        raise FileNotFoundError("no NVRTC: pip install '.[test]'")
    path = max(found)
    for builtins in path.parent.glob("libnvrtc-builtins.so*"):
        # Some versions search it in system folders only, unless already loaded.
        ctypes.CDLL(str(builtins))
    return ctypes.CDLL(str(path))


def version() -> tuple[int, int]:
    """Compiler version (major, minor)."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def compile_kernels(source: str, *options: str, result: str = "CUBIN") -> bytes:
    """Compiles a module as CuPy does, with additional options.

    result  CUBIN for a real architecture (sm_90), PTX for a virtual one (compute_90)

    Raises CompileError. Other threads run meanwhile.
    """
    program = ctypes.c_void_p()
    if library().nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.h", 0, None, None):
        raise CompileError("NVRTC cannot make a program")
    try:
        every = [option.encode() for option in (*options, *ADDED_BY_CUPY)]
        if library().nvrtcCompileProgram(program, len(every), (ctypes.c_char_p * len(every))(*every)):
            raise CompileError(_fetch(program, "ProgramLog").decode().rstrip("\0"))
        return _fetch(program, result)
    finally:
        library().nvrtcDestroyProgram(ctypes.byref(program))


def _fetch(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    if getattr(library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)):
        raise CompileError(f"NVRTC made no {what}")
    text = ctypes.create_string_buffer(size.value)
    if getattr(library(), f"nvrtcGet{what}")(program, text):
        raise CompileError(f"NVRTC made no {what}")
    return text.raw
