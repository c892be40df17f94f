"""Kernel headers as text, and the sources of GPU modules: several headers joined. Needs no package."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[1] / "kernels"
LAUNCH = "base/launch.h"

COMPILER_OPTIONS = ("-std=c++20", "--fmad=false", "--device-as-default-execution-space")
"""The last one is for lambdas without annotation, which NVRTC 12 refuses."""
FLUSH_DENORMALS = "-ftz=true"
"""Option added by CuPy."""
OPTIONS = (*COMPILER_OPTIONS, FLUSH_DENORMALS)


@functools.cache
def headers() -> dict[str, str]:
    """Text of every kernel header, by path below `kernels/`."""
    found = {}
    for folder in sorted(entry.name for entry in os.scandir(KERNELS) if entry.is_dir()):
        for name in sorted(os.listdir(KERNELS / folder)):
            if name.endswith(".h"):
                found[f"{folder}/{name}"] = (KERNELS / folder / name).read_text()
    return found


@functools.cache
def _parts(text: str) -> tuple[list[str], str]:
    """A header's includes, and its text without them."""
    first, *found = text.split('\n#include "')  # str.split: a tenth of the time of regular expressions
    included, rest = zip(*(each.split('"', 1) for each in found), strict=True) if found else ((), ())
    return list(included), first + "".join(rest)


def with_includes(name: str) -> list[str]:
    """Names of a header's transitive includes, each once and after its own includes, then the header's own name."""
    found: list[str] = []

    def add(header: str) -> None:
        for included in _parts(headers()[header])[0]:
            if included not in found:
                add(included)
        found.append(header)

    add(name)
    return found


def joined(names: Iterable[str]) -> str:
    """The headers as one text."""
    return "".join(_parts(headers()[name])[1] for name in names)


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
