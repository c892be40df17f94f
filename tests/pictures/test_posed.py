"""A mesh and dots in a picture: against rays by plain NumPy, and against formulas."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import sdfcli
import shapes
from cameras import camera_at, look, rays
from sdfcli.backend import Backend
from sdfcli.backend.cpu import CpuBackend
from sdfcli.errors import InputError, UsageError
from sdfcli.field.field import Field
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import face_normals
from sdfcli.pictures.posed import DOT, SPACING, PosedMesh, company_of, corner_normals, spread
from sdfcli.pictures.render import Camera, draw, shot_of
from sdfcli.query.poses import pose_at

backend = backends.backend

Floats = oracle.Floats

FAR = 40.0
"""Where a mesh is that the field's surface does not meet."""


@pytest.fixture(scope="module")
def ball() -> Field:
    """A sphere of radius 1 around the origin."""
    return sdfcli.build(shapes.icosphere(4), tolerance=2e-3, device="cpu")


def camera_in(field: Field, eye: Any, target: Any, size: int, angle: float = 0.5) -> Camera:
    """One that looks from a place to another in the field's units."""
    eye, target = (field.domain.to_unit(np.array(place, np.float64)) for place in (eye, target))
    return camera_at(eye, target, size, angle)


def places(*rows: tuple[float, float, float, float]) -> SimpleNamespace:
    """Contacts: points, each with its distance."""
    table = np.array(rows, np.float64).reshape(-1, 4)
    return SimpleNamespace(point=table[:, :3], distance=table[:, 3])


def is_blue(pixel: Any) -> Any:
    """Which colours (..., 3) are."""
    return pixel[..., 2].astype(int) > pixel[..., 0].astype(int) + 20


def is_red(pixel: Any) -> Any:
    """Which colours (..., 3) are, and not clay."""
    return pixel[..., 0].astype(int) > pixel[..., 1].astype(int) + 45


# ---- Which triangle a ray meets ----


def first_triangles(corners: Floats, eye: Floats, way: Floats) -> Floats:
    """How far along rays (n, 3) the first of triangles (m, 3, 3) is (Moeller and Trumbore 1997); infinite for none."""
    first = np.full(len(way), np.inf)
    for a, b, c in corners:
        u, v = b - a, c - a
        p = np.cross(way, v)
        volume = p @ u
        with np.errstate(all="ignore"):
            s = p @ (eye - a) / volume
            q = np.cross(eye - a, u)
            t = way @ q / volume
            inside = (s >= 0) & (t >= 0) & (s + t <= 1)
            along = (v @ q) / volume
        first = np.where(inside & (along > 0) & (along < first), along, first)
    return first


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.sampled_from([1, 2, 3, 40]), inside=st.booleans())
def test_the_first_triangle_along_each_ray(backend: Backend, ball: Field, seed: int, count: int, inside: bool) -> None:
    # Any triangles: slivers, points, some behind the eye and around it. A field that states no error is not in doubt.
    ball = dataclasses.replace(ball, info={})
    rng = np.random.default_rng(seed)
    corners = rng.normal(size=(count, 3, 3)) * 10 ** rng.uniform(-1.5, 0.5, (count, 1, 1))
    flat = rng.random(count) < 0.3
    corners[flat, 2] = np.where(rng.random((flat.sum(), 1)) < 0.5, corners[flat, 1], corners[flat].mean(axis=1))
    corners += rng.choice([0, FAR])  # around the field's surface, or alone
    centre = corners.reshape(-1, 3).mean(axis=0)
    eye = centre + rng.normal(size=3) * (0.1 if inside else 5)
    camera = camera_in(ball, eye, centre + rng.normal(size=3), 12, 0.9)
    mesh = corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3)
    if make_mesh(*mesh).diagonal < 1e-3:
        return
    seen = look(backend, ball, 0.0, camera, 12, mesh=mesh).depth.ravel()
    field = look(backend, ball, 0.0, camera, 12).depth.ravel()
    start, way = rays(camera, 12)
    unit = ball.domain.to_unit(corners.reshape(-1, 3)).reshape(-1, 3, 3)
    # The kernel's corners are float32: rays near an edge may pass on the other side.
    several = [first_triangles(unit, start + shift, way.reshape(-1, 3)) for shift in 1e-5 * rng.normal(size=(12, 3))]
    several += [first_triangles(unit, start, way.reshape(-1, 3))]
    expected = np.where(np.isinf(several), -1, several)
    steady = np.ptp(expected, axis=0) < 1e-2
    assert steady.any()
    first = np.where((expected[-1] < 0) | ((field >= 0) & (field < expected[-1])), field, expected[-1])
    assert np.allclose(seen[steady], first[steady], rtol=0, atol=1e-2)


