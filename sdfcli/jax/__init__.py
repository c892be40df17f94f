"""Fields and exact distances for JAX, with gradients, through host callbacks: under `jit`, `vmap` and `grad`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sdfcli.errors import InputError
from sdfcli.field.field import Field
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.runtime.numbered import numbered

__all__ = ["distance", "sample", "signed_distance"]


def sample(field: Field, points: Any) -> Array:
    """Signed distances (...) at points (..., 3), as `Field.sample`, differentiable once; in the points' dtype. On
    another device than the CPU, points and distances are copied.

    Raises InputError unless points are (..., 3) floating-point numbers; where they are not finite, JAX raises its own
    error from the callback.
    """
    return _distances(field.number, "field")(_checked(points))


def signed_distance(mesh: MeshDistance, points: Any) -> Array:
    """Signed distances (...) to a mesh, negative inside, exact for the nearest faces; see `sample`."""
    return _distances(mesh.number, "signed")(_checked(points))


def distance(mesh: MeshDistance, points: Any) -> Array:
    """Unsigned distances (...) to a mesh, exact for the nearest faces; see `sample`."""
    return _distances(mesh.number, "unsigned")(_checked(points))


def _checked(points: Any) -> Array:
    array = jnp.asarray(points)
    if not array.ndim or array.shape[-1] != 3 or not jnp.issubdtype(array.dtype, jnp.floating):
        raise InputError(f"points must be (..., 3) floating-point numbers, not {array.dtype} {array.shape}")
    return array


@cache  # JAX compiles a function once
def _distances(number: int, kind: str) -> Callable[[Array], Array]:
    """Distances from an object, with a derivative from the same search."""
    value, both = partial(_value, number, kind), partial(_both, number, kind)

    def called(ask: Callable[..., Any], points: Array, *shapes: tuple[int, ...]) -> Any:
        kinds = tuple(jax.ShapeDtypeStruct(shape, points.dtype) for shape in shapes)
        return jax.pure_callback(ask, kinds, points, vmap_method="broadcast_all")

    @jax.custom_vjp
    def distances(points: Array) -> Array:
        (found,) = called(value, points, points.shape[:-1])
        return found

    def forward(points: Array) -> tuple[Array, Array]:
        found, gradient = called(both, points, points.shape[:-1], points.shape)
        return found, gradient

    def backward(gradient: Array, of_distance: Array) -> tuple[Array]:
        return (of_distance[..., None] * gradient,)

    distances.defvjp(forward, backward)
    return distances


def _value(number: int, kind: str, points: Any) -> tuple[Any]:
    given, source = np.asarray(points), numbered(number)
    found = source.sample(given) if kind == "field" else source._exact(given, kind == "signed")[0]
    return (found.astype(given.dtype),)


def _both(number: int, kind: str, points: Any) -> tuple[Any, Any]:
    given, source = np.asarray(points), numbered(number)
    found = source.sample_with_gradient(given) if kind == "field" else source._with_gradient(given, kind == "signed")
    return found[0].astype(given.dtype), found[1].astype(given.dtype)
