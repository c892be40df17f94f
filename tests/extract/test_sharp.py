"""Sharp surfaces: closed manifolds whose vertices lie on the mesh, with the mesh's edges and corners."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import oracle
import sdfcli
import shapes
from backends import DEVICES
from sdfcli.errors import UsageError
from sdfcli.extract.marching_cubes import Surface
from sdfcli.extract.sharp import ANGLE
from surfaces import check_closed, topology, volume

Floats = npt.NDArray[np.float64]
SAMPLES = Path(__file__).resolve().parents[2] / "sample_meshes"
NEAR = 1e-5
"""Distance between the surface's edges and the mesh's, in diagonals."""


@pytest.fixture
def rng() -> np.random.Generator:
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed", seed)
    return np.random.default_rng(seed)


def sharp(shape: Any, cells: int, **options: Any) -> Surface:
    field = sdfcli.build(shape, tolerance=1e-3, device="cpu")
    return sdfcli.isosurface(field, cells=cells, sharp=sdfcli.MeshDistance(shape, device="cpu"), **options)


def turned(rng: np.random.Generator, shape: shapes.Shape) -> shapes.Shape:
    return shapes.moved(shape, offset=rng.normal(size=3), turn=shapes.turn(rng))


def on_edges(shape: shapes.Shape, rng: np.random.Generator, count: int) -> Floats:
    """Random points (count, 3) on edges that two faces share at an angle above ANGLE, by length."""
    vertices, faces = shape
    found: dict[tuple[int, int], list[int]] = {}
    for number, face in enumerate(faces.tolist()):
        for k in range(3):
            one, two = face[k], face[(k + 1) % 3]
            found.setdefault((min(one, two), max(one, two)), []).append(number)
    corner = vertices[faces]
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    bent = [ends for ends, (f, g) in found.items() if normal[f] @ normal[g] < np.cos(np.radians(ANGLE))]
    start, end = vertices[np.array(bent)].transpose(1, 0, 2)
    length = np.linalg.norm(end - start, axis=1)
    chosen = rng.choice(len(bent), count, p=length / length.sum())
    return np.asarray(start[chosen] + rng.random((count, 1)) * (end - start)[chosen])


def distances(points: Floats, vertices: Floats, faces: npt.NDArray[Any]) -> Floats:
    """Of points to the nearest of the triangles, without an index."""
    corners = np.asarray(vertices, np.float64)[faces.astype(np.int64)]
    centre, size = corners.mean(axis=1), np.ptp(corners, axis=1).max()
    found = np.empty(len(points))
    for i, point in enumerate(points):
        away = np.linalg.norm(centre - point, axis=1)
        close = corners[away <= away.min() + 4 * size]
        found[i] = oracle.distance(point[None], close)[0]
    return found


def check(shape: shapes.Shape, surface: Surface, rng: np.random.Generator) -> None:
    check_closed(surface)
    vertices = np.asarray(shape[0], np.float64)
    diagonal = np.linalg.norm(np.ptp(vertices, axis=0))
    assert surface.sharp is not None
    points = on_edges(shape, rng, 100)
    assert distances(points, surface.vertices, surface.faces).max() < NEAR * diagonal
    drawn = surface.vertices[rng.choice(len(surface.vertices), 100)]
    assert distances(drawn, vertices, shape[1]).max() < NEAR * diagonal


CONVEX = {
    "box": lambda rng: shapes.box(-rng.uniform(0.5, 1, 3), rng.uniform(0.5, 1, 3)),
    "tetrahedron": lambda rng: shapes.tetrahedron(),
    "octahedron": lambda rng: shapes.octahedron(),
    "prism": lambda rng: shapes.prism(shapes.ring(int(rng.integers(3, 9)), 1.0), rng.uniform(0.5, 2)),
}


@pytest.mark.parametrize("name", CONVEX)
def test_edges_of_turned_polyhedra(name: str, rng: np.random.Generator) -> None:
    shape = turned(rng, CONVEX[name](rng))
    check(shape, sharp(shape, 48), rng)


def test_the_corners_of_a_box_are_vertices(rng: np.random.Generator) -> None:
    shape = turned(rng, shapes.cube())
    surface = sharp(shape, 40)
    away = np.linalg.norm(shape[0][:, None] - surface.vertices, axis=2).min(axis=1)
    assert away.max() < 1e-6
    plain = sdfcli.isosurface(sdfcli.build(shape, tolerance=1e-3, device="cpu"), cells=40)
    size = volume(Surface(np.asarray(shape[0], np.float64), np.asarray(shape[1], np.uint32), False))
    assert abs(volume(surface) - size) < 1e-6 * size < abs(volume(plain) - size)


def test_a_bored_plate_has_inner_edges_too(rng: np.random.Generator) -> None:
    shape = turned(rng, shapes.bored(shapes.ring(4, 1.5), shapes.ring(4, 0.6), 0.7))
    surface = sharp(shape, 64)
    check(shape, surface, rng)
    assert topology(surface).euler == 0


def test_a_bracket(rng: np.random.Generator) -> None:
    import trimesh

    mesh = trimesh.load_mesh(SAMPLES / "bracket.stl")
    shape = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    check(shape, sharp(shape, 256), rng)


def test_smooth_surfaces_are_only_moved(rng: np.random.Generator) -> None:
    shape = turned(rng, shapes.icosphere(4))  # adjacent faces differ by less than 5 degrees
    surface = sharp(shape, 48)
    plain = sdfcli.isosurface(sdfcli.build(shape, tolerance=1e-3, device="cpu"), cells=48)
    assert np.array_equal(surface.faces, plain.faces)
    drawn = rng.choice(len(surface.vertices), 50)
    assert distances(surface.vertices[drawn], *shape).max() < 2e-6 < distances(plain.vertices[drawn], *shape).max()


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**40])
def test_scale_does_not_matter(scale: float, rng: np.random.Generator) -> None:
    vertices, faces = turned(rng, shapes.octahedron())
    one, other = sharp((vertices, faces), 32), sharp((vertices * scale, faces), 32)
    assert np.array_equal(one.faces, other.faces)
    assert np.allclose(one.vertices * scale, other.vertices, rtol=0, atol=1e-12 * scale)


def test_faults_of_the_mesh_leave_it_closed(rng: np.random.Generator) -> None:
    vertices, faces = turned(rng, shapes.cube())
    flat = np.array([[0, 0, 1], [2, 2, 2]])
    check_closed(sharp((vertices, np.concatenate((faces, faces[:3], flat))), 32))
    check_closed(sharp(shapes.holed(rng, shapes.refined(shapes.refined((vertices, faces))), 0.1), 32))
    check_closed(sharp(shapes.overlapping(rng, 1), 32))


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_bits_on_all_devices(device: str, rng: np.random.Generator) -> None:
    shape = turned(rng, shapes.bored(shapes.ring(30, 1.5), shapes.ring(30, 0.6), 0.7))
    one = sharp(shape, 64)
    field = sdfcli.build(shape, tolerance=1e-3, device=device)
    for threads in (1, 2):
        index = sdfcli.MeshDistance(shape, device=device, threads=threads)
        other = sdfcli.isosurface(field, cells=64, sharp=index, device=device, threads=threads)
        assert np.array_equal(one.vertices, other.vertices)
        assert np.array_equal(one.faces, other.faces)
        assert one.sharp == other.sharp


def test_what_has_no_sharp_edges() -> None:
    shape = shapes.cube()
    index, field = sdfcli.MeshDistance(shape), sdfcli.build(shape, tolerance=1e-2)
    with pytest.raises(UsageError, match="a volume has no mesh"):
        sdfcli.isosurface(np.ones((4, 4, 4)), sharp=index)
    with pytest.raises(UsageError, match=r"without --iso 0\.1"):
        sdfcli.isosurface(field, iso=0.1, sharp=index)
    with pytest.raises(UsageError, match="no signs"):
        sdfcli.isosurface(sdfcli.build(shape, sign="none", tolerance=1e-2), sharp=index)
