"""Traced pictures: hits, normals and colours against plain NumPy and against spheres."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import sdfcli
import shapes
from cameras import camera_at, camera_towards, look, rays
from sdfcli.backend import Backend
from sdfcli.backend.cpu import CpuBackend
from sdfcli.errors import DrawingNote, InputError, UsageError
from sdfcli.field.field import Field
from sdfcli.pictures.level import leaves_at, shown_level, skin_of
from sdfcli.pictures.render import EDGE, TINTS, VEIL, Camera, aim, draw, lost_depth, shot_of, view_axes

backend = backends.backend

Floats = oracle.Floats


@pytest.fixture(scope="module")
def ball() -> Field:
    return sdfcli.build(shapes.icosphere(5), tolerance=1e-3, device="cpu")


@pytest.fixture(scope="module")
def needle() -> Field:
    """Along x, a third of a pixel thick in a picture of 160 pixels."""
    vertices, faces = shapes.cube()
    return sdfcli.build((vertices * [1, 2e-3, 2e-3], faces), tolerance=1e-3, device="cpu")


def ball_in_unit(field: Field) -> tuple[Floats, float]:
    """Centre and radius of the sphere of radius 1 around the origin, in the unit cube of the field's domain."""
    return -field.domain.origin / field.domain.length, 1 / field.domain.length


# ---- Hits ----


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    splits=st.sampled_from([0, 1, 5, 40]),
    iso=st.sampled_from([0.0, 0.7, -1.5]),
    inside=st.booleans(),
)
def test_the_first_root_along_each_ray(backend: Backend, seed: int, splits: int, iso: float, inside: bool) -> None:
    # Any octree with any values: not continuous, with several roots in a leaf, and negative at the border.
    rng = np.random.default_rng(seed)
    field = oracle.random_field(rng, splits, rng.normal(size=3), 0.37)
    level = iso * field.domain.length
    eye = rng.uniform(0.05, 0.95, 3) if inside else 0.5 + 2 * rng.choice([-1, 1], 3) * rng.uniform(0.5, 1, 3)
    camera = camera_at(eye, rng.uniform(0.2, 0.8, 3), 8)
    eye, way = rays(camera, 8)
    depth = look(backend, field, level, camera, 8).depth.ravel()
    way = way.reshape(-1, 3)

    value = oracle.Trilinear(field)
    enter, leave = np.sort([(0 - eye) / way, (1 - eye) / way], axis=0)
    enter, leave = np.maximum(enter.max(axis=1), 0), leave.min(axis=1)
    meets = enter < leave
    assert np.all(depth[~meets] < 0)
    depth, enter, leave, way = depth[meets], enter[meets], leave[meets], way[meets]

    def above(t: Floats) -> Floats:
        points = (eye + t[:, None] * way).clip(0, 1)
        return value(field.domain.origin + points * field.domain.length)[0] / field.domain.length - iso

    hit = depth >= 0
    assert np.all((depth[hit] >= enter[hit] - 1e-12) & (depth[hit] <= leave[hit] + 1e-12))
    # Not positive right behind the hit (unless a root that only touches); and nowhere before it.
    behind = above(np.where(hit, depth + 1e-7, enter))
    assert np.all(behind[hit] < 1e-3)
    end = np.where(hit, depth - 1e-6, leave - 1e-6)
    for part in np.linspace(0, 1, 160):
        t = enter + 1e-9 + part * (end - enter)
        assert np.all((above(t) > -1e-9) | (t >= end))