def test_a_sphere(backend: Backend, ball: Field) -> None:
    vertices, faces = shapes.icosphere(5)
    camera = camera_in(ball, [FAR + 3, 1.0, 2.0], [FAR, 0, 0], 64)
    seen = look(backend, ball, 0.0, camera, 64, mesh=shapes.moved((vertices, faces), 1.0, [FAR, 0, 0]))
    eye, way = rays(camera, 64)
    radius, centre = 1 / ball.domain.length, ball.domain.to_unit(np.array([FAR, 0, 0]))
    along = way @ (centre - eye)
    inner = along**2 - (centre - eye) @ (centre - eye) + radius**2
    clear = inner > 0.05 * radius**2
    assert clear.sum() > 1000
    expected = along[clear] - np.sqrt(inner[clear])
    assert np.abs(seen.depth[clear] - expected).max() < 4e-3 * radius  # as the facets lie inside of the sphere
    outwards = (eye + expected[:, None] * way[clear] - centre) / radius
    assert np.all((seen.normal[clear] * outwards).sum(axis=-1) > np.cos(np.radians(0.5)))  # smooth
    assert np.all(seen.depth[inner < -0.01 * radius**2] < 0)
    assert np.all(is_blue(seen.pixel[clear]))


@pytest.mark.parametrize("size", [8, 9, 64])
def test_nothing_is_seen_between_triangles(backend: Backend, ball: Field, size: int) -> None:
    # Rays go exactly through edges and vertices.
    n = size
    x, y = np.meshgrid(np.arange(n + 1) - n / 2, np.arange(n + 1) - n / 2, indexing="ij")
    corner = np.arange((n + 1) ** 2).reshape(n + 1, n + 1)
    a, b, c, d = corner[:-1, :-1], corner[1:, :-1], corner[1:, 1:], corner[:-1, 1:]
    faces = np.concatenate([np.stack(t, -1).reshape(-1, 3) for t in ((a, b, c), (a, c, d))])
    plane = np.stack((x, y, np.full_like(x, FAR)), -1).reshape(-1, 3)
    eye = ball.domain.to_unit(np.array([0, 0, FAR + 8.0]))
    for way in ((0, 0, -1), (0, 0.25, -1)):
        forward = np.array(way) / np.linalg.norm(way)
        camera = Camera(np.array([eye, [1, 0, 0], np.cross([1, 0, 0], forward), forward]), 0.4 / size)
        assert np.all(look(backend, ball, 0.0, camera, size, mesh=(plane, faces)).depth > 0)


# ---- What is in front, behind and inside ----


def small(x: float, y: float, z: float, radius: float = 0.2) -> shapes.Shape:
    return shapes.moved(shapes.icosphere(3), radius, [x, y, z])


def middle(backend: Backend, field: Field, eye: Any, mesh: Any = None, contacts: Any = None) -> tuple[Any, float]:
    """The colour and the depth, in the field's units, of the middle of a picture from a place to the origin."""
    seen = look(
        backend, field, 0.0, camera_in(field, eye, [0, 0, 0], 9, 0.1), 9, mesh=mesh, contacts=contacts, reach=1e-3
    )
    return seen.pixel[4, 4].astype(int), float(seen.depth[4, 4] * field.domain.length)


def mixed(one: Any, other: Any, part: float) -> Any:
    """Colours are roots of light."""
    return np.sqrt((1 - part) * np.square(one) + part * np.square(other))


