"""Wall thickness of known solids, against float64 references, and its laws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import sdfcli
import shapes
from sdfcli.backend import Backend, select_backend
from sdfcli.errors import InputError, UsageError
from sdfcli.mesh.load import load_mesh
from sdfcli.quality import walls
from sdfcli.quality.wall_points import FacePoints, corner_points
from sdfcli.quality.walls import Thickness, Walls
from sdfcli.scene import Scene

backend = backends.backend

OPPOSED = -0.642
EXACT = 1e-6
"""Maximum error, as a fraction of the mesh's size."""


def measured(shape: shapes.Shape, **options: Any) -> Thickness:
    return sdfcli.thickness(shape, device="cpu", **{"samples": 2000, **options})


def plate(thickness: float) -> shapes.Shape:
    return shapes.box([0, 0, 0], [1, 1, thickness])


def wedge(degrees: float) -> shapes.Shape:
    """A wedge along z, with its edge at x = y = 0 and its lower side in y = 0."""
    return shapes.prism([[0, 0], [1, 0], [1, np.tan(np.radians(degrees))]], 1.0)


def turned(shape: shapes.Shape, seed: int = 1) -> shapes.Shape:
    return shapes.moved(shape, turn=shapes.turn(np.random.default_rng(seed)))


BLUNT = shapes.prism([[0, 0], [1, -0.52], [1, 0.52]], 2.0)
"""A wedge of 55 degrees, with its other edges above."""


# ---- Known solids ----


@pytest.mark.parametrize("thickness", [0.5, 0.1, 1e-3, 1e-5])
@pytest.mark.parametrize("at", walls.AT)
def test_plates_have_their_thickness_up_to_sharp_edges(thickness: float, at: str) -> None:
    found = measured(turned(plate(thickness)), at=at)
    assert found.thinnest
    assert found.thinnest.thickness == pytest.approx(thickness, abs=EXACT)
    large = found.samples.thickness < 0.9  # not the sides, which are as far apart as the plate is wide
    assert np.abs(found.samples.thickness[large] - thickness).max() < EXACT
    assert found.samples.area[large].sum() == pytest.approx(1 / (1 + 2 * thickness), abs=1e-9)
    assert np.abs(found.samples.thickness[~large] - 1).max(initial=0.0) < EXACT
    if at == "vertices":
        assert np.abs(found.thickness - thickness).max() < EXACT
    assert (found.opposed, found.notes) == (1.0, [])


def test_balls_and_shells() -> None:
    ball = shapes.icosphere(3)
    sagitta = 1 - np.linalg.norm(ball[0][ball[1]].mean(axis=1), axis=1).min()
    found = measured(turned(ball))
    assert found.samples.thickness.max() < 2 + EXACT
    assert found.samples.thickness.min() > 2 - 8 * sagitta
    hollow = measured(turned(shapes.hollow(ball, shapes.moved(ball, 0.8))))
    assert hollow.samples.thickness.max() < 0.2 + EXACT
    assert hollow.samples.thickness.min() > 0.2 - 2 * sagitta


def test_tubes() -> None:
    found = measured(turned(shapes.bored(shapes.ring(64, 1.0), shapes.ring(64, 0.8), 2.0)))
    flat = np.cos(np.pi / 64)
    on_walls = found.samples.thickness < 1
    assert np.abs(found.samples.thickness[on_walls] - 0.2 * flat).max() < 1e-3
    assert np.abs(found.samples.thickness[~on_walls] - 2.0).max() < EXACT  # its ends


@pytest.mark.parametrize("degrees", [10.0, 30.0, 45.0])
def test_wedges_follow_the_formula(degrees: float) -> None:
    """At distance s from the edge, a ball that touches both sides has the diameter 2 s tan(angle / 2)."""
    shape, angle = wedge(degrees), np.radians(degrees)
    scene = Scene.of(load_mesh(shape), "auto", select_backend("cpu"))
    points = FacePoints.of(scene.mesh, 2000)
    prepared = Walls(scene)
    face, weight = points.batch(0, len(points))
    prepared.measure(face, weight)
    thick, opposite = prepared.results()
    at = np.einsum("nk,nkx->nx", weight, shape[0][scene.mesh.faces[face]])
    low = (at[:, 1] < 1e-9) & (at[:, 0] < 0.9)
    assert low.sum() > 100
    assert np.abs(thick[low] - 2 * np.tan(angle / 2) * at[low, 0]).max() < 3 * EXACT
    assert np.abs(opposite[low] - np.tan(angle) * at[low, 0]).max() < 3 * EXACT
    assert measured(shape, at="vertices").thickness.min() < 1e-3  # thins to nothing at its edge