def test_a_sphere(backend: Backend, ball: Field) -> None:
    centre, radius = ball_in_unit(ball)
    camera = camera_towards(centre, [1.1, 0.7, 1.6], 64)
    seen = look(backend, ball, 0.0, camera, 64)
    eye, way = rays(camera, 64)
    along = way @ (centre - eye)
    inner = along**2 - (centre - eye) @ (centre - eye) + radius**2
    assert np.all(seen.depth[inner < -0.02 * radius**2] < 0)
    clear = inner > 0.05 * radius**2  # not at the rim, where a small error moves the hit far
    assert clear.sum() > 1000
    expected = along[clear] - np.sqrt(inner[clear])
    diagonal = 2 * 3**0.5 * radius
    assert np.abs(seen.depth[clear] - expected).max() < 1.5e-3 * diagonal / 0.05**0.5
    outwards = (eye + expected[:, None] * way[clear] - centre) / radius
    assert np.all((seen.normal[clear] * outwards).sum(axis=-1) > np.cos(np.radians(6)))
    assert np.allclose(np.linalg.norm(seen.normal[clear], axis=-1), 1, atol=1e-12)


@pytest.mark.parametrize("kind", ["star", "holed torus", "sheet", "shells"])
@pytest.mark.parametrize("iso", [0.0, 0.03])
def test_leaps_jump_over_nothing(backend: Backend, kind: str, iso: float) -> None:
    field = sdfcli.build(shapes.ANY[kind](np.random.default_rng(3)), tolerance=3e-3, depth=7, device="cpu")
    iso = iso * field.domain.length if field.info["sign"] != "none" else 0.01 * field.domain.length
    camera = camera_at([1.9, 1.4, 2.1], [0.5, 0.5, 0.5], 48, 0.6)
    leaping = look(backend, field, iso, camera, 48).depth
    walking = look(backend, dataclasses.replace(field, info={}), iso, camera, 48).depth
    assert (walking >= 0).sum() > 100
    assert np.array_equal(leaping < 0, walking < 0)
    assert np.allclose(leaping, walking, atol=1e-8)


def test_offsets_grow(backend: Backend, ball: Field) -> None:
    centre, radius = ball_in_unit(ball)
    camera = camera_towards(centre, [0, 0, 2.0], 33)
    for iso in (-0.3, 0.05):
        depth = look(backend, ball, iso, camera, 33).depth[16, 16]
        assert abs(2.0 - radius * (1 + iso) - depth) < 5e-3


def test_fields_without_signs_have_a_skin(backend: Backend) -> None:
    rng = np.random.default_rng(5)
    vertices, faces = shapes.sheet(rng, 6)
    vertices[:, 2] = 0
    field = sdfcli.build((vertices, faces), sign="none", tolerance=1e-3, device="cpu")
    picture = sdfcli.render(field, width=60, height=50, view="top", up="z", device="cpu")
    background = picture[0, 0].astype(int)
    assert np.abs(picture[25, 10:50].astype(int) - background).max(axis=-1).min() > 15
    level = 2e-3 * field.info["mesh"]["diagonal"]
    target = -field.domain.origin / field.domain.length
    seen = look(backend, field, level, camera_towards(target, [0, 0, 1.5], 9, 0.1), 9)
    height = (1.5 - seen.depth[4, 4]) * field.domain.length
    assert 0 < height < 2 * level


# ---- Colours ----


def test_nine_rays_where_colours_change(backend: Backend, ball: Field) -> None:
    # A pixel of nine rays is the mean light of nine pixels of a picture with three times as many along each side.
    centre, _ = ball_in_unit(ball)
    camera = camera_towards(centre, [1.2, 0.6, 1.4], 40)
    one = look(backend, ball, 0.0, camera, 40).pixel
    fine = look(backend, ball, 0.0, Camera(camera.frame, camera.pixel_size / 3), 120).pixel
    # Half the pixel's way for normals: the finer picture has finer ones, so the field must be coarser than its pixels.
    picture = draw(backend, ball, 0.0, camera, 0.1, 40, 40)
    mean = np.sqrt((fine.astype(float) ** 2).reshape(40, 3, 40, 3, 3).mean(axis=(1, 3)))
    step = np.zeros((40, 40), int)
    wide = np.pad(one.astype(int), ((1, 1), (1, 1), (0, 0)), mode="edge")
    for shift in ((0, 1), (2, 1), (1, 0), (1, 2)):
        there = wide[shift[0] : shift[0] + 40, shift[1] : shift[1] + 40]
        step = np.maximum(step, np.abs(there - one).max(axis=-1))
    changed = step >= 10
    assert 50 < changed.sum() < 800
    assert np.array_equal(picture[~changed], one[~changed])
    assert np.abs(picture[changed] - mean[changed]).max() < 4
    assert np.abs(picture[changed].astype(int) - one[changed]).max() > 30


