"""Distances of tensors to meshes, and their gradients, against all triangles in float64 and finite differences."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.autograd import gradcheck  # noqa: E402

import oracle  # noqa: E402
import sdfcli  # noqa: E402
import sdfcli.torch as st  # noqa: E402
import shapes  # noqa: E402
from sdfcli.errors import InputError, UsageError  # noqa: E402

KINDS = ["star", "torus", "holed star", "soup", "zoo", "one", "far", "tiny", "huge"]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(os.urandom(8)))


def around(rng: np.random.Generator, shape: shapes.Shape, *count: int) -> torch.Tensor:
    low, high = shape[0].min(axis=0), shape[0].max(axis=0)
    return torch.from_numpy((low + high) / 2 + (high - low).max() * rng.uniform(-0.8, 0.8, (*count, 3)))


def tensors(shape: shapes.Shape, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(shape[0], dtype=dtype), torch.tensor(shape[1])


def clear(shape: shapes.Shape, points: torch.Tensor) -> torch.Tensor:
    """Points (n, 3) off the surface and its medial axis: all nearest triangles have one nearest point in common."""
    at, triangles = points.numpy(), shapes.triangles(shape)
    size = np.ptp(shape[0], axis=0).max()
    near = sdfcli.MeshDistance(shape, "none", "cpu").nearest(at)
    nearest = oracle.distances(at, triangles) <= near.distance[:, None] + 1e-5 * size
    apart = oracle.distances(near.point, triangles) > 1e-9 * size
    return points[torch.from_numpy((near.distance > 1e-3 * size) & ~(nearest & apart).any(axis=1))]


@pytest.mark.parametrize("kind", KINDS)
def test_distances(rng: np.random.Generator, kind: str) -> None:
    """Of either kind of mesh: to all triangles, as far as float32 finds the nearest one."""
    shape = shapes.ANY[kind](rng)
    points, mesh = around(rng, shape, 6, 7), sdfcli.MeshDistance(shape, device="cpu")
    size = float(np.ptp(shape[0], axis=0).max())
    true = oracle.distance(points.reshape(-1, 3).numpy(), shapes.triangles(shape)).reshape(6, 7)
    for found in (st.distance(mesh, points), st.distance(tensors(shape), points)):
        assert np.abs(found.numpy() - true).max() <= 4e-7 * size
    signed = st.signed_distance(mesh, points)
    assert torch.equal(signed, st.signed_distance(tensors(shape), points))
    assert torch.equal(signed.abs(), st.distance(mesh, points))
    assert np.array_equal(torch.signbit(signed), np.signbit(mesh.signed_distance(points.numpy())))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(), (0,), (3, 4)])
def test_types_and_shapes(rng: np.random.Generator, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    star = shapes.star(rng, 1)
    mesh, points = sdfcli.MeshDistance(star, device="cpu"), around(rng, star, *shape).to(dtype).requires_grad_()
    for found in (st.signed_distance(mesh, points), st.distance(tensors(star), points)):
        (slope,) = torch.autograd.grad(found.sum(), points)
        assert (found.dtype, found.shape, slope.dtype, slope.shape) == (dtype, shape, dtype, points.shape)


SMOOTH = ["star", "torus", "cube", "holed star"]
ASKED: list[Callable[..., torch.Tensor]] = [st.signed_distance, st.distance]


@pytest.mark.parametrize("kind", SMOOTH)
@pytest.mark.parametrize("ask", ASKED)
def test_gradients_of_points(rng: np.random.Generator, kind: str, ask: Callable[..., torch.Tensor]) -> None:
    shape = shapes.ANY[kind](rng)
    points = around(rng, shape, 500)
    needed = points.clone().requires_grad_()
    mesh = sdfcli.MeshDistance(shape, device="cpu")
    found = ask(mesh, needed)
    (slope,) = torch.autograd.grad(found.sum(), needed)
    nearest = torch.from_numpy(mesh.nearest(points.numpy()).point)
    expected = (points - nearest) / found.detach()[:, None]
    torch.testing.assert_close(slope, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(slope.norm(dim=1), torch.ones(500, dtype=torch.float64))


@pytest.mark.parametrize("kind", SMOOTH)
@pytest.mark.parametrize("ask", ASKED)
def test_gradcheck(rng: np.random.Generator, kind: str, ask: Callable[..., torch.Tensor]) -> None:
    """In points and vertices, by finite differences."""
    shape = shapes.ANY[kind](rng)
    points = clear(shape, around(rng, shape, 100))[:20].requires_grad_()
    assert len(points)
    vertices, faces = tensors(shape)
    vertices.requires_grad_()
    assert gradcheck(lambda v, at: ask((v, faces), at), (vertices, points), eps=1e-7, fast_mode=True)
    mesh = sdfcli.MeshDistance(shape, device="cpu")
    assert gradcheck(lambda at: ask(mesh, at), points, eps=1e-7, fast_mode=True)


def test_gradients_of_vertices_by_hand(rng: np.random.Generator) -> None:
    """Of a corner, an edge and a face, and of vertices that no face uses."""
    vertices = torch.tensor([[9.0, 9, 9], [0, 0, 0], [1, 0, 0], [0, 1, 0]]).requires_grad_()
    faces = torch.tensor([[1, 2, 3]], dtype=torch.int32)
    points = torch.tensor([[-1.0, 0, 0], [0.25, -2, 0], [0.25, 0.5, 0.125]])
    expected = [[(1, [1, 0, 0])], [(1, [0, 0.75, 0]), (2, [0, 0.25, 0])], [(1, 0.25), (2, 0.25), (3, 0.5)]]
    for point, parts in zip(points, expected, strict=True):
        (slope,) = torch.autograd.grad(st.distance((vertices, faces), point), vertices)
        right = torch.zeros(4, 3)
        for number, part in parts:
            right[number] = torch.tensor(part if isinstance(part, list) else [0, 0, -part])
        torch.testing.assert_close(slope, right)


def test_sums_do_not_depend_on_the_order(rng: np.random.Generator) -> None:
    """Of points; and are right."""
    shape = shapes.star(rng, 1)
    points, (vertices, faces) = around(rng, shape, 3000), tensors(shape)
    vertices.requires_grad_()
    weights = torch.from_numpy(rng.normal(size=3000))
    order = torch.from_numpy(rng.permutation(3000))
    slopes = []
    for row in (torch.arange(3000), order):
        found = st.distance((vertices, faces), points[row])
        slopes.append(torch.autograd.grad((found * weights[row]).sum(), vertices)[0])
    assert torch.equal(*slopes)
    one_by_one = torch.zeros_like(slopes[0])
    for point, weight in zip(points[:50], weights, strict=False):
        one_by_one += weight * torch.autograd.grad(st.distance((vertices, faces), point), vertices)[0]
    found = (st.distance((vertices, faces), points[:50]) * weights[:50]).sum()
    torch.testing.assert_close(torch.autograd.grad(found, vertices)[0], one_by_one, rtol=0, atol=1e-12)


def test_on_the_surface(rng: np.random.Generator) -> None:
    """The signed distance's gradient is the normal, in which the unsigned one has none."""
    shape = shapes.moved(shapes.cube(), 0.5, 0.5)
    mesh = sdfcli.MeshDistance(shape, device="cpu")
    points = torch.from_numpy(rng.random((50, 3)))
    points[:, 0] = 1.0
    points.requires_grad_()
    for ask, slope in ((st.signed_distance, [1.0, 0.0, 0.0]), (st.distance, [0.0, 0.0, 0.0])):
        (found,) = torch.autograd.grad(ask(mesh, points).sum(), points)
        torch.testing.assert_close(found, torch.tensor(slope, dtype=torch.float64).expand(50, 3), rtol=0, atol=0)


