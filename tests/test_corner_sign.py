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
from sdfcli.mesh import Mesh, make_mesh
from sdfcli.stages.bvh_octree import bvh_octree
from sdfcli.stages.corner_sign import signed_distances
from sdfcli.stages.distance import make_bvh, nearest
from sdfcli.stages.sign import NoSigner, PseudonormalSigner, WindingSigner

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