def test_occlusion_darkens_corners_only(backend: Backend) -> None:
    step = shapes.joined(shapes.cube(), shapes.moved(shapes.cube(), 1.0, [1.9, 1.2, 0]))
    field = sdfcli.build(step, tolerance=2e-3, device="cpu")

    def brightness(at: Any, reach: float) -> float:
        target = (np.array(at) - field.domain.origin) / field.domain.length
        camera = camera_towards(target, [-0.3, 1.5, 0.2], 15, 0.02)
        return float(look(backend, field, 0.0, camera, 15, reach).pixel.mean())

    in_the_corner, in_the_open = [0.84, 1, 0], [-0.3, 1, 0]
    assert brightness(in_the_corner, 0.2) < 0.85 * brightness(in_the_corner, 0.002)
    assert abs(brightness(in_the_open, 0.2) - brightness(in_the_open, 0.002)) < 2
    assert brightness(in_the_open, 0.2) > brightness(in_the_corner, 0.2) + 20


# ---- Views ----


@given(azimuth=st.floats(-360, 360), elevation=st.floats(-90, 90), up=st.sampled_from("yz"))
def test_axes_of_views(azimuth: float, elevation: float, up: str) -> None:
    axes = view_axes((azimuth, elevation), up)
    assert np.allclose(axes @ axes.T, np.eye(3), atol=1e-12)
    assert np.allclose(np.cross(axes[0], axes[1]), axes[2], atol=1e-12)
    world = np.eye(3)["xyz".index(up)]
    assert abs(axes[0] @ world) < 1e-12  # the horizon is level
    assert axes[1] @ world >= -1e-12
    assert abs(axes[2] @ world - np.sin(np.radians(elevation))) < 1e-12


@pytest.mark.parametrize(
    ("view", "up", "right", "above", "eye"),
    [
        ("front", "y", "+x", "+y", "+z"),
        ("back", "y", "-x", "+y", "-z"),
        ("right", "y", "-z", "+y", "+x"),
        ("left", "y", "+z", "+y", "-x"),
        ("top", "y", "+x", "-z", "+y"),
        ("bottom", "y", "+x", "+z", "-y"),
        ("front", "z", "+x", "+z", "-y"),
        ("right", "z", "+y", "+z", "+x"),
        ("top", "z", "+x", "+y", "+z"),
    ],
)
def test_named_views(view: str, up: str, right: str, above: str, eye: str) -> None:
    expected = [int(name[0] + "1") * np.eye(3)["xyz".index(name[1])] for name in (right, above, eye)]
    assert np.allclose(view_axes(view, up), expected, atol=1e-15)


