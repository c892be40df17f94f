"""`sdfcli.warp`: Warp's arrays in and out, gradients on its tape."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

wp = pytest.importorskip("warp", reason="Warp is not installed")

import oracle  # noqa: E402
import sdfcli.warp  # noqa: E402
import shapes  # noqa: E402
from sdfcli.errors import InputError  # noqa: E402
from sdfcli.field.field import Field  # noqa: E402

VECTORS = [wp.vec3f, wp.vec3d]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(os.urandom(8)))


@pytest.fixture
def field(rng: np.random.Generator) -> Field:
    return oracle.random_field(rng, 8, [-1.0, -1.0, -1.0], 2.0)


@pytest.mark.parametrize("dtype", VECTORS)
@pytest.mark.parametrize("shape", [(40,), (4, 5)])
def test_values_and_gradients(rng: np.random.Generator, field: Field, dtype: Any, shape: tuple[int, ...]) -> None:
    points = wp.array(rng.uniform(-1.2, 1.2, (*shape, 3)), dtype=dtype, device="cpu", requires_grad=True)
    tape = wp.Tape()
    found = sdfcli.warp.sample(field, points, tape)
    number = np.float32 if dtype is wp.vec3f else np.float64
    assert (found.numpy().dtype, found.shape, str(found.device)) == (number, shape, "cpu")
    weights = rng.normal(size=shape).astype(number)
    tape.backward(grads={found: wp.array(weights, dtype=found.dtype, device="cpu")})
    value, slope = oracle.Trilinear(field)(points.numpy().astype(np.float64).reshape(-1, 3))
    close = {"rtol": 4 * np.finfo(number).eps, "atol": 1e-12}
    np.testing.assert_allclose(found.numpy().reshape(-1), value, **close)
    np.testing.assert_allclose(points.grad.numpy().reshape(-1, 3), weights.reshape(-1, 1) * slope, **close)


def test_gradients_add_up(rng: np.random.Generator, field: Field) -> None:
    """Of distances to a field and to a mesh, at every second point."""
    mesh = sdfcli.MeshDistance(shapes.star(rng, 1), device="cpu")
    points = wp.array(rng.uniform(-1, 1, (20, 3)), dtype=wp.vec3d, device="cpu", requires_grad=True)
    tape = wp.Tape()
    found = [
        sdfcli.warp.sample(field, points[::2], tape),
        sdfcli.warp.signed_distance(mesh, points[::2], tape),
        sdfcli.warp.distance(mesh, points[::2], tape),
    ]
    tape.backward(grads={each: wp.ones_like(each) for each in found})
    at = points.numpy()[::2]
    near = at - mesh.nearest(at).point
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    expected = field.gradient(at) + near * np.where(mesh.contains(at), 0.0, 2.0)[:, None]
    np.testing.assert_allclose(points.grad.numpy()[::2], expected, atol=1e-6)
    assert np.all(points.grad.numpy()[1::2] == 0)


def test_without_a_tape(rng: np.random.Generator, field: Field) -> None:
    mesh = sdfcli.MeshDistance(shapes.star(rng, 1), device="cpu")
    points = wp.array(rng.uniform(-1, 1, (20, 3)), dtype=wp.vec3d, device="cpu")
    for tape in (None, wp.Tape()):
        assert np.array_equal(sdfcli.warp.sample(field, points, tape).numpy(), field.sample(points.numpy()))
        found = sdfcli.warp.signed_distance(mesh, points, tape).numpy()
        assert np.array_equal(np.abs(found), sdfcli.warp.distance(mesh, points, tape).numpy())
        assert np.array_equal(np.signbit(found), mesh.contains(points.numpy()))


def test_no_points(field: Field) -> None:
    points = wp.zeros(0, dtype=wp.vec3f, device="cpu", requires_grad=True)
    assert sdfcli.warp.sample(field, points, wp.Tape()).shape == (0,)


@pytest.mark.parametrize("points", [np.zeros((3, 3)), wp.zeros((3, 3), dtype=float, device="cpu"), None])
def test_unusable_points(field: Field, points: Any) -> None:
    with pytest.raises(InputError, match="vec3f or vec3d"):
        sdfcli.warp.sample(field, points)


@pytest.mark.gpu
def test_on_a_gpu(rng: np.random.Generator, field: Field) -> None:
    """The bits of the CPU."""
    at, results = rng.uniform(-1.2, 1.2, (500, 3)), []
    for device in ("cpu", "cuda:0"):
        points = wp.array(at, dtype=wp.vec3f, device=device, requires_grad=True)
        tape = wp.Tape()
        found = sdfcli.warp.sample(field, points, tape)
        tape.backward(grads={found: wp.ones_like(found)})
        results.append((found.numpy(), points.grad.numpy()))
    assert all(map(np.array_equal, *results))
