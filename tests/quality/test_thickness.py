"""The thickness of known walls and gaps is found, and nothing where there are none; as plain NumPy finds it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import backends
import shapes
from sdfcli import MeshDistance
from sdfcli.backend import Backend
from sdfcli.params import WIDEST_SHEET
from sdfcli.quality import thickness
from sdfcli.quality.thickness import EMPTY, FREE, HALVINGS, OPPOSED, Sheets, find_sheets, spots

backend = backends.backend

WIDEST = 0.05


def found(shape: shapes.Shape, widest: float = WIDEST, sign: str = "auto") -> Sheets:
    """widest: in the mesh's units."""
    index = MeshDistance(shape, sign=sign, device="cpu")
    return find_sheets(index, *spots(index.mesh), widest / (WIDEST_SHEET * index.mesh.diagonal))


def turned(shape: shapes.Shape, seed: int = 1) -> shapes.Shape:
    return shapes.moved(shape, turn=shapes.turn(np.random.default_rng(seed)))


def plate(thickness: float) -> shapes.Shape:
    return shapes.box([0, 0, 0], [1, 1, thickness])


def share(sheets: Sheets, chosen: shapes.Floats) -> float:
    return len(np.unique(sheets.sample[chosen])) / sheets.samples


@pytest.mark.parametrize("thickness", [0.04, 0.01, 3e-3, 1e-3, 1e-4, 1e-5])
def test_plates(thickness: float) -> None:
    """Of any thinness, far below that of the balls which are tried first."""
    sheets = found(turned(plate(thickness)))
    assert sheets.wall.all()
    assert np.allclose(sheets.width, thickness, rtol=0.01)
    assert share(sheets, sheets.wall) > 0.98 - 8 * thickness


@pytest.mark.parametrize("shape", [shapes.cube(), shapes.icosphere(4), shapes.torus(60, 40), shapes.octahedron()])
def test_shapes_without_sheets(shape: shapes.Shape) -> None:
    assert len(found(turned(shape)).sample) == 0


def test_walls_and_gaps_are_told_apart() -> None:
    two = shapes.joined(plate(0.02), shapes.moved(plate(0.02), offset=[0, 0, 0.03]))
    sheets = found(turned(two))
    assert np.allclose(sheets.width[sheets.wall], 0.02, rtol=0.01)
    assert np.allclose(sheets.width[~sheets.wall], 0.01, rtol=0.01)
    assert share(sheets, sheets.wall) > 0.9
    assert 0.4 < share(sheets, ~sheets.wall) < 0.5


@pytest.mark.parametrize("gap", [0.002, 0.01, 0.02])
def test_stacks_of_plates(gap: float) -> None:
    """What lies behind the next plate is no side of a sheet."""
    stack = shapes.joined(*[shapes.moved(plate(0.01), offset=[0, 0, k * (0.01 + gap)]) for k in range(5)])
    sheets = found(turned(stack), 0.08)
    assert np.allclose(sheets.width[sheets.wall], 0.01, rtol=0.01)
    assert np.allclose(sheets.width[~sheets.wall], gap, rtol=0.01)


def test_wedges() -> None:
    """The sides meet at 20 degrees: what is thinner than the widest, but for the last of the edge, is found."""
    half = np.tan(np.radians(10))
    shape = turned(shapes.prism([[0, -half], [1, 0], [0, half]], 1))
    sheets = found(shape)
    assert sheets.wall.all()
    point, _ = spots(MeshDistance(shape, device="cpu").mesh)
    along = 1 - (point @ shapes.turn(np.random.default_rng(1)))[sheets.sample, 0]
    assert np.all(np.abs(sheets.width / (2 * half * along) - 1) < 0.15)
    thin = 0.9 * WIDEST / (2 * half)
    inner = np.sum((along < thin) & (along > 0.1 * thin))
    sides = 2 / np.cos(np.radians(10)) / (2 / np.cos(np.radians(10)) + 2 * half + 2 * half)
    assert inner > 0.9 * sides * 0.9 * thin * sheets.samples


@pytest.mark.parametrize("angle", [50, 90])
def test_wide_angles_are_no_sheets(angle: float) -> None:
    half = np.tan(np.radians(angle / 2))
    shape = turned(shapes.prism([[-1, -half], [0, -half], [1, 0], [0, half], [-1, half]], 1))
    assert len(found(shape).sample) == 0


def test_bumpy_shells() -> None:
    """Bumps of a tenth of the thickness, on both sides alike or not."""
    rng, thickness = np.random.default_rng(2), 0.03
    vertices, faces = shapes.icosphere(4)
    radius = 1 + 0.1 * thickness * rng.uniform(-1, 1, (2, len(vertices), 1))
    shell = shapes.hollow((vertices * radius[0], faces), (vertices * (radius[1] - thickness), faces))
    sheets = found(shell, 0.1)
    assert share(sheets, sheets.wall) > 0.95
    assert np.all(np.abs(sheets.width[sheets.wall] / thickness - 1) < 0.3)


