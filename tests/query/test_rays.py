"""Rays against a mesh, against all triangles in rational arithmetic."""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
import pytest

import backends
import oracle
import sdfcli
import shapes
from sdfcli import MeshDistance
from sdfcli.backend import Backend
from sdfcli.errors import InputError

backend = backends.backend
Numbers = oracle.Numbers
Vector = list[Fraction]

SHIFT = Fraction(1, 10**400)
"""Smaller than any difference of products that these numbers can have."""


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(os.urandom(8)))


def minus(a: Vector, b: Vector) -> Vector:
    return [x - y for x, y in zip(a, b, strict=True)]


def cross(a: Vector, b: Vector) -> Vector:
    return [a[k - 2] * b[k - 1] - a[k - 1] * b[k - 2] for k in range(3)]


def dot(a: Vector, b: Vector) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def crossings(origin: Numbers, way: Numbers, triangles: Numbers) -> list[tuple[Fraction, int]]:
    """Ray parameters and numbers of the triangles on a ray, by solving for each triangle's plane: of the ray shifted by
    a tiny number along one axis and its square along another, but with the parameter of the ray as it is."""
    p, d = ([Fraction(float(x)) for x in each] for each in (origin, way))
    most = max(range(3), key=lambda k: (abs(d[k]), -k))
    shifted = list(p)
    shifted[(most + 1) % 3] += SHIFT
    shifted[(most + 2) % 3] += SHIFT**2
    found = []
    for number, corners in enumerate(triangles):
        a, b, c = ([Fraction(float(x)) for x in corner] for corner in corners)
        ab, ac = minus(b, a), minus(c, a)
        normal = cross(ab, ac)
        slope = dot(normal, d)
        if slope == 0:
            continue
        t = dot(normal, minus(a, shifted)) / slope
        place = minus([x + t * y for x, y in zip(shifted, d, strict=True)], a)
        squared = dot(normal, normal)
        v, w = dot(cross(place, ac), normal) / squared, dot(cross(ab, place), normal) / squared
        t = dot(normal, minus(a, p)) / slope
        if v > 0 and w > 0 and v + w < 1 and t >= 0:
            found.append((t, number))
    return sorted(found)


def compare(backend: Backend, shape: shapes.Shape, origins: Numbers, ways: Numbers) -> None:
    mesh, triangles = MeshDistance(shape, "none", backend.name), shapes.triangles(shape)
    counts, hits = mesh.count_hits(origins, ways), mesh.cast(origins, ways)
    assert (counts.dtype, hits.face.dtype, hits.t.dtype) == (np.int64, np.int64, np.float64)
    size = np.ptp(shape[0], axis=0).max() + np.abs(origins).max()
    for k, (origin, way) in enumerate(zip(origins, ways, strict=True)):
        right = crossings(origin, way, triangles)
        assert counts[k] == len(right)
        assert (hits.face[k] < 0) == (hits.part[k] < 0) == np.isinf(hits.t[k]) == (not right)
        if not right:
            continue
        allowed = 1e-13 * size / np.linalg.norm(way) * max(1.0, 1e-3 / steepness(triangles[hits.face[k]], way))
        assert abs(hits.t[k] - float(right[0][0])) <= allowed
        assert abs(float({n: t for t, n in right}[hits.face[k]] - right[0][0])) <= 2 * allowed
        a, b, c = triangles[hits.face[k]]
        u, v = hits.uv[k]
        assert min(u, v, 1 - u - v) >= -1e-15
        place = (1 - u - v) * a + u * b + v * c
        assert np.abs(place - origin - hits.t[k] * way).max() <= 10 * allowed * np.linalg.norm(way)


def steepness(triangle: Numbers, way: Numbers) -> float:
    """Sine of the angle between a ray and a triangle."""
    normal = np.cross(triangle[1] - triangle[0], triangle[2] - triangle[0])
    return float(abs(normal @ way) / (np.linalg.norm(normal) * np.linalg.norm(way)))


@pytest.mark.parametrize("kind", ["star", "torus", "zoo", "soup", "one", "two", "far", "tiny", "huge", "sheet"])
def test_random_rays(backend: Backend, rng: np.random.Generator, kind: str) -> None:
    shape = shapes.ANY[kind](rng)
    shape = shape[0], shape[1][rng.permutation(len(shape[1]))[:120]]
    low, high = shape[0].min(axis=0), shape[0].max(axis=0)
    origins = (low + high) / 2 + (high - low).max() * rng.uniform(-0.8, 0.8, (15, 3))
    compare(backend, shape, origins, rng.normal(size=(15, 3)) * 10.0 ** rng.uniform(-3, 3, (15, 1)))


