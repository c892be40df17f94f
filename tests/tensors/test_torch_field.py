"""`sdfcli.torch.sample` against all leaves of a field in float64, and against PyTorch's own checks."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.autograd import forward_ad, gradcheck  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import oracle  # noqa: E402
import sdfcli.torch  # noqa: E402
import shapes  # noqa: E402
from sdfcli.errors import InputError  # noqa: E402
from sdfcli.field.field import Field  # noqa: E402

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(os.urandom(8)))


@pytest.fixture
def field(rng: np.random.Generator) -> Field:
    return oracle.random_field(rng, 8, [5.0, -3.0, 0.25], 2.0)


def around(rng: np.random.Generator, field: Field, *shape: int) -> torch.Tensor:
    """Points (*shape, 3) in the domain and around it."""
    return torch.from_numpy(field.domain.origin + field.domain.length * rng.uniform(-0.3, 1.3, (*shape, 3)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (17,), (2, 0), (3, 4, 5)])
def test_values_and_gradients(
    rng: np.random.Generator, field: Field, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    points = around(rng, field, *shape).to(dtype).requires_grad_()
    found = sdfcli.torch.sample(field, points)
    weights = torch.from_numpy(rng.normal(size=shape)).to(dtype)
    found.backward(weights)
    value, slope = oracle.Trilinear(field)(points.detach().double().numpy().reshape(-1, 3))
    close = {"rtol": 2 * torch.finfo(dtype).eps, "atol": 1e-12}
    assert (found.dtype, found.shape, points.grad.dtype) == (dtype, shape, dtype)
    torch.testing.assert_close(found.detach().double().reshape(-1), torch.from_numpy(value), **close)
    expected = weights.double().reshape(-1, 1) * torch.from_numpy(slope)
    close["rtol"] *= 2
    torch.testing.assert_close(points.grad.double().reshape(-1, 3), expected, **close)


def test_bits_are_those_of_the_field(rng: np.random.Generator, field: Field) -> None:
    """With gradients and without; one search gives the bits of two."""
    for points in (around(rng, field, 300), around(rng, field, 300).float()):
        value, slope = field.sample(points.numpy()), field.gradient(points.numpy())
        assert np.array_equal(sdfcli.torch.sample(field, points), value.astype(points.numpy().dtype))
        both = sdfcli.torch.sample_with_gradient(field, points)
        assert np.array_equal(both[0], value.astype(points.numpy().dtype))
        assert np.array_equal(both[1], slope.astype(points.numpy().dtype))
        needed = points.clone().requires_grad_()
        assert np.array_equal(sdfcli.torch.sample(field, needed).detach(), both[0])


def test_gradcheck(rng: np.random.Generator, field: Field) -> None:
    points = around(rng, field, 3, 4).requires_grad_()
    assert gradcheck(lambda at: sdfcli.torch.sample(field, at), points, eps=1e-7, fast_mode=True)
    assert gradcheck(lambda at: sdfcli.torch.sample_with_gradient(field, at)[0], points, eps=1e-7, fast_mode=True)


def test_operators(rng: np.random.Generator, field: Field) -> None:
    for operator in (torch.ops.sdfcli.sample, torch.ops.sdfcli.sample_with_gradient):
        for points in (around(rng, field, 7), around(rng, field, 2, 3).float(), around(rng, field)):
            torch.library.opcheck(operator.default, (points, field.number))


def test_operators_where_calls_are_recorded(rng: np.random.Generator, field: Field) -> None:
    """In traces, and for tensors without values."""
    points = around(rng, field, 7)
    traced = make_fx(lambda at: sdfcli.torch.sample(field, at))
    graphs = [str(traced(points).graph), str(traced(points.clone().requires_grad_()).graph)]
    graphs += [str(torch.jit.trace(lambda at: sdfcli.torch.sample(field, at), points, check_trace=False).graph)]
    assert [len(re.findall(r"sdfcli(?:::|\.)sample", graph)) for graph in graphs] == [1] * 3
    assert torch.equal(traced(points)(points + 0.1), sdfcli.torch.sample(field, points + 0.1))
    with FakeTensorMode():
        fake = torch.empty(4, 5, 3)
        assert sdfcli.torch.sample(field, fake).shape == (4, 5)
    for both in sdfcli.torch.sample_with_gradient(field, points.to("meta")):
        assert both.device.type == "meta"


def test_plain_calls_are_functions(rng: np.random.Generator, field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tensors and parameters; the operators' bits."""
    points = around(rng, field, 50)
    expected = torch.ops.sdfcli.sample(points, field.number)
    slopes = torch.ops.sdfcli.sample_with_gradient(points, field.number)[1]
    assert torch.equal(sdfcli.torch.sample_with_gradient(field, points)[1], slopes)
    monkeypatch.delattr("sdfcli.torch.field._sample")
    monkeypatch.delattr("sdfcli.torch.field._sample_with_gradient")
    parameter = torch.nn.Parameter(points)
    found = sdfcli.torch.sample(field, parameter)
    found.sum().backward()
    assert torch.equal(found.detach(), expected)
    assert torch.equal(sdfcli.torch.sample(field, points), expected)
    assert torch.equal(parameter.grad, slopes)