def test_iso_shows_three_sides_alike() -> None:
    assert np.allclose(view_axes("iso", "y")[2], 3**-0.5)


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32 - 1),
    width=st.integers(1, 2000),
    height=st.integers(1, 2000),
    edge=st.sampled_from([0.5, 0.1, 1e-4]),
    flat=st.booleans(),
)
def test_the_surface_fills_the_picture(seed: int, width: int, height: int, edge: float, flat: bool) -> None:
    rng = np.random.default_rng(seed)
    place = rng.random((20, 3)) * (rng.choice([1, 1e-3], 3) if flat else 1)
    leaves = np.hstack((place, edge * rng.random((20, 1))))
    axes = view_axes((rng.uniform(-180, 180), rng.uniform(-90, 90)), "y")
    camera, extent = aim(leaves, axes, width, height)
    corners = (leaves[:, None, :3] + leaves[:, None, 3:] * np.array(list(np.ndindex(2, 2, 2)))).reshape(-1, 3)
    eye, right, up, forward = camera.frame
    away = (corners - eye) @ forward
    assert np.all(away > 0)
    seen = np.array([(corners - eye) @ right / width, (corners - eye) @ up / height]) / away / camera.pixel_size
    assert np.abs(seen).max() < 0.5
    if edge == 1e-4 and not flat:  # of larger leaves the camera takes the balls around them
        assert np.ptp(seen, axis=1).max() > 0.93
    assert np.isclose(extent, np.linalg.norm(np.ptp(corners, axis=0)))


def test_what_is_right_and_above() -> None:
    field = sdfcli.build(
        shapes.joined(shapes.cube(), shapes.moved(shapes.cube(), 0.3, [2, 2, 0])), depth=6, device="cpu"
    )
    picture = sdfcli.render(field, width=80, height=80, view="front", device="cpu").astype(int)
    shown = np.abs(picture - picture[:, :1]).max(axis=-1) > 12
    row, column = np.nonzero(shown)
    assert shown[:20, 60:].any()
    assert not shown[:20, :40].any()
    assert not shown[60:, 70:].any()
    assert column.min() < 10
    assert row.max() > 70


# ---- The function ----


def test_render(ball: Field, tmp_path: Any) -> None:
    path = ball.save(tmp_path / "ball.h5")
    picture = sdfcli.render(path, width=90, height=70, device="cpu")
    assert (picture.shape, picture.dtype) == ((70, 90, 3), np.uint8)
    assert np.array_equal(picture, sdfcli.render(ball, width=90, height=70, view=(-30, 20), device="cpu", threads=3))
    assert sdfcli.render(ball, width=1, height=1, device="cpu").shape == (1, 1, 3)


def test_bands_make_one_picture(ball: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sdfcli.render(ball, width=31, height=20, device="cpu")
    monkeypatch.setattr("sdfcli.pictures.render.BAND", 77)
    assert np.array_equal(whole, sdfcli.render(ball, width=31, height=20, device="cpu"))


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_any_units(scale: float, ball: Field) -> None:
    field = sdfcli.build(shapes.moved(shapes.icosphere(5), scale), tolerance=1e-3, device="cpu")
    one, other = (sdfcli.render(f, width=40, height=40, device="cpu").astype(int) for f in (field, ball))
    assert np.abs(one - other).mean() < 0.5


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"width": 0}, "--size 0x600"),
        ({"height": 8193}, "--size 800x8193"),
        ({"view": "up"}, "--view up"),
        ({"view": "1,2,3"}, "--view"),
        ({"view": "nan,0"}, "--view"),
        ({"view": (0, 91)}, "--view"),
        ({"up": "x"}, "--up x"),
        ({"iso": float("nan")}, "--iso nan"),
        ({"iso": 1e300}, "--iso"),
    ],
)
def test_bad_parameters(options: dict[str, Any], says: str, ball: Field) -> None:
    with pytest.raises(UsageError, match=says):
        sdfcli.render(ball, device="cpu", **options)


# ---- Thinner than a pixel ----


@pytest.mark.parametrize("view", ["front", "top", "-30,20"])
def test_a_needle_shows(view: str, needle: Field) -> None:
    """Its whole length, from where the rays of all rows pass it by, too."""
    with pytest.warns(DrawingNote, match="thinner than a pixel"):
        picture = sdfcli.render(needle, width=160, height=120, view=view, device="cpu")
    columns = (picture != picture[:, :1]).any(axis=(0, 2))
    assert columns[10:150].all()


def test_a_needle_from_its_end_is_wide_enough(needle: Field) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sdfcli.render(needle, width=160, height=120, view="right", device="cpu")


