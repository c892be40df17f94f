"""The default resolution of isosurfaces keeps the tolerance, and no more; the reported error is the surface's."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import oracle
import sdfcli
import shapes
from conftest import ROOT
from sdfcli.backend import select_backend
from sdfcli.extract.marching_cubes import Surface
from sdfcli.extract.resolution import MOST_BY_DEFAULT, default_cells, deviation
from sdfcli.quality.accuracy import on_surface

TOLERANCE = 2e-3
SHAPES = {
    "ball": shapes.icosphere(4),
    "cube": shapes.moved(shapes.cube(), turn=shapes.turn(np.random.default_rng(4))),
    "bracket": ROOT / "sample_meshes" / "bracket.stl",
    "torus": ROOT / "sample_meshes" / "torus.obj",
    "metaballs": ROOT / "sample_meshes" / "metaballs.ply",
}


def cells_of(field: sdfcli.Field, iso: float = 0.0) -> int:
    return default_cells(select_backend("cpu"), field, iso)


def errors(field: sdfcli.Field, index: sdfcli.MeshDistance, cells: int | None, iso: float = 0.0) -> np.ndarray:
    """Distances both ways between the surface and the mesh's level, as fractions of the diagonal."""
    surface = sdfcli.isosurface(field, iso=iso, cells=cells, device="cpu")
    assert not surface.cut
    there = np.concatenate((surface.vertices, surface.vertices[surface.faces].mean(axis=1)))[::3]
    found = [np.abs(index.signed_distance(there) - iso)]
    if iso == 0:
        points = on_surface(index.mesh, 5000, np.random.default_rng(0))
        found.append(sdfcli.MeshDistance((surface.vertices, surface.faces), sign="none", device="cpu").distance(points))
    return np.concatenate(found) / field.info["mesh"]["diagonal"]


@pytest.mark.parametrize("name", SHAPES)
def test_the_tolerance_is_kept_and_the_grid_no_finer(name: str) -> None:
    field, index = sdfcli.build(SHAPES[name], tolerance=TOLERANCE, device="cpu"), sdfcli.MeshDistance(SHAPES[name])
    cells = cells_of(field)
    finest = 1 << int(field.leaf_level.max())
    assert cells <= finest
    found = errors(field, index, None)
    assert np.quantile(found, 0.999) < 1.5 * TOLERANCE  # half of it for the grid
    # As the field's own error stays, the finest grid is hardly better ...
    assert np.sqrt(np.mean(found**2)) < 1.25 * np.sqrt(np.mean(errors(field, index, finest) ** 2)) + 0.05 * TOLERANCE
    # ... and one a quarter as fine is worse.
    coarse = errors(field, index, cells // 4)
    assert coarse.max() > max(1.5 * TOLERANCE, 1.2 * found.max())


def test_a_finer_tolerance_has_a_finer_grid() -> None:
    cells = [cells_of(sdfcli.build(SHAPES["metaballs"], tolerance=t, device="cpu")) for t in (1.6e-2, 4e-3, 1e-3)]
    assert cells == sorted(set(cells))


def test_away_from_the_surface_the_tolerance_grows() -> None:
    field = sdfcli.build(shapes.star(np.random.default_rng(3), 2), tolerance=TOLERANCE, device="cpu")
    assert cells_of(field, 0.1 * field.domain.length) < cells_of(field)


def test_thin_walls_are_kept() -> None:
    """A plate two tolerances thick would lose a quarter of its volume in a grid for the tolerance alone."""
    plate = shapes.moved(shapes.box([0, 0, 0], [1, 1, 6e-3]), turn=shapes.turn(np.random.default_rng(4)))
    field = sdfcli.build(plate, tolerance=2e-3, device="cpu")
    surface = sdfcli.isosurface(field, device="cpu")
    corner = surface.vertices[surface.faces]
    volume = np.einsum("ij,ij->", corner[:, 0], np.cross(corner[:, 1], corner[:, 2])) / 6
    assert abs(volume) == pytest.approx(6e-3, rel=0.03)


def test_fields_without_a_tolerance_have_their_finest_grid() -> None:
    for field in (
        oracle.random_field(np.random.default_rng(1), 3),
        sdfcli.build(SHAPES["ball"], octree="bvh", depth=4, device="cpu"),
    ):
        assert cells_of(field) == 1 << int(field.leaf_level.max())


def test_a_level_without_a_surface() -> None:
    field = sdfcli.build(SHAPES["ball"], tolerance=2e-2, device="cpu")
    assert cells_of(field, 100.0) == 1 << int(field.leaf_level.max())


def test_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    field = sdfcli.build(SHAPES["ball"], tolerance=2e-3, device="cpu")
    whole = cells_of(field)
    monkeypatch.setattr("sdfcli.extract.resolution.MOST_BY_DEFAULT", whole // 2)
    assert cells_of(field) == whole // 2 < MOST_BY_DEFAULT


def test_deviation() -> None:
    """A sphere beside the field's: they differ by the difference of the radii."""
    ball = shapes.icosphere(5)
    field, index = sdfcli.build(ball, tolerance=1e-3, device="cpu"), sdfcli.MeshDistance(ball, device="cpu")
    vertices, faces = shapes.moved(ball, 1.02)
    larger = Surface(vertices, faces.astype(np.uint32), False)
    for mesh, name in ((None, "field"), (index, "mesh")):
        found = deviation(larger, field, 0.0, mesh)
        assert found.reference == name
        assert found.rms == pytest.approx(0.02, rel=0.1)
        assert 0.018 < found.largest < 0.025
        assert deviation(larger, field, 0.02, mesh).rms < 0.003
    unsigned = dataclasses.replace(field, distance=np.abs(field.distance), info={**field.info, "sign": "none"})
    assert deviation(larger, unsigned, 0.02, index).rms < 0.003
