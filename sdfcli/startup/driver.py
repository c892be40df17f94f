"""NVIDIA's driver without CuPy: GPU count, early context creation, fast exit."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
from importlib.util import find_spec
from threading import Thread
from typing import Any

from sdfcli.startup import PLAIN

USERS = {"build", "samples", "sequence", "extract", "render", "slice", "check", "collide", "flow", "verify"}
USERS |= {"bench", "doctor", "thickness", "compare", "solidify", "view", "cook"}
"""Commands that use a GPU if one exists. Not `query`, which samples fields on the CPU."""


def without_cub() -> None:
    """Makes CuPy reduce arrays with its own kernels, unless CUPY_ACCELERATORS is set: CUB's are faster for large arrays
    but take two seconds to compile."""
    if not PLAIN:
        os.environ.setdefault("CUPY_ACCELERATORS", "")


def with_cub() -> None:
    """Makes CuPy reduce arrays with CUB, for very large arrays."""
    os.environ["CUPY_ACCELERATORS"] = "cub"


def wake(words: list[str]) -> None:
    """Initialises the driver in a thread, ahead of `start` and CuPy, if the command line may use a GPU: this takes
    0.1 s or more, without the GIL."""
    command = next((word for word in words if not word.startswith("-")), "")
    uses = command in USERS and not {"-h", "--help", "cpu", "--device=cpu"} & set(words)
    if uses and not PLAIN and present() and find_spec("cupy"):
        Thread(target=_driver, daemon=True).start()


def start(device: str) -> None:
    """Creates the contexts of the GPUs named by `--device`, or of the first GPU for `auto`, in a thread each: this
    takes 0.2 s or more, without the GIL. CuPy then uses these contexts. Does nothing without a GPU."""
    match = re.fullmatch(r"auto|cuda(?::(\d+(?:,\d+)*))?", device)
    if match and not PLAIN and find_spec("cupy"):
        for number in (match[1] or "0").split(","):
            Thread(target=_make_context, args=(int(number),), daemon=True).start()


def present() -> bool:
    """Whether NVIDIA's driver is installed, which reserves far more address space than memory."""
    return any(os.path.exists(place) for place in ("/proc/driver/nvidia", "/dev/dxg"))


def device_count() -> int:
    """NVIDIA GPU count; 0 if CuPy is not installed. Does not import CuPy, which takes 0.5 s."""
    count, driver = ctypes.c_int(), _driver() if find_spec("cupy") else None
    return count.value if driver and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def _make_context(number: int) -> None:
    device, context, driver = ctypes.c_int(), ctypes.c_void_p(), _driver()
    if driver and driver.cuDeviceGet(ctypes.byref(device), number) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def _driver() -> ctypes.CDLL | None:
    """NVIDIA's driver library, initialised; None if it is missing or fails to initialise."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return None
    return driver if driver.cuInit(0) == 0 else None


def exit_fast(code: Any) -> None:
    """Ends the process without Python's clean-up, which takes 0.05 s or more and would wait for a GPU driver still
    starting. Returns instead if Python has a message to print (`code` is not a number), or if Dask is loaded, which
    ends its processes during the clean-up."""
    if isinstance(code, int | None) and not PLAIN and "distributed" not in sys.modules:
        with contextlib.suppress(OSError, ValueError):  # a pipe without a reader
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
            os._exit(code or 0)
