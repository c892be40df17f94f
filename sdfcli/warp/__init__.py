"""Fields and exact distances for Warp's arrays, in the same memory, with gradients on a tape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import warp as wp

from sdfcli.errors import InputError
from sdfcli.field.field import Field
from sdfcli.query.mesh_distance import MeshDistance

__all__ = ["distance", "sample", "signed_distance"]


def sample(field: Field, points: Any, tape: wp.Tape | None = None) -> Any:
    """Signed distances as `Field.sample`, in the points' precision and on their device; on a GPU, work runs in Warp's
    current stream.

    Args:
        field: the field.
        points: a `wp.array` of `vec3f` or `vec3d`.
        tape: records the gradient, if the points require it.

    Raises:
        InputError: another array, or points that are not finite.
        DeviceError: points on a GPU, without CuPy.
    """
    return _distances(points, tape, lambda at: (field.sample(at),), field.sample_with_gradient)


def signed_distance(mesh: MeshDistance, points: Any, tape: wp.Tape | None = None) -> Any:
    """Signed distances to a mesh, negative inside, exact for the nearest faces; see `sample`."""
    return _distances(points, tape, lambda at: mesh._exact(at, True), lambda at: mesh._with_gradient(at, True)[:2])


def distance(mesh: MeshDistance, points: Any, tape: wp.Tape | None = None) -> Any:
    """Unsigned distances to a mesh, exact for the nearest faces; see `sample`."""
    return _distances(points, tape, lambda at: mesh._exact(at, False), lambda at: mesh._with_gradient(at, False)[:2])


def _distances(
    points: Any, tape: wp.Tape | None, value: Callable[[Any], tuple[Any, ...]], both: Callable[[Any], tuple[Any, ...]]
) -> Any:
    if getattr(points, "dtype", None) not in (wp.vec3f, wp.vec3d):
        raise InputError("points must be a wp.array of vec3f or vec3d")
    recorded = tape is not None and points.requires_grad and points.size > 0
    dtype = wp.float32 if points.dtype is wp.vec3f else wp.float64
    result = wp.empty(points.shape, dtype, points.device, requires_grad=recorded)
    with _stream_of(points) as view:
        found = both(view(points)) if recorded else value(view(points))
        view(result)[...] = found[0]

    def backward() -> None:
        with _stream_of(points) as view:
            view(points.grad)[...] += view(result.grad)[..., None] * found[1]

    if tape is not None and recorded:
        tape.record_func(backward, [result, points])
    return result


@contextmanager
def _stream_of(points: Any) -> Iterator[Callable[[Any], Any]]:
    """A function that views Warp's arrays as NumPy's, or with Warp's stream as CuPy's."""
    if points.device.is_cpu:
        yield lambda array: array.numpy()
        return
    from sdfcli.startup.cupy import import_cupy

    cupy, device = import_cupy(), points.device.ordinal
    with cupy.cuda.Device(device), cupy.cuda.ExternalStream(wp.get_stream(points.device).cuda_stream or 0, device):
        yield cupy.asarray
