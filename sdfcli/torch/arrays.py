"""Tensors as arrays and back, in the same memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from sdfcli.errors import InputError, UsageError


def check_points(points: Tensor) -> None:
    """Raises InputError unless points are a tensor (..., 3) of floating-point numbers."""
    if not isinstance(points, Tensor) or not points.is_floating_point():
        raise InputError("points must be a tensor of floating-point numbers")
    if not points.ndim or points.shape[-1] != 3:
        raise InputError(f"points must be (..., 3), not {tuple(points.shape)}")


def device_of(tensor: Tensor) -> str:
    """The tensor's device, as in `--device`. Raises UsageError for other devices than CPUs and NVIDIA GPUs."""
    if tensor.device.type not in ("cpu", "cuda"):
        raise UsageError(f"a tensor on {tensor.device}: move it to the CPU or to an NVIDIA GPU")
    return str(tensor.device)


def answered(points: Tensor, ask: Callable[[Any], Sequence[Any]]) -> list[Tensor]:
    """Results of `ask` as tensors, which share its arrays' memory. ask: takes the points as a NumPy array or, with
    torch's current stream, as a CuPy array, which share the tensor's memory; float16 and bfloat16 become float32."""
    at = points.detach()
    if at.dtype not in (torch.float32, torch.float64):
        at = at.to(torch.float32)
    if device_of(at) == "cpu":
        return [torch.from_numpy(each) for each in ask(at.resolve_neg().numpy())]
    from sdfcli.startup.cupy import import_cupy

    cupy, device = import_cupy(), at.device.index
    stream = torch.cuda.current_stream(device).cuda_stream
    with cupy.cuda.Device(device), cupy.cuda.ExternalStream(stream, device):
        return [torch.from_dlpack(each) for each in ask(cupy.from_dlpack(at))]