def test_rays_through_edges_and_vertices(backend: Backend, rng: np.random.Generator) -> None:
    """And along faces, and from vertices: all numbers are small integers."""
    for _ in range(3):
        shape = rng.integers(-2, 3, (30, 3)).astype(np.float64), rng.integers(0, 30, (40, 3))
        ways = rng.integers(-2, 3, (40, 3)).astype(np.float64)
        ways[(ways == 0).all(axis=1)] = 1
        compare(backend, shape, rng.integers(-3, 4, (40, 3)).astype(np.float64), ways)


def test_rays_beside_vertices(backend: Backend, rng: np.random.Generator) -> None:
    """By less than rounding errors."""
    shape = shapes.star(rng, 0)
    origins = rng.uniform(-3, 3, (40, 3))
    a, b = (shape[0][rng.integers(0, len(shape[0]), 40)] for _ in range(2))
    ways = a + rng.choice([0.0, 0.5, 0.25], (40, 1)) * (b - a) - origins
    compare(backend, shape, origins, np.nextafter(ways, rng.choice([-1, 1], (40, 3)) * np.inf))


@pytest.mark.parametrize("kind", sorted(shapes.CLOSED))
def test_closed_surfaces(backend: Backend, rng: np.random.Generator, kind: str) -> None:
    """From inside, the number is odd, whatever the ray meets; the first face is where the surface is."""
    shape = shapes.CLOSED[kind](rng)
    mesh = MeshDistance(shape, device=backend.name)
    origins = rng.uniform(-1.5, 1.5, (4, 200, 3))
    origins[mesh.distance(origins) < 1e-4] = 3.0
    corner = shape[0][rng.integers(0, len(shape[0]), (4, 200))]
    middle = (corner + np.roll(corner, 1, axis=0)) / 2
    inside, random = mesh.contains(origins), rng.normal(size=(4, 200, 3))
    for ways in (random, corner - origins, middle - origins, np.array([0.0, 0, -1])):
        counts, hits = mesh.count_hits(origins, ways), mesh.cast(origins, ways)
        assert np.array_equal(counts % 2 == 1, inside)
        met = hits.face >= 0
        assert np.array_equal(met, counts > 0)
        places = (origins + np.where(met, hits.t, 0)[..., None] * ways)[met]
        assert mesh.distance(places).max() < 1e-6
        if ways is random:  # at vertices, faces tie
            assert np.array_equal((hits.normal * ways).sum(axis=-1)[met] > 0, inside[met])


def test_shapes_and_types(backend: Backend, rng: np.random.Generator) -> None:
    mesh = MeshDistance([shapes.cube(), shapes.moved(shapes.cube(), 1, [4, 0, 0])], device=backend.name)
    hits = mesh.cast([[-3, 0.1, 0.2], [9, 0.1, 0.2], [2, 0.1, 0.2]], [[[2, 0, 0]], [[-2, 0, 0]]], np.float32)
    assert hits.t.dtype == hits.normal.dtype == hits.uv.dtype == np.float32
    assert hits.t.tolist() == [[1, np.inf, 0.5], [np.inf, 2, 0.5]]
    assert hits.part.tolist() == [[0, -1, 1], [-1, 1, 0]]
    assert hits.normal[..., 0].tolist() == [[-1, 0, -1], [0, 1, 1]]
    assert mesh.count_hits([-3, 0.1, 0.2], [1, 0, 0]).tolist() == 4
    assert mesh.cast(np.zeros((0, 3)), [1, 0, 0]).t.shape == (0,)
    there = backend.from_host(rng.uniform(-1, 1, (5, 3)))
    assert type(mesh.count_hits(there, there)) is type(there)


@pytest.mark.parametrize(
    ("origins", "ways"),
    [
        ([0, 0, 0], [0, 0, 0]),
        ([0, 0, np.nan], [0, 0, 1]),
        ([0, 0, 0], [0, 0, np.inf]),
        ([0, 0, 1e200], [0, 0, 1]),
        ([0, 0, 0], [0, 0, 1e-200]),
        ([0, 0], [0, 0, 1]),
        (np.zeros((2, 3)), np.ones((3, 3))),
    ],
)
def test_unusable_rays(origins: Numbers, ways: Numbers) -> None:
    mesh = MeshDistance(shapes.cube(), device="cpu")
    for ask in (mesh.cast, mesh.count_hits):
        with pytest.raises(InputError):
            ask(origins, ways)


@pytest.mark.gpu
def test_the_same_bits(cpu: Backend, gpu: Backend, rng: np.random.Generator) -> None:
    shape = shapes.star(rng, 2)
    origins, ways = rng.normal(size=(2, 2000, 3))
    ways[:1000] = shape[0][rng.integers(0, len(shape[0]), 1000)] - origins[:1000]
    found = [sdfcli.MeshDistance(shape, device=each.name) for each in (cpu, gpu)]
    here, there = (each.cast(origins, ways) for each in found)
    for name in ("t", "face", "uv", "normal"):
        assert np.array_equal(getattr(here, name), getattr(there, name))
    assert np.array_equal(*(each.count_hits(origins, ways) for each in found))
