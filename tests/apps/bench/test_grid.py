"""Uniform grids: exact distances, the nodes near a surface, signs handed on along rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import shapes
from sdfcli.apps.bench import grid
from sdfcli.apps.bench.grid import exact_distances, give_signs, nodes_near, positions, side_of
from sdfcli.backend import Array, Backend
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.sign.choice import make_signer
from sdfcli.sign.pseudonormal import PseudonormalSigner
from sdfcli.sign.signer import NoSigner, Signer
from sdfcli.spatial.radix_tree import Bvh
from trees import index_of, make_bvh, nearest

backend = backends.backend

ULP = 2.0**-24

Numbers = oracle.Numbers


def mesh_of(kind: str, seed: int = 1) -> Mesh:
    return make_mesh(*shapes.ANY[kind](np.random.default_rng(seed)))


def bvh_of(backend: Backend, mesh: Mesh) -> Bvh:
    return make_bvh(backend, mesh.unit_triangles)


def all_nodes(backend: Backend, depth: int) -> Array:
    return positions(backend, depth, backend.xp.arange(side_of(depth) ** 3))


def lattice(depth: int) -> Numbers:
    """The nodes' positions in float64, x fastest."""
    along = np.linspace(0, 1, 2**depth + 1)
    return np.stack(np.meshgrid(along, along, along, indexing="ij"), axis=-1).reshape(-1, 3)[:, ::-1]


# ---- Distances ----


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_positions(backend: Backend, depth: int) -> None:
    at = backend.to_host(all_nodes(backend, depth))
    assert at.dtype == np.float32
    assert np.array_equal(at, lattice(depth))


def test_positions_of_the_largest_grid(backend: Backend) -> None:
    node = np.array([0, 1024, 1025, 1025**2, 1025**3 - 1])  # three times the last one is beyond 32 bits
    at = backend.to_host(positions(backend, 10, backend.from_host(node)))
    assert at.tolist() == [[0, 0, 0], [1, 0, 0], [0, 2.0**-10, 0], [0, 0, 2.0**-10], [1, 1, 1]]


@pytest.mark.parametrize("chunk", [1, 100, 300, 1 << 16])
@pytest.mark.parametrize("kind", ["star", "zoo", "one"])
def test_exact_distances(backend: Backend, monkeypatch: pytest.MonkeyPatch, kind: str, chunk: int) -> None:
    monkeypatch.setattr(grid, "CHUNK", chunk)  # one plane at a time, several with a remainder, all
    bvh = bvh_of(backend, mesh_of(kind))
    found = backend.to_host(exact_distances(backend, index_of(backend, bvh), 3))
    assert found.dtype == np.float32
    assert np.array_equal(found, backend.to_host(nearest(backend, bvh, all_nodes(backend, 3))[0]))
    if kind == "star":
        true = oracle.distance(lattice(3), backend.to_host(bvh.order.triangle).reshape(-1, 3, 3))
        assert (np.abs(found - true) <= 6 * ULP * (1 + true)).all()


# ---- Nodes near a surface ----


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(sorted(shapes.ANY)),
    seed=st.integers(0, 2**32 - 1),
    depth=st.integers(1, 4),
    reach=st.sampled_from([0.0, 0.01, 0.0625, 0.1, 0.3, 2.0]),
)
def test_nodes_near(backend: Backend, kind: str, seed: int, depth: int, reach: float) -> None:
    bvh = bvh_of(backend, mesh_of(kind, seed))
    distance, slot = (backend.to_host(a) for a in nearest(backend, bvh, all_nodes(backend, depth)))
    near = nodes_near(backend, index_of(backend, bvh), depth, reach)
    node = backend.to_host(near.node)
    assert np.array_equal(np.sort(node), np.flatnonzero(distance <= np.float32(reach)))
    assert np.array_equal(backend.to_host(near.distance), distance[node])
    assert np.array_equal(backend.to_host(near.slot), slot[node])
    assert near.queries >= len(node)


@pytest.mark.parametrize("size", [0.9, 0.03, 1e-5])
def test_the_work_goes_with_the_surface(backend: Backend, size: float) -> None:
    # A cube and a grid of 65^3 nodes: from 17,000 of them near it to the eight that lie around a tiny one.
    cube = shapes.triangles(shapes.moved(shapes.cube(), size / 2, 0.5078125)).reshape(-1, 9)
    bvh = make_bvh(backend, cube)
    near = nodes_near(backend, index_of(backend, bvh), 6, 2.0**-6)
    assert len(near.node) > 0
    assert near.queries < 4 * len(near.node) + 7 * 64


# ---- Signs ----


class Recorded(PseudonormalSigner):
    """A signer that counts the points it is asked about."""

    asked = 0

    def inside(self, points: Array, slot: Array) -> Array:
        self.asked += len(points)
        return super().inside(points, slot)


def signed(backend: Backend, bvh: Bvh, signer: Signer, depth: int, distance: Numbers) -> Numbers:
    on_device = backend.from_host(distance.copy())
    give_signs(backend, index_of(backend, bvh), signer, depth, on_device)
    return backend.to_host(on_device)


