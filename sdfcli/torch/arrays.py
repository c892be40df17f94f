"""Tensors as arrays and back, in the same memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd import forward_ad

from sdfcli.errors import InputError, UsageError

SAMPLED = {torch.float32: np.float32, torch.float64: np.float64}
"""Dtypes of points that are sampled as they are."""


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


def differentiated(points: Tensor) -> bool:
    """Whether derivatives may be asked for. In forward mode, which is an error, tensors do not tell."""
    return (torch.is_grad_enabled() and points.requires_grad) or forward_ad._current_level >= 0


def plain(points: Tensor) -> bool:
    """Whether a function may be called in place of its operator, which takes 30 to 90 microseconds: points with
    values, outside compilers, traces, function transforms and dispatch modes."""
    return (
        not torch.compiler.is_compiling()
        and type(points) in (Tensor, torch.nn.Parameter)
        and (points.is_cpu or points.is_cuda)
        and not torch.jit.is_tracing()
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._len_torch_dispatch_stack()
    )


def answered(points: Tensor, ask: Callable[[Any], Sequence[Any]]) -> list[Tensor]:
    """Results of `ask` as tensors: floating-point numbers in the points' dtype, and others; where no conversion is
    needed, they share its arrays' memory. ask: takes the points as a NumPy array or, with torch's current stream, as a
    CuPy array, which share the tensor's memory; float16 and bfloat16 become float32."""
    at = points.detach()
    if at.dtype not in SAMPLED:
        at = at.to(torch.float32)
    if device_of(at) == "cpu":
        return [_from_numpy(each, points.dtype) for each in ask(at.resolve_neg().numpy())]
    from sdfcli.startup.cupy import import_cupy

    cupy, device = import_cupy(), at.device.index
    stream = torch.cuda.current_stream(device).cuda_stream
    with cupy.cuda.Device(device), cupy.cuda.ExternalStream(stream, device):
        found = [torch.from_dlpack(each) for each in ask(cupy.from_dlpack(at))]
        return [each.to(points.dtype) if each.is_floating_point() else each for each in found]


def _from_numpy(array: npt.NDArray[Any], dtype: torch.dtype) -> Tensor:
    """NumPy makes float32 of float64: torch's threads would spin on the cores that the next call needs."""
    if array.dtype.kind != "f":
        return torch.from_numpy(array)
    if dtype in SAMPLED:
        return torch.from_numpy(array.astype(SAMPLED[dtype], copy=False))
    return torch.from_numpy(array).to(dtype)
