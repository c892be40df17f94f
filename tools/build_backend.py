"""Build backend of pyproject.toml: scikit-build-core, with the compiler of the package ziglang where there is none.

Not for `pip install -e`, which compiles again after edits, without this file.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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

ZIG = "ziglang>=0.13"
"""Clang with the C++ library and headers of every system: a package of 80 to 100 MB."""

COMPILERS = ("c++", "g++", "clang++")
"""What CMake looks for on PATH, where CXX does not say it."""


def target() -> str | None:
    """What the compiler builds for, in Zig's words; None for a system on which it has not been tried.

    Not the machine at hand, whose instructions others may not have.
    """
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    if machine not in ("x86_64", "aarch64") or sys.platform != "linux":
        return None
    return f"{machine}-linux-gnu.2.17" if platform.libc_ver()[0] == "glibc" else f"{machine}-linux-musl"


def needs_zig() -> bool:
    """Whether this machine has no C++ compiler, and ziglang can stand in."""
    return "CXX" not in os.environ and not any(map(shutil.which, COMPILERS)) and target() is not None


@contextmanager
def compiler() -> Iterator[None]:
    """Names a compiler to CMake where there is none."""
    if not needs_zig():
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "c++"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang c++ -target {target()} "$@"\n')
        program.chmod(0o700)
        names = {"CXX": str(program), "LDFLAGS": f"{os.environ.get('LDFLAGS', '')} -s"}  # -s: no names for debuggers
        os.environ.update(names)  # of a process that builds this wheel, and ends
        yield


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """What a build needs, ziglang among it where there is no compiler."""
    return [*core.get_requires_for_build_wheel(config_settings), *[ZIG] * needs_zig()]


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """A wheel, by the name of its file."""
    with compiler():
        return core.build_wheel(wheel_directory, config_settings, metadata_directory)
