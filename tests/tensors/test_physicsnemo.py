"""PhysicsNeMo's signed distance fields: its own function, where installed, and the same calls without it."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import oracle  # noqa: E402
import shapes  # noqa: E402
from sdfcli.errors import InputError  # noqa: E402
from sdfcli.torch import signed_distance_field  # noqa: E402


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(os.urandom(8)))


@pytest.fixture(scope="module")
def theirs() -> Any:
    """The function of the installed package, from its file: the package itself imports much else."""
    found = importlib.util.find_spec("physicsnemo")
    if found is None or not found.submodule_search_locations:
        pytest.skip("PhysicsNeMo is not installed")
    file = Path(found.submodule_search_locations[0], "nn", "functional", "geometry", "sdf.py")
    spec = importlib.util.spec_from_file_location("physicsnemo_sdf", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["physicsnemo_sdf"] = importlib.util.module_from_spec(spec)  # Warp looks for its kernels
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        pytest.skip(f"PhysicsNeMo does not start: {error}")
    return module.signed_distance_field


def case(
    rng: np.random.Generator, shape: shapes.Shape, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    points = torch.from_numpy(rng.uniform(-1.5, 1.5, (4, 50, 3))).to(dtype)
    return torch.tensor(shape[0], dtype=torch.float32), torch.tensor(shape[1], dtype=torch.int32), points


@pytest.mark.parametrize("winding", [False, True])
@pytest.mark.parametrize("kind", ["cube", "star", "torus", "octahedron"])
@pytest.mark.parametrize("max_dist", [1e8, 0.4])
def test_same_answers(theirs: Any, rng: np.random.Generator, kind: str, winding: bool, max_dist: float) -> None:
    vertices, faces, points = case(rng, shapes.ANY[kind](rng))
    given = {"max_dist": max_dist, "use_sign_winding_number": winding}
    ours = signed_distance_field(vertices, faces.reshape(-1), points, **given)
    right = theirs(vertices, faces.reshape(-1), points, **given)
    for one, other in zip(ours, right, strict=True):
        assert (one.dtype, one.shape, one.device) == (other.dtype, other.shape, other.device)
    near = (right[0].abs() - max_dist).abs() > 1e-5
    torch.testing.assert_close(ours[0][near], right[0][near], rtol=0, atol=1e-5, equal_nan=True)
    assert torch.equal((ours[2] < 0)[near], (right[2] < 0)[near])
    # Each face holds the other's nearest point, but beside the medial axis.
    corners = vertices.double().numpy()[faces.numpy()]
    found = (near & (ours[2] >= 0)).reshape(-1)
    points_of, face_of = (
        [each[k].reshape(-1, *each[k].shape[2:])[found].numpy() for each in (ours, right)] for k in (1, 2)
    )
    for k in (0, 1):
        off = oracle.pair_distances(points_of[k].astype(np.float64), corners[face_of[1 - k]])
        assert np.mean(off < 1e-5) > 0.97


def test_degenerate_faces_count(theirs: Any, rng: np.random.Generator) -> None:
    """Those that Warp skips."""
    vertices = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 5], [0, 1, 5], [0, 0.5, 5]])
    faces, points = torch.tensor([[0, 1, 2], [3, 4, 5]]), torch.tensor([[0, 0.25, 4.0], [0.25, 0.25, -1]])
    distance, nearest, face = signed_distance_field(vertices, faces, points)
    assert face.tolist() == [1, 0]
    torch.testing.assert_close(distance.abs(), torch.tensor([1.0, 1.0]))
    torch.testing.assert_close(nearest, torch.tensor([[0, 0.25, 5.0], [0.25, 0.25, 0]]))
    assert theirs(vertices, faces, points)[2].tolist() == [0, 0]  # else there is no difference


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_against_all_triangles(rng: np.random.Generator, dtype: torch.dtype) -> None:
    shape = shapes.star(rng, 1)
    vertices, faces, points = case(rng, shape, dtype)
    limit = 0.3
    distance, nearest, face = signed_distance_field(vertices, faces, points, max_dist=limit)
    at, triangles = points.double().reshape(-1, 3).numpy(), vertices.double().numpy()[shape[1]]
    true = oracle.distance(at, triangles) * np.where(oracle.winding(at, triangles) > 0.5, -1, 1)
    close = torch.finfo(dtype).eps + 1e-6
    near = torch.from_numpy(np.abs(true) <= limit).reshape(distance.shape)
    sure = torch.from_numpy(np.abs(np.abs(true) - limit) > 4 * close).reshape(distance.shape)
    assert torch.equal((face >= 0)[sure], near[sure])
    assert torch.equal(distance.isnan(), face < 0)
    assert torch.equal(nearest.isnan(), (face < 0)[..., None].expand_as(nearest))
    here = face.reshape(-1) >= 0
    torch.testing.assert_close(
        distance.reshape(-1)[here].double(), torch.from_numpy(true)[here], rtol=close, atol=2 * close
    )
    chosen = nearest.reshape(-1, 3)[here].double().numpy()
    off = oracle.pair_distances(chosen, triangles[face.reshape(-1)[here].numpy()])
    assert off.max() <= 4 * close


def test_gradients(rng: np.random.Generator) -> None:
    """Of distances, where there are any: the nearest points are constants."""
    vertices, faces, points = case(rng, shapes.star(rng, 1))
    vertices.requires_grad_()
    points.requires_grad_()
    distance, nearest, _ = signed_distance_field(vertices, faces, points, max_dist=0.3)
    assert not nearest.requires_grad
    distance.nansum().backward()
    lengths = points.grad.norm(dim=-1)
    assert torch.equal(lengths > 0, ~distance.isnan())
    torch.testing.assert_close(lengths[lengths > 0], torch.ones_like(lengths[lengths > 0]))
    torch.testing.assert_close(vertices.grad.sum(0), -points.grad.sum((0, 1)), rtol=1e-4, atol=1e-4)


def test_unusable_faces() -> None:
    with pytest.raises(InputError, match="faces"):
        signed_distance_field(torch.zeros(4, 3), torch.zeros(4, dtype=torch.int32), torch.zeros(1, 3))
