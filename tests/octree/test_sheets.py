"""Thin walls and narrow gaps keep both sides in the field, down to the stated thickness, or are said to be lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import sdfcli
import shapes
import surfaces
from sdfcli import params
from sdfcli.backend import Backend, C
from sdfcli.field.field import Field
from sdfcli.mesh.load import make_mesh
from sdfcli.octree import sheets
from sdfcli.octree.levels import Level
from sdfcli.octree.sheets import NO_SHEETS, affordable
from sdfcli.params import SHEET_CELL, THIN, BuildParams
from sdfcli.quality.check import estimated_check

backend, warps = backends.backend, backends.warps

SAMPLE = Path(__file__).resolve().parents[2] / "sample_meshes"
LEAST = THIN * 1.02
"""A little above the thickness, in tolerances, down to which sheets keep both sides by default."""
WITHIN = 0.02

Floats = shapes.Floats


def thick(make: Callable[[float], shapes.Shape], share: float, turn: Floats | None = None) -> shapes.Shape:
    """make(thickness), turned, where the thickness is this share of the diagonal of what comes out."""
    thickness = share
    for _ in range(20):
        shape = shapes.moved(make(thickness), turn=turn)
        thickness = share * float(np.linalg.norm(np.ptp(shape[0], axis=0)))
    return shape


def turned(seed: int) -> Floats:
    return shapes.turn(np.random.default_rng(seed))


def built(shape: shapes.Shape, tolerance: float, **options: Any) -> Field:
    return sdfcli.build(shape, device="cpu", tolerance=tolerance, **options)


def volume_held(field: Field, shape: shapes.Shape) -> float:
    """The volume of the surface at 0, as a share of the mesh's own."""
    surface = sdfcli.isosurface(field, cells=1 << int(field.leaf_level.max()), device="cpu")
    assert not surface.cut
    start = surface.faces.astype(np.int64)
    end, count = np.roll(start, -1, axis=1), len(surface.vertices)
    assert np.array_equal(np.sort((start * count + end).ravel()), np.sort((end * count + start).ravel()))
    return surfaces.volume(surface) / surfaces.volume(make_mesh(*shape))


def check_held(shape: shapes.Shape, tolerance: float) -> Field:
    field = built(shape, tolerance)
    assert abs(volume_held(field, shape) - 1) <= WITHIN
    assert field.info["verdict"] == "good"
    assert field.info["sheets"]["lost"] < 0.001
    assert field.info["max_error"] <= tolerance
    return field


# ---- What is kept ----


def plate(thickness: float) -> shapes.Shape:
    return shapes.box([0, 0, 0], [1, 1, thickness])


@pytest.mark.parametrize("tolerances", [5, 2.3, 1, LEAST])
@pytest.mark.parametrize("offset", [0.0, 0.37])
def test_plates_along_the_lattice(tolerances: float, offset: float) -> None:
    # A speck moves the plate's middle through a cell of the lattice.
    tolerance = 4e-3
    share = tolerances * tolerance
    speck = shapes.moved(shapes.octahedron(), 0.01, [0.5, 0.5, 0.1 + offset * 2 * tolerance])
    shape = thick(lambda t: shapes.joined(plate(t), speck), share)
    check_held(shape, tolerance)


@pytest.mark.parametrize("tolerances", [5, 1, LEAST])
def test_turned_plates(tolerances: float) -> None:
    check_held(thick(plate, tolerances * 5e-3, turned(0)), 5e-3)


HOLLOW: dict[str, Callable[[float], shapes.Shape]] = {
    "box": lambda t: shapes.hollow(
        shapes.box([0, 0, 0], [0.4, 0.3, 0.2]), shapes.box([t, t, t], [0.4 - t, 0.3 - t, 0.2 - t])
    ),
    "ball": lambda t: shapes.hollow(shapes.icosphere(3), shapes.moved(shapes.icosphere(3), 1 - 1.01 * t)),
    "tube": lambda t: shapes.hollow(
        shapes.prism(shapes.ring(40, 0.15), 1),
        shapes.moved(shapes.prism(shapes.ring(40, 0.15 - t), 1 - 2 * t), offset=[0, 0, t]),
    ),
}


