"""Devices of kernel tests, as fixtures: `backend = backends.backend` in a test module requests both."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from sdfcli.backend import Backend, select_backend, select_backends
from sdfcli.backend.arguments import argument_structs
from sdfcli.backend.cpu import CpuBackend
from sdfcli.backend.headers import KERNELS
from sdfcli.backend.warps import WarpBackend

KEPT = 14 * 86400.0
"""Seconds that a compiled file is kept after its last use."""
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(scope="session", params=DEVICES)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each device in turn; conftest.py skips missing ones."""
    return select_backend(request.param)


class Fibres(WarpBackend, CpuBackend):
    """The CPU, with warps of fibres for WARP kernels.

    grids: also run GRID kernels, with one block of warps as the whole GPU; slow.
    """

    def __init__(self, library: Path, grids: bool = False) -> None:
        super().__init__()
        self.grids = grids
        self._warp, self._one = ctypes.CDLL(str(library)), Lock()  # one kernel at a time, from any thread

    def run(self, kernel: str, n: int, **values: Any) -> None:
        if not hasattr(self._warp, kernel):
            super().run(kernel, n, **values)
        elif n:
            struct = argument_structs()[kernel].pack({"n": n, **values}, self.address)
            with self._one:
                getattr(self._warp, kernel)(struct)


@pytest.fixture(scope="session", params=["fibres", pytest.param("cuda", marks=pytest.mark.gpu)])
def warps(request: pytest.FixtureRequest) -> Backend:
    """Devices for WARP kernels: CPU fibres, and a GPU."""
    return select_backend("cuda") if request.param == "cuda" else Fibres(fibres())


@pytest.fixture(scope="session", params=["fibres", pytest.param("cuda", marks=pytest.mark.gpu)])
def grids(request: pytest.FixtureRequest) -> Backend:
    """Devices for GRID kernels."""
    return select_backend("cuda") if request.param == "cuda" else Fibres(fibres(), grids=True)


def fibres() -> Path:
    """The library of WARP and GRID kernels, compiled for fibres."""
    source = Path(__file__).with_name("warp.cpp")
    options = ["-std=c++20", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-w", f"-I{KERNELS}"]
    contents = [path.read_bytes() for path in (source, *sorted(KERNELS.rglob("*.h")))]

    def make(library: Path) -> None:
        subprocess.run(["g++", *options, str(source), "-o", str(library)], check=True)

    return compiled([" ".join(options).encode(), *contents], make)


def compiled(texts: Iterable[bytes], make: Callable[[Path], None]) -> Path:
    """A file generated from these texts, once for all processes and test runs; kept while in use.

    make: writes the file to a given path
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "sdfcli-tests")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / hashlib.sha256(b"\0".join(texts)).hexdigest()
    with open(f"{file}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            for old in folder.iterdir():
                with suppress(FileNotFoundError):  # renamed by the process that has made it
                    if old.stat().st_mtime < time.time() - KEPT:
                        old.unlink()
            make(file.with_suffix(".part"))
            file.with_suffix(".part").rename(file)
        file.touch()
    return file


def two_gpus() -> list[Backend]:
    """The first two GPUs; skips the test where there are fewer."""
    from sdfcli.startup.cupy import device_count

    if device_count() < 2:
        pytest.skip("this test needs two GPUs")
    return select_backends("cuda:0,1")