@pytest.mark.parametrize("shape", [shapes.tetrahedron(), shapes.prism(shapes.ring(3, 1.0), 9.0), BLUNT])
def test_blunt_edges_are_no_walls(shape: shapes.Shape) -> None:
    """The sides of an edge of more than 50 degrees oppose nothing, however near they are."""
    found = measured(turned(shape))
    assert np.nanmin(found.opposite) < 0.2
    assert np.isnan(found.samples.thickness).any()
    assert found.thinnest is None or found.thinnest.thickness > 0.8


def test_other_parts_are_not_seen() -> None:
    """The upper side of a plate above a tetrahedron opposes the latter's base, but is not seen from there."""
    height, foot = 4 / 3, np.pad(shapes.ring(3, 2**0.5 * 2 / 3), ((0, 0), (0, 1)))
    corners = np.concatenate((foot, [[0, 0, height]]))
    part = corners, np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
    found = measured(turned(shapes.joined(part, shapes.box([-1, -1, 1.5], [1, 1, 1.7]))))
    assert np.isnan(found.thickness[:4]).all()
    assert found.thinnest
    assert found.thinnest.thickness == pytest.approx(0.2, abs=1e-5)


def test_grooves_thin_a_plate() -> None:
    """A plate with a groove of 90 degrees: the ball meets the groove's bottom from points beside it, too."""
    outline = [[0, 0], [4, 0], [4, 1], [2.6, 1], [2, 0.4], [1.4, 1], [0, 1]]
    triangles = [(0, 5, 6), (0, 4, 5), (0, 1, 4), (1, 3, 4), (1, 2, 3)]
    low = np.pad(np.array(outline, np.float64), ((0, 0), (0, 1)))
    i = np.arange(7)
    j = (i + 1) % 7
    sides = [np.stack((i, j, j + 7), 1), np.stack((i, j + 7, i + 7), 1)]
    ends = [np.array(triangles)[:, ::-1], np.array(triangles) + 7]
    found = measured((np.concatenate((low, low + np.array([0, 0, 3]))), np.concatenate((*sides, *ends))))
    assert found.thinnest
    assert found.thinnest.thickness == pytest.approx(0.4, abs=2e-2)
    bottom = found.samples.thickness < 0.999
    assert found.samples.area[bottom].sum() > 0.1


def test_open_meshes_have_what_opposes() -> None:
    sheet = measured(shapes.sheet(np.random.default_rng(0), 9))
    assert not sheet.encloses
    assert any("no inside" in note for note in sheet.notes)
    flat = measured((np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), np.array([[0, 1, 2]])))
    assert flat.thinnest is None
    assert (flat.opposed, flat.share_below(1.0)) == (0.0, 0.0)
    assert np.isnan([flat.quantile(0.5), *flat.thickness, *flat.opposite]).all()
    vertices, faces = shapes.box([0, 0, 0], [1, 1, 0.1])
    lidless = measured((vertices, faces[2:]))  # without a small side
    assert np.isnan(lidless.thickness).any()
    assert any("open" in note for note in lidless.notes)


def test_coincident_sides_have_no_thickness() -> None:
    vertices, faces = shapes.sheet(np.random.default_rng(0), 5)
    found = measured((vertices, np.concatenate((faces, faces[:, ::-1]))))
    assert found.samples.thickness.max() <= found.resolution
    assert found.samples.opposite.max() <= found.resolution


# ---- Faults ----


def test_orientation_is_repaired() -> None:
    shape = plate(0.1)
    expected = measured(shape)
    mixed = shape[1].copy()
    mixed[[1, 4, 7]] = mixed[[1, 4, 7], ::-1]
    for other in (shapes.inside_out(shape), (shape[0], mixed)):
        found = measured(other)
        assert np.allclose(found.samples.thickness, expected.samples.thickness, atol=EXACT)
        assert np.array_equal(found.faces, other[1])


def test_degenerate_and_duplicate_faces() -> None:
    vertices, faces = plate(0.1)
    expected = measured((vertices, faces))
    more = np.concatenate((faces, [[0, 0, 1], [2, 2, 2], [0, 1, 1]], faces[:3]))
    found = measured((vertices, more))
    assert np.isnan(found.thickness[12:15]).all()
    assert np.allclose(found.thickness[:12], expected.thickness, atol=EXACT)
    assert np.allclose(found.thickness[15:], expected.thickness[:3], atol=EXACT)
    assert np.isfinite(measured((vertices, more), at="vertices").thickness).all()
    dot = measured((np.array([[0.0, 0, 0], [1, 1, 1]]), np.array([[0, 1, 1]])))  # without any area
    assert (dot.thinnest, dot.opposed) == (None, 0.0)