@pytest.mark.parametrize("kind", HOLLOW)
@pytest.mark.parametrize("tolerances", [2, LEAST])
def test_thin_walls(kind: str, tolerances: float) -> None:
    check_held(thick(HOLLOW[kind], tolerances * 8e-3, turned(2)), 8e-3)


@pytest.mark.nightly
@pytest.mark.parametrize("tolerances", [2, LEAST])
def test_fins(tolerances: float) -> None:
    """The gaps between them are as narrow as they are thick."""
    tolerance = 5e-3

    def finned(t: float) -> shapes.Shape:
        fins = [shapes.box([0.3 + t, 0.1 + 2 * k * t, 0], [0.6, 0.1 + (2 * k + 1) * t, 0.3]) for k in range(4)]
        return shapes.joined(shapes.box([0, 0, 0], [0.3, 0.5, 0.3]), *fins)

    check_held(thick(finned, tolerances * tolerance, turned(3)), tolerance)


@pytest.mark.nightly
@pytest.mark.parametrize("tolerances", [2, LEAST])
def test_perforated_sheets(tolerances: float) -> None:
    check_held(thick(lambda t: shapes.perforated(5, t), tolerances * 2.5e-3), 2.5e-3)


@pytest.mark.parametrize("tolerances", [2, LEAST])
def test_narrow_gaps_stay_open(tolerances: float) -> None:
    tolerance = 8e-3

    def blocks(t: float) -> shapes.Shape:
        return shapes.joined(shapes.box([0, 0, 0], [0.3, 0.3, 0.2]), shapes.box([0, 0, 0.2 + t], [0.3, 0.3, 0.4 + t]))

    turn = turned(4)
    shape = thick(blocks, tolerances * tolerance, turn)
    field = check_held(shape, tolerance)
    gap = float(np.max(shape[0] @ turn, axis=0)[2]) - 0.4
    rng = np.random.default_rng(1)
    inner = rng.uniform([0.02, 0.02, 0.2 + gap / 2], [0.28, 0.28, 0.2 + gap / 2], (2000, 3))
    assert np.all(field.sample(inner @ turn.T) > 0)
    for side in (-0.5, 1.5):
        assert np.all(field.sample((inner + np.array([0, 0, side * gap - gap / 2])) @ turn.T) < 0)


@pytest.mark.parametrize("angle", [0.03, 0.07])
def test_blades_that_thin_out(angle: float) -> None:
    """A wedge keeps what is thicker than the stated thickness, and gains nothing."""
    tolerance = 5e-3
    shape = shapes.moved(shapes.prism([[0, -angle / 2], [1, 0], [0, angle / 2]], 0.3), turn=turned(5))
    field = built(shape, tolerance)
    diagonal = field.info["mesh"]["diagonal"]
    beyond = THIN * tolerance * diagonal / angle  # of the length; this part is thinner
    assert 0.05 < beyond < 0.3
    held = volume_held(field, shape)
    assert (1 - beyond**2) * (1 - WITHIN) <= held <= 1 + WITHIN / 2
    assert 0 < field.info["sheets"]["lost"] < 1.1 * beyond
    assert field.info["sheets"]["needed_thin"] < THIN * tolerance
    assert field.info["verdict"] != "good"


def test_spikes() -> None:
    corners, tolerance = 24, 3e-3
    ring = np.pad(shapes.ring(corners, 0.15), ((0, 0), (0, 1)))
    i = np.arange(corners)
    j, base, tip = (i + 1) % corners, np.full(corners, corners), np.full(corners, corners + 1)
    vertices = np.concatenate((ring, [[0, 0, 0], [0, 0, 1]]))
    spike = vertices, np.concatenate((np.stack((i, j, tip), 1), np.stack((j, i, base), 1)))
    shape = shapes.moved(spike, turn=turned(6))
    held = volume_held(built(shape, tolerance), shape)
    assert 1 - WITHIN <= held <= 1 + WITHIN / 2