def test_lost_leaves() -> None:
    """Balls of a tenth of a pixel's edge: found within half a pixel of a hit, and only there."""
    camera = Camera(np.array([[0.5, 0.5, 2.0], [1, 0, 0], [0, 1, 0], [0, 0, -1]]), 0.5)
    hit = np.zeros((4, 6), np.uint8)
    hit[1, 4] = 1  # seen along x 0.5 to 1, y 0 to 0.5, relative to the axis, at depth 1
    for x, y, lost in ((1.25, 0.75, 0), (1.72, 0.75, 0), (1.8, 0.75, 1), (1.25, 0.3, 0), (1.25, 0.2, 1), (50, 50, 1)):
        leaf = np.array([[x - 0.005, y - 0.005, 0.995, 0.01]])
        assert lost_depth(leaf, camera, hit) == pytest.approx(lost), (x, y)
    assert lost_depth(np.empty((0, 4)), camera, hit) == 0
    found, missed = [1.25, 0.75, 1.0, 0.0], [0.5, 0.0, 0.5, 0.0]
    assert lost_depth(np.array([found] * 1000 + [missed]), camera, hit) == 0  # a few do not matter
    assert lost_depth(np.array([found] * 500 + [missed]), camera, hit) == 1.5


def test_no_surface(ball: Field) -> None:
    with pytest.raises(InputError, match="values go from"):
        sdfcli.render(ball, iso=50.0, device="cpu")


# ---- Bits ----


def test_threads_and_devices(backend: Backend) -> None:
    # The random fields have every kind of leaf, and statements of an error that do not hold: rays go back.
    made = sdfcli.build(shapes.star(np.random.default_rng(1), 2), tolerance=4e-3, depth=7, device="cpu")
    wrong = dataclasses.replace(oracle.random_field(np.random.default_rng(2), 60), info=made.info)
    for field in (made, wrong):
        camera = aim(leaves_at(backend, field, 0.0), view_axes("iso", "y"), 70, 70)[0]
        results = []
        for where in (CpuBackend(1), backend):
            seen = look(where, field, 0.0, camera, 70)
            pictures = [draw(where, field, 0.0, camera, 0.1, 70, 70, transparent=clear) for clear in (False, True)]
            results.append(b"".join(a.tobytes() for a in (seen.pixel, seen.depth, seen.normal, *pictures)))
        assert results[0] == results[1]


# ---- Transparency ----


