"""Build backend of pyproject.toml: scikit-build-core, with the ziglang package as compiler where none is installed, and
GPU kernels compiled for this machine's GPUs, so that a first run compiles nothing.

Not for `pip install -e`, which recompiles after edits without this file.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import cubins
from nvrtc import CompileError
from scikit_build_core import build as core
from scikit_build_core.build import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]

ZIG = "ziglang>=0.15"
"""Clang with the C library and headers of every system: a package of 80 to 100 MB."""

NVRTC = "nvidia-cuda-nvrtc-cu12>=12.9"
"""NVIDIA's compiler, a package of 90 MB; every driver from CUDA 12.0 on loads its output."""

COMPILERS = ("c++", "g++", "clang++")
"""Names that CMake searches on PATH where CXX is unset."""

COMPILER = """#!/bin/sh
for word; do
    case $word in
    -c) exec {zig} "$@" ;;
    esac
done
exec {zig} "$@" -nostdlib++ -s
"""
"""A compiler for CMake. The library needs neither a C++ library, which Zig would first build for minutes, nor debug
symbols (-s)."""


def target() -> str | None:
    """The compiler's target in Zig's notation; None for untested systems.

    Not the local CPU, whose instructions other machines may lack.
    """
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    if machine not in ("x86_64", "aarch64") or sys.platform != "linux":
        return None
    return f"{machine}-linux-gnu.2.17" if platform.libc_ver()[0] == "glibc" else f"{machine}-linux-musl"


def needs_zig() -> bool:
    """Whether this machine lacks a C++ compiler and ziglang can replace it."""
    return "CXX" not in os.environ and not any(map(shutil.which, COMPILERS)) and target() is not None


@contextmanager
def zig(target: str, *flags: str) -> Iterator[None]:
    """Sets CXX to Zig's compiler for a target."""
    with tempfile.TemporaryDirectory() as folder:
        program, before = Path(folder) / "c++", os.environ.get("CXX")
        # Otherwise Zig builds a library that reports undefined behaviour.
        words = ["c++", "-target", target, "-fno-sanitize=all", "-g0", *flags]
        program.write_text(COMPILER.format(zig=shlex.join([sys.executable, "-m", "ziglang", *words])))
        program.chmod(0o700)
        os.environ["CXX"] = str(program)
        try:
            yield
        finally:
            del os.environ["CXX"]
            if before is not None:
                os.environ["CXX"] = before


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Build requirements, including ziglang where there is no compiler, and NVRTC where there are GPUs."""
    more = [ZIG] * needs_zig() + [NVRTC] * bool(cubins.local_architectures())
    return [*core.get_requires_for_build_wheel(config_settings), *more]


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Builds a wheel and returns its file name."""
    settings = dict(config_settings or {})
    with zig(target() or "") if needs_zig() else nullcontext(), tempfile.TemporaryDirectory() as folder:
        try:
            if cubins.compile_ahead(Path(folder), cubins.local_architectures()):
                settings["cmake.define.SDFCLI_CUBINS"] = folder
        except (FileNotFoundError, CompileError) as error:
            print(f"GPU kernels are compiled on first use, not now: {error}")
        return core.build_wheel(wheel_directory, settings, metadata_directory)