def test_in_front_and_behind(backend: Backend, ball: Field) -> None:
    clay, depth = middle(backend, ball, [0, 0, 5])
    assert depth == pytest.approx(4, abs=0.02)
    colour, depth = middle(backend, ball, [0, 0, 5], small(0, 0, 2))
    assert depth == pytest.approx(2.8, abs=0.01)
    assert is_blue(colour)
    hidden, depth = middle(backend, ball, [0, 0, 5], small(0, 0, -2))
    assert depth == pytest.approx(4, abs=0.02)
    assert not is_blue(hidden)
    alone, _ = middle(backend, ball, [0, 0, 5], shapes.moved(shapes.icosphere(3), 0.2, [0, 0, 2]))
    assert np.abs(hidden - mixed(clay, alone, 0.2)).max() < 12  # it shines through, at another place of the light
    assert np.abs(hidden - clay).max() > 4


def test_inside_is_red(backend: Backend, ball: Field) -> None:
    clay, _ = middle(backend, ball, [0, 0, 5])
    colour, depth = middle(backend, ball, [0, 0, 5], small(0, 0, 0))
    assert depth == pytest.approx(4, abs=0.02)
    assert colour[0] - colour[1] > clay[0] - clay[1] + 25
    # One that pokes out is blue there.
    colour, depth = middle(backend, ball, [0, 0, 5], small(0, 0, 0.95))
    assert depth == pytest.approx(3.85, abs=0.01)
    assert is_blue(colour)


def test_the_field_s_own_surface(backend: Backend, ball: Field) -> None:
    """Where the field cannot tell which is in front, the mesh is."""
    camera = camera_in(ball, [2, 3, 4], [0, 0, 0], 64)
    seen = look(backend, ball, 0.0, camera, 64, mesh=shapes.icosphere(4))
    alone = look(backend, ball, 0.0, camera, 64)
    hit = (alone.depth > 0) & (seen.depth > 0)
    assert hit.sum() > 500
    assert is_blue(seen.pixel[hit]).mean() > 0.995


def test_a_shadow(backend: Backend, ball: Field) -> None:
    """The light comes from the upper left, behind the eye."""
    camera = camera_in(ball, [0, 0, 6], [0, 0, 0], 65, 0.6)
    right, up, forward = camera.frame[1:]
    key = -0.70 * right + 0.80 * up - 0.55 * forward
    at = 1.6 * key / np.linalg.norm(key)
    alone = look(backend, ball, 0.0, camera, 65).pixel.astype(int)
    seen = look(backend, ball, 0.0, camera, 65, mesh=small(*at, radius=0.25)).pixel.astype(int)
    darker = (alone - seen).min(axis=-1)
    row, column = np.nonzero((darker > 25) & ~is_blue(seen))
    assert len(row) > 20
    place = key / np.linalg.norm(key) / ball.domain.length  # of the shadow, from the centre
    centre = ball.domain.to_unit(np.zeros(3)) + place - camera.frame[0]
    expected = np.array([centre @ right, -(centre @ up)]) / (centre @ forward) / camera.pixel_size + 32
    assert np.abs([np.mean(column) - expected[0], np.mean(row) - expected[1]]).max() < 4
    inside = look(backend, ball, 0.0, camera, 65, mesh=small(0, 0, 0)).pixel.astype(int)
    around = np.ones((65, 65), bool)
    around[20:45, 20:45] = False
    assert np.array_equal(inside[around], alone[around])  # what lies inside throws none


# ---- Shapes ----


def test_edges_are_sharp_and_round_parts_smooth() -> None:
    cube = make_mesh(*shapes.cube())
    normals = face_normals(cube.unit_triangles)
    own = np.repeat(normals / np.linalg.norm(normals, axis=1, keepdims=True), 3, axis=0).reshape(-1, 9)
    assert np.allclose(corner_normals(cube), own, atol=1e-6)
    sphere = make_mesh(*shapes.icosphere(2))
    assert np.allclose(corner_normals(sphere).reshape(-1, 3), sphere.vertices[sphere.faces].reshape(-1, 3), atol=0.02)
    needle = make_mesh([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 1, 3]])
    assert np.isfinite(corner_normals(needle)).all()


