"""Exact distances at tensors of points, as operators: to a fixed mesh, or to one of tensors, with gradients for its
vertices.

The nearest point of a triangle minimises the distance: to first order, its weights may be treated as constant. So the
distance's gradient is the unit vector from there, and of each corner the opposite, times the corner's weight.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sdfcli.errors import InputError
from sdfcli.params import check_sign
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.runtime.numbered import numbered
from sdfcli.torch.arrays import answered, check_points, device_of, differentiated, plain
from sdfcli.torch.once import once

Nearest = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Distances (...), gradients (..., 3), nearest points (..., 3), faces (...) int64 and uv (..., 2)."""


def _of(mesh: MeshDistance, points: Tensor, signed: bool) -> Nearest:
    distance, gradient, nearest, face, uv = answered(points, lambda at: mesh._with_gradient(at, signed))
    return distance, gradient, nearest, face, uv


def _empty(points: Tensor) -> Nearest:
    shape = points.shape[:-1]
    face = points.new_empty(shape, dtype=torch.int64)
    return (
        points.new_empty(shape),
        points.new_empty(points.shape),
        points.new_empty(points.shape),
        face,
        points.new_empty((*shape, 2)),
    )


def _value(points: Tensor, mesh: int, signed: bool) -> Tensor:
    index: MeshDistance = numbered(mesh)
    (distance,) = answered(points, lambda at: index._exact(at, signed))
    return distance


def _all(points: Tensor, mesh: int, signed: bool) -> Nearest:
    return _of(numbered(mesh), points, signed)


_distance = torch.library.custom_op("sdfcli::distance", _value, mutates_args=())
_nearest = torch.library.custom_op("sdfcli::nearest", _all, mutates_args=())


@torch.library.custom_op("sdfcli::nearest_on", mutates_args=())
def _nearest_on(points: Tensor, vertices: Tensor, faces: Tensor, sign: str, signed: bool) -> Nearest:
    corners, triangles = (each.detach().cpu() for each in (vertices, faces))
    if corners.dtype != torch.float64:
        corners = corners.to(torch.float32)
    mesh = MeshDistance((corners.numpy(), triangles.numpy()), sign, device_of(points))
    return _of(mesh, points, signed)


@_distance.register_fake
def _(points: Tensor, mesh: int, signed: bool) -> Tensor:
    return points.new_empty(points.shape[:-1])


@_nearest.register_fake
def _(points: Tensor, mesh: int, signed: bool) -> Nearest:
    return _empty(points)


@_nearest_on.register_fake
def _(points: Tensor, vertices: Tensor, faces: Tensor, sign: str, signed: bool) -> Nearest:
    return _empty(points)


@torch.library.custom_op("sdfcli::summed", mutates_args=())
def _summed(parts: Tensor, at: Tensor, rows: int) -> Tensor:
    """Sums (rows, 3) of parts (n, 3) float64 at rows (n,). Their bits do not depend on the order: parts are rounded to
    multiples of a power of two, so that no sum is."""
    most = float(parts.abs().max()) if len(parts) else 0.0
    unit = 2.0 ** (math.frexp(most)[1] + len(parts).bit_length() - 52) if 0 < most < math.inf else 1.0
    return parts.new_zeros(rows, 3).index_add_(0, at, (parts / unit).round() * unit)


@_summed.register_fake
def _(parts: Tensor, at: Tensor, rows: int) -> Tensor:
    return parts.new_empty(rows, 3)


@_distance.register_vmap
def _(info: Any, dims: Any, points: Tensor, mesh: int, signed: bool) -> tuple[Tensor, int]:
    return _distance(points.movedim(dims[0], 0), mesh, signed), 0


@_nearest.register_vmap
def _(info: Any, dims: Any, points: Tensor, mesh: int, signed: bool) -> tuple[Nearest, tuple[int, ...]]:
    return _nearest(points.movedim(dims[0], 0), mesh, signed), (0,) * 5