def test_overlapping_parts_are_noted() -> None:
    cube = shapes.cube()
    found = measured(shapes.joined(cube, shapes.moved(cube, offset=[1.5, 0.2, 0.3])))
    assert any("overlap" in note for note in found.notes)
    nested = measured(shapes.joined(cube, shapes.moved(cube, 0.5)))
    assert any("overlap" in note for note in nested.notes)


# ---- References ----


Box = Any
"""Arrays of the references below, in the mesh's units, from the domain's origin."""


class Reference:
    """Triangles (f, 3, 3), with their unit normals. A sliver has an uncertain one."""

    def __init__(self, triangles: Box) -> None:
        side = triangles - triangles[:, :1]
        own = np.cross(side[:, 1], side[:, 2])
        area, edge = np.linalg.norm(own, axis=1), np.linalg.norm(side, axis=2).max(axis=1)
        self.triangles, self.unit = triangles, own / np.where(area > 0, area, 1)[:, None]
        self.sliver = area <= 1e-5 * edge**2

    def ball(self, points: Box, normals: Box, slack: float, opposed: Box) -> tuple[Box, Box]:
        """Diameters (n,), by bisection, of balls that opposed triangles (n, f) do not reach into, infinite for none
        below 8 times the extent; and the triangles that limit them. slack: margin of distances."""
        most = 8 * np.ptp(self.triangles, axis=(0, 1)).max()
        low, high = np.zeros(len(points)), np.full(len(points), most)
        for _ in range(50):
            width = (low + high) / 2
            distance = oracle.distances(points - width[:, None] / 2 * normals, self.triangles)
            distance = np.where(opposed, distance, np.inf)
            reached = distance.min(axis=1) < width / 2 + slack
            low, high = np.where(reached, low, width), np.where(reached, width, high)
        return np.where(high < 0.99 * most, high, np.inf), distance.argmin(axis=1)

    def exits(self, point: Box, way: Box, margin: float) -> Box:
        """Ray parameters of triangles through which a ray leaves. margin: positive for clear hits alone, negative for
        near misses, too."""
        slope = self.unit @ way
        with np.errstate(all="ignore"):
            t = oracle.dot(self.triangles[:, 0] - point, self.unit) / slope
            at = point + t[:, None] * way
            corners = [self.triangles[:, k] - at for k in range(3)]
            parts = [oracle.dot(np.cross(corners[k], corners[k - 2]), self.unit) for k in range(3)]
            inside = np.min(parts, axis=0) > margin * np.abs(parts).sum(axis=0)
        uncertain = self.sliver | (np.abs(slope) < 1e-3)
        return t[(inside & (slope > 0) & ~uncertain) | (uncertain & (margin < 0))]


