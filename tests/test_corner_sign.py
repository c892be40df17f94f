"""Signs at an octree's corners, and winding numbers by warps: the same as asking for each point by itself."""

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
from sdfcli.mesh import Mesh, make_mesh
from sdfcli.stages.bvh_octree import bvh_octree
from sdfcli.stages.corner_sign import signed_distances
from sdfcli.stages.distance import make_bvh, nearest
from sdfcli.stages.sign import BETA, NoSigner, PseudonormalSigner, WindingIndex, WindingSigner

backend = backends.backend
warps = backends.warps

Numbers = oracle.Numbers


def holed(rng: np.random.Generator) -> shapes.Shape:
    vertices, faces = shapes.torus(40, 16)
    return vertices, faces[rng.random(len(faces)) > 0.03]


def check_signs(backend: Backend, mesh: Mesh, depth: int) -> Numbers:
    """Signs are those of each corner by itself. Returns the corners' distances."""
    bvh = make_bvh(backend, mesh.unit_triangles)
    tree = bvh_octree(backend, bvh.order, depth)
    distance, slot = nearest(backend, bvh, tree.position, query="cct")
    for signer in (NoSigner(backend), PseudonormalSigner(backend, mesh, bvh), WindingSigner(backend, mesh, bvh)):
        found = signed_distances(backend, signer, tree, distance, slot)
        alone = backend.to_host(signer.inside(tree.position, slot))
        plain = backend.to_host(distance)
        assert np.array_equal(backend.to_host(found), np.where(alone, -plain, plain))
    return plain


@settings(max_examples=25, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1), depth=st.integers(1, 7))
def test_signs_of_any_mesh(backend: Backend, kind: str, seed: int, depth: int) -> None:
    check_signs(backend, make_mesh(*shapes.ANY[kind](np.random.default_rng(seed))), depth)


@settings(max_examples=5, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1), depth=st.integers(1, 5))
def test_signs_of_any_mesh_by_warps(warps: Backend, kind: str, seed: int, depth: int) -> None:
    check_signs(warps, make_mesh(*shapes.ANY[kind](np.random.default_rng(seed))), depth)


@pytest.mark.parametrize("depth", [1, 6])
def test_signs_of_surfaces_with_holes(backend: Backend, warps: Backend, depth: int) -> None:
    mesh = make_mesh(*holed(np.random.default_rng(3)))
    assert np.array_equal(check_signs(backend, mesh, depth), check_signs(warps, mesh, depth))


def test_few_corners_are_asked_for(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = make_mesh(*shapes.icosphere(4))
    bvh = make_bvh(backend, mesh.unit_triangles)
    tree = bvh_octree(backend, bvh.order, 7)
    distance, slot = nearest(backend, bvh, tree.position, query="cct")
    runs: dict[str, np.ndarray] = {}
    run = backend.run

    def spy(kernel: str, n: int, **values: object) -> None:
        run(kernel, n, **values)
        if kernel == "sdf_sign_links":
            runs["link"] = backend.to_host(values["link"])

    monkeypatch.setattr(backend, "run", spy)
    signed_distances(backend, WindingSigner(backend, mesh, bvh), tree, distance, slot)
    assert 0 < np.sum(runs["link"] == 0) < 0.2 * len(distance)


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
        found.append(device.to_host(index.winding(device, device.from_host(points), beta)))
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
            both.append(device.to_host(index.winding(device, device.from_host(points), beta)))
        assert both[0].tobytes() == both[1].tobytes()


@pytest.mark.parametrize("kind", ["star", "holed torus", "overlapping"])
@pytest.mark.parametrize("count", [0, 1, 33, 90])
def test_packets_of_points(warps: Backend, cpu: CpuBackend, kind: str, count: int) -> None:
    """Those that are asked for get their winding number, the others keep what they have."""
    rng = np.random.default_rng(count)
    mesh = make_mesh(*shapes.ANY[kind](rng))
    points = points_about(rng, mesh, 100)
    index = WindingIndex.of(warps, make_bvh(warps, mesh.unit_triangles))
    order = rng.permutation(100)[: max(count, 1)]
    winding = warps.from_host(np.full(100, 7), np.float32)
    warps.run(
        "sdf_winding_packet",
        32,
        triangles=len(index.bvh.order),
        count=warps.from_host([count], np.uint32),
        order=warps.from_host(order, np.uint32),
        points=warps.from_host(points),
        triangle=index.bvh.order.triangle,
        child=index.bvh.child,
        moments=index.moments,
        beta=BETA,
        winding=winding,
    )
    plain = WindingIndex.of(cpu, make_bvh(cpu, mesh.unit_triangles)).winding(cpu, points, BETA)
    expected = np.full(100, 7, np.float32)
    expected[order[:count]] = plain[order[:count]]
    assert warps.to_host(winding).tobytes() == expected.tobytes()
