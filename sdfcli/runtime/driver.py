"""What the command line does for a GPU before CuPy is imported, and when all is done."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
from importlib.util import find_spec
from threading import Thread
from typing import Any


def without_cub() -> None:
    """Has CuPy sum up arrays by its own kernels, unless the user says otherwise: those of CUB are faster for large
    arrays, but to compile one takes two seconds."""
    os.environ.setdefault("CUPY_ACCELERATORS", "")


def with_cub() -> None:
    """The opposite, for sums of very large arrays."""
    os.environ["CUPY_ACCELERATORS"] = "cub"


def start(device: str) -> None:
    """Makes the context of the GPU that `--device` names, or that `auto` finds, in the background: a fifth of a second
    or more in which nothing of Python is needed. CuPy then uses it. Nothing happens where there is no GPU."""
    match = re.fullmatch(r"auto|cuda(?::(\d+))?", device)
    if match and find_spec("cupy"):
        Thread(target=_make_context, args=(int(match[1] or 0),), daemon=True).start()


def present() -> bool:
    """Whether this machine has a driver of NVIDIA's, which takes far more address space than memory."""
    return any(os.path.exists(place) for place in ("/proc/driver/nvidia", "/dev/dxg"))


def device_count() -> int:
    """The number of NVIDIA GPUs, 0 where CuPy is not installed, which takes half a second to import."""
    count, driver = ctypes.c_int(), _driver() if find_spec("cupy") else None
    return count.value if driver and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def _make_context(number: int) -> None:
    device, context, driver = ctypes.c_int(), ctypes.c_void_p(), _driver()
    if driver and driver.cuDeviceGet(ctypes.byref(device), number) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def _driver() -> ctypes.CDLL | None:
    """NVIDIA's driver, ready for use, if there is one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return driver if driver.cuInit(0) == 0 else None


def exit_fast(code: Any) -> None:
    """Ends the process: Python would first free, for a twentieth of a second or more, what ends with the process
    anyway, and a GPU's driver may still be starting. Returns where something is left to tell, or where Dask, which ends
    what it has started when Python ends, would complain of it."""
    if isinstance(code, int | None) and "distributed" not in sys.modules:
        with contextlib.suppress(OSError, ValueError):  # a pipe that nobody reads any more
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
            os._exit(code or 0)
