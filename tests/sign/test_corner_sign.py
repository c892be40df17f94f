"""Signs at an octree's corners: the same as asking for each by itself."""

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
from sdfcli.octree.density import bvh_octree
from sdfcli.sign.choice import make_signer
from trees import make_bvh, nearest

backend = backends.backend
warps = backends.warps

Numbers = oracle.Numbers


def holed(rng: np.random.Generator) -> shapes.Shape:
    vertices, faces = shapes.torus(40, 16)
    return vertices, faces[rng.random(len(faces)) > 0.03]


def check_signs(backend: Backend, cpu: CpuBackend, mesh: Mesh, depth: int) -> None:
    """Signs are those that the CPU gives each corner by itself."""
    trees = [make_bvh(device, mesh.unit_triangles) for device in (backend, cpu)]
    tree = bvh_octree(backend, trees[0].order, depth)
    distance, slot = nearest(backend, trees[0], tree.position, query="cct")
    plain, position, nearest_slot = (backend.to_host(array).copy() for array in (distance, tree.position, slot))
    for method in ("none", "pseudonormal", "winding"):
        own, other = (make_signer(device, mesh, bvh, method) for device, bvh in zip((backend, cpu), trees, strict=True))
        inside = other.inside(position, nearest_slot)
        found = own.sign_corners(tree, backend.copied(distance), slot)
        assert np.array_equal(backend.to_host(found), np.where(inside, -plain, plain))
        assert np.array_equal(backend.to_host(own.inside(tree.position, slot)), inside)


@settings(max_examples=25, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1), depth=st.integers(1, 7))
def test_signs_of_any_mesh(backend: Backend, cpu: CpuBackend, kind: str, seed: int, depth: int) -> None:
    check_signs(backend, cpu, make_mesh(*shapes.ANY[kind](np.random.default_rng(seed))), depth)


@settings(max_examples=8, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1), depth=st.integers(1, 4))
def test_signs_of_any_mesh_by_warps(warps: Backend, cpu: CpuBackend, kind: str, seed: int, depth: int) -> None:
    check_signs(warps, cpu, make_mesh(*shapes.ANY[kind](np.random.default_rng(seed))), depth)


@pytest.mark.parametrize("depth", [1, 4])
def test_signs_of_surfaces_with_holes(backend: Backend, warps: Backend, cpu: CpuBackend, depth: int) -> None:
    mesh = make_mesh(*holed(np.random.default_rng(3)))
    for device in (backend, warps):
        check_signs(device, cpu, mesh, depth)


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
    make_signer(backend, mesh, bvh, "winding").sign_corners(tree, distance, slot)
    assert 0 < np.sum(runs["link"] == 0) < 0.2 * len(distance)