@settings(max_examples=25, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1))
def test_against_float64(backend: Backend, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scene = Scene.of(load_mesh(shapes.ANY[kind](rng)), "auto", backend)
    mesh, size = scene.mesh, scene.mesh.domain.length
    reference = Reference(mesh.vertices[mesh.faces] - mesh.domain.origin)
    face = rng.choice(np.flatnonzero(~reference.sliver), 24)
    weight = rng.dirichlet([1.0, 1.0, 1.0], 24)
    prepared = Walls(scene)
    prepared.measure(face.astype(np.uint32), weight)
    thick, opposite = (np.where(np.isnan(each), np.inf, each) for each in prepared.results())
    points, normals = np.einsum("nk,nkx->nx", weight, reference.triangles[face]), reference.unit[face]
    cosine = normals @ reference.unit.T
    low, _ = reference.ball(points, normals, EXACT * size, (cosine < OPPOSED + 1e-5) | reference.sliver)
    high, limit = reference.ball(points, normals, -EXACT * size, (cosine < OPPOSED - 1e-5) & ~reference.sliver)
    assert (thick >= (1 - EXACT) * low - EXACT * size).all() or (low > 3 * size).all()
    for k in range(len(points)):
        way, clear = -normals[k], 1e-5 * size
        certain = reference.exits(points[k], way, 1e-3)
        assert opposite[k] <= certain[certain > clear].min(initial=np.inf) + clear
        if np.isfinite(opposite[k]):
            off = oracle.distances((points[k] + opposite[k] * way)[None], reference.triangles)[0]
            assert off[(reference.unit @ way > -1e-5) | reference.sliver].min() < clear
        if high[k] > 3 * size:
            continue
        centre = points[k] + high[k] / 2 * way
        limiting = reference.triangles[limit[k]][None] / size  # trimesh has absolute tolerances
        contact = size * trimesh.triangles.closest_point(limiting, centre[None] / size)[0]
        length = np.linalg.norm(contact - points[k])
        possible = reference.exits(points[k], (contact - points[k]) / max(length, 1e-300), -1e-3)
        if not ((possible > -clear) & (possible < length - clear)).any() and not reference.sliver.any():
            assert thick[k] <= (1 + EXACT) * high[k] + EXACT * size


# ---- Laws ----


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), power=st.integers(-95, 95))
def test_scaling(seed: int, power: int) -> None:
    """By a power of two, to the bit."""
    shape = shapes.star(np.random.default_rng(seed), 1)
    own, other = measured(shape, samples=200), measured(shapes.moved(shape, 2.0**power), samples=200)
    for one, scaled in zip(own.samples[:2], other.samples[:2], strict=True):
        assert np.array_equal(one * 2.0**power, scaled, equal_nan=True)
    assert own.thinnest
    assert other.thinnest
    assert own.thinnest.face == other.thinnest.face


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_rigid_motions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = shapes.joined(plate(0.2), shapes.moved(wedge(20.0), offset=[3, 0, 0]))
    own, other = measured(shape), measured(shapes.moved(shape, offset=rng.normal(size=3), turn=shapes.turn(rng)))
    close = np.isclose(own.samples.thickness, other.samples.thickness, atol=1e-5, equal_nan=True)
    assert close.mean() > 0.9995  # few contacts lie at the border of what a point sees


@pytest.mark.parametrize("scale", [1e-29, 1e29])
def test_extreme_sizes(scale: float) -> None:
    found = measured(shapes.moved(plate(0.1), scale), at="vertices")
    assert np.allclose(found.thickness / scale, 0.1, atol=EXACT)


def test_threads_and_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = shapes.star(np.random.default_rng(3), 2)
    own = measured(shape, at="vertices", threads=1)
    monkeypatch.setattr(walls, "BATCH", 77)
    words: list[str] = []
    other = measured(shape, at="vertices", threads=3, progress=words.append)
    assert own.thickness.tobytes() == other.thickness.tobytes()
    assert own.samples.opposite.tobytes() == other.samples.opposite.tobytes()
    assert own.thinnest == other.thinnest
    total = f"{len(own.samples.face) + len(corner_points(load_mesh(shape))[0]):,}"
    assert words[-1] == f"{total} of {total} points"


@pytest.mark.gpu
def test_a_gpu_gives_the_same(gpu: Backend) -> None:
    for shape in (shapes.star(np.random.default_rng(3), 3), shapes.torus(80, 40), plate(0.1), shapes.icosphere(5)):
        own = measured(shape, at="vertices", samples=20_000)
        other = sdfcli.thickness(shape, at="vertices", samples=20_000, device=gpu.name)
        for name in ("thickness", "opposite"):
            assert getattr(own, name).tobytes() == getattr(other, name).tobytes()
            assert getattr(own.samples, name).tobytes() == getattr(other.samples, name).tobytes()
        assert own.thinnest == other.thinnest
        pictures = [own.picture(width=200, height=150, limit=0.5, device=name) for name in ("cpu", gpu.name)]
        assert np.array_equal(*pictures)


def test_many_faces_as_near_are_within_a_hundredth() -> None:
    """A fine ball: above a number of nodes, faces that hardly reach into it are skipped."""
    ball = load_mesh(shapes.icosphere(6))
    prepared = Walls(Scene.of(ball, "auto", select_backend("cpu")))
    face = np.arange(0, len(ball.faces), 4001, dtype=np.uint32)
    prepared.measure(face, np.full((len(face), 3), 1 / 3))
    thick, _ = prepared.results()
    assert np.abs(thick - 2).max() < 0.01


# ---- Points and sums ----


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 3000))
def test_points_are_uniform(seed: int, count: int) -> None:
    """A face's points are the centres of congruent parts: as many as a square number, with the face's centre."""
    mesh = load_mesh(shapes.star(np.random.default_rng(seed), 0))
    points = FacePoints.of(mesh, count)
    face, weight = points.batch(0, len(points))
    assert np.array_equal(face, points.faces())
    assert weight.min() > 0
    assert np.allclose(weight.sum(axis=1), 1)
    assert points.areas().sum() == pytest.approx(1)
    for k, cuts in enumerate(points.cuts):
        own = weight[face == k]
        assert len(own) == cuts**2
        assert np.allclose(own.mean(axis=0), 1 / 3)
        assert len(np.unique(np.rint(3 * cuts * own).astype(int), axis=0)) == cuts**2
    first = len(points) // 3
    assert np.array_equal(points.batch(first, len(points))[1], weight[first:])


