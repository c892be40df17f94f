"""The exact reference against brute force: rational arithmetic for distances, all solid angles for winding numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sdfcli.backend import select_backend
from sdfcli.quality import reference as exact
from sdfcli.quality.reference import ExactReference

BACKEND = select_backend("cpu")
Numbers = npt.NDArray[Any]

# ---- Oracles ----


def rational(values: Numbers) -> Numbers:
    return np.array([Fraction(float(v)) for v in values.ravel()], object).reshape(values.shape)


def dot(a: Numbers, b: Numbers) -> Numbers:
    return (a * b).sum(axis=-1)


def cross(a: Numbers, b: Numbers) -> Numbers:
    x, y, z = (a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1)))
    return np.stack((x, y, z), axis=-1)


def brute_distance(points: Numbers, triangles: Numbers) -> Numbers:
    """The least over all triangles; each is its three edges, and its plane where the three edges see the point inside.

    Without any rounding before the square root for rationals.
    """
    a, b, c = (triangles[None, :, k] - points[:, None] for k in range(3))
    edges = [(a, b), (b, c), (c, a)]
    candidates = []
    for start, end in edges:
        e = end - start
        length_sq = dot(e, e)
        t = np.clip(-dot(start, e) / np.where(length_sq > 0, length_sq, 1), 0, 1)
        r = start + t[..., None] * e
        candidates.append(dot(r, r))
    n = cross(b - a, c - a)
    n_sq = dot(n, n)
    face = n_sq > 0
    for start, end in edges:
        face &= dot(n, cross(start, end)) >= 0
    height = dot(n, a)
    candidates.append(np.where(face, height * height / np.where(face, n_sq, 1), candidates[0]))
    return np.sqrt(np.min(candidates, axis=(0, 2)).astype(np.longdouble)).astype(np.float64)


def brute_winding(points: Numbers, triangles: Numbers) -> Numbers:
    """The sum of all solid angles (van Oosterom, Strackee 1983), over 4 pi."""
    a, b, c = (triangles[None, :, k].astype(np.longdouble) - points[:, None] for k in range(3))
    la, lb, lc = (np.sqrt(dot(v, v)) for v in (a, b, c))
    angle = 2 * np.arctan2(dot(a, cross(b, c)), la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb)
    return (angle.sum(axis=1) / (4 * np.longdouble(np.pi))).astype(np.float64)


# ---- Meshes ----


def soup(rng: np.random.Generator, triangles: int, size: float) -> tuple[Numbers, Numbers]:
    corners = rng.random((triangles, 1, 3)) + size * rng.normal(size=(triangles, 3, 3))
    return corners.reshape(-1, 3), np.arange(3 * triangles).reshape(-1, 3)


def torus(rng: np.random.Generator, around: int, across: int) -> tuple[Numbers, Numbers]:
    """A torus of 2 x around x across triangles, closed, facing outwards, with a rough surface."""
    u, v = np.meshgrid(np.arange(around) * 2 * np.pi / around, np.arange(across) * 2 * np.pi / across, indexing="ij")
    radius = 0.4 + 0.05 * rng.random(u.shape)
    ring = 1 + radius * np.cos(v)
    vertices = np.stack((ring * np.cos(u), ring * np.sin(u), radius * np.sin(v)), axis=-1).reshape(-1, 3)
    i, j = (k.ravel() for k in np.indices((around, across)))
    here, right = i * across + j, (i + 1) % around * across + j
    up, both = i * across + (j + 1) % across, (i + 1) % around * across + (j + 1) % across
    return vertices, np.concatenate((np.stack((here, right, both), 1), np.stack((here, both, up), 1)))


def cube(cuts: int = 1) -> tuple[Numbers, Numbers]:
    """The cube from -1 to 1, its sides cut into cuts x cuts squares, two triangles each."""
    steps = np.arange(cuts + 1)
    lattice = np.array([[x, y, z] for z in steps for y in steps for x in steps])
    strides = np.array([1, cuts + 1, (cuts + 1) ** 2])
    faces = []
    for axis in range(3):
        right, up = strides[(axis + 1) % 3], strides[(axis + 2) % 3]
        for side, (first, second) in ((0, (up, right)), (cuts, (right, up))):
            at = np.flatnonzero((lattice[:, axis] == side) & (np.delete(lattice, axis, axis=1) < cuts).all(axis=1))
            faces += [np.stack((at, at + first, at + right + up), 1), np.stack((at, at + right + up, at + second), 1)]
    return 2 * lattice / cuts - 1, np.concatenate(faces)


def tetrahedra(vertices: Numbers, cells: Numbers) -> Numbers:
    """The faces of tetrahedra: a closed surface, however they overlap or are turned inside out."""
    return np.concatenate([cells[:, f] for f in ((0, 2, 1), (0, 1, 3), (1, 2, 3), (2, 0, 3))])


scales = st.sampled_from([1.0, 1e9, 1e-9, 3.7e-3])
offsets = st.sampled_from([0.0, 1.0, 1e6])


def lattice_points(least: int, most: int, reach: int, step: float) -> st.SearchStrategy[Numbers]:
    point = st.tuples(*[st.integers(-reach, reach)] * 3)
    return st.lists(point, min_size=least, max_size=most).map(lambda p: step * np.array(p))


corners = lattice_points(8, 8, 3, 1.0)
queries = lattice_points(1, 12, 9, 0.5)


def index_rows(width: int, below: int, most: int) -> st.SearchStrategy[Numbers]:
    rows = st.lists(st.tuples(*[st.integers(0, below - 1)] * width), min_size=1, max_size=most)
    return rows.map(lambda r: np.array(r).reshape(-1, width))


# ---- Distance ----


def extent_of(triangles: Numbers) -> float:
    return float(np.ptp(triangles.reshape(-1, 3), axis=0).max())


@settings(max_examples=150, deadline=None)
@given(corners, index_rows(3, 8, 12), queries, scales, offsets)
def test_distance_of_degenerate_duplicate_and_scaled_triangles(
    vertices: Numbers, faces: Numbers, points: Numbers, scale: float, offset: float
) -> None:
    # Few lattice points and faces of any three of them: segments, points, coplanar and equal faces all are common.
    vertices, points = scale * (vertices + offset), scale * (points + offset)
    expected = brute_distance(rational(points), rational(vertices[faces]))
    found = ExactReference(vertices, faces, BACKEND).distance(points)
    assert np.all(np.abs(found - expected) <= 2e-15 * (extent_of(vertices[faces]) + expected))


@pytest.mark.parametrize("thickness", [10.0**-k for k in range(17)])
@pytest.mark.parametrize("shape", ["needle", "cap"])
def test_distance_of_slivers(thickness: float, shape: str) -> None:
    rng = np.random.default_rng(7)
    for _ in range(10):
        axes, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        tip = rng.random() if shape == "cap" else rng.normal() * thickness
        triangle = np.roll([[0, 0, 0], [1, 0, 0], [tip, thickness * rng.random(), 0]], rng.integers(3), axis=0) @ axes.T
        heights = rng.normal(size=(12, 1)) * 10.0 ** -rng.integers(0, 17, (12, 1))
        aside = rng.normal(size=(12, 3)) * 10.0 ** -rng.integers(0, 17, (12, 1))
        points = (
            rng.dirichlet((1, 1, 1), 12) @ triangle
            + heights * axes[:, 2]
            + np.where(rng.random((12, 1)) < 0.5, aside, 0)
        )
        expected = brute_distance(rational(points), rational(triangle[None]))
        found = ExactReference(triangle, [[0, 1, 2]], BACKEND).distance(points)
        # The face of a triangle thinner than 1e-10 of its length is left out, see verify/exact.h.
        allowed = 2e-15 if thickness >= 1e-8 else 1e-10
        assert np.all(np.abs(found - expected) <= allowed * (1 + expected))


@pytest.mark.parametrize("triangles", [1, 2, 7, 8, 9, 16, 17, 100, 1000, 3001])
def test_distance_of_soups(triangles: int) -> None:
    rng = np.random.default_rng(triangles)
    vertices, faces = soup(rng, triangles, 0.05)
    points = np.concatenate(
        (rng.random((60, 3)), 1e4 * rng.normal(size=(20, 3)), vertices[rng.integers(len(vertices), size=20)])
    )
    expected = brute_distance(points.astype(np.longdouble), vertices[faces].astype(np.longdouble))
    found = ExactReference(vertices, faces, BACKEND).distance(points)
    assert np.all(np.abs(found - expected) <= 2e-15 * (extent_of(vertices[faces]) + expected))


def test_distance_of_equal_triangles() -> None:
    # No median splits them; all boxes are equal.
    faces = np.tile([0, 1, 2], (1000, 1))
    reference = ExactReference([[0, 0, 0], [4, 0, 0], [0, 3, 0]], faces, BACKEND)
    assert reference.distance([[1, 1, 2], [-3, -4, 0], [0, 0, 0]]).tolist() == [2.0, 5.0, 0.0]


def test_distance_of_a_mesh_that_is_one_point() -> None:
    reference = ExactReference([[5e8, 1, 2]], [[0, 0, 0]], BACKEND)
    assert reference.distance([[5e8 + 3, 5, 2], [5e8, 1, 2]]).tolist() == [5.0, 0.0]
    assert reference.winding([[5e8 + 3, 5, 2]]).tolist() == [0.0]


def test_unused_vertices_do_not_count() -> None:
    vertices, faces = cube()
    reference = ExactReference(np.concatenate((vertices, [[1e30, 0, 0]])), faces, BACKEND)
    assert reference.signed_distance([[0.5, 0.25, 0], [3, 0, 0]]).tolist() == [-0.5, 2.0]


# ---- Winding number ----


def off_surface(points: Numbers, triangles: Numbers, margin: float) -> Numbers:
    return points[brute_distance(points, triangles) > margin * extent_of(triangles)]


def check_winding(vertices: Numbers, faces: Numbers, points: Numbers) -> Numbers:
    """Compares with brute force, away from the surface: at an open edge the solid angles are ill-conditioned."""
    points = off_surface(points, vertices[faces], 1e-3)
    assert len(points) > 0
    found = ExactReference(vertices, faces, BACKEND).winding(points)
    assert np.all(np.abs(found - brute_winding(points, vertices[faces])) <= 1e-13 * len(faces))
    return found


@settings(max_examples=150, deadline=None)
@given(corners, index_rows(4, 8, 5), queries, scales, offsets)
def test_winding_of_closed_chains_is_a_whole_number(
    vertices: Numbers, cells: Numbers, points: Numbers, scale: float, offset: float
) -> None:
    faces = tetrahedra(vertices, cells)
    vertices, points = scale * (vertices + offset), scale * (points + offset)
    assume(extent_of(vertices[faces]) > 0 and len(off_surface(points, vertices[faces], 1e-3)) > 0)
    found = check_winding(vertices, faces, points)
    assert np.array_equal(found, np.rint(found))


@settings(max_examples=150, deadline=None)
@given(corners, index_rows(3, 8, 12), queries, scales, offsets)
def test_winding_of_any_faces(vertices: Numbers, faces: Numbers, points: Numbers, scale: float, offset: float) -> None:
    vertices, points = scale * (vertices + offset), scale * (points + offset)
    assume(extent_of(vertices[faces]) > 0 and len(off_surface(points, vertices[faces], 1e-3)) > 0)
    check_winding(vertices, faces, points)


@pytest.mark.parametrize("damage", ["none", "deleted", "flipped", "duplicated", "all"])
def test_winding_of_a_damaged_torus(damage: str) -> None:
    rng = np.random.default_rng(11)
    vertices, faces = torus(rng, 40, 20)
    chosen = rng.permutation(len(faces))
    if damage in ("flipped", "all"):
        faces[chosen[:30]] = faces[chosen[:30], ::-1]
    if damage in ("duplicated", "all"):
        faces = np.concatenate((faces, faces[chosen[20:60]]))
    if damage in ("deleted", "all"):
        faces = np.delete(faces, chosen[-50:], axis=0)
    points = 1.6 * (2 * rng.random((400, 3)) - 1) * [1, 1, 0.4]
    found = check_winding(vertices, faces, points)
    if damage == "none":
        assert sorted(set(found)) == [0.0, 1.0]
    else:
        assert np.any(found != np.rint(found))


def test_winding_of_a_soup() -> None:
    rng = np.random.default_rng(12)
    check_winding(*soup(rng, 200, 0.3), rng.random((200, 3)))


def test_winding_of_triangles_without_shared_vertices() -> None:
    # As STL files have them: the equal positions must close the surface.
    vertices, faces = cube()
    reference = ExactReference(vertices[faces].reshape(-1, 3), np.arange(36).reshape(12, 3), BACKEND)
    assert reference.winding([[0.1, 0.2, 0.3], [2, 0, 0]]).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("cuts", [1, 4, 16])
def test_winding_at_symmetric_points(cuts: int) -> None:
    # Lattice points in and around a cube: in the planes of its sides and of the boxes of its tree.
    vertices, faces = cube(cuts)
    steps = np.linspace(-2, 2, 17)
    points = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(-1, 3)
    reach = np.abs(points).max(axis=1)
    points, reach = points[reach != 1], reach[reach != 1]
    assert np.array_equal(ExactReference(vertices, faces, BACKEND).winding(points), (reach < 1).astype(np.float64))
    opened = ExactReference(vertices, faces[: -2 * cuts**2], BACKEND).winding([[0, 0, 0]])
    assert abs(opened[0] - 5 / 6) <= 1e-14


RAYS = exact.ray_directions()


def test_rays_lie_in_different_octants() -> None:
    assert np.allclose(np.linalg.norm(RAYS, axis=1), 1, rtol=0, atol=1e-15)
    assert len({tuple(np.sign(ray)) for ray in RAYS}) == 8
    assert np.all(np.abs(RAYS) > 0.4)


@pytest.mark.parametrize("far", [0.0, 3.0, 1e6])
@pytest.mark.parametrize("free", range(8))
def test_winding_where_rays_hit_corners(free: int, far: float) -> None:
    # From the middle, all rays but one hit a corner of the surface. The thirteenth triangle is a point, and asks for a
    # filler: neither may stop a ray.
    rng = np.random.default_rng(16)
    octant = (RAYS > 0) @ [1, 2, 4]
    blocked = np.arange(8) != free
    for _ in range(20):
        vertices, faces = cube()
        vertices[octant[blocked]] = rng.uniform(1, 2, (7, 1)) * RAYS[blocked]
        reference = ExactReference(vertices + far, np.concatenate((faces, [[0, 0, 0]])), BACKEND)
        assert reference.winding([[far, far, far]]).tolist() == [1.0]


@pytest.mark.parametrize("aside", [0.0, 1e-15, 1e-13, 1e-11, 1e-9, 1e-7])
def test_winding_where_a_ray_passes_by_a_corner_of_the_boundary(aside: float) -> None:
    # There the angles of the fans at that corner are large, opposite, and at the mercy of rounding.
    rng = np.random.default_rng(15)
    vertices, faces = torus(rng, 12, 8)
    faces = faces[rng.permutation(len(faces))[:150]]
    points = vertices - rng.uniform(0.5, 1, (len(vertices), 1)) * RAYS[0] + aside * rng.normal(size=vertices.shape)
    points = off_surface(points, vertices[faces], 1e-2)
    found = ExactReference(vertices, faces, BACKEND).winding(points)
    assert np.all(np.abs(found - brute_winding(points, vertices[faces])) <= 1e-11)


@pytest.mark.parametrize("ray", RAYS)
def test_winding_where_a_ray_hits_an_edge(ray: Numbers) -> None:
    rng = np.random.default_rng(13)
    for _ in range(50):
        aside = rng.normal(size=(2, 3))
        vertices = np.array([ray + aside[0], ray - aside[0], -ray + aside[1], -ray - aside[1]])
        faces = tetrahedra(vertices, np.array([[0, 1, 2, 3]]))
        origin = np.zeros((1, 3))
        expected = brute_winding(origin, vertices[faces]).round()
        assert ExactReference(vertices, faces, BACKEND).winding(origin) == expected != 0


def test_points_on_the_surface() -> None:
    # Whichever side they are given, the distance is zero and the winding number that of one side or the other.
    vertices, faces = cube()
    triangles = vertices[faces]
    points = np.concatenate((vertices, (triangles[:, 0] + triangles[:, 1]) / 2, triangles.mean(axis=1)))
    reference = ExactReference(vertices, faces, BACKEND)
    assert np.all(reference.distance(points) <= 1e-15)
    assert set(reference.winding(points)) <= {0.0, 1.0}


# ---- The boundary, and the interface ----


def boundary(faces: npt.ArrayLike) -> dict[tuple[int, int], int]:
    edges, multiplicity = exact.open_edges(np.asarray(faces, np.int64))
    return {(int(a), int(b)): int(m) for (a, b), m in zip(edges, multiplicity, strict=True)}


def test_open_edges() -> None:
    assert boundary([[0, 1, 2]]) == {(0, 1): 1, (1, 2): 1, (2, 0): 1}
    assert boundary([[0, 1, 2], [2, 1, 3]]) == {(0, 1): 1, (1, 3): 1, (3, 2): 1, (2, 0): 1}
    assert boundary([[0, 1, 2], [1, 2, 3]]) == {(0, 1): 1, (1, 2): 2, (2, 0): 1, (2, 3): 1, (3, 1): 1}
    assert boundary([[0, 1, 1], [2, 2, 2]]) == {}
    _, faces = cube()
    assert boundary(faces) == {}
    assert boundary(np.concatenate((faces, faces[:1]))) == boundary(faces[:1])


def test_signed_distance_in_chunks_with_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "CHUNK", 100)
    rng = np.random.default_rng(14)
    vertices, faces = torus(rng, 30, 15)
    faces = faces[: len(faces) * 2 // 3]
    points = 1.6 * (2 * rng.random((250, 3)) - 1) * [1, 1, 0.4]
    reference = ExactReference(vertices, faces, BACKEND)
    steps: list[tuple[int, int]] = []
    found = reference.signed_distance(points, lambda done, total: steps.append((done, total)))
    assert steps == [(100, 250), (200, 250), (250, 250)]
    winding = brute_winding(points, vertices[faces])
    inside = winding > 0.5
    assert np.any((winding > 0.1) & ~inside)
    assert np.any(inside & (winding < 0.9))
    assert np.array_equal(found < 0, inside)
    assert np.array_equal(np.abs(found), reference.distance(points))


def test_no_points() -> None:
    reference = ExactReference(*cube(), BACKEND)
    assert reference.signed_distance(np.zeros((0, 3))).shape == (0,)


@pytest.mark.parametrize("points", [np.zeros(3), np.zeros((2, 2)), np.full((1, 3), np.nan), np.full((1, 3), np.inf)])
def test_unusable_points(points: Numbers) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        ExactReference(*cube(), BACKEND).distance(points)


@pytest.mark.parametrize(
    ("vertices", "faces"), [((0, 3), (0, 3)), ((3, 3), (0, 3)), ((3, 2), (1, 3)), ((3, 3), (1, 4))]
)
def test_unusable_meshes(vertices: tuple[int, int], faces: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        ExactReference(np.zeros(vertices), np.zeros(faces, np.int64), BACKEND)
