"""`sdfcli.jax` under JAX's transformations, and against JAX's own checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

from jax import numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import oracle  # noqa: E402
import sdfcli.jax  # noqa: E402
import shapes  # noqa: E402
from sdfcli.errors import InputError  # noqa: E402


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(os.urandom(8)))


@pytest.fixture(params=["field", "signed", "unsigned"])
def distances(request: pytest.FixtureRequest, rng: np.random.Generator) -> Iterator[Callable[[Any], Any]]:
    """Distances to a field, to a mesh, and unsigned ones."""
    if request.param == "field":
        field = oracle.random_field(rng, 8, [-1.0, -1.0, -1.0], 2.0)
        yield lambda at: sdfcli.jax.sample(field, at)
    else:
        ask = sdfcli.jax.signed_distance if request.param == "signed" else sdfcli.jax.distance
        mesh = sdfcli.MeshDistance(shapes.star(rng, 1), device="cpu")
        yield lambda at: ask(mesh, at)


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request: pytest.FixtureRequest) -> Iterator[type]:
    jax.config.update("jax_enable_x64", request.param is np.float64)
    yield request.param
    jax.config.update("jax_enable_x64", False)


def test_field(rng: np.random.Generator, dtype: type) -> None:
    field = oracle.random_field(rng, 8, [5.0, -3.0, 0.25], 2.0)
    points = (field.domain.origin + field.domain.length * rng.uniform(-0.3, 1.3, (4, 50, 3))).astype(dtype)
    value, slope = oracle.Trilinear(field)(points.reshape(-1, 3).astype(np.float64))
    found = sdfcli.jax.sample(field, points)
    assert (found.dtype, found.shape) == (dtype, (4, 50))
    close = {"rtol": 2 * np.finfo(dtype).eps, "atol": 1e-12}
    np.testing.assert_allclose(np.reshape(found, -1), value, **close)
    found = jax.grad(lambda at: sdfcli.jax.sample(field, at).sum())(points)
    assert (found.dtype, found.shape) == (dtype, points.shape)
    np.testing.assert_allclose(np.reshape(found, (-1, 3)), slope, **close)


def test_mesh(rng: np.random.Generator, dtype: type) -> None:
    shape = shapes.star(rng, 1)
    mesh, points = sdfcli.MeshDistance(shape, device="cpu"), rng.uniform(-1, 1, (200, 3)).astype(dtype)
    true = oracle.distance(points.astype(np.float64), shapes.triangles(shape))
    assert np.abs(sdfcli.jax.distance(mesh, points) - true).max() < 1e-6
    signed = np.asarray(sdfcli.jax.signed_distance(mesh, points))
    assert np.array_equal(np.signbit(signed), mesh.contains(points))
    slope = jax.grad(lambda at: sdfcli.jax.signed_distance(mesh, at).sum())(points)
    expected = (points - mesh.nearest(points).point) / signed[:, None]
    np.testing.assert_allclose(slope, expected, atol=1e-3 if dtype is np.float32 else 1e-7)


def test_transformations(rng: np.random.Generator, distances: Callable[[Any], Any], dtype: type) -> None:
    points = jnp.asarray(rng.uniform(-0.9, 0.9, (4, 5, 3)).astype(dtype))
    plain = distances(points)
    assert jnp.array_equal(jax.jit(distances)(points), plain)
    assert jnp.array_equal(jax.vmap(distances, in_axes=1, out_axes=1)(points), plain)
    slopes = jax.grad(lambda at: distances(at).sum())(points)
    assert jnp.array_equal(jax.jit(jax.vmap(jax.vmap(jax.grad(distances))))(points), slopes)
    assert distances(points[0, 0]).shape == ()
    assert distances(points[:0]).shape == (0, 5)


def test_many_points_under_jit(rng: np.random.Generator, distances: Callable[[Any], Any]) -> None:
    points = jnp.asarray(rng.uniform(-0.9, 0.9, (200_000, 3)))
    assert jnp.array_equal(jax.jit(distances)(points), distances(points))


def test_check_grads(rng: np.random.Generator) -> None:
    field = oracle.random_field(rng, 8, [-1.0, -1.0, -1.0], 2.0)
    jax.config.update("jax_enable_x64", True)
    try:
        points = jnp.asarray(rng.uniform(-0.9, 0.9, (6, 3)))
        check_grads(lambda at: sdfcli.jax.sample(field, at), (points,), 1, modes=["rev"], eps=1e-7)
    finally:
        jax.config.update("jax_enable_x64", False)


def test_second_derivatives_are_an_error(distances: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match="Pure callbacks do not support JVP"):
        jax.hessian(distances)(jnp.ones(3))


@pytest.mark.parametrize("points", [np.zeros((4, 2), np.float32), np.float32(1), np.zeros((4, 3), np.int32)])
def test_unusable_points(distances: Callable[[Any], Any], points: Any) -> None:
    with pytest.raises(InputError, match=r"points must be \(\.\.\., 3\)"):
        distances(points)


def test_points_that_are_not_finite(distances: Callable[[Any], Any]) -> None:
    with pytest.raises(Exception, match="finite"):
        jax.block_until_ready(distances(jnp.full((2, 3), jnp.nan)))