@pytest.mark.nightly
def test_a_thickness_of_ones_own() -> None:
    shape = thick(HOLLOW["box"], 5e-3, turned(7))
    assert volume_held(built(shape, 2e-2), shape) < 0.5
    field = built(shape, 2e-2, thin=4.9e-3)
    assert abs(volume_held(field, shape) - 1) <= WITHIN
    assert field.info["sheets"]["lost"] < 0.001
    assert field.info["parameters"]["thin"] == field.info["sheets"]["kept_from"] == 4.9e-3


# ---- What is said to be lost ----


@pytest.mark.parametrize("tolerances", [0.5, 0.2, 0.05, 0.01])
def test_thinner_walls_are_said_to_be_lost(tolerances: float) -> None:
    tolerance = 8e-3
    shape = thick(plate, tolerances * tolerance, turned(8))
    field = built(shape, tolerance)
    found = field.info["sheets"]
    assert volume_held(field, shape) < 0.5
    assert found["lost"] > 0.2
    assert field.info["verdict"] == "doubtful"
    assert found["thinnest"] == pytest.approx(tolerances * tolerance, rel=0.01)
    assert 0.9 * tolerances * tolerance < found["needed_thin"] <= tolerances * tolerance


@pytest.mark.parametrize("remedy", ["thin", "depth"])
def test_what_is_lost_is_held_by_what_is_said_to_be_needed(remedy: str) -> None:
    shape = thick(HOLLOW["box"], 3.5e-3, turned(9))
    field = built(shape, 8e-3, depth=7) if remedy == "depth" else built(shape, 8e-3)
    found = field.info["sheets"]
    assert found["lost"] > 0.3
    options = {"thin": 0.99 * found["needed_thin"]}
    if remedy == "depth":
        options["depth"] = found["needed_depth"]
    again = built(shape, 8e-3, **options)
    assert again.info["sheets"]["lost"] < 0.001
    assert again.info["depth"] <= again.info["parameters"]["thin_depth"] <= found["needed_depth"] + 1
    assert abs(volume_held(again, shape) - 1) <= WITHIN


@pytest.mark.parametrize("options", [{}, {"thin": 0}, {"depth": 6}], ids=["default", "unrefined", "coarse"])
def test_a_check_gives_the_same_verdict_and_remedy(options: dict[str, Any]) -> None:
    """Of plates of many thicknesses, some of which a build keeps by chance; also before a build decides."""
    thicknesses = np.geomspace(3e-4, 2e-2, 12)
    plates = [shapes.moved(plate(float(t)), offset=[0, 0, 0.2 * k]) for k, t in enumerate(thicknesses)]
    shape = shapes.moved(shapes.joined(*plates), turn=turned(11))
    field = built(shape, 5e-3, **options)
    found, given = field.info["sheets"], BuildParams.of(tolerance=5e-3, **options)
    estimated, undecided = estimated_check(shape, given, "cpu")
    assert undecided
    assert found["lost"] <= estimated["sheets"]["lost"]
    for name in ("needed_thin", "needed_depth"):
        assert estimated["sheets"][name] == found[name]
    checked = sdfcli.check(shape, device="cpu", tolerance=5e-3, **options)
    assert checked["verdict"] == field.info["verdict"] != "good"


@pytest.mark.parametrize("depth", [5, 7])
def test_a_depth_that_is_asked_for_is_the_finest(depth: int) -> None:
    field = built(thick(plate, 4e-3, turned(1)), 4e-3, depth=depth)
    assert field.info["depth"] <= depth == field.info["parameters"]["thin_depth"]
    found = field.info["sheets"]
    cell = 0.5**depth * field.domain.length / field.info["mesh"]["diagonal"]
    assert found["kept_from"] == pytest.approx(cell / SHEET_CELL)
    assert found["lost"] > 0.05
    assert field.info["verdict"] == "doubtful"
    assert found["needed_depth"] > depth


