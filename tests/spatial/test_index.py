"""Distances to the nearest triangle, by every query, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import shapes
from sdfcli.apps.bench.workload import VARIANTS
from sdfcli.backend import Backend
from sdfcli.mesh.load import make_mesh
from sdfcli.spatial.radix_tree import Bvh
from trees import make_bvh, nearest

backend = backends.backend

NONE = 0xFFFFFFFF
ULP = 2.0**-24

Numbers = oracle.Numbers


def bvh_over(backend: Backend, unit_triangles: Numbers) -> Bvh:
    """A tree over triangles (n, 3, 3) in the unit cube."""
    bvh = make_bvh(backend, np.reshape(unit_triangles, (-1, 9)))
    return bvh


def triangles_of(backend: Backend, bvh: Bvh) -> Numbers:
    """(n, 3, 3) float32, by slot: what distances are measured to."""
    return backend.to_host(bvh.order.triangle).reshape(-1, 3, 3)


def find(backend: Backend, bvh: Bvh, points: Numbers, seed: Numbers | None = None) -> tuple[Numbers, Numbers]:
    """Distances and slots, the same to the last bit by all queries."""
    at = backend.from_host(points.astype(np.float32))
    seeds = None if seed is None else backend.from_host(seed, np.uint32)
    distance, slot = (backend.to_host(a) for a in nearest(backend, bvh, at, seeds))
    for query in VARIANTS:
        others = (backend.to_host(a) for a in nearest(backend, bvh, at, seeds, query))
        assert np.array_equal(distance.view(np.uint32), next(others).view(np.uint32)), query
        assert np.array_equal(slot, next(others)), query
    return distance, slot


def narrow(triangles: Numbers) -> Numbers:
    """By how much the distance to each triangle may be too large, beside rounding: (n,).

    The foot on a triangle's face is found through its normal, of which rounding leaves nothing where the triangle is
    thinner than a thousandth of its length. What remains are its edges, which are right; and from no point of the
    triangle is it farther to an edge than half the triangle's height.
    """
    corner = triangles.astype(np.float64)
    sides = np.linalg.norm(np.roll(corner, -1, axis=1) - corner, axis=2).max(axis=1)
    area = np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
    height = area / np.where(sides > 0, sides, 1)
    return np.asarray(np.where(height < 1e-3 * sides, height / 2, 0))


def allowed(distance: Numbers) -> Numbers:
    """Six units in the last place of the lengths that go in: those of the unit cube, and the distance itself.

    A difference of two coordinates of the cube is right to one such unit. The foot of the perpendicular is a sum of two
    products of factors and edges, each off by as much; then come differences, squares and a root.
    """
    return np.asarray(6 * ULP * (1 + distance))


def check(backend: Backend, bvh: Bvh, points: Numbers, seed: Numbers | None = None) -> tuple[Numbers, Numbers]:
    """The distance is that of float64, and that to the triangle which is said to be the nearest."""
    points = points.astype(np.float32)
    triangles = triangles_of(backend, bvh)
    distance, slot = find(backend, bvh, points, seed)
    for part in np.array_split(np.arange(len(points)), max(1, len(points) * len(triangles) // 200_000)):
        true = oracle.distances(points[part], triangles)
        least, slack = true.min(axis=1), narrow(triangles)[true.argmin(axis=1)]
        assert (distance[part] >= least - allowed(least)).all()
        assert (distance[part] <= least + allowed(least) + slack).all()
        to_slot = true[np.arange(len(part)), slot[part]]
        assert (to_slot <= least + 2 * allowed(least) + slack).all()
    return distance, slot


def points_about(rng: np.random.Generator, triangles: Numbers, count: int) -> Numbers:
    """Points in the cube, on faces, edges and corners of random triangles, near these, and outside of the cube."""
    some = triangles[rng.integers(0, len(triangles), count)].astype(np.float64)
    weight = rng.dirichlet((1, 1, 1), count)
    kind = rng.integers(0, 3, count)
    weight[kind == 0, 0] = 0
    weight[kind == 1, :2] = 0
    weight /= weight.sum(axis=1, keepdims=True)
    on = np.einsum("nk,nkx->nx", weight, some)
    near = on + rng.normal(size=on.shape) * 10.0 ** -rng.uniform(1, 8, (count, 1))
    return np.concatenate((rng.random((count, 3)), on, near, rng.normal(0.5, 2, (count // 2, 3)))).astype(np.float32)


def random_seeds(rng: np.random.Generator, count: int, triangles: int) -> Numbers:
    """Rows of up to eight slots, at random, some equal, ended by NONE."""
    seed = rng.integers(0, triangles, (count, 8)).astype(np.uint32)
    seed[np.arange(8) >= rng.integers(0, 9, (count, 1))] = NONE
    repeat = rng.random(count) < 0.2
    seed[repeat, 1] = seed[repeat, 0]
    return seed


@settings(max_examples=50, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1))
def test_distances_of_meshes(backend: Backend, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh = make_mesh(*shapes.ANY[kind](rng))
    bvh = bvh_over(backend, mesh.unit_triangles)
    triangles = triangles_of(backend, bvh)
    points = points_about(rng, triangles, 40)
    plain = check(backend, bvh, points)
    # Seeds, however bad, change no bit of the answer.
    for seeds in (
        random_seeds(rng, len(points), len(triangles)),
        np.full((len(points), 8), NONE, np.uint32),
        np.full((len(points), 8), len(triangles) - 1, np.uint32),
    ):
        seeded = find(backend, bvh, points, seeds)
        assert np.array_equal(plain[0].view(np.uint32), seeded[0].view(np.uint32))
        assert np.array_equal(plain[1], seeded[1])


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9, 16, 17, 31, 32, 33, 256, 257, 2000])
def test_distances_of_any_number_of_triangles(backend: Backend, count: int) -> None:
    rng = np.random.default_rng(count)
    bvh = bvh_over(backend, rng.random((count, 1, 3)) * 0.9 + 0.1 * rng.random((count, 3, 3)))
    check(backend, bvh, points_about(rng, triangles_of(backend, bvh), 60))


@pytest.mark.parametrize("thickness", [1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 0.0])
@pytest.mark.parametrize("shape", ["needle", "cap"])
def test_distances_of_slivers(backend: Backend, thickness: float, shape: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(15):
        tip = rng.random() if shape == "cap" else thickness * rng.random()
        sliver = np.array([[0, 0, 0], [0.7, 0, 0], [0.7 * tip, 0.7 * thickness, 0]])
        sliver = np.roll(sliver, rng.integers(3), axis=0) @ shapes.turn(rng).T
        sliver += 0.5 - sliver.mean(axis=0)
        bvh = bvh_over(backend, sliver[None])
        check(backend, bvh, points_about(rng, triangles_of(backend, bvh), 60))


@pytest.mark.parametrize("seed", range(6))
def test_distances_of_needles_as_thin_as_rounding(backend: Backend, seed: int) -> None:
    """Two corners are a few floats apart, and what is left of the normal may point anywhere."""
    rng = np.random.default_rng(seed)
    base = (rng.random((30, 3)) * 10.0 ** -rng.uniform(0, 3, (30, 1))).astype(np.float32)
    beside = base + np.spacing(base) * rng.integers(-12, 13, (30, 3)).astype(np.float32)
    bvh = bvh_over(backend, np.stack([1 - base, base, beside], axis=1).astype(np.float64))
    check(backend, bvh, np.stack(np.meshgrid(*[np.arange(9) / 8] * 3), axis=-1).reshape(-1, 3))


def test_distances_on_a_lattice(backend: Backend) -> None:
    # Corners, edges, faces, and the regions between them, at distances that float32 has no trouble with.
    triangle = np.array([[[0.25, 0.25, 0.25], [0.75, 0.25, 0.25], [0.25, 0.75, 0.25]]])
    bvh = bvh_over(backend, triangle)
    points = {
        (0.25, 0.25, 0.25): 0.0,  # the corners
        (0.75, 0.25, 0.25): 0.0,
        (0.25, 0.75, 0.25): 0.0,
        (0.5, 0.25, 0.25): 0.0,  # the middles of the edges
        (0.25, 0.5, 0.25): 0.0,
        (0.5, 0.5, 0.25): 0.0,
        (0.375, 0.375, 0.25): 0.0,  # on the face
        (0.375, 0.375, 0.75): 0.5,  # over the face
        (0.375, 0.375, 0.0): 0.25,
        (0.5, 0.0, 0.25): 0.25,  # beside the edges
        (0.0, 0.5, 0.25): 0.25,
        (0.75, 0.75, 0.25): 0.125**0.5,
        (0.0, 0.0, 0.25): 0.125**0.5,  # beyond the corners
        (1.0, 0.0, 0.25): 0.125**0.5,
        (0.0, 1.0, 0.25): 0.125**0.5,
        (1.0, 0.25, 0.25): 0.25,
    }
    distance, _ = find(backend, bvh, np.array(list(points)))
    assert np.allclose(distance, list(points.values()), rtol=2 * ULP, atol=2 * ULP)


@pytest.mark.parametrize("degenerate", ["point", "segment", "line"])
def test_distances_of_degenerate_triangles_by_hand(backend: Backend, degenerate: str) -> None:
    corners = {
        "point": [[0.5, 0.5, 0.5]] * 3,
        "segment": [[0.5, 0.5, 0.5], [0.5, 0.5, 0.75], [0.5, 0.5, 0.5]],
        "line": [[0.5, 0.5, 0.625], [0.5, 0.5, 0.5], [0.5, 0.5, 0.75]],
    }[degenerate]
    end = 0.5 if degenerate == "point" else 0.75
    bvh = bvh_over(backend, np.array([corners]))
    points = np.array([[0.5, 0.5, 0.5], [0.5, 0.5, end], [0.875, 0.5, 0.5], [0.5, 0.5, end + 0.125], [0.5, 0.25, 0.0]])
    distance, slot = find(backend, bvh, points)
    assert distance.tolist() == [0.0, 0.0, 0.375, 0.125, np.float32(0.3125**0.5)]
    assert not slot.any()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), copies=st.integers(2, 40), kinds=st.integers(1, 10))
def test_of_equal_triangles_the_first_is_the_nearest(backend: Backend, seed: int, copies: int, kinds: int) -> None:
    rng = np.random.default_rng(seed)
    different = rng.random((kinds, 3, 3))
    number = rng.permutation(np.repeat(np.arange(kinds), copies))
    bvh = bvh_over(backend, different[number])
    triangles = triangles_of(backend, bvh)
    points = points_about(rng, triangles, 20)
    seeds = random_seeds(rng, len(points), len(triangles))
    face = backend.to_host(bvh.order.triangle_id)
    for given_seeds in (None, seeds):
        _, slot = check(backend, bvh, points, given_seeds)
        first = np.array([np.flatnonzero(number == k)[0] for k in range(kinds)])
        assert np.array_equal(face[slot], first[number[face[slot]]])


@pytest.mark.parametrize("first", [0, 1])
def test_of_triangles_at_the_same_distance_the_first_is_the_nearest(backend: Backend, first: int) -> None:
    # Two faces, one above the points and one below them, at a distance that is exact; and 98 others far away.
    corners = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    pair = [corners + np.array([0, 0, z]) for z in (0.25, 0.75)]
    rng = np.random.default_rng(3)
    others = 0.95 + 0.05 * rng.random((98, 3, 3))
    bvh = bvh_over(backend, np.array([pair[first], *others[:50], pair[1 - first], *others[50:]]))
    points = np.column_stack((0.4 * rng.random((50, 2)), np.full(50, 0.5)))
    distance, slot = find(backend, bvh, points)
    assert (distance == 0.25).all()
    assert not backend.to_host(bvh.order.triangle_id)[slot].any()


@pytest.mark.parametrize("far", [1e2, 1e6, 1e12, 1e18])
def test_distances_from_far_away(backend: Backend, far: float) -> None:
    rng = np.random.default_rng(4)
    mesh = make_mesh(*shapes.star(rng, 2))
    bvh = bvh_over(backend, mesh.unit_triangles)
    way = rng.normal(size=(100, 3))
    points = 0.5 + far * way / np.linalg.norm(way, axis=1, keepdims=True)
    check(backend, bvh, np.concatenate((points, far * np.eye(3), -far * np.eye(3))))


@pytest.mark.parametrize("count", [1, 15, 16, 17, 33])
def test_points_of_all_sizes_together(backend: Backend, count: int) -> None:
    rng = np.random.default_rng(count)
    triangles = np.concatenate((rng.random((40, 3, 3)), 1e-20 * rng.random((5, 3, 3)), np.full((5, 3, 3), 0.5)))
    bvh = bvh_over(backend, rng.permutation(triangles))
    points = rng.normal(size=(count, 3)) * 10.0 ** rng.integers(-40, 18, (count, 1))
    distance, slot = check(backend, bvh, points)
    for k in range(count):  # whatever the others are
        alone = find(backend, bvh, points[k : k + 1])
        assert (alone[0][0], alone[1][0]) == (distance[k], slot[k])


def test_no_points(backend: Backend) -> None:
    bvh = bvh_over(backend, np.random.default_rng(5).random((3, 3, 3)))
    distance, slot = find(backend, bvh, np.zeros((0, 3)))
    assert distance.shape == slot.shape == (0,)