def test_both_sides_of_a_face_are_seen(backend: Backend, ball: Field) -> None:
    vertices, faces = shapes.moved(shapes.cube(), 1.0, [FAR, 0, 0])
    camera = camera_in(ball, [FAR + 3, 4, 5], [FAR, 0, 0], 32)
    one, other = (look(backend, ball, 0.0, camera, 32, mesh=(vertices, f)) for f in (faces, faces[:, ::-1]))
    assert np.array_equal(one.pixel, other.pixel)


def test_poses_and_scales(ball: Field) -> None:
    vertices, faces = shapes.star(np.random.default_rng(1), 2)
    pose = pose_at("0.5,1.25,2,90,180,-90")
    pose[:3, :3] *= 0.25
    moved = vertices @ pose[:3, :3].T + pose[:3, 3]
    size: dict[str, Any] = {"width": 60, "height": 50, "device": "cpu"}
    expected = sdfcli.render(ball, mesh=(moved, faces), **size)
    assert np.array_equal(sdfcli.render(ball, mesh=(vertices, faces), pose=pose, **size), expected)
    assert np.array_equal(sdfcli.render(ball, mesh=PosedMesh((vertices, faces), pose[None]), **size), expected)
    assert not np.array_equal(sdfcli.render(ball, mesh=(vertices, faces), **size), expected)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_small_and_large_meshes(scale: float, ball: Field) -> None:
    """A cube that is far smaller or larger than the domain, before an eye at that distance."""
    backend = CpuBackend()
    camera = camera_in(ball, [FAR * 100 + 3 * scale, 4 * scale, 5 * scale], [FAR * 100, 0, 0], 40)
    seen = look(backend, ball, 0.0, camera, 40, mesh=shapes.moved(shapes.cube(), scale, [FAR * 100, 0, 0]))
    camera = camera_in(ball, [FAR + 3, 4, 5], [FAR, 0, 0], 40)
    expected = look(backend, ball, 0.0, camera, 40, mesh=shapes.moved(shapes.cube(), 1.0, [FAR, 0, 0]))
    hit = (seen.depth > 0) & (expected.depth > 0)
    assert hit.mean() > 0.1
    assert ((seen.depth > 0) != (expected.depth > 0)).mean() < 0.01
    assert np.allclose(seen.depth[hit] / scale, expected.depth[hit], rtol=1e-3)


def test_the_camera_fits_both(ball: Field) -> None:
    size: dict[str, Any] = {"width": 120, "height": 60, "view": "front", "device": "cpu"}
    picture = sdfcli.render(ball, mesh=small(4, 0, 0, 0.5), **size)
    background = sdfcli.render(ball, shot=shot_of([ball], mesh=small(40, 0, 0), **size), **size)[:, :1]
    shown = (picture != background).any(axis=2)
    columns = np.flatnonzero(shown.any(axis=0))
    assert 1 <= columns[0] < 12
    assert 108 < columns[-1] <= 118
    blue = np.flatnonzero((is_blue(picture) & shown).any(axis=0))
    assert blue.min() > 90
    assert blue.max() == columns[-1]


def test_a_shot_with_a_mesh_is_its_own(ball: Field) -> None:
    posed = PosedMesh(small(0, 0, 0), pose_at("1,1,1"))
    size: dict[str, Any] = {"width": 60, "height": 50, "device": "cpu"}
    shot = shot_of([ball, ball], mesh=posed, **size)
    assert np.array_equal(sdfcli.render(ball, mesh=posed, shot=shot, **size), sdfcli.render(ball, mesh=posed, **size))


def test_without_a_surface_nearby_only_the_mesh_changes_the_picture(ball: Field) -> None:
    size: dict[str, Any] = {"width": 90, "height": 70, "device": "cpu"}
    shot = shot_of([ball], **size)
    alone = sdfcli.render(ball, shot=shot, **size)
    beyond = sdfcli.render(ball, shot=shot, mesh=small(0, -40, 0), **size)  # below the picture
    assert np.array_equal(alone, beyond)