def test_sums_by_area() -> None:
    found = measured(shapes.box([0, 0, 0], [4, 2, 1]), samples=5000)  # sides 1, 2 and 4 apart
    total = 2 * (8 + 4 + 2)
    shares = found.histogram([0, 1, 2, 4, np.inf])
    assert np.allclose(shares, [0, 16 / total, 8 / total, 4 / total])
    assert [found.share_below(limit) for limit in (1, 1.5, 4.5)] == pytest.approx([0, 16 / total, 1])
    assert [found.quantile(share) for share in (0.0, 0.5, 0.7, 1.0)] == pytest.approx([1, 1, 2, 4])
    assert found.histogram([1.5, 3]).tolist() == pytest.approx([8 / total])


def test_files(tmp_path: Path) -> None:
    shape = shapes.torus(20, 12)
    for at in walls.AT:
        found = measured(shape, at=at)
        for ending in (".ply", ".vtp"):
            path = tmp_path / f"{at}{ending}"
            found.save(path)
            again = load_mesh(path)
            assert np.array_equal(again.vertices, found.vertices)
            assert np.array_equal(again.faces, found.faces)
            with pytest.raises(UsageError, match="exists"):
                found.save(path)
        read: Any = trimesh.load(tmp_path / f"{at}.ply", process=False)
        data = read.metadata["_ply_raw"][{"faces": "face", "vertices": "vertex"}[at]]["data"]
        for name in ("thickness", "opposite"):
            assert np.array_equal(np.ravel(data[name]), getattr(found, name).astype(np.float32))
    with pytest.raises(UsageError, match=r"\.vtp, \.ply"):
        found.save(tmp_path / "map.stl")


@pytest.mark.parametrize("at", walls.AT)
def test_vtk_reads_the_data(tmp_path: Path, at: str) -> None:
    vtk = pytest.importorskip("vtk")
    from vtk.util.numpy_support import vtk_to_numpy

    found = measured(plate(0.1), at=at)
    found.save(tmp_path / "map.vtp")
    reader = vtk.vtkXMLPolyDataReader()
    reader.SetFileName(str(tmp_path / "map.vtp"))
    reader.Update()
    mesh = reader.GetOutput()
    data = mesh.GetCellData() if at == "faces" else mesh.GetPointData()
    assert data.GetScalars().GetName() == "thickness"
    for name in ("thickness", "opposite"):
        assert np.array_equal(vtk_to_numpy(data.GetArray(name)), getattr(found, name).astype(np.float32))
    assert np.array_equal(vtk_to_numpy(mesh.GetPolys().GetConnectivityArray()).reshape(-1, 3), found.faces)


def test_pictures() -> None:
    """A tapered plate, with a limit in the middle of its upper side: red on one half of the picture alone."""
    taper = shapes.prism([[0, 0], [4, 0], [4, 0.6], [0, 0.2]], 4.0)
    found = measured(taper, samples=20_000)
    picture = found.picture(width=300, height=300, view="top", limit=0.4, device="cpu").astype(int)
    assert picture.shape[0] == 300
    assert picture.shape[1] > 300
    red = (picture[:, :300, 0] > picture[:, :300, 1] + 40) & (picture[:, :300, 1] < 120)
    assert red[100:200, 20:140].all()
    assert not red[:, 160:].any()
    plain = found.picture(width=300, height=300, view="top", device="cpu")
    assert plain.shape == picture.shape
    grey = measured(shapes.tetrahedron()).picture(width=40, height=30, device="cpu")
    assert grey.shape[0] == 30


def test_what_is_refused(tmp_path: Path) -> None:
    for options in ({"at": "edges"}, {"samples": 0}, {"samples": 2.5}, {"device": "tpu"}, {"units": "mm"}):
        with pytest.raises(UsageError):
            sdfcli.thickness(plate(1.0), **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no such file"):
        sdfcli.thickness(tmp_path / "missing.stl")
    with pytest.raises(UsageError, match="--view"):
        measured(plate(1.0)).picture(view="above")
    assert repr(measured(plate(0.5))) == "<Thickness: 0.5 at the thinnest, 12 faces>"
    assert repr(measured(shapes.tetrahedron(), at="vertices")) == "<Thickness: no walls, 4 vertices>"
