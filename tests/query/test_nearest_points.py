"""What `MeshDistance.nearest` says of the nearest points; several meshes; meshes of other packages."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import backends
import oracle
import shapes
from sdfcli import MeshDistance
from sdfcli.backend import Backend
from sdfcli.errors import InputError, UsageError

backend = backends.backend
Numbers = oracle.Numbers


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(os.urandom(8)))


def around(rng: np.random.Generator, shape: shapes.Shape, *count: int) -> Numbers:
    low, high = shape[0].min(axis=0), shape[0].max(axis=0)
    return (low + high) / 2 + (high - low).max() * rng.uniform(-0.8, 0.8, (*count, 3))


def size_of(shape: shapes.Shape) -> float:
    return float(np.ptp(shape[0], axis=0).max())


@pytest.mark.parametrize("kind", sorted(shapes.WORSE))
def test_nearest_points(backend: Backend, rng: np.random.Generator, kind: str) -> None:
    """They lie on their faces by their weights, at their distances, which are those to all triangles."""
    shape = shapes.WORSE[kind](rng)
    mesh, points = MeshDistance(shape, device=backend.name), around(rng, shape, 5, 8)
    near, size = mesh.nearest(points), size_of(shape)
    corners = shapes.triangles(shape)
    reach = np.abs(corners).max() + size
    true = oracle.distance(points.reshape(-1, 3), corners).reshape(5, 8)
    assert np.abs(near.distance - true).max() <= 1e-6 * size
    assert np.allclose(np.linalg.norm(points - near.point, axis=-1), near.distance, rtol=1e-12, atol=1e-14 * reach)
    u, v = near.uv[..., 0], near.uv[..., 1]
    assert u.min() >= 0
    assert v.min() >= 0
    assert (u + v).max() <= 1 + 1e-12
    a, b, c = np.moveaxis(corners[near.face], -2, 0)
    by_weights = (1 - u - v)[..., None] * a + u[..., None] * b + v[..., None] * c
    assert np.allclose(by_weights, near.point, rtol=0, atol=1e-13 * reach)
    assert np.array_equal(near.part, np.zeros((5, 8), np.int64))
    assert (near.face.dtype, near.part.dtype, near.point.shape, near.uv.shape) == (
        np.int64,
        np.int64,
        (5, 8, 3),
        (5, 8, 2),
    )


@pytest.mark.parametrize("kind", ["star", "torus", "zoo"])
@pytest.mark.parametrize("turned", [False, True])
def test_normals(backend: Backend, rng: np.random.Generator, kind: str, turned: bool) -> None:
    """Outwards, whichever way the faces are given; weights are those of the corners as given."""
    shape = shapes.shuffled(rng, shapes.ANY[kind](rng))
    outwards = shape
    if turned:
        back = rng.random(len(shape[1])) < 0.5
        shape = shape[0], np.where(back[:, None], shape[1][:, ::-1], shape[1])
    mesh = MeshDistance(shape, device=backend.name)
    near = mesh.nearest(around(rng, shape, 200))
    a, b, c = np.moveaxis(shapes.triangles(outwards if kind != "zoo" else shape)[near.face], -2, 0)
    expected = np.cross(b - a, c - a)
    length = np.linalg.norm(expected, axis=1)
    thin = length <= 1e-12
    assert np.all((np.linalg.norm(near.normal, axis=1) == 0) | ~(length == 0))
    expected = expected[~thin] / length[~thin, None]
    along = (expected * near.normal[~thin]).sum(axis=1)
    assert np.allclose(np.abs(along) if kind == "zoo" else along, 1, rtol=0, atol=1e-9)
    a, b, c = np.moveaxis(shapes.triangles(shape)[near.face], -2, 0)
    u, v = near.uv.T[..., None]
    assert np.allclose((1 - u - v) * a + u * b + v * c, near.point, rtol=0, atol=1e-13)


def test_weights_by_hand(backend: Backend) -> None:
    mesh = MeshDistance((np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0.0]]), [[0, 1, 2]]), device=backend.name)
    points = [[-1, -1, 0], [2, 0, 0], [0, 3, 1], [0.25, -1, 0], [-1, 0.25, 0], [1, 1, 0], [0.25, 0.5, -3]]
    expected = [[0, 0], [1, 0], [0, 1], [0.25, 0], [0, 0.25], [0.5, 0.5], [0.25, 0.5]]
    found = mesh.nearest(points)
    assert found.uv.tolist() == expected
    assert found.distance[-1] == 3
    assert np.abs(found.normal).tolist() == [[0, 0, 1]] * 7


def test_gradients_on_the_surface(backend: Backend, rng: np.random.Generator) -> None:
    """The normal, or 0 for unsigned distances; nearby, too, the normal to the last bit."""
    mesh = MeshDistance(shapes.moved(shapes.cube(), 0.5, 0.5), device=backend.name)
    points = rng.random((50, 3))
    for height in (1.0, 1.0 + 2.0**-40, 1.0 + 2.0**-3, 1.0 - 2.0**-40):
        points[:, 0] = height
        _, signed, *_ = mesh._with_gradient(points, True)
        _, unsigned, *_ = mesh._with_gradient(points, False)
        assert np.abs(np.abs(signed) - [1, 0, 0]).max() == 0
        assert np.array_equal(unsigned, np.sign(height - 1) * np.abs(signed))
    points[:, 0] = 1.0
    assert np.array_equal(mesh._with_gradient(points, True)[1], [[1, 0, 0]] * 50)


@pytest.mark.parametrize("far", [1e9, 1e20, 1e160, 1e300])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e25])
def test_far_away(backend: Backend, far: float, scale: float) -> None:
    mesh = MeshDistance(shapes.moved(shapes.octahedron(), scale), device=backend.name)
    near = mesh.nearest([[far, 0, 0]])
    assert np.allclose(near.distance, abs(far - scale) if far > 1e3 * scale else near.distance, rtol=1e-6)
    assert np.isfinite(near.point).all()
    assert np.abs(near.point).max() <= scale * (1 + 1e-9)


def test_float32_on_request(backend: Backend, rng: np.random.Generator) -> None:
    shape = shapes.star(rng, 2)
    mesh, points = MeshDistance(shape, device=backend.name), around(rng, shape, 3, 40)
    for ask in (mesh.distance, mesh.signed_distance):
        assert (ask(points).dtype, ask(points, np.float32).dtype) == (np.float64, np.float32)
        assert np.array_equal(ask(points, "float32"), ask(points).astype(np.float32))
    single, double = mesh.nearest(points, np.float32), mesh.nearest(points)
    for name in ("point", "distance", "face", "uv", "normal", "part"):
        one, other = getattr(single, name), getattr(double, name)
        assert one.dtype == (np.int64 if other.dtype == np.int64 else np.float32)
        assert np.array_equal(one, other.astype(one.dtype))
    for wrong in (np.float16, np.int64, "complex64"):
        with pytest.raises(UsageError, match="float32 or float64"):
            mesh.distance(points, wrong)


def test_contains(backend: Backend, rng: np.random.Generator) -> None:
    shape = shapes.overlapping(rng, 1)
    mesh, points = MeshDistance(shape, device=backend.name), around(rng, shape, 20, 10)
    inside = oracle.winding(points.reshape(-1, 3), shapes.triangles(shape)).reshape(20, 10) > 0.5
    clear = np.abs(mesh.distance(points)) > 1e-5
    assert mesh.contains(points).dtype == bool
    assert np.array_equal(mesh.contains(points)[clear], inside[clear])
    assert not MeshDistance(shapes.sheet(rng, 3), device=backend.name).contains(points).any()


def test_several_meshes(backend: Backend, rng: np.random.Generator, tmp_path: Path) -> None:
    """A union's distances; which mesh is the nearest, and which of its faces."""
    given = [shapes.star(rng, 1), shapes.moved(shapes.torus(9, 5), 0.5, [1.2, 0, 0]), shapes.moved(shapes.cube(), 0.3)]
    path = tmp_path / "torus.off"
    rows = [" ".join(map(str, row)) for row in given[1][0].tolist()] + [
        "3 " + " ".join(map(str, f)) for f in given[1][1]
    ]
    path.write_text(f"OFF\n{len(given[1][0])} {len(given[1][1])} 0\n" + "\n".join(rows) + "\n")
    mesh = MeshDistance([given[0], path, SimpleNamespace(vertices=given[2][0], faces=given[2][1])], device=backend.name)
    points = around(rng, shapes.joined(*given), 300)
    alone = np.array([oracle.distance(points, shapes.triangles(each)) for each in given])
    near = mesh.nearest(points)
    clear = np.diff(np.sort(alone, axis=0)[:2], axis=0)[0] > 1e-5
    assert np.array_equal(near.part[clear], alone.argmin(axis=0)[clear])
    assert np.allclose(near.distance, alone.min(axis=0), rtol=0, atol=1e-6)
    assert mesh.parts.tolist() == np.cumsum([0, *(len(each[1]) for each in given)]).tolist()
    for part, each in enumerate(given):
        chosen = near.part == part
        corners = shapes.triangles(each)[near.face[chosen] - mesh.parts[part]]
        assert oracle.pair_distances(near.point[chosen], corners).max(initial=0) < 1e-9
    inside = np.any([oracle.winding(points, shapes.triangles(each)) > 0.5 for each in given], axis=0)
    off = near.distance > 1e-5
    assert np.array_equal(mesh.contains(points)[off], inside[off])