def test_nine_rays_where_colours_change(backend: Backend, ball: Field) -> None:
    mesh = small(0.4, 0.3, 1.2, 0.5)
    contacts = places((0.4, 0.3, 0.9, -0.01), (0.8, 0.3, 1, 0.2))
    camera = camera_in(ball, [2, 1, 4], [0, 0, 0], 40)
    finer = Camera(camera.frame, camera.pixel_size / 3)
    one = look(backend, ball, 0.0, camera, 40, mesh=mesh, contacts=contacts).pixel
    fine = look(backend, ball, 0.0, finer, 120, mesh=mesh, contacts=contacts).pixel
    company = company_of(backend, ball.domain, PosedMesh(mesh), contacts, camera.frame[0])
    picture = draw(backend, ball, 0.0, camera, 0.1, 40, 40, company)
    mean = np.sqrt((fine.astype(float) ** 2).reshape(40, 3, 40, 3, 3).mean(axis=(1, 3)))
    changed = (picture != one).any(axis=-1)
    assert changed.sum() > 50
    assert np.abs(picture[changed] - mean[changed]).max() < 4


# ---- Dots ----


def test_dots_are_where_the_contacts_are(backend: Backend, ball: Field) -> None:
    camera = camera_in(ball, [0, 0, 6], [0, 0, 0], 201, 0.6)
    centre = ball.domain.to_unit(np.array([0.5, 0.25, 1.2])) - camera.frame[0]
    right, up, forward = camera.frame[1:]
    expected = np.array([centre @ right, -(centre @ up)]) / (centre @ forward) / camera.pixel_size + 100
    radius = DOT * np.linalg.norm(centre) / (centre @ forward) / camera.pixel_size
    alone = look(backend, ball, 0.0, camera, 201).pixel
    for distance, reddish in ((-0.1, True), (0.0, False), (0.1, False)):
        seen = look(backend, ball, 0.0, camera, 201, contacts=places((0.5, 0.25, 1.2, distance))).pixel.astype(int)
        row, column = np.nonzero((seen != alone).any(axis=2))
        assert np.abs([column.mean() - expected[0], row.mean() - expected[1]]).max() < 0.5
        assert np.ptp(column) + 1 == pytest.approx(2 * radius, abs=2)
        red, green, blue = seen[row, column].mean(axis=0)
        assert red > blue + 80
        assert (green < blue + 40) == reddish


def test_hidden_dots_are_faint(backend: Backend, ball: Field) -> None:
    """Behind the field's surface, and behind the mesh's."""
    before, after = places((0, 0, 1.5, -1)), places((0, 0, 0.5, -1))
    clay, _ = middle(backend, ball, [0, 0, 5])
    front, depth = middle(backend, ball, [0, 0, 5], contacts=before)
    assert depth == pytest.approx(4, abs=0.02)  # of surfaces
    hidden, _ = middle(backend, ball, [0, 0, 5], contacts=after)
    assert np.abs(hidden - mixed(clay, front, 0.5)).max() < 4
    blue, _ = middle(backend, ball, [0, 0, 5], small(0, 0, 2))
    hidden, _ = middle(backend, ball, [0, 0, 5], small(0, 0, 2), before)
    assert np.abs(hidden - mixed(blue, front, 0.5)).max() < 4


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 300))
def test_dots_leave_room(seed: int, count: int) -> None:
    points = np.random.default_rng(seed).normal(size=(count, 3)) * [1, 1, 0.01]
    chosen = spread(points, 0.2)
    assert chosen[0] == 0
    assert np.all(np.diff(chosen) > 0)
    away = np.linalg.norm(points[chosen][:, None] - points[chosen], axis=2)
    assert np.all(away[~np.eye(len(chosen), dtype=bool)] > 0.2)
    nearest = np.linalg.norm(points[:, None] - points[chosen], axis=2).min(axis=1)
    assert nearest.max() <= 0.2 + 0.1 * 3**0.5


