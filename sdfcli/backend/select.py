"""Backends by device name, as in `--device`."""

from __future__ import annotations

import re

from sdfcli.backend.base import Backend
from sdfcli.errors import DeviceError, UsageError
from sdfcli.params import whole


def select_backend(device: str = "auto", threads: int | None = None) -> Backend:
    """The backend for `auto`, `cpu`, `cuda` or `cuda:N`.

    `auto` selects the first GPU if one exists, else the CPU.

    Raises UsageError for any other name, DeviceError where the device or its software is missing.
    """
    match = re.fullmatch(r"auto|cpu|cuda(?::(\d+))?", str(device))
    if match is None:
        raise UsageError(f"--device {device}: use auto, cpu, cuda or cuda:N")
    if threads is not None and not whole(threads) >= 1:
        raise UsageError(f"--threads {threads}: use 1 or more")
    if device == "auto":
        from sdfcli.startup.cupy import device_count

        device = "cuda" if device_count() else "cpu"
    if device == "cpu":
        from sdfcli.backend.cpu import CpuBackend

        return CpuBackend(None if threads is None else int(threads))
    from sdfcli.backend.cuda import cuda_backend

    backend = cuda_backend(int(match.group(1) or 0))
    backend.device.use()
    return backend


def any_backend() -> Backend:
    """The CPU backend, or a GPU's where the CPU kernels are not compiled."""
    try:
        return select_backend("cpu")
    except DeviceError as error:
        try:
            return select_backend("cuda")
        except DeviceError:
            raise error from None


def select_backends(device: str = "auto", threads: int | None = None) -> list[Backend]:
    """The backends for `auto`, `cpu`, `cuda`, `cuda:N` or several GPUs, `cuda:0,1`, each once.

    Raises as `select_backend`.
    """
    several = re.fullmatch(r"cuda:(\d+(?:,\d+)+)", str(device))
    if several is None:
        return [select_backend(device, threads)]
    numbers = several.group(1).split(",")
    if len(set(map(int, numbers))) < len(numbers):
        raise UsageError(f"--device {device}: duplicate GPU")
    return [select_backend(f"cuda:{number}", threads) for number in numbers]


def all_backends(threads: int | None = None) -> list[Backend]:
    """The backends of all GPUs, or the CPU's if none exist."""
    return [select_backend(name, threads) for name in device_names("auto")]


def device_names(device: str = "auto") -> list[str]:
    """Names of the devices that share a batch: the CPU, the named GPUs, or all GPUs for `cuda`, and for `auto` if any
    exist. Starts no device.

    Raises as `select_backend`.
    """
    from sdfcli.startup import driver
    from sdfcli.startup.cupy import device_count, import_cupy

    match = re.fullmatch(r"auto|cpu|cuda(?::(\d+(?:,\d+)*))?", str(device))
    if match is None:
        raise UsageError(f"--device {device}: use auto, cpu, cuda, cuda:N or cuda:0,1")
    count = 0 if device == "cpu" else driver.device_count()
    if device == "auto" and count:
        count = device_count()  # CuPy may not support the driver
    if device == "cpu" or (device == "auto" and not count):
        return ["cpu"]
    numbers = list(map(int, match[1].split(","))) if match[1] else list(range(count))
    if len(set(numbers)) < len(numbers):
        raise UsageError(f"--device {device}: duplicate GPU")
    if not numbers or max(numbers) >= count:
        import_cupy()
        wanted = f"CUDA device {max(numbers)}" if numbers else "CUDA device"
        raise DeviceError(f"there is no {wanted} ({count} found); use --device cpu")
    return [f"cuda:{number}" for number in numbers]


def first_device(device: str) -> str:
    """The first of several named devices: `cuda:0` for `cuda:0,1`; a single name is returned unchanged."""
    return device_names(device)[0] if "," in str(device) else device