def test_a_transparent_picture_over_the_background_is_the_opaque_one(backend: Backend, ball: Field) -> None:
    size = 60
    centre, _ = ball_in_unit(ball)
    camera = camera_towards(centre, [1.2, 0.6, 1.4], size)
    picture = draw(backend, ball, 0.0, camera, 0.1, size, size, transparent=True)
    opaque = draw(backend, ball, 0.0, camera, 0.1, size, size)
    hit = look(backend, ball, 0.0, camera, size).depth >= 0
    colour, share = picture[..., :3].astype(float), picture[..., 3:] / 255
    assert np.array_equal(colour[share[..., 0] == 1], opaque[share[..., 0] == 1])
    # The mean light of nine rays, as in test_nine_rays_where_colours_change.
    fine = look(backend, ball, 0.0, Camera(camera.frame, camera.pixel_size / 3), 3 * size)
    mean = np.sqrt((fine.pixel.astype(float) ** 2).reshape(size, 3, size, 3, 3).mean(axis=(1, 3)))
    behind = look(backend, ball, 0.0, camera_at([1.2, 0.6, 1.4], [9, 9, 9], size), size).pixel.astype(float)
    mixed = np.sqrt(share * colour**2 + (1 - share) * behind**2)
    part = (share[..., 0] > 0) & (share[..., 0] < 1)
    assert np.abs(mixed[part] - mean[part]).max() < 4
    edge = np.pad(hit, 1, mode="edge")
    edge = (edge[:-2, 1:-1] != hit) | (edge[2:, 1:-1] != hit) | (edge[1:-1, :-2] != hit) | (edge[1:-1, 2:] != hit)
    assert np.array_equal(share[~edge, 0], hit[~edge])
    hits = (fine.depth >= 0).reshape(size, 3, size, 3).sum(axis=(1, 3))
    assert np.array_equal(picture[edge, 3], (255 * hits[edge] + 4) // 9)
    assert len(np.unique(share[edge])) > 8


def test_what_is_beside_the_surface_is_opaque(ball: Field) -> None:
    mesh = shapes.moved(shapes.icosphere(3), 0.5, [1.9, 0, 0])
    found = sdfcli.contacts(ball, mesh, np.eye(4), margin=0.5, device="cpu")
    options: dict[str, Any] = {"width": 90, "height": 60, "device": "cpu", "view": "front", "mesh": mesh}
    for contacts in None, found:
        opaque = sdfcli.render(ball, contacts=contacts, **options)
        share = sdfcli.render(ball, contacts=contacts, transparent=True, **options)[..., 3]
        drawn = np.abs(opaque.astype(int) - opaque[:, :1]).max(axis=2) > 3
        assert (share[drawn] > 0).all()
        assert drawn.sum() <= (share > 0).sum() < 1.05 * drawn.sum()


# ---- Several levels ----


def test_levels_of_a_ball(ball: Field) -> None:
    """Three spheres around one centre: their opacities follow from angles alone, their colours from each by itself."""
    size, levels = 80, [0.0, 0.1, -0.3]
    options: dict[str, Any] = {"width": size, "height": size, "view": "front", "device": "cpu"}
    shot = shot_of([ball], iso=levels, **options)
    eye, way = rays(shot.camera, size)
    centre, radius = ball_in_unit(ball)
    expected = sdfcli.render(ball, iso=-0.3, shot=shot, **options) / 255.0
    sharp = np.ones((size, size), bool)
    for level, tint in zip([0.0, 0.1], TINTS, strict=False):
        layer = sdfcli.render(ball, iso=level, shot=shot, transparent=True, **options) / 255.0
        past = np.linalg.norm(np.cross(centre - eye, way), axis=-1) / (radius * (1 + level))
        veil = VEIL + (EDGE - VEIL) * (1 - np.sqrt(1 - np.minimum(past, 1) ** 2)) ** 2
        part = (veil * layer[..., 3])[..., None]
        expected = np.sqrt(np.minimum((1 - part) * expected**2 + part * tint * layer[..., :3] ** 2, 1))
        sharp &= np.abs(past - 1) > 0.06
    picture = sdfcli.render(ball, iso=levels, **options)
    assert sharp.sum() > 0.7 * size**2
    assert np.abs(255 * expected - picture)[sharp].max() < 4
    assert np.array_equal(picture, sdfcli.render(ball, iso=sorted(levels), shot=shot, **options))
    assert np.array_equal(picture, sdfcli.render(ball, iso=np.array(levels), shot=shot, **options))
    assert np.array_equal(sdfcli.render(ball, iso=[0.0], **options), sdfcli.render(ball, **options))


def test_levels_over_the_background(ball: Field) -> None:
    options: dict[str, Any] = {"width": 60, "height": 60, "device": "cpu", "iso": [-0.4, 0.0]}
    opaque = sdfcli.render(ball, **options)
    clear = sdfcli.render(ball, transparent=True, **options)
    behind = np.broadcast_to(opaque[:, :1].astype(float), opaque.shape)  # the ball does not reach the border
    share = clear[..., 3:] / 255
    assert ((share > 0.2) & (share < 0.9)).sum() > 1000
    mixed = np.sqrt(share * clear[..., :3].astype(float) ** 2 + (1 - share) * behind**2)
    assert np.abs(mixed - opaque).max() < 8
    assert not clear[0].any()


def test_bits_of_levels(backend: Backend, ball: Field) -> None:
    size: dict[str, Any] = {"width": 50, "height": 50, "iso": [-0.2, 0.0, 0.1]}
    other = sdfcli.render(ball, device=backend.name, **size)
    assert np.array_equal(sdfcli.render(ball, device="cpu", threads=1, **size), other)


def test_levels_that_cannot_be_drawn(ball: Field) -> None:
    with pytest.raises(UsageError, match="at least one"):
        sdfcli.render(ball, iso=[], device="cpu")
    with pytest.raises(InputError, match="no surface at 50"):
        sdfcli.render(ball, iso=[0.0, 50.0], device="cpu")
    with pytest.raises(UsageError, match="--mesh"):
        sdfcli.render(ball, iso=[0.0, 0.1], mesh=shapes.cube(), device="cpu")


# ---- Pictures of several fields ----


def moving(*shifts: float) -> list[Field]:
    """A ball at several places of one domain."""
    domain = (-2.0, -2.0, -2.0, 6.0)
    return [
        sdfcli.build(shapes.moved(shapes.icosphere(3), 1.0, [x, 0, 0]), domain=domain, tolerance=5e-3, device="cpu")
        for x in shifts
    ]


def test_a_shot_of_one_field_is_its_own() -> None:
    field = moving(0.3)[0]
    size: dict[str, Any] = {"width": 90, "height": 70, "view": (30, 20), "up": "z", "device": "cpu"}
    shot = shot_of([field], **size)
    assert np.array_equal(sdfcli.render(field, shot=shot, **size), sdfcli.render(field, **size))


def test_a_shot_shows_every_field_and_stands_still() -> None:
    fields = moving(0.0, 1.0, 2.0)
    size: dict[str, Any] = {"width": 120, "height": 60, "view": "front", "device": "cpu"}
    shot = shot_of(iter(fields), **size)
    empty = sdfcli.render(fields[0], shot=shot, **size)[:, -1:]  # the ball is at the left
    columns = []
    for field in fields:
        picture = sdfcli.render(field, shot=shot, **size)
        hit = (picture != empty).any(axis=2)
        assert not hit[0].any()
        assert not hit[:, 0].any()
        columns.append(np.flatnonzero(hit.any(axis=0)))
    left, right = ([int(side) for side in sides] for sides in ([c[0] for c in columns], [c[-1] for c in columns]))
    assert left[0] < 16  # the first one touches the left margin, the last one the right margin
    assert right[2] > 103
    middles = [0.5 * (a + b) for a, b in zip(left, right, strict=True)]
    assert middles[1] - middles[0] == pytest.approx(middles[2] - middles[1], abs=4)  # perspective
    assert middles[1] - middles[0] > 20


def test_a_field_without_a_surface_is_an_empty_picture() -> None:
    fields = moving(0.0, 1.0)
    fields[1] = dataclasses.replace(fields[1], distance=np.abs(fields[1].distance) + 1)
    size: dict[str, Any] = {"width": 60, "height": 60, "device": "cpu"}
    shot = shot_of(fields, **size)
    assert np.array_equal(shot.camera.frame, shot_of(fields[:1], **size).camera.frame)
    background = sdfcli.render(fields[1], shot=shot, **size)
    assert (background == background[:, :1]).all()
    with pytest.raises(InputError, match="no surface at 0"):
        shot_of(fields[1:], **size)


def test_unsigned_fields_have_one_skin() -> None:
    fields = [
        sdfcli.build(shapes.sheet(np.random.default_rng(1), 4), sign="none", tolerance=t, device="cpu")
        for t in (5e-3, 2e-2)
    ]
    skins = [skin_of(field) for field in fields]
    assert skins[0] < skins[1] == shot_of(fields, width=50, height=50, device="cpu").skin
    assert shown_level(fields[0], None, skins[1]) == skins[1]
    assert shown_level(moving(0.0)[0], None, skins[1]) == 0