class _Distance(torch.autograd.Function):
    """To a fixed mesh."""

    generate_vmap_rule = True

    @staticmethod
    def forward(points: Tensor, mesh: int, signed: bool) -> Nearest:
        return (_all if plain(points) else _nearest)(points, mesh, signed)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, bool], output: Nearest) -> None:
        ctx.save_for_backward(inputs[0], output[1])
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx: Any, of_distance: Tensor, *_: Any) -> tuple[Tensor, None, None]:
        points, gradient = ctx.saved_tensors
        return once(of_distance[..., None] * gradient, points), None, None


class _DistanceOn(torch.autograd.Function):
    """To a mesh of tensors."""

    @staticmethod
    def forward(points: Tensor, vertices: Tensor, faces: Tensor, sign: str, signed: bool) -> Nearest:
        return _nearest_on(points, vertices, faces, sign, signed)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, str, bool], output: Nearest) -> None:
        points, vertices, faces, *_ = inputs
        _, gradient, _, face, uv = output
        ctx.save_for_backward(points, vertices, faces, gradient, face, uv)
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx: Any, of_distance: Tensor, *_: Any) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        points, vertices, faces, gradient, face, uv = ctx.saved_tensors
        of_points = of_distance[..., None] * gradient
        of_vertices = None
        if ctx.needs_input_grad[1]:
            weights = torch.cat((1 - uv.sum(-1, keepdim=True), uv), -1).double()
            parts = -of_points.double()[..., None, :] * weights[..., None]
            corners = faces.long()[face.reshape(-1)].reshape(-1)
            total = _summed(parts.reshape(-1, 3), corners, len(vertices))
            of_vertices = once(total.to(vertices), points, vertices)
        return once(of_points, points, vertices), of_vertices, None, None, None


def signed_distance(mesh: MeshDistance | tuple[Tensor, Tensor], points: Tensor, sign: str = "auto") -> Tensor:
    """Signed distances (...) at points (..., 3), negative inside, differentiable once in the points, and in a mesh's
    vertices. They are exact for the nearest faces, which are found in float32, and have the points' dtype and device;
    on a GPU, work runs in torch's current stream.

    Args:
        mesh: an `sdfcli.MeshDistance`; or vertices (v, 3) and faces (f, 3), from which each call makes an index.
        points: (..., 3), in mesh units.
        sign: the method for a mesh of tensors, as for `MeshDistance`.

    Raises:
        InputError: points that are not (..., 3) finite floating-point numbers; an invalid mesh.
        UsageError: an unknown `sign`; points on another device than the CPU or an NVIDIA GPU.
        DeviceError: points on a GPU, without CuPy.
    """
    return _measured(mesh, points, sign, True)


def distance(mesh: MeshDistance | tuple[Tensor, Tensor], points: Tensor) -> Tensor:
    """Unsigned distances (...) at points (..., 3); see `signed_distance`. Their gradient is 0 on the surface."""
    return _measured(mesh, points, "none", False)


def _measured(mesh: MeshDistance | tuple[Tensor, Tensor], points: Tensor, sign: str, signed: bool) -> Tensor:
    check_points(points)
    if isinstance(mesh, tuple):
        vertices, faces = mesh
        return nearest_on(points, vertices, faces, sign, signed)[0]
    if differentiated(points):
        found: Nearest = _Distance.apply(points, mesh.number, signed)
        return found[0]
    return (_value if plain(points) else _distance)(points, mesh.number, signed)


def nearest_on(points: Tensor, vertices: Tensor, faces: Tensor, sign: str, signed: bool) -> Nearest:
    """Differentiable distances to a mesh of tensors, with what else is known of the nearest points. Raises InputError
    unless vertices are floating-point and faces whole numbers; see `signed_distance`."""
    check_sign(sign)
    if not vertices.is_floating_point() or faces.is_floating_point():
        raise InputError("a mesh of tensors: vertices must be floating-point numbers, and faces whole ones")
    found: Nearest = _DistanceOn.apply(points, vertices, faces, sign, signed)
    return found