def test_operators(rng: np.random.Generator) -> None:
    shape = shapes.star(rng, 1)
    mesh, points = sdfcli.MeshDistance(shape, device="cpu"), around(rng, shape, 3, 4)
    for operator in (torch.ops.sdfcli.distance, torch.ops.sdfcli.nearest):
        torch.library.opcheck(operator.default, (points, mesh.number, True))
    torch.library.opcheck(torch.ops.sdfcli.nearest_on.default, (points, *tensors(shape), "auto", True))


def test_compiled_without_a_break(rng: np.random.Generator) -> None:
    shape = shapes.star(rng, 1)
    points, (vertices, faces) = around(rng, shape, 40).requires_grad_(), tensors(shape)
    vertices.requires_grad_()
    mesh = sdfcli.MeshDistance(shape, device="cpu")

    def loss(vertices: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        both = st.signed_distance((vertices, faces), points), st.distance(mesh, points)
        return both[0].square().sum() + both[1].sum()

    expected = torch.autograd.grad(loss(vertices, points), (vertices, points))
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(vertices, points), (vertices, points))
    for each, right in zip(found, expected, strict=True):
        torch.testing.assert_close(each, right)


def test_function_transforms(rng: np.random.Generator) -> None:
    shape = shapes.star(rng, 1)
    mesh, points = sdfcli.MeshDistance(shape, device="cpu"), around(rng, shape, 5)
    slopes = torch.func.vmap(torch.func.grad(lambda at: st.signed_distance(mesh, at)))(points)
    needed = points.clone().requires_grad_()
    st.signed_distance(mesh, needed).sum().backward()
    assert torch.equal(slopes, needed.grad)


