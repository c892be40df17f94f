"""Slices: values at the right places, and colours, lines and numbers that say what the values are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backends
import oracle
import sdfcli
import shapes
from sdfcli.backend import Backend, select_backend
from sdfcli.errors import InputError, UsageError
from sdfcli.field.field import Field
from sdfcli.octree.causes import JUMP, Cause
from sdfcli.pictures import colour
from sdfcli.pictures import slice as slices

backend = backends.backend

INNER = 64
"""Pixels of the plane in small pictures."""


@pytest.fixture(scope="module")
def ball() -> Field:
    shape = shapes.moved(shapes.icosphere(5), 2.0, [10, 20, 30])
    return sdfcli.build(shape, tolerance=1e-3, device="cpu")


@pytest.fixture(scope="module")
def sheet() -> Field:
    return sdfcli.build(shapes.sheet(np.random.default_rng(1), 5), tolerance=3e-3, sign="none", device="cpu")


def plane_of(picture: Any, size: int) -> Any:
    """The part of a picture that shows the plane: the square within the first dark frame."""
    dark = (picture == slices.INK).all(axis=-1)
    top = int(np.argmax(dark.sum(axis=1) > size))
    left = int(np.argmax(dark.sum(axis=0) > size))
    return picture[top + 1 : top + 1 + size, left + 1 : left + 1 + size].astype(int)


# ---- Values ----


@pytest.mark.parametrize(("axis", "right", "up"), [("x", 1, 2), ("y", 0, 2), ("z", 0, 1)])
def test_pixels_have_the_values_at_their_middles(backend: Backend, axis: str, right: int, up: int) -> None:
    field = oracle.random_field(np.random.default_rng(4), 30, [1, 2, 3], 8.0)
    k = "xyz".index(axis)
    at = float(field.domain.origin[k]) + 2.7
    size = 24
    value, leaf = slices.sample_plane(backend, field, axis, at, size)
    expected = oracle.Trilinear(field)
    for row in range(size):
        points = np.empty((size, 3))
        points[:, k] = at
        points[:, right] = field.domain.origin[right] + (np.arange(size) + 0.5) * 8 / size
        points[:, up] = field.domain.origin[up] + (size - row - 0.5) * 8 / size
        assert np.allclose(value[row], expected(points)[0], atol=1e-5)
        assert np.array_equal(leaf[row], expected.leaf(points))


def test_bands_make_one_plane(cpu: Backend, ball: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = slices.sample_plane(cpu, ball, "y", 20.3, 70)
    monkeypatch.setattr(slices, "CHUNK", 70 * 9 + 5)
    for one, other in zip(whole, slices.sample_plane(cpu, ball, "y", 20.3, 70), strict=True):
        assert np.array_equal(one, other)


def test_the_default_place_is_the_middle_of_the_surface(cpu: Backend, ball: Field) -> None:
    edge = ball.domain.length / 64
    for axis, middle in zip("xyz", (10, 20, 30), strict=True):
        assert abs(slices.place_of_plane(cpu, ball, axis, None) - middle) < edge
    everywhere = oracle.random_field(np.random.default_rng(1), 3, 2.0, 4.0)
    everywhere = replace(everywhere, distance=np.ones_like(everywhere.distance))
    assert slices.place_of_plane(cpu, everywhere, "x", None) == 4.0


# ---- Colours ----


def test_known_colours_of_oklab() -> None:
    # Those of sRGB's corners, from the article that defines the space.
    known = {
        (1.0, 1.0, 1.0): (1.0, 0.0, 0.0),
        (1.0, 0.0, 0.0): (0.62796, 0.22486, 0.12585),
        (0.0, 1.0, 0.0): (0.86644, -0.23389, 0.17950),
        (0.0, 0.0, 1.0): (0.45201, -0.03246, -0.31153),
        (0.0, 0.0, 0.0): (0.0, 0.0, 0.0),
    }
    for rgb, lab in known.items():
        assert np.allclose(colour.oklab_to_srgb(lab), rgb, atol=3e-3)


def test_the_map_goes_evenly_from_blue_to_red() -> None:
    table = colour.diverging_table().astype(float)
    assert table.shape == (511, 3)
    linear = np.where(table / 255 <= 0.04045, table / 255 / 12.92, ((table / 255 + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    lightness = 116 * np.cbrt(luminance) - 16  # of CIELAB: another measure than that of which the map is made
    assert lightness[255] > 94
    assert np.ptp(table[255]) < 4
    for side in (lightness[255:], lightness[255::-1]):
        slope = -np.diff(np.convolve(side, np.ones(9) / 9, "valid"))
        assert slope.min() > 0.6 * slope.mean()
        assert slope.max() < 1.5 * slope.mean()
    assert np.abs(lightness - lightness[::-1]).max() < 7
    assert table[0, 2] > table[0, 0] + 60
    assert table[-1, 0] > table[-1, 2] + 60


@given(st.floats(-5, 5))
def test_paint(value: float) -> None:
    (pixel,) = slices.paint(np.array([value]), 4.0).astype(int)
    (further,) = slices.paint(np.array([1.3 * value]), 4.0).astype(int)
    assert pixel.sum() >= further.sum()
    if value > 0.01:
        assert pixel[0] > pixel[2]
    if value < -0.01:
        assert pixel[0] < pixel[2]


def test_inside_is_blue_and_outside_red(ball: Field) -> None:
    plane = plane_of(sdfcli.slice_image(ball, axis="z", at=30, size=200, device="cpu"), 200)
    middle = (np.arange(200) + 0.5) / 200 * ball.domain.length
    x, y = ball.domain.origin[0] + middle, (ball.domain.origin[1] + middle)[::-1]
    distance = np.hypot(x[None] - 10, y[:, None] - 20) - 2
    pixel = ball.domain.length / 200
    surface = np.abs(distance) < 0.3 * pixel
    assert surface.sum() > 100
    assert plane[surface].max() < 90
    assert np.all((plane[..., 2] > plane[..., 0])[distance < -0.1])
    assert np.all((plane[..., 0] > plane[..., 2])[distance > 0.1])


def test_without_signs_nothing_is_blue(sheet: Field) -> None:
    plane = plane_of(sdfcli.slice_image(sheet, axis="y", at=0.1, size=128, device="cpu"), 128)
    assert np.all(plane[..., 0] >= plane[..., 2] - 1)
    middle = sheet.domain.origin + 0.5 * sheet.domain.length
    across = np.argmin(plane[:, 64].sum(axis=1))
    assert plane[across, 64].max() < 60
    heights = np.array([[middle[0], 0.1, sheet.domain.origin[2] + (128 - across - 0.5) / 128 * sheet.domain.length]])
    assert sheet.sample(heights)[0] < 2 * sheet.domain.length / 128


# ---- Lines ----


def test_lines_lie_at_multiples() -> None:
    value = np.tile(np.arange(100, dtype=np.float32) * 0.1 - 3.03, (50, 1))  # a tenth a pixel
    cover = slices.contour_lines(value, 1.0, 0.1)
    column = np.flatnonzero(cover[20] > 0.1)
    near = np.rint(value[20, column])
    assert set(near) == {-3, -2, -1, 1, 2, 3, 4, 5, 6}
    assert np.all(np.abs(value[20, column] - near) < 0.1)
    total = cover[20].sum() / 0.35
    assert abs(total - len(set(near))) < 0.6  # as if each were a pixel wide; the first one is cut by the border


def test_lines_where_the_slope_vanishes() -> None:
    x, y = np.meshgrid(np.arange(80) - 39.5, np.arange(80) - 39.5)
    touching = (0.01 * (x**2 + y**2)).astype(np.float32)  # of pixels that are 1 wide
    assert 1 < slices.line(touching, touching, 1.0, 1.0).sum() < 30
    assert np.all(slices.line(0 * touching, 0 * touching, 1.0, 1.0) == 1)


def test_the_surface_is_where_the_sign_changes() -> None:
    """Not on an interior wall, where the distance has a kink just below 0."""
    x, y = np.meshgrid(np.arange(80) - 39.5, np.arange(80) - 39.5)
    ball = (np.hypot(x, y) - 30).astype(np.float32)
    wall = np.where(ball < 0, np.maximum(ball, -np.abs(x) - 0.01), ball).astype(np.float32)
    drawn = slices.surface_line(wall, 0.0, 1.0, False)
    assert np.array_equal(drawn[np.abs(ball) < 1], slices.line(wall, wall, 2.0, 1.0)[np.abs(ball) < 1])
    assert np.all(drawn[ball < -3] == 0)
    assert slices.line(wall, wall, 2.0, 1.0)[ball < -3].max() > 0.4
    assert np.all(slices.surface_line(0 * wall, 0.0, 1.0, False) == 1)  # the plane lies in the surface


def test_borders_of_leaves() -> None:
    leaf = np.zeros((32, 32), np.uint32)
    leaf[:, 16:] = 1
    leaf[16:, 16:] = 2
    cover = slices.cell_borders(leaf, np.array([1, 1, 1], np.uint8))
    expected = np.zeros((32, 32), bool)
    expected[:, 16] = True
    expected[16, 16:] = True
    assert np.array_equal(cover > 0, expected)
    finer = slices.cell_borders(leaf, np.array([4, 1, 1], np.uint8))
    assert np.all(finer[:, 16] == cover[:, 16])  # the border belongs to the leaf behind it
    assert slices.cell_borders(leaf.T, np.array([4, 4, 4], np.uint8)).max() < cover.max()


def test_the_octree_is_drawn_where_leaves_meet(cpu: Backend, ball: Field) -> None:
    options: dict[str, Any] = {"axis": "x", "at": 10.5, "size": 128, "device": "cpu"}
    plain = plane_of(sdfcli.slice_image(ball, **options), 128)
    cells = plane_of(sdfcli.slice_image(ball, octree=True, **options), 128)
    _, leaf = slices.sample_plane(cpu, ball, "x", 10.5, 128)
    border = slices.cell_borders(leaf, ball.leaf_level) > 0
    changed = (plain != cells).any(axis=-1)
    assert not changed[~border].any()
    assert changed[border].mean() > 0.8


# ---- Causes ----


def test_leaves_have_the_colours_of_their_causes(cpu: Backend, ball: Field) -> None:
    """The same one in the legend, all of which differ; a leaf at a jump of the sign has stripes besides."""
    causes = np.random.default_rng(1).choice([*Cause], len(ball.leaf_key)).astype(np.uint8)
    field = replace(ball, leaf_cause=causes)
    picture = sdfcli.slice_image(field, axis="x", size=400, why=True, device="cpu")
    plane = plane_of(picture, 400)
    value, leaf = slices.sample_plane(cpu, field, "x", slices.place_of_plane(cpu, field, "x", None), 400)
    free = (slices.cell_borders(leaf, field.leaf_level) == 0) & (np.abs(value) > 3 * field.domain.length / 400)
    shades = [colour.shade(*slices.SHADES[cause]) for cause in Cause]
    assert len({*shades}) == len(Cause)
    far = [np.abs(np.subtract(a, b)).sum() for k, a in enumerate(shades) for b in shades[:k]]
    assert min(far) > 60
    assert np.array_equal(plane[free], np.array(shades)[causes[leaf[free]]])
    legend = picture[:, picture.shape[1] - 300 :].reshape(-1, 3).tolist()
    for shade in shades:
        assert legend.count([*shade]) > 50
    jumping = replace(field, leaf_cause=causes | np.uint8(JUMP))
    striped = plane_of(sdfcli.slice_image(jumping, axis="x", size=400, why=True, device="cpu"), 400)
    darker = (striped < plane)[free].all(axis=-1)
    assert 0.25 < darker.mean() < 0.45
    assert np.array_equal(striped[free][~darker], plane[free][~darker])


def test_a_legend_has_the_causes_in_the_plane(ball: Field) -> None:
    pictures = [
        sdfcli.slice_image(
            replace(ball, leaf_cause=np.full(len(ball.leaf_key), byte, np.uint8)), size=INNER, why=True, device="cpu"
        )
        for byte in (Cause.ERROR, Cause.ERROR | JUMP)
    ]
    assert pictures[0].shape[1] < pictures[1].shape[1]  # words for jumps
    with pytest.raises(InputError, match="stores no causes"):
        sdfcli.slice_image(ball, why=True, device="cpu")
    several = np.resize([*Cause], len(ball.leaf_key)).astype(np.uint8)
    small = sdfcli.slice_image(replace(ball, leaf_cause=several), size=INNER, why=True, device="cpu")
    assert small.shape[0] > pictures[0].shape[0]  # a small plane has a legend as long as others


# ---- Numbers ----


@given(st.floats(1e-30, 1e30))
def test_nice_steps(most: float) -> None:
    step = slices.nice_step(most)
    digits = f"{step:e}".split("e")[0]
    assert float(digits) in (1, 2, 5)
    assert most / 2.5 * (1 - 1e-9) < step <= most


def test_no_step_for_nothing() -> None:
    assert slices.nice_step(0.0) == 1.0


@given(low=st.floats(-1e8, 1e8), extent=st.floats(1e-3, 1e6))
def test_ticks(low: float, extent: float) -> None:
    found = slices.ticks(low, low + extent)
    assert 4 <= len(found) <= 13
    assert all(low - 1e-6 * extent <= value <= low + 1.000001 * extent for value, _ in found)
    assert np.ptp(np.diff([value for value, _ in found])) < 1e-9 * (abs(low) + extent)
    assert [word for value, word in found if value == 0] in ([], ["0"])
    assert len({float(word) for _, word in found}) == len(found)


# ---- The function ----


def test_slice_image(ball: Field, tmp_path: Any) -> None:
    path = ball.save(tmp_path / "ball.h5")
    picture = sdfcli.slice_image(path, size=INNER, device="cpu")
    assert picture.dtype == np.uint8
    assert picture.shape[2] == 3
    assert min(picture.shape[:2]) > INNER
    assert max(picture.shape[:2]) < 4 * INNER
    assert np.array_equal(picture, sdfcli.slice_image(ball, axis="z", size=INNER, device="cpu"))
    assert not np.array_equal(picture, sdfcli.slice_image(ball, axis="z", at=31, size=INNER, device="cpu"))


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.3, 123456.789, 3e38, -3e38, 1e-45])
def test_fields_of_one_value(value: float) -> None:
    field = oracle.random_field(np.random.default_rng(1), 3)
    field = replace(field, distance=np.full_like(field.distance, value))
    assert sdfcli.slice_image(field, size=INNER, device="cpu").shape[2] == 3


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_any_units(scale: float) -> None:
    field = sdfcli.build(shapes.moved(shapes.icosphere(2), scale), depth=5, tolerance=0.01, device="cpu")
    one = sdfcli.build(shapes.icosphere(2), depth=5, tolerance=0.01, device="cpu")
    planes = [plane_of(sdfcli.slice_image(f, size=INNER, at=0, device="cpu"), INNER) for f in (field, one)]
    assert np.abs(planes[0] - planes[1]).mean() < 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"axis": "w"}, "--axis w"),
        ({"size": 10}, "--size 10"),
        ({"size": 4097}, "--size 4097"),
        ({"at": 40.0}, "--at 40: the domain goes from"),
        ({"at": float("nan")}, "--at nan"),
        ({"device": "tpu"}, "--device tpu"),
    ],
)
def test_bad_parameters(options: dict[str, Any], says: str, ball: Field) -> None:
    with pytest.raises(UsageError, match=says):
        sdfcli.slice_image(ball, **{"device": "cpu", **options})


def test_devices(backend: Backend, ball: Field) -> None:
    options: dict[str, Any] = {"axis": "y", "size": 100, "octree": True}
    assert np.array_equal(
        sdfcli.slice_image(ball, device="cpu", **options), sdfcli.slice_image(ball, device=backend.name, **options)
    )


# ---- Pictures of several fields ----


def test_a_scale_is_that_of_all_fields(ball: Field) -> None:
    """The same distance has the same colour in all, and the plane is the middle of the domain."""
    far = replace(ball, distance=ball.distance + np.float32(3))
    scale = slices.scale_of(iter([ball, far]), axis="x", size=4 * INNER, device="cpu")
    assert scale.at == pytest.approx(ball.domain.origin[0] + ball.domain.length / 2)
    alone = [slices.scale_of([each], axis="x", size=4 * INNER, device="cpu").span for each in (ball, far)]
    assert scale.span == (alone[0][0], alone[1][1])
    pictures = [sdfcli.slice_image(each, axis="x", size=4 * INNER, scale=scale, device="cpu") for each in (ball, far)]
    assert pictures[0].shape == pictures[1].shape
    differ = (pictures[0] != pictures[1]).any(axis=2)
    inside = np.argwhere(differ)
    top, left = inside.min(axis=0)
    bottom, right = inside.max(axis=0)
    assert max(bottom - top, right - left) < 4 * INNER  # heading, ticks and the colour bar are the same


def test_a_scale_has_the_plane_that_is_given(ball: Field) -> None:
    at = float(ball.domain.origin[2]) + 0.3
    scale = slices.scale_of([ball], at=at, size=INNER, device="cpu")
    assert scale.at == at
    value, _ = slices.sample_plane(select_backend("cpu"), ball, "z", at, INNER // slices.COARSE)
    assert scale.span == (value.min(), value.max())
    with pytest.raises(UsageError, match="--at"):
        slices.scale_of([ball], at=at - 1, size=INNER, device="cpu")
    with pytest.raises(InputError, match="no fields"):
        slices.scale_of([], size=INNER, device="cpu")


# ---- Sheets ----


def test_a_sheet_has_the_planes_row_by_row_on_one_scale(cpu: Backend, ball: Field) -> None:
    count, size = 5, 300
    picture = sdfcli.slice_image(ball, axis="x", sheet=count, size=size, device="cpu")
    places = slices.places_of_sheet(cpu, ball, "x", count)
    low, high = 10 - 2.0, 10 + 2.0
    assert places == pytest.approx([low + (high - low) * (k + 0.5) / count for k in range(count)], abs=0.1)
    sampled = [slices.sample_plane(cpu, ball, "x", at, size // 3) for at in places]
    span = min(v.min() for v, _ in sampled), max(v.max() for v, _ in sampled)
    planes, _ = slices.painted(ball, sampled, span, False, False)
    rows, columns = set(), set()
    for plane in planes:
        found = [
            (int(top), int(left))
            for top, left in zip(*np.nonzero((picture == plane[0, 0]).all(axis=-1)), strict=True)
            if np.array_equal(picture[top : top + len(plane), left : left + len(plane)], plane)
        ]
        assert found, "a plane is missing, or in other colours"
        rows.update(top for top, _ in found)
        columns.update(left for _, left in found)
    assert (len(rows), len(columns)) == (2, 3)
    assert not np.array_equal(planes[0], planes[2])
    below = max(rows) + size // 3 + 2
    names = [sdfcli.slice_image(ball, axis=axis, sheet=count, size=size, device="cpu")[below:] for axis in "xyz"]
    assert all(each.min() < 100 for each in names), "the axes are named"
    assert len({each[:, :80].tobytes() for each in names}) == 3


def test_sheets_of_leaves_and_of_causes() -> None:
    field = sdfcli.build(shapes.icosphere(3), tolerance=4e-3, device="cpu", why=True)
    looks: list[dict[str, Any]] = [{}, {"octree": True}, {"why": True}]
    pictures = [sdfcli.slice_image(field, sheet=4, size=200, device="cpu", **look) for look in looks]
    assert len({picture.tobytes() for picture in pictures}) == 3


@pytest.mark.parametrize(("count", "size"), [(0, 800), (1, 800), (5, 128), (10_000, 4096)])
def test_sheets_that_are_too_small(count: int, size: int, ball: Field) -> None:
    with pytest.raises(UsageError, match="--sheet"):
        sdfcli.slice_image(ball, sheet=count, size=size, device="cpu")
