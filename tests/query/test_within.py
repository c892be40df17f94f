"""Triangles within a radius through MeshDistance, against float64, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import shapes
from sdfcli import MeshDistance
from sdfcli.backend import Backend
from sdfcli.errors import InputError, UsageError
from sdfcli.params import FORMS
from sdfcli.query import mesh_distance

backend = backends.backend


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(shapes.ANY)),
    seed=st.integers(0, 2**32 - 1),
    share=st.sampled_from([0.0, 1e-3, 0.1, 0.5, 3.0]),
    scale=st.sampled_from([1.0, 1e-9, 1e9]),
)
def test_against_float64(backend: Backend, kind: str, seed: int, share: float, scale: float) -> None:
    rng = np.random.default_rng(seed)
    shape = shapes.moved(shapes.ANY[kind](rng), scale)
    index = MeshDistance(shape, sign="none", device=backend.name)
    low, high = index.mesh.bounds
    size = float((high - low).max())
    points = np.concatenate((rng.uniform(low - size, high + size, (20, 3)), shape[0][:4]))
    radius = share * size
    starts, faces, distances = index.triangles_within(points, radius)
    assert (starts[0], starts[-1], len(starts)) == (0, len(faces), len(points) + 1)
    triangles = index.mesh.vertices[index.mesh.faces]
    error = 1e-5 * (size + radius) + 1e-6 * np.abs(points).max()
    for k, point in enumerate(points):
        own, near = faces[starts[k] : starts[k + 1]], distances[starts[k] : starts[k + 1]]
        assert (near <= radius).all()
        assert [*zip(near, own, strict=True)] == sorted(zip(near, own, strict=True))
        true = oracle.pair_distances(np.broadcast_to(point, (len(triangles), 3)), triangles)
        assert np.abs(true[own] - near).max(initial=0.0) <= error
        missed = np.setdiff1d(np.flatnonzero(true < radius - error), own)
        assert len(missed) == 0
        assert len(np.unique(own)) == len(own)


def test_they_are_those_that_the_nearest_are(backend: Backend) -> None:
    """The same distances, to the bit, as `nearest_triangles`, and in batches as at once."""
    rng = np.random.default_rng(1)
    shape = shapes.icosphere(2)
    index, points = MeshDistance(shape, sign="none", device=backend.name), rng.normal(size=(500, 3))
    nearest, face = index.nearest_triangles(points, 8)
    radius = float(np.median(nearest))
    starts, faces, distances = index.triangles_within(points, radius)
    for k in range(len(points)):
        within = nearest[k] <= radius
        count = min(8, starts[k + 1] - starts[k])
        assert within.sum() == count
        assert np.array_equal(distances[starts[k] : starts[k] + count], nearest[k][:count])
        if count:
            assert set(faces[starts[k] : starts[k + 1]]) >= set(face[k][nearest[k] < nearest[k][count - 1]])


@pytest.mark.parametrize("form", FORMS)
def test_approximate(backend: Backend, form: str) -> None:
    """Those within the radius of the 32 nearest that `nearest_triangles` finds; of points in any shape."""
    index = MeshDistance(shapes.icosphere(3), sign="none", device=backend.name)
    points = np.random.default_rng(6).normal(size=(40, 5, 3))
    nearest, face = (each.reshape(200, 32) for each in index.nearest_triangles(points, 32, form))
    radius = float(np.median(nearest))
    starts, faces, distances = index.triangles_within(points, radius, form)
    for k, (own, near) in enumerate(zip(face, nearest, strict=True)):
        assert faces[starts[k] : starts[k + 1]].tolist() == own[near <= radius].tolist()
        assert distances[starts[k] : starts[k + 1]].tolist() == near[near <= radius].tolist()
    assert 0 < len(faces) < len(index.triangles_within(points, radius)[1])
    with pytest.raises(UsageError, match="approximate none"):
        index.triangles_within(points, radius, "none")


def test_batches(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    index = MeshDistance(shapes.icosphere(2), sign="none", device=backend.name)
    points = np.random.default_rng(2).normal(size=(300, 3))
    whole = index.triangles_within(points, 0.5)
    monkeypatch.setattr(mesh_distance.MeshDistance, "_batch", lambda *_: 70)
    assert all(map(np.array_equal, whole, index.triangles_within(points, 0.5)))


def test_what_is_refused(backend: Backend) -> None:
    index = MeshDistance(shapes.cube(), sign="none", device=backend.name)
    for radius in (-1.0, np.inf, np.nan):
        with pytest.raises(UsageError, match="radius"):
            index.triangles_within(np.zeros((1, 3)), radius)
    with pytest.raises(InputError):
        index.triangles_within(np.full((1, 3), np.nan), 1.0)
    starts, faces, _ = index.triangles_within(np.zeros((0, 3)), 1.0)
    assert (starts.tolist(), len(faces)) == ([0], 0)


def test_radii_are_inclusive(backend: Backend) -> None:
    index = MeshDistance(shapes.cube(), sign="none", device=backend.name)
    points = index.mesh.vertices[:3]
    starts, _, distances = index.triangles_within(points, 0.0)
    assert (np.diff(starts) >= 3).all()
    assert not distances.any()


@pytest.mark.gpu
def test_a_gpu_gives_the_same(gpu: Backend) -> None:
    shape, points = shapes.torus(60, 40), np.random.default_rng(3).normal(size=(2000, 3))
    own, other = (MeshDistance(shape, sign="none", device=name) for name in ("cpu", gpu.name))
    expected = own.triangles_within(points, 0.3)
    assert all(map(np.array_equal, expected, other.triangles_within(points, 0.3)))
    for index in (own, other):
        found = index.triangles_within(gpu.from_host(points), 0.3)
        assert all(np.array_equal(a, b.get()) for a, b in zip(expected, found, strict=True))