def test_leaves_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two walls, one thinner than the other: with less and less to spend, the thinner one is given up first.
    def walls(t: float) -> shapes.Shape:
        return shapes.joined(plate(t), shapes.moved(shapes.box([0, 0, 0], [1, 1, 2 * t]), offset=[0, 0, 0.2]))

    tolerance, turn = 1.5e-2, turned(10)
    shape = thick(walls, LEAST * tolerance, turn)
    monkeypatch.setattr(params, "DEFAULT_DEPTH", 5)
    plain, full = len(built(shape, tolerance, thin=0).leaf_key), built(shape, tolerance)
    assert full.info["sheets"]["lost"] < 0.001
    assert full.info["sheets"]["kept_from"] == pytest.approx(THIN * tolerance)
    lost = []
    for budget in (15_000, 1000):
        monkeypatch.setattr(sheets, "MOST_LEAVES", budget)
        field = built(shape, tolerance)
        assert len(field.leaf_key) <= plain + 1.5 * budget < len(full.leaf_key)
        found = field.info["sheets"]
        assert found["kept_from"] > LEAST * tolerance
        assert field.info["verdict"] == "doubtful"
        assert 0.9 * LEAST * tolerance < found["needed_thin"] <= LEAST * tolerance
        lost.append(found["lost"])
    assert 0.15 < lost[0] <= lost[1]


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), most=st.integers(10, 10**6), share=st.floats(1e-3, 1))
def test_affordable_thickness(seed: int, most: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    width = 10 ** rng.uniform(-4, -1, rng.integers(0, 300)).astype(np.float32)
    edge, thin = 0.5 ** rng.integers(5, 12), 1e-4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sheets, "MOST_LEAVES", most)
        least = affordable(width, edge, thin, share)
    assert least >= thin

    def cost(width: Floats) -> float:
        halvings = np.maximum(0, np.ceil(np.log2(edge / (SHEET_CELL * width.astype(np.float64)))))
        return float(np.sum(np.where(halvings > 0, sheets.LEAVES * 4**halvings, 0)) / share)

    assert cost(width[width >= least]) <= most
    if least > thin:
        assert cost(width) > most


# ---- What stays as it was ----


def test_the_tolerance_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # A field for which no sheet is looked at is that of an octree that knows of none.
    shape = thick(plate, 8e-3, turned(11))
    plain = built(shape, 8e-3, thin=0)
    assert plain.info["sheets"]["kept_from"] is None
    assert plain.info["sheets"]["leaves"] == 0
    assert plain.info["sheets"]["lost"] > 0.05
    assert plain.parts == 1
    assert built(shape, 8e-3, thin=0.9).content_sha256 == plain.content_sha256
    assert built(shape, 8e-3).content_sha256 != plain.content_sha256


@pytest.mark.parametrize("name", ["sphere", "shells.ply"])
def test_meshes_without_thin_parts(name: str) -> None:
    mesh: Any = shapes.icosphere(3) if name == "sphere" else SAMPLE / name
    fields = [sdfcli.build(mesh, device="cpu", tolerance=4e-3, **options) for options in ({}, {"thin": 0})]
    assert fields[0].content_sha256 == fields[1].content_sha256
    assert fields[0].info["sheets"]["leaves"] == 0
    assert fields[0].info["sheets"]["lost"] == 0
    assert fields[0].parts == 1


def test_unsigned_fields_have_no_sheets() -> None:
    field = built(thick(plate, 8e-3), 8e-3, sign="none")
    assert field.info["sheets"] == {
        "kept_from": None, "leaves": 0, "thinnest": None, "lost": None, "needed_thin": None, "needed_depth": None
    }  # fmt: skip
    assert field.content_sha256 == built(thick(plate, 8e-3), 8e-3, sign="none", thin=0).content_sha256


