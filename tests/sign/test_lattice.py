"""Winding numbers by counted crossings, against the solid angles of all triangles in float64."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import shapes
from sdfcli.backend import Backend
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.sign.caps import Caps, cap_triangles
from sdfcli.spatial import lattice
from sdfcli.spatial.lattice import WindingLattice
from sdfcli.spatial.moments import WindingIndex
from sdfcli.spatial.morton import curve_order
from trees import make_bvh, nearest

backend, warps = backends.backend, backends.warps

Numbers = oracle.Numbers

OFFSET = np.array([0.54742431640625, 0.46514892578125, 0.51409912109375])
"""Of the first node, in spacings."""


def make_lattice(backend: Backend, mesh: Mesh, side: int) -> WindingLattice:
    index = WindingIndex.of(backend, make_bvh(backend, mesh.unit_triangles), boxes=True)
    caps = Caps.of(backend, mesh)
    with mock.patch.object(lattice, "SIDE", side):
        return WindingLattice.of(index, caps and caps.index, caps and caps.groups)


def surface(mesh: Mesh) -> Numbers:
    """Triangles (n, 3, 3) and caps, rounded as kernels see them."""
    both = np.concatenate([mesh.unit_triangles, cap_triangles(mesh)])
    return both.reshape(-1, 3, 3).astype(np.float32).astype(np.float64)


def nodes(side: int) -> Numbers:
    z, y, x = np.meshgrid(*[np.arange(side)] * 3, indexing="ij")
    return ((np.stack([x, y, z], axis=-1).reshape(-1, 3) + OFFSET) / side).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1), side=st.sampled_from([1, 2, 4, 8]))
def test_numbers_at_nodes(backend: Backend, kind: str, seed: int, side: int) -> None:
    mesh = make_mesh(*shapes.ANY[kind](np.random.default_rng(seed)))
    found = backend.to_host(make_lattice(backend, mesh, side).number).astype(int)
    triangles, at = surface(mesh), nodes(side)
    winding = oracle.winding(at, triangles)
    clear = (oracle.distance(at, triangles) > 1e-6) & (np.abs(winding) < 100)
    assert np.all((found[clear] == 0) | (found[clear] == 128 + np.rint(winding[clear])))
    assert np.sum(found == 0) <= side * 2  # a column or two


def test_columns_through_edges_and_vertices_are_not_certain(backend: Backend) -> None:
    """A vertex, an edge and a vertical wall on columns: these are unknown, and all others right."""
    side = 8
    x, y = ((np.arange(side) + OFFSET[k]) / side for k in range(2))
    vertices, faces = shapes.icosphere(1)
    unit = 0.5 + 0.3 * vertices
    mesh = make_mesh(vertices, faces)
    unit[0, :2] = x[4], y[4]
    a, b = faces[np.all(faces != 0, axis=1)][0][:2]
    unit[a, :2], unit[b, :2] = (x[2], y[3]), (x[2], y[6])
    triangles = unit[faces].astype(np.float32)
    index = WindingIndex.of(backend, make_bvh(backend, triangles.reshape(-1, 9).astype(np.float64)), boxes=True)
    assert mesh.health.watertight
    with mock.patch.object(lattice, "SIDE", side):
        found = backend.to_host(WindingLattice.of(index, None, None).number).reshape(side, side, side).astype(int)
    unknown = {(int(i), int(j)) for j, i in np.argwhere((found == 0).all(axis=0))}
    assert {(4, 4), (2, 3), (2, 6)} <= unknown <= {(4, 4), *((2, j) for j in range(3, 7))}
    winding = np.rint(oracle.winding(nodes(side), triangles.astype(np.float64))).reshape(side, side, side)
    assert np.all((found == 0) | (found == 128 + winding))
    assert winding.any()


def test_nothing_is_known_where_a_surface_is_open(backend: Backend) -> None:
    mesh = make_mesh(*shapes.icosphere(2))
    index = WindingIndex.of(backend, make_bvh(backend, mesh.unit_triangles[1:]), boxes=True)
    number = backend.to_host(WindingLattice.of(index, None, None).number).reshape(lattice.SIDE, -1)
    lost = number == 0
    assert lost.any()
    assert np.all(lost == lost[0])  # whole columns
    whole = backend.to_host(make_lattice(backend, mesh, lattice.SIDE).number).reshape(lattice.SIDE, -1)
    assert np.all(lost | (number == whole))


def cloud(rng: np.random.Generator, triangles: Numbers, caps: Numbers, side: int) -> Numbers:
    """Points on and close to triangles, caps, edges, vertices and nodes, and far away."""
    parts = [rng.uniform(-0.2, 1.2, (40, 3)), nodes(side)[rng.integers(0, side**3, 20)], rng.normal(size=(5, 3)) * 1e6]
    for each in (triangles, caps):
        if len(each):
            some = each[rng.integers(0, len(each), 120)]
            share = rng.dirichlet((1, 1, 1), 120)
            share[:20], share[20:40] = [1, 0, 0], [0.5, 0.5, 0]
            on = np.einsum("nk,nkx->nx", share, some)
            parts.append(on + rng.normal(size=(120, 3)) * 10.0 ** -rng.uniform(0.5, 5, (120, 1)))
    return np.concatenate(parts).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1), side=st.sampled_from([2, 8, 32]))
def test_points(warps: Backend, kind: str, seed: int, side: int) -> None:
    rng = np.random.default_rng(seed)
    mesh = make_mesh(*shapes.ANY[kind](rng))
    bvh, grid = make_bvh(warps, mesh.unit_triangles), make_lattice(warps, mesh, side)
    triangles = warps.to_host(bvh.order.triangle).reshape(-1, 3, 3).astype(np.float64)
    points = cloud(rng, triangles, surface(mesh)[len(triangles) :], side)
    at = warps.from_host(points)
    at = at[curve_order(warps, at)]
    points = warps.to_host(at)
    clear = oracle.distance(points, triangles) > 1e-6 * (1 + np.abs(points).max(axis=1))
    winding = oracle.winding(points, triangles)
    clear &= np.abs(winding - 0.5) > 1e-5
    found = warps.to_host(grid.winding(at, nearest(warps, bvh, at)[0]))
    assert np.array_equal(found[clear] > 0.5, winding[clear] > 0.5)
    # Whatever the points beside: those that are on the surface, too.
    few = warps.xp.ascontiguousarray(at[::7])
    assert np.array_equal(warps.to_host(grid.winding(few, nearest(warps, bvh, few)[0])) > 0.5, found[::7] > 0.5)


@pytest.mark.parametrize("count", [1, 255, 257, 1000])
def test_few_points_have_to_be_summed_up(warps: Backend, count: int) -> None:
    rng = np.random.default_rng(count)
    mesh = make_mesh(*shapes.star(rng, 3))
    bvh, grid = make_bvh(warps, mesh.unit_triangles), make_lattice(warps, mesh, 16)
    on = mesh.unit_triangles.reshape(-1, 3, 3)[rng.integers(0, len(mesh.faces), count)].mean(axis=1)
    at = warps.from_host(on + 1e-3 * rng.normal(size=on.shape), np.float32)
    with mock.patch.object(lattice, "winding_by_warps") as summed:
        grid.winding(at, nearest(warps, bvh, at)[0])
    assert int(summed.call_args[0][4][1][0]) == 0