def test_compiled_without_a_break(rng: np.random.Generator, field: Field) -> None:
    """One function for several fields and shapes."""
    loss = torch.compile(
        lambda field, at: sdfcli.torch.sample(field, at).square().sum(), fullgraph=True, backend="aot_eager"
    )
    for each in (field, oracle.random_field(rng, 5)):
        for shape in ((5,), (2, 9)):
            points = around(rng, each, *shape).requires_grad_()
            expected = sdfcli.torch.sample(each, points).square().sum()
            (slope,) = torch.autograd.grad(expected, points)
            loss(each, points).backward()
            torch.testing.assert_close(loss(each, points), expected)
            torch.testing.assert_close(points.grad, slope)
            torch.testing.assert_close(loss(each, points.detach()), expected.detach())


def test_function_transforms(rng: np.random.Generator, field: Field) -> None:
    points = around(rng, field, 4, 5)
    found = torch.func.vmap(lambda at: sdfcli.torch.sample(field, at), in_dims=1, out_dims=1)(points)
    assert torch.equal(found, sdfcli.torch.sample(field, points))
    slopes = torch.func.vmap(torch.func.vmap(torch.func.grad(lambda at: sdfcli.torch.sample(field, at))))(points)
    assert torch.equal(slopes, sdfcli.torch.sample_with_gradient(field, points)[1])


def test_memory_is_shared(rng: np.random.Generator, field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    points, given, made = around(rng, field, 100), [], []
    sample = Field.sample

    def watched(self: Field, at: np.ndarray) -> np.ndarray:
        given.append(at)
        made.append(sample(self, at))
        return made[-1]

    monkeypatch.setattr(Field, "sample", watched)
    found = sdfcli.torch.sample(field, points)
    assert given[0].ctypes.data == points.data_ptr()
    assert made[0].ctypes.data == found.data_ptr()


def test_not_contiguous(rng: np.random.Generator, field: Field) -> None:
    points = around(rng, field, 30)
    for view in (points.T.contiguous().T, points[::3], points.flip(0), points[:1].expand(5, 3), -(-points)._neg_view()):
        assert torch.equal(sdfcli.torch.sample(field, view), sdfcli.torch.sample(field, view.clone()))


def test_modes(rng: np.random.Generator, field: Field) -> None:
    points = around(rng, field, 5).requires_grad_()
    assert sdfcli.torch.sample(field, points).requires_grad
    assert not sdfcli.torch.sample(field, points.detach()).requires_grad
    distance, gradient = sdfcli.torch.sample_with_gradient(field, points)
    assert distance.requires_grad
    assert not gradient.requires_grad
    with torch.no_grad():
        assert not sdfcli.torch.sample(field, points).requires_grad
    with torch.inference_mode():
        assert torch.equal(sdfcli.torch.sample(field, points), distance)


def test_second_derivatives_are_an_error(rng: np.random.Generator, field: Field) -> None:
    points = around(rng, field, 5).requires_grad_()
    (slope,) = torch.autograd.grad(sdfcli.torch.sample(field, points).sum(), points, create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        (points.sum() + slope.sum()).backward()


def test_forward_mode_is_an_error(rng: np.random.Generator, field: Field) -> None:
    """Not a derivative of zero."""
    points = around(rng, field, 5)
    index = sdfcli.MeshDistance(shapes.icosphere(1), device="cpu")
    for distance in (
        lambda at: sdfcli.torch.sample(field, at),
        lambda at: sdfcli.torch.sample_with_gradient(field, at)[0],
        lambda at: sdfcli.torch.distance(index, at),
    ):
        with pytest.raises(NotImplementedError, match="forward mode"):
            torch.func.jvp(distance, (points,), (points,))
        with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="forward mode"):
            distance(forward_ad.make_dual(points, points))


def test_a_field_may_go_before_its_gradient(rng: np.random.Generator, field: Field) -> None:
    other = copy.copy(field)
    points = around(rng, field, 5).requires_grad_()
    found = sdfcli.torch.sample(other, points)
    number = other.number
    del other
    gc.collect()
    found.sum().backward()
    assert np.array_equal(points.grad, field.gradient(points.detach().numpy()))
    with pytest.raises(InputError, match="no longer exists"):
        torch.ops.sdfcli.sample(points, number)


def test_copies_have_their_own_numbers(field: Field) -> None:
    copies = [copy.copy(field), copy.deepcopy(field), pickle.loads(pickle.dumps(field))]
    assert len({each.number for each in (field, *copies)}) == 4


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (torch.zeros(4, 2), r"\(\.\.\., 3\)"),
        (torch.tensor(1.0), r"\(\.\.\., 3\)"),
        (torch.zeros(4, 3, dtype=torch.int64), "floating-point"),
        (np.zeros((4, 3)), "tensor"),
        (torch.tensor([[0, torch.nan, 0]]), "finite"),
        (torch.tensor([[torch.inf, 0, 0]]), "finite"),
    ],
)
def test_unusable_points(field: Field, points: torch.Tensor, words: str) -> None:
    with pytest.raises(InputError, match=words):
        sdfcli.torch.sample(field, points)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch has no CUDA")
def test_on_a_gpu(rng: np.random.Generator, field: Field) -> None:
    """The bits of the CPU, in the current stream."""
    points = around(rng, field, 1000)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        there = torch.empty(1000, 3, dtype=torch.float64, device="cuda")
        torch.cuda._sleep(10_000_000)  # a sample that does not wait for the copy reads what was there before
        there.copy_(points)
        there.requires_grad_()
        found = sdfcli.torch.sample(field, there)
        found.sum().backward()
    stream.synchronize()
    assert found.device == there.device
    value, slope = sdfcli.torch.sample_with_gradient(field, points)
    assert torch.equal(found.detach().cpu(), value)
    assert torch.equal(there.grad.cpu(), slope)