# ---- Bits ----

SMALL: dict[str, Callable[[], shapes.Shape]] = {
    "plate": lambda: thick(lambda t: shapes.box([0, 0, 0], [0.3, 1, t]), 1.2e-2, turned(12)),
    "hollow box": lambda: thick(HOLLOW["box"], 1.2e-2, turned(13)),
    "wedge": lambda: shapes.moved(shapes.prism([[0, -0.05], [1, 0], [0, 0.05]], 0.3), turn=turned(14)),
    "holed": lambda: shapes.holed(
        np.random.default_rng(1), shapes.refined(shapes.refined(SMALL["hollow box"]())), 0.02
    ),
}


def small(kind: str, **options: Any) -> Field:
    return sdfcli.build(SMALL[kind](), tolerance=1.5e-2, **options)


@pytest.mark.parametrize("kind", SMALL)
def test_threads(kind: str) -> None:
    one, *others = (small(kind, device="cpu", threads=threads) for threads in (1, 2, 7))
    assert one.info["sheets"]["leaves"] > 0
    assert one.parts > 1
    for other in others:
        assert other.content_sha256 == one.content_sha256
        assert other.info == one.info


@pytest.mark.gpu
@pytest.mark.parametrize("kind", SMALL)
def test_gpus(kind: str, gpu: Backend) -> None:
    one, other = small(kind, device="cpu"), small(kind, device=gpu.name)
    assert other.content_sha256 == one.content_sha256
    assert other.info["sheets"] == one.info["sheets"]


# ---- The widths that cells see ----