@pytest.mark.parametrize(
    "change",
    [
        shapes.inside_out,
        lambda shape: shapes.joined(shape, (shape[0], shape[1][:5])),
        lambda shape: (shape[0], np.where(np.arange(len(shape[1]))[:, None] % 3, shape[1], shape[1][:, ::-1])),
        lambda shape: shapes.moved(shape, 1e9, 1e10),
        lambda shape: shapes.moved(shape, 1e-9),
        lambda shape: shapes.moved(shape, 1, [5e5, 4e6, 100]),
    ],
    ids=["inside out", "doubled faces", "turned faces", "huge", "tiny", "far"],
)
def test_meshes_as_they_come(change: Callable[[shapes.Shape], shapes.Shape]) -> None:
    shape = change(shapes.refined(plate(0.01)))
    unit = float(np.ptp(shape[0][:, 0]))
    sheets = found(shape, WIDEST * unit)
    assert sheets.wall.all()
    assert np.allclose(sheets.width, 0.01 * unit, rtol=0.01)
    assert share(sheets, sheets.wall) > 0.9


def test_open_sheets_have_no_walls() -> None:
    flat = shapes.sheet(np.random.default_rng(3), 9)
    assert len(found(flat, 0.02, sign="none").sample) == 0


def test_faces_without_area() -> None:
    vertices, faces = shapes.icosphere(3)
    sheets = found((vertices, np.concatenate((faces, faces[:50, [0, 1, 1]]))))
    assert len(sheets.sample) == 0
    points = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0]], np.float64)
    assert len(found((points, np.array([[0, 1, 2]])), sign="none").sample) == 0


def by_rounds(index: MeshDistance, point: shapes.Floats, normal: shapes.Floats, tolerance: float) -> list[tuple]:
    """The same by the public queries of a mesh, a round after the other: sample, width and side of each sheet."""
    mesh = index.mesh
    corner = mesh.domain.to_unit(mesh.vertices[mesh.faces])
    upright = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    length = np.linalg.norm(upright, axis=1, keepdims=True)
    upright /= np.where(length > 0, length, 1)
    sample, way = np.tile(np.arange(len(point)), 2), np.concatenate([-normal, normal])
    side, found = np.repeat([0, 1], len(point)), []
    radius = WIDEST_SHEET * tolerance * mesh.unit / 2
    for _ in range(HALVINGS):
        centre = point[sample] + radius * way
        nearest, face = index.closest(centre)
        to_nearest = nearest - centre
        distance, onward = np.linalg.norm(to_nearest, axis=1), dots(to_nearest, way)
        width, opposite = radius + onward, (-onward < OPPOSED * distance) & (distance < radius)
        middle = point[sample] + width[:, None] / 2 * way
        opposite[opposite] = index.distance(middle[opposite]) >= FREE / 2 * width[opposite]
        found += zip(sample[opposite].tolist(), width[opposite].tolist(), side[opposite].tolist(), strict=True)
        beyond = dots(upright[face], normal[sample]) < OPPOSED
        smaller = ~opposite & (beyond | (distance < EMPTY * radius))
        sample, way, side, radius = sample[smaller], way[smaller], side[smaller], radius / 2
    return found


def dots(a: shapes.Floats, b: shapes.Floats) -> shapes.Floats:
    """Scalar products, summed in the kernels' order."""
    product = a * b
    return (product[:, 0] + product[:, 2]) + product[:, 1]


def dirty(rng: np.random.Generator, kind: str) -> shapes.Shape:
    many = int(rng.integers(20, 400))
    soup = shapes.soup(rng, many, 0.1)
    if kind == "zoo":
        return shapes.zoo(rng, many)
    if kind == "needles":  # whose normals in float32 are anything
        corner = shapes.triangles(soup)
        corner[:, 2] = (corner[:, 0] + corner[:, 1]) / 2 + 1e-8 * rng.normal(size=(many, 3))
        return corner.reshape(-1, 3), soup[1]
    if kind == "doubled":
        return shapes.joined(soup, shapes.inside_out(soup), soup)
    if kind == "plates":
        return shapes.joined(
            *[shapes.moved(turned(plate(float(10.0 ** rng.uniform(-5, -1)))), 0.3, z) for z in range(5)]
        )
    return soup


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e20])
@pytest.mark.parametrize("kind", ["soup", "zoo", "needles", "doubled", "plates", "far"])
def test_sheets_are_those_of_plain_numpy(
    backend: Backend, kind: str, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where normals must be told from those of corners that were rounded, and however many rounds go together."""
    exact, seed = [], int(np.random.default_rng().integers(1 << 32))
    rng = np.random.default_rng(seed)
    shape = shapes.moved(dirty(rng, kind), scale, 1e6 * scale if kind == "far" else 0.0)
    index = MeshDistance(shape, device=backend.name, sign="winding")
    monkeypatch.setattr(thickness, "SAMPLES", 500)
    point, normal = spots(index.mesh)
    real = thickness.face_directions
    monkeypatch.setattr(thickness, "face_directions", lambda *given: exact.append(1) or real(*given))
    for tolerance in (1e-3, 3e-2):
        expected = by_rounds(index, point, normal, tolerance)
        for together in (1, 700, 10_000):
            monkeypatch.setattr(thickness, "TOGETHER", together)
            sheets = find_sheets(index, point, normal, tolerance)
            side = np.sum((sheets.middle - point[sheets.sample]) * normal[sheets.sample], axis=1) > 0
            found = zip(sheets.sample.tolist(), sheets.width.tolist(), side.tolist(), strict=True)
            assert sorted(found) == sorted(expected), seed
            assert np.array_equal(sheets.wall, index.signed_distance(sheets.middle) < 0)
    assert exact or kind != "needles"
