"""A field's values at tensors of points, as operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sdfcli.field.field import Field
from sdfcli.runtime.numbered import numbered
from sdfcli.torch.arrays import answered, check_points, differentiated, plain
from sdfcli.torch.once import once


def _value(points: Tensor, field: int) -> Tensor:
    (distance,) = answered(points, lambda at: [numbered(field).sample(at)])
    return distance


def _both(points: Tensor, field: int) -> tuple[Tensor, Tensor]:
    distance, gradient = answered(points, numbered(field).sample_with_gradient)
    return distance, gradient


_sample = torch.library.custom_op("sdfcli::sample", _value, mutates_args=())
_sample_with_gradient = torch.library.custom_op("sdfcli::sample_with_gradient", _both, mutates_args=())


@_sample.register_fake
def _(points: Tensor, field: int) -> Tensor:
    return points.new_empty(points.shape[:-1])


@_sample_with_gradient.register_fake
def _(points: Tensor, field: int) -> tuple[Tensor, Tensor]:
    return points.new_empty(points.shape[:-1]), points.new_empty(points.shape)


@_sample.register_vmap
def _(info: Any, dims: Any, points: Tensor, field: int) -> tuple[Tensor, int]:
    return _sample(points.movedim(dims[0], 0), field), 0


@_sample_with_gradient.register_vmap
def _(info: Any, dims: Any, points: Tensor, field: int) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    return _sample_with_gradient(points.movedim(dims[0], 0), field), (0, 0)


class _Sample(torch.autograd.Function):
    """Distances, and gradients, which are constants."""

    generate_vmap_rule = True

    @staticmethod
    def forward(points: Tensor, field: int) -> tuple[Tensor, Tensor]:
        return (_both if plain(points) else _sample_with_gradient)(points, field)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(inputs[0], output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, of_distance: Tensor, _: Any) -> tuple[Tensor, None]:
        points, gradient = ctx.saved_tensors
        return once(of_distance[..., None] * gradient, points), None


def sample(field: Field, points: Tensor) -> Tensor:
    """Signed distances (...) at points (..., 3), as `Field.sample`, differentiable once in the points.

    Distances have the points' dtype and device; on a GPU, work runs in torch's current stream. Where points need
    gradients, one search gives the value and the gradient.

    Raises:
        InputError: points that are not (..., 3) finite floating-point numbers.
        UsageError: points on another device than the CPU or an NVIDIA GPU.
        DeviceError: points on a GPU, without CuPy.
    """
    check_points(points)
    if differentiated(points):
        return _Sample.apply(points, field.number)[0]
    return (_value if plain(points) else _sample)(points, field.number)


def sample_with_gradient(field: Field, points: Tensor) -> tuple[Tensor, Tensor]:
    """Signed distances (...) and the field's gradients (..., 3) at points (..., 3), from one search; see `sample`.
    Gradients are constants: no derivatives pass through them."""
    check_points(points)
    if plain(points) and not differentiated(points):
        return _both(points, field.number)
    return _Sample.apply(points, field.number)