def check_signs(backend: Backend, mesh: Mesh, method: str, depth: int, rng: np.random.Generator) -> None:
    """Every node has the sign that the signer gives it, from exact distances and from too large ones."""
    bvh = bvh_of(backend, mesh)
    signer = make_signer(backend, mesh, bvh, method)
    at = all_nodes(backend, depth)
    distance, slot = nearest(backend, bvh, at)
    inside = backend.to_host(signer.inside(at, slot)).astype(bool)
    exact = backend.to_host(distance)
    larger = np.where(exact > 0.5**depth, exact * rng.uniform(1, 2, exact.shape), exact).astype(np.float32)
    for unsigned in (exact, larger):
        found = signed(backend, bvh, signer, depth, unsigned)
        assert np.array_equal(np.abs(found), unsigned)
        assert np.array_equal(np.signbit(found), inside)


@settings(max_examples=30, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.CLOSED)), seed=st.integers(0, 2**32 - 1), depth=st.integers(1, 4))
def test_signs_of_closed_surfaces(backend: Backend, kind: str, seed: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    mesh = make_mesh(*shapes.moved(shapes.CLOSED[kind](rng), turn=shapes.turn(rng)))
    for method in ("pseudonormal", "winding"):
        check_signs(backend, mesh, method, depth, rng)


@settings(max_examples=30, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1), depth=st.integers(1, 4))
def test_signs_of_anything(backend: Backend, kind: str, seed: int, depth: int) -> None:
    check_signs(backend, mesh_of(kind, seed), "winding", depth, np.random.default_rng(seed))


@pytest.mark.parametrize("tilt", [0.0, 1e-3])
def test_signs_across_walls(backend: Backend, tilt: float) -> None:
    # Walls at right angles to the rows: the distances of the nodes on either side add up to the spacing, but for
    # rounding, which there is more of where the walls are a little tilted.
    rng = np.random.default_rng(1)
    wall = np.sort(rng.permutation(60)[:40] + rng.uniform(0.1, 0.9, 40)).reshape(-1, 2)
    vertices, faces = shapes.cube()
    slabs = [((vertices + 1) / 2 * [high - low, 50, 50] + [low, 0, 0], faces) for low, high in wall]
    turn = [[np.cos(tilt), -np.sin(tilt), 0], [np.sin(tilt), np.cos(tilt), 0], [0, 0, 1]]
    check_signs(backend, make_mesh(*shapes.moved(shapes.joined(*slabs), turn=turn)), "pseudonormal", 6, rng)


def test_the_side_of_the_cube_may_be_inside(backend: Backend) -> None:
    # Half a ball, three times the same: even far before its open side the winding number is above a half.
    vertices, faces = shapes.icosphere(2)
    half = faces[(vertices[faces][..., 0] > 0).any(axis=1)]
    mesh = make_mesh(vertices, np.concatenate((half, half, half)))
    bvh = bvh_of(backend, mesh)
    signer = make_signer(backend, mesh, bvh, "winding")
    found = signed(backend, bvh, signer, 4, backend.to_host(exact_distances(backend, index_of(backend, bvh), 4)))
    assert np.signbit(found.reshape(17, 17, 17)[..., 0]).any()
    check_signs(backend, mesh, "winding", 4, np.random.default_rng(0))


def test_signs_around_a_hole(backend: Backend) -> None:
    # Where the cap is, the sign changes far from the surface.
    vertices, faces = shapes.icosphere(3)
    open_ball = make_mesh(vertices, faces[(vertices[faces][..., 0] > -0.5).any(axis=1)])
    bvh = bvh_of(backend, open_ball)
    signer = make_signer(backend, open_ball, bvh, "winding")
    distance = backend.to_host(exact_distances(backend, index_of(backend, bvh), 5))
    found = signed(backend, bvh, signer, 5, distance).reshape(33, 33, 33)
    both = np.abs(found[..., 1:]) + np.abs(found[..., :-1]) > 0.5**5 * 1.01
    assert ((np.signbit(found[..., 1:]) != np.signbit(found[..., :-1])) & both).sum() > 50
    check_signs(backend, open_ball, "winding", 5, np.random.default_rng(0))


def test_the_signer_is_asked_where_it_has_to_be(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = make_mesh(*shapes.icosphere(3))
    bvh = bvh_of(backend, mesh)
    distance = backend.to_host(exact_distances(backend, index_of(backend, bvh), 6))
    answers = []
    for chunk in (1 << 22, 10_000):
        monkeypatch.setattr(grid, "SIGN_CHUNK", chunk)
        signer = Recorded(backend, mesh, bvh)
        answers.append(signed(backend, bvh, signer, 6, distance))
        # At most three nodes at each of the two places where a row meets the ball.
        assert 65**2 < signer.asked < 6 * 65**2 < 65**3 / 10
    assert np.array_equal(*answers)


def test_no_signs(backend: Backend) -> None:
    mesh = make_mesh(*shapes.cube())
    bvh = bvh_of(backend, mesh)
    distance = backend.to_host(exact_distances(backend, index_of(backend, bvh), 3))
    assert np.array_equal(signed(backend, bvh, NoSigner(backend), 3, distance), distance)