def test_second_derivatives_are_an_error(rng: np.random.Generator) -> None:
    shape = shapes.star(rng, 1)
    points, (vertices, faces) = around(rng, shape, 5).requires_grad_(), tensors(shape)
    vertices.requires_grad_()
    for mesh in ((vertices, faces), sdfcli.MeshDistance(shape, device="cpu")):
        (slope,) = torch.autograd.grad(st.distance(mesh, points).sum(), points, create_graph=True)
        with pytest.raises(RuntimeError, match="first derivatives only"):
            slope.sum().backward()
    (slope,) = torch.autograd.grad(st.distance((vertices, faces), points).sum(), vertices, create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        slope.sum().backward()


def test_vertices_follow_their_loss(rng: np.random.Generator) -> None:
    """A sphere's vertices, pulled to points of a larger one."""
    vertices, faces = tensors(shapes.icosphere(2))
    way = torch.from_numpy(rng.normal(size=(2000, 3)))
    points, vertices = 1.3 * way / way.norm(dim=1, keepdim=True), vertices.requires_grad_()
    optimiser = torch.optim.Adam([vertices], lr=0.03)
    losses = []
    for _ in range(40):
        optimiser.zero_grad()
        loss = st.signed_distance((vertices, faces), points).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[0] > 0.08
    assert losses[-1] < 1e-3


def test_unusable_meshes(rng: np.random.Generator) -> None:
    vertices, faces = tensors(shapes.cube())
    points = torch.zeros(2, 3)
    for mesh, error, words in (
        ((vertices, faces + 1), InputError, "names vertex 8"),
        ((vertices, faces[:0]), InputError, "no faces"),
        ((vertices * torch.nan, faces), InputError, "not finite"),
        ((vertices, faces.double()), InputError, "whole"),
        ((faces, faces), InputError, "floating-point"),
    ):
        with pytest.raises(error, match=words):
            st.distance(mesh, points)
    with pytest.raises(UsageError, match="best"):
        st.signed_distance((vertices, faces), points, "best")
    with pytest.raises(InputError, match="finite"):
        st.signed_distance((vertices, faces), points * torch.nan)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch has no CUDA")
def test_on_a_gpu(rng: np.random.Generator) -> None:
    """The bits of the CPU, gradients of vertices included."""
    shape = shapes.star(rng, 2)
    points, (vertices, faces) = around(rng, shape, 1000), tensors(shape)
    results = []
    for device in ("cpu", "cuda"):
        at, of = (each.to(device).requires_grad_() for each in (points, vertices))
        found = st.signed_distance((of, faces.to(device)), at)
        slopes = torch.autograd.grad(found.sum(), (at, of))
        assert found.device.type == device
        results.append([each.detach().cpu() for each in (found, *slopes)])
    for here, there in zip(*results, strict=True):
        assert torch.equal(here, there)