def test_holes_of_several_meshes(backend: Backend) -> None:
    """Each is closed; the faces of its caps are its own."""
    vertices, faces = shapes.cube()
    open_box = vertices, faces[2:]
    mesh = MeshDistance([open_box, shapes.moved(open_box, 1, [5, 0, 0])], device=backend.name, holes="cap")
    assert mesh.parts.tolist() == [0, 12, 24]
    points = np.array([[0.2, 0.1, 0.3], [5.2, 0.1, 0.3], [2.6, 0, 0]])
    assert mesh.contains(points).tolist() == [True, True, False]
    assert mesh.nearest(points[:2]).part.tolist() == [0, 1]


def test_no_meshes() -> None:
    with pytest.raises(InputError, match="at least one mesh"):
        MeshDistance([], device="cpu")


class Quads:
    """Of PyVista's kind."""

    points = np.zeros((4, 3))
    is_all_triangles = False
    regular_faces = np.array([[0, 1, 2, 3]])


def test_meshes_of_other_packages(rng: np.random.Generator) -> None:
    """By the names of their arrays: Open3D's two kinds, and PyVista's."""
    vertices, faces = shape = shapes.star(rng, 1)
    points = around(rng, shape, 30)
    expected = MeshDistance(shape, device="cpu").signed_distance(points)

    def tensor(array: Any) -> Any:
        return SimpleNamespace(numpy=lambda: array)

    for source in (
        SimpleNamespace(vertices=vertices.tolist(), triangles=faces.tolist()),
        SimpleNamespace(
            vertex=SimpleNamespace(positions=tensor(vertices)), triangle=SimpleNamespace(indices=tensor(faces))
        ),
        SimpleNamespace(points=vertices, regular_faces=faces, is_all_triangles=True, faces=None),
    ):
        assert np.array_equal(MeshDistance(source, device="cpu").signed_distance(points), expected)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"triangulate\(\)"):
        MeshDistance(Quads(), device="cpu")  # type: ignore[arg-type]


def test_installed_packages(rng: np.random.Generator) -> None:
    """The same of the packages' own objects, where they are installed."""
    shape = shapes.star(rng, 1)
    points = around(rng, shape, 30)
    expected = MeshDistance(shape, device="cpu").distance(points)
    found = []
    try:
        import open3d

        legacy = open3d.geometry.TriangleMesh(
            *(
                kind(each)
                for kind, each in zip(
                    (open3d.utility.Vector3dVector, open3d.utility.Vector3iVector), shape, strict=True
                )
            )
        )
        found += [legacy, open3d.t.geometry.TriangleMesh.from_legacy(legacy, vertex_dtype=open3d.core.float64)]
    except ImportError:
        pass
    try:
        import pyvista

        found.append(pyvista.PolyData.from_regular_faces(*shape))
    except ImportError:
        pass
    if not found:
        pytest.skip("neither Open3D nor PyVista is installed")
    for mesh in found:
        assert np.array_equal(MeshDistance(mesh, device="cpu").distance(points), expected)
