"""The kernel, compiled for a device when it is first needed."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import sdfcli
from sdfcli.errors import DeviceError

HEADER = Path(__file__).with_name("push_out.h")


def source() -> str:
    """The field's code, and the kernel's after it."""
    return sdfcli.sampler_source() + HEADER.read_text()


def push_out(field: sdfcli.Field, points: Any, clearance: float, device: str) -> Any:
    """Points (n, 3) float64, moved. device: cpu, cuda or cuda:N, or auto for a GPU if there is one."""
    arrays = field.device_arrays(device)
    run = _on_cpu if arrays.device == "cpu" else _on_gpu
    return run(arrays, np.array(points, dtype=np.float64, order="C"), clearance)


def _on_cpu(arrays: Any, points: Any, clearance: float) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "push_out.so")
        command = ["g++", "-std=c++17", "-ffp-contract=off", "-O2", "-fPIC", "-shared", "-x", "c++", "-", "-o", library]
        try:
            subprocess.run(command, input=source(), text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise DeviceError(f"the kernel cannot be compiled: {error}; install g++") from error
        kernel = ctypes.CDLL(str(library)).push_out
        count, place = ctypes.c_longlong(len(points)), points.ctypes.data_as(ctypes.c_void_p)
        kernel(arrays.sampler.tobytes(), ctypes.c_double(clearance), count, place)
    return points


def _on_gpu(arrays: Any, points: Any, clearance: float) -> Any:
    import cupy

    kernel = cupy.RawKernel(source(), "push_out", options=("-std=c++17", "--fmad=false"))
    with cupy.cuda.Device(int(arrays.device.partition(":")[2] or 0)):
        moved, count = cupy.asarray(points), np.int64(len(points))
        kernel((-(-len(points) // 128),), (128,), (arrays.sampler, np.float64(clearance), count, moved))
        return moved.get()