def gradient_to(plane: Floats, offset: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Of two planes with unit normals `plane` (2, 3) and n . x = offset (2,) the solid lies beneath both: the signed
    distance to the nearer plane at points (k, 3), and its gradient."""
    signed = at @ plane.T - offset
    nearer = np.abs(signed).argmin(axis=1)
    return signed[np.arange(len(at)), nearer], plane[nearer]


def test_widths(backend: Backend) -> None:
    check_widths(backend)


def test_widths_where_gradients_are_worked_out(warps: Backend) -> None:
    check_widths(warps)


def check_widths(backend: Backend) -> None:
    """Of random walls and gaps in random cells, against what float64 finds."""
    rng, n, level = np.random.default_rng(15), 400, 3
    edge = 0.5**level
    corner_at = np.array([[c & 1, c >> 1 & 1, c >> 2] for c in range(8)])
    expected, distance, gradient = [], [], []
    least = 0.05 * edge
    for _ in range(n):
        normal = rng.normal(size=3)
        normal /= np.linalg.norm(normal)
        tilt = normal + 0.2 * rng.normal(size=3)
        plane = np.stack((normal, -tilt / np.linalg.norm(tilt)))
        middle, width = rng.random(3) * edge, edge * 10 ** rng.uniform(-2, 1)
        offset = plane @ middle + width / 2
        d, g = gradient_to(plane, offset, corner_at * edge)
        if rng.random() < 0.5:  # a gap
            d, g = -d, -g
        distance.append(d)
        gradient.append(g)
        expected.append(sheet_width(d, g, edge, least))
    found = widths_of(backend, np.array(distance), np.array(gradient), level, least)
    expected = np.array(expected)
    none = expected == NO_SHEETS
    assert 50 < none.sum() < n - 100
    assert np.array_equal(found == NO_SHEETS, none)
    assert np.allclose(found[~none], expected[~none], rtol=1e-4)


def sheet_width(distance: Floats, gradient: Floats, edge: float, least: float) -> float:
    """The distance, along the mean of both normals, between the surface's points nearest to the ends of an edge."""
    inside, thinnest = int((distance < 0).sum()), NO_SHEETS
    if np.abs(distance).min() > 1.74 * edge:
        return thinnest
    for c in range(8):
        for axis in range(3):
            e = c | 1 << axis
            if e == c or gradient[c] @ gradient[e] > -0.8:
                continue
            foot = [-distance[c] * gradient[c], edge * np.eye(3)[axis] - distance[e] * gradient[e]]
            across = gradient[c] - gradient[e]
            width = (foot[0] - foot[1]) @ across / np.linalg.norm(across)
            if abs(width) >= least and inside != (8 if width > 0 else 0):
                thinnest = min(thinnest, abs(width))
    return thinnest


def widths_of(backend: Backend, distance: Floats, gradient: Floats, level: int, least: float) -> Floats:
    """What the kernel says of cells whose corners' distances (n, 8) and gradients (n, 8, 3) are these: each is the
    first child of a cell above, whose points are the eight corners and others that are not looked at."""
    n = len(distance)
    octant = np.array([x + 3 * y + 9 * z for z in (0, 1) for y in (0, 1) for x in (0, 1)])
    points = np.zeros((n, 27), np.uint32)
    points[:, octant] = np.arange(8 * n).reshape(n, 8)
    width, thin = backend.xp.empty(8 * n, np.float32), backend.xp.empty(8 * n, np.uint8)
    # Of one triangle a point of the surface: a GPU works out gradients from it.
    foot = distance[..., None] * gradient
    at = np.array([[c & 1, c >> 1 & 1, c >> 2] for c in range(8)]) * 0.5**level - foot
    side = np.cross(gradient, np.roll(gradient, 1, axis=-1) + np.array([0.3, 0.1, 0.2]))
    side /= np.linalg.norm(side, axis=-1, keepdims=True)
    other = np.cross(gradient, side)
    triangle = np.stack((at + side, at - 0.5 * side + other, at - 0.5 * side - other), axis=-2).reshape(-1, 9)
    xp = backend.from_host
    own, above = Level(backend, level), Level(backend, level - 1)
    own.families.extend(n)
    above.cells.extend(n)
    above.rows.extend(n)
    own.families.parent[...] = above.cells.row[...] = xp(np.arange(n, dtype=np.uint32))
    own.families.key[...] = 0
    above.rows.points[...] = xp(points)
    known = backend.group(
        "Points",
        triangles=8 * n,
        triangle_key=None,
        triangle=xp(triangle, np.float32),
        distance=xp(distance.ravel(), np.float32),
        gradient=None if backend.memory.scarce else xp(gradient.reshape(-1, 3), np.float32),
        slot=xp(np.arange(8 * n, dtype=np.uint32)),
    )
    allowed = backend.group("Limits", tolerance=1.0, band=1.0, thin_least=least)
    place = {"own": own.args, "above": above.args}
    backend.run("sdf_octree_sheets", 8 * n, first=0, points=known, allowed=allowed, width=width, thin=thin, **place)
    assert np.array_equal(backend.to_host(thin), backend.to_host(width) < C.NO_SHEET)
    return np.asarray(backend.to_host(width)[::8])


# ---- Parameters ----


def test_levels_for_sheets() -> None:
    for tolerance, diagonal in ((1e-3, 0.8), (1e-2, 0.9), (1e-4, 0.5)):
        options = BuildParams(tolerance=tolerance)
        level = options.thin_depth(diagonal)
        assert level >= options.depth_limit(diagonal)
        assert 0.5**level <= SHEET_CELL * THIN * tolerance * diagonal
        assert BuildParams(tolerance=tolerance, thin=0).thin_depth(diagonal) == options.depth_limit(diagonal)
        assert BuildParams(tolerance=tolerance, depth=4).thin_depth(diagonal) == 4
    assert BuildParams(octree="bvh").thin_limit == 0


@pytest.mark.parametrize("thin", [-1.0, 1e-9, 1.0, float("nan"), float("inf")])
def test_thicknesses_out_of_range(thin: float) -> None:
    with pytest.raises(sdfcli.errors.UsageError, match="--thin"):
        BuildParams(thin=thin)
