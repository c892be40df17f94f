"""Octrees as cells that share whole faces, and their contours in VTK."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import backends
import sdfcli
import shapes
from sdfcli.backend import Backend, select_backend
from sdfcli.export.conforming import GRID, conforming_cells
from sdfcli.export.vtkhdf import write_vtkhdf
from sdfcli.field.field import lattice_position
from sdfcli.octree.cells import NONE

backend = backends.backend
SIDES = {
    8: [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)],
    5: [(0, 3, 2, 1), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)],
    4: [(0, 2, 1), (0, 1, 3), (1, 2, 3), (2, 0, 3)],
}
"""Faces of voxels, pyramids and tetrahedra by their corner counts, counter-clockwise seen from outside."""


@pytest.fixture(scope="module")
def field() -> sdfcli.Field:
    rng = np.random.default_rng()
    shape = shapes.moved(shapes.star(rng, 2), turn=shapes.turn(rng), offset=rng.normal(size=3))
    return sdfcli.build(shape, tolerance=rng.uniform(3e-3, 1e-2), device="cpu")


def in_cycles(side: np.ndarray) -> list[tuple[int, ...]]:
    """Faces (n, k), each from its smallest index on."""
    first = side.argmin(axis=1)[:, None]
    turned = np.take_along_axis(side, (np.arange(side.shape[1]) + first) % side.shape[1], axis=1)
    return list(map(tuple, turned.tolist()))


def test_cells_share_whole_faces(field: sdfcli.Field) -> None:
    """Each face has the same corners in opposite order in another cell, or lies on the domain's border."""
    cells = conforming_cells(field, select_backend("cpu"))
    faces = [cell[:, side] for cell in (cells.voxel, cells.pyramid, cells.tetra) for side in SIDES[cell.shape[1]]]
    seen = Counter(face for side in faces for face in in_cycles(side))
    other = Counter(face for side in faces for face in in_cycles(side[:, ::-1]))
    assert len(cells.pyramid)
    assert len(cells.tetra)
    assert max(seen.values()) == 1
    alone = [cells.position[list(face)] for face in seen if face not in other]
    assert alone
    assert all(((at == 0).all(axis=0) | (at == 1).all(axis=0)).any() for at in alone)


def test_cells_fill_the_leaves(field: sdfcli.Field) -> None:
    cells = conforming_cells(field, select_backend("cpu"))
    at, edge = cells.position, 0.5 ** field.leaf_level.astype(float)

    def volumes(tetra: np.ndarray) -> np.ndarray:
        a, b, c, d = (at[tetra[:, k]] for k in range(4))
        found: np.ndarray = ((np.cross(b - a, c - a)) * (d - a)).sum(axis=1) / 6
        return found

    halves = [volumes(cells.pyramid[:, list(each)]) for each in ((0, 1, 2, 4), (0, 2, 3, 4))]
    tetra = volumes(cells.tetra)
    assert all((each > 0).all() for each in (*halves, tetra))
    boxes = (at[cells.voxel[:, 7]] - at[cells.voxel[:, 0]]).prod(axis=1)
    whole = np.bincount(cells.leaf, weights=np.concatenate((boxes, sum(halves), tetra)))
    np.testing.assert_allclose(whole, edge**3, rtol=1e-12)
    points = field.domain.origin + field.domain.length * at
    np.testing.assert_allclose(cells.value, field.sample(points), atol=1e-6 * field.domain.length)


def test_points_of_leaves(field: sdfcli.Field, backend: Backend) -> None:
    arrays, key = field._arrays_on(backend), field.corner_key
    given = {name: arrays[name] for name in ("leaf_key", "leaf_level", "leaf_corner")}
    point = backend.xp.empty((field.leaves, 27), np.uint32)
    corners = {"corners": field.corners, "corner_key": backend.from_host(key)}
    backend.run("sdf_leaf_points", field.leaves, point=point, **corners, **given)
    number = {tuple(at): k for k, at in enumerate((lattice_position(key) * 2**20).astype(int).tolist())}
    low = (lattice_position(field.leaf_key) * 2**20).astype(int)
    found = backend.to_host(point)
    for leaf in np.random.default_rng().choice(field.leaves, 500):
        half = 2**20 >> int(field.leaf_level[leaf]) + 1
        for k in GRID.ravel():
            place = low[leaf] + half * np.array([k % 3, k // 3 % 3, k // 9])
            assert found[leaf, k] == (NONE if k == 13 else number.get(tuple(place.tolist()), NONE))


def test_contours_in_vtk_are_closed(field: sdfcli.Field, tmp_path: Path) -> None:
    """Also within the mesh; with hanging corners they are open."""
    vtk = pytest.importorskip("vtk")
    level = -np.random.default_rng().uniform(0.0, 0.5) * np.abs(field.distance[field.distance < 0]).max()

    def open_edges(conforming: bool) -> int:
        write_vtkhdf(tmp_path / "field.vtkhdf", field, conforming)
        reader, contour, edges = vtk.vtkHDFReader(), vtk.vtkContourFilter(), vtk.vtkFeatureEdges()
        reader.SetFileName(str(tmp_path / "field.vtkhdf"))
        contour.SetInputConnection(reader.GetOutputPort())
        contour.SetInputArrayToProcess(0, 0, 0, vtk.vtkDataObject.FIELD_ASSOCIATION_POINTS, "distance")
        contour.SetValue(0, float(level))
        edges.SetInputConnection(contour.GetOutputPort())
        edges.FeatureEdgesOff()
        edges.NonManifoldEdgesOn()
        edges.ManifoldEdgesOff()
        edges.Update()
        assert contour.GetOutput().GetNumberOfCells() > 100
        return int(edges.GetOutput().GetNumberOfCells())

    assert open_edges(False) > 0
    assert open_edges(True) == 0