def test_the_deepest_of_many_is_kept(ball: Field) -> None:
    points = np.random.default_rng(4).normal(size=(200, 3)) * 1e-3 + [0, 0, 1]
    distance = np.linspace(0.1, -0.1, 200)
    contacts = SimpleNamespace(point=points, distance=distance)
    company = company_of(CpuBackend(), ball.domain, None, contacts, np.array([0.5, 0.5, 3]))
    assert company.dots is not None
    assert (company.dots.values["count"], company.deep) == (1, 1)
    assert SPACING > 2
    both = places((0, 0, 1, 0.1), (0, 1, 0, -0.1), (1, 0, 0, 0.0))
    company = company_of(CpuBackend(), ball.domain, None, both, np.array([0.5, 0.5, 3]))
    assert company.dots is not None
    assert (company.dots.values["count"], company.deep) == (3, 1)


def test_no_contacts_are_no_dots(ball: Field) -> None:
    size: dict[str, Any] = {"width": 40, "height": 30, "device": "cpu"}
    assert np.array_equal(sdfcli.render(ball, contacts=places(), **size), sdfcli.render(ball, **size))


# ---- The function ----


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"pose": np.eye(4)}, UsageError, "a pose needs a mesh"),
        ({"mesh": PosedMesh(shapes.cube()), "pose": np.eye(4)}, UsageError, "has one already"),
        ({"mesh": shapes.cube(), "pose": np.diag([1.0, 2, 1, 1])}, InputError, "sheared"),
        ({"mesh": shapes.cube(), "pose": np.diag([-1.0, 1, 1, 1])}, InputError, "mirror"),
        ({"mesh": shapes.cube(), "pose": np.stack([np.eye(4)] * 2)}, InputError, "not 2"),
        ({"mesh": shapes.cube(), "pose": pose_at("1e300,0,0")}, InputError, "the posed mesh"),
        ({"mesh": shapes.cube(), "pose": np.diag([1e-40, 1e-40, 1e-40, 1])}, InputError, "the posed mesh"),
        ({"mesh": "nothing.stl"}, InputError, "no such file"),
        ({"mesh": (np.zeros((3, 3)), np.empty((0, 3), int))}, InputError, "no faces"),
        ({"contacts": SimpleNamespace(point=np.zeros((2, 3)), distance=np.zeros(3))}, InputError, "contacts"),
        ({"contacts": places((0, 0, np.nan, 1))}, InputError, "not finite"),
    ],
)
def test_bad_parameters(options: dict[str, Any], error: type[Exception], says: str, ball: Field) -> None:
    with pytest.raises(error, match=says):
        sdfcli.render(ball, width=8, height=8, device="cpu", **options)


def test_unsigned_fields(ball: Field) -> None:
    """A mesh that crosses a sheet is in front of it and behind it, and nowhere inside."""
    vertices, faces = shapes.sheet(np.random.default_rng(5), 6)
    vertices[:, 2] = 0
    field = sdfcli.build((vertices, faces), sign="none", tolerance=1e-3, device="cpu")
    place = vertices.mean(axis=0)
    size: dict[str, Any] = {"width": 80, "height": 60, "view": (20, 30), "up": "z", "device": "cpu"}
    picture = sdfcli.render(field, mesh=small(*place, radius=0.2 * np.ptp(vertices, axis=0).max()), **size)
    assert is_blue(picture).sum() > 100
    assert is_red(picture).sum() < 30


def test_threads_devices_and_bands(backend: Backend, ball: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    vertices, faces = shapes.star(np.random.default_rng(1), 3)
    rng = np.random.default_rng(2)
    contacts = SimpleNamespace(point=rng.normal(size=(300, 3)), distance=rng.normal(size=300))
    size: dict[str, Any] = {"width": 70, "height": 60, "mesh": (0.8 * vertices + 0.4, faces), "contacts": contacts}
    one = sdfcli.render(ball, device="cpu", threads=1, **size)
    assert np.array_equal(sdfcli.render(ball, device=backend.name, **size), one)
    monkeypatch.setattr("sdfcli.pictures.render.BAND", 77)
    assert np.array_equal(sdfcli.render(ball, device=backend.name, **size), one)
