"""What warps do together is what threads do one by one, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import shapes
from sdfcli.backend import Backend
from sdfcli.backend.cpu import CpuBackend
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.sign.caps import cap_triangles
from sdfcli.sign.choice import make_signer
from sdfcli.spatial.moments import BETA, CAP_STEPS, WindingIndex, winding_by_warps
from sdfcli.spatial.morton import morton_order
from trees import make_bvh

warps = backends.warps

Numbers = oracle.Numbers


def points_about(rng: np.random.Generator, mesh: Mesh, count: int) -> Numbers:
    corner = mesh.unit_triangles.reshape(-1, 3)
    near = corner[rng.integers(0, len(corner), count)] + rng.normal(size=(count, 3)) * 10.0 ** -rng.uniform(
        1, 6, (count, 1)
    )
    return np.where(rng.random((count, 1)) < 0.5, near, rng.uniform(-0.5, 1.5, (count, 3))).astype(np.float32)


@settings(max_examples=15, deadline=None)
@given(
    kind=st.sampled_from(sorted(shapes.ANY)),
    seed=st.integers(0, 2**32 - 1),
    beta=st.sampled_from([0.0, 0.5, BETA, 4.0, 16.0]),
)
def test_winding_numbers_by_warps(warps: Backend, cpu: CpuBackend, kind: str, seed: int, beta: float) -> None:
    rng = np.random.default_rng(seed)
    mesh = make_mesh(*shapes.ANY[kind](rng))
    points = points_about(rng, mesh, int(rng.integers(1, 70)))
    found = []
    for device in (warps, cpu):
        index = WindingIndex.of(device, make_bvh(device, mesh.unit_triangles))
        found.append(device.to_host(index.winding(device.from_host(points), beta)))
    assert found[0].tobytes() == found[1].tobytes()
    if beta == 0:
        exact = oracle.winding(points, mesh.unit_triangles.reshape(-1, 3, 3).astype(np.float32))
        assert np.allclose(found[0], exact, atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 2000])
def test_winding_numbers_of_any_number_of_triangles(warps: Backend, cpu: CpuBackend, count: int) -> None:
    rng = np.random.default_rng(count)
    mesh = make_mesh(*shapes.soup(rng, count, 0.01))
    points = points_about(rng, mesh, 40)
    for beta in (0.0, BETA, 1e3):
        both = []
        for device in (warps, cpu):
            index = WindingIndex.of(device, make_bvh(device, mesh.unit_triangles))
            both.append(device.to_host(index.winding(device.from_host(points), beta)))
        assert both[0].tobytes() == both[1].tobytes()


@settings(max_examples=15, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1), beta=st.sampled_from([0.0, BETA, 8.0]))
def test_faces_that_count_alone(warps: Backend, cpu: CpuBackend, kind: str, seed: int, beta: float) -> None:
    """They share the triangles of the whole mesh, and have the winding numbers of a mesh of their own."""
    rng = np.random.default_rng(seed)
    mesh = make_mesh(*shapes.ANY[kind](rng))
    counted = rng.random(len(mesh.faces)) < rng.random()
    counted[rng.integers(len(counted))] = True
    points = points_about(rng, mesh, 40)
    expected = WindingIndex.of(cpu, make_bvh(cpu, mesh.unit_triangles[counted])).winding(points, beta)
    for device in (warps, cpu):
        order = morton_order(device, mesh.unit_triangles)
        index = WindingIndex.among(device, order, np.flatnonzero(~counted))
        assert index.triangle is order.triangle
        found = index.winding(device.from_host(points), beta)
        assert device.to_host(found).tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", ["star", "holed torus", "overlapping"])
@pytest.mark.parametrize("count", [1, 33, 90])
def test_points_that_are_not_listed_are_passed_over(warps: Backend, cpu: CpuBackend, kind: str, count: int) -> None:
    rng = np.random.default_rng(count)
    mesh = make_mesh(*shapes.ANY[kind](rng))
    points = points_about(rng, mesh, count)
    index = WindingIndex.of(warps, make_bvh(warps, mesh.unit_triangles))
    listed, winding = rng.permutation(count)[: rng.integers(0, count + 1)], np.full(count, 7, np.float32)
    asked = warps.from_host(np.resize([*listed, 0], count), np.uint32), warps.from_host([len(listed)], np.uint32)
    found = warps.from_host(winding)
    winding_by_warps(index, warps.from_host(points), found, BETA, asked)
    plain = WindingIndex.of(cpu, make_bvh(cpu, mesh.unit_triangles)).winding(points, BETA)
    winding[listed] = plain[listed]
    assert warps.to_host(found).tobytes() == winding.tobytes()


@pytest.mark.parametrize("seed", [0, 1])
def test_caps_decide(warps: Backend, cpu: CpuBackend, seed: int) -> None:
    """On and near the caps of holes the winding number is about one half, and on their edges the caps' is anything."""
    rng = np.random.default_rng(seed)
    mesh = make_mesh(*shapes.ANY["holed torus"](rng))
    caps = cap_triangles(mesh).reshape(-1, 3, 3)
    share = rng.dirichlet(np.ones(3), len(caps))
    on = np.concatenate(((caps * share[:, :, None]).sum(axis=1), caps.mean(axis=1), 0.5 * (caps[:, 0] + caps[:, 1])))
    points = np.concatenate((on, on + 1e-4 * rng.normal(size=on.shape))).astype(np.float32)
    found = []
    for device in (warps, cpu):
        bvh, at = make_bvh(device, mesh.unit_triangles), device.from_host(points)
        found.append(device.to_host(make_signer(device, mesh, bvh, "winding").inside(at, None)))
        doubtful = np.abs(device.to_host(WindingIndex.of(device, bvh).winding(at, BETA)) - 0.5) < CAP_STEPS[0][0]
        assert np.sum(doubtful) > 50
    assert np.array_equal(*found)
