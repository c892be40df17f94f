"""Cells for VTK that fill the domain without gaps, face to face."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import sdfcli
import shapes
from sdfcli.export.conforming import Cells, conforming

FACES = {
    8: [(0, 1, 3, 2), (4, 5, 7, 6), (0, 1, 5, 4), (2, 3, 7, 6), (0, 2, 6, 4), (1, 3, 7, 5)],
    5: [(0, 1, 2, 3), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)],
    4: [(0, 1, 2), (0, 1, 3), (1, 2, 3), (2, 0, 3)],
}
"""By number of points, in VTK's order."""


def built(seed: int) -> sdfcli.Field:
    rng = np.random.default_rng(seed)
    if seed == 0:
        return sdfcli.build(shapes.icosphere(2), tolerance=0.01, device="cpu")
    return sdfcli.build(shapes.star(rng, 1), tolerance=0.02, device="cpu")


@pytest.fixture(scope="module", params=[0, 1, 2])
def field(request: pytest.FixtureRequest) -> sdfcli.Field:
    return built(request.param)


@pytest.fixture(scope="module")
def cells(field: sdfcli.Field) -> Cells:
    found = conforming(field)
    assert all(len(each) > 100 for each in found.corner)
    return found


def volume(position: npt.NDArray[Any], corner: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Of tetrahedra (n, 4), positive if the first three points turn left around the way to the last one."""
    a, b, c, d = (position[corner[:, k]] for k in range(4))
    return np.einsum("ij,ij->i", np.cross(b - a, c - a), d - a) / 6


def test_cells_fill_their_leaves(field: sdfcli.Field, cells: Cells) -> None:
    voxel, pyramid, tetrahedron = cells.corner
    edge = cells.position[voxel[:, 7]] - cells.position[voxel[:, 0]]
    halves = [volume(cells.position, pyramid[:, each]) for each in ([0, 1, 2, 4], [0, 2, 3, 4])]
    parts = [edge.prod(axis=1), halves[0] + halves[1], volume(cells.position, tetrahedron)]
    assert all((each > 0).all() for each in (*parts, *halves))
    total = np.zeros(field.leaves)
    for leaf, part in zip(cells.leaf, parts, strict=True):
        total += np.bincount(leaf, part, minlength=field.leaves)
    np.testing.assert_allclose(total, 0.125 ** field.leaf_level.astype(float), rtol=1e-12)


def test_every_face_is_shared_by_two_cells(cells: Cells) -> None:
    """Or is on the domain's border."""
    seen: dict[int, list[npt.NDArray[Any]]] = {3: [], 4: []}
    for corner in cells.corner:
        for face in FACES[corner.shape[1]]:
            seen[len(face)].append(np.sort(corner[:, face], axis=1))
    for faces in seen.values():
        face, count = np.unique(np.concatenate(faces), axis=0, return_counts=True)
        assert count.max() == 2
        alone = cells.position[face[count == 1]]
        border = ((alone == 0).all(axis=1) | (alone == 1).all(axis=1)).any(axis=1)
        assert border.all()


def test_values(field: sdfcli.Field, cells: Cells) -> None:
    points = field.domain.origin + field.domain.length * cells.position
    np.testing.assert_allclose(cells.value, field.sample(points), rtol=0, atol=1e-6)
    assert len(np.unique(cells.position, axis=0)) == len(cells.position)


def test_contours_are_closed(field: sdfcli.Field, tmp_path: Path) -> None:
    vtk = pytest.importorskip("vtk")
    reader, contour, edges = vtk.vtkHDFReader(), vtk.vtkContourFilter(), vtk.vtkFeatureEdges()
    reader.SetFileName(str(field.export(tmp_path / "a.vtkhdf")))
    reader.Update()
    grid = reader.GetOutput()
    grid.GetPointData().SetActiveScalars("distance")
    contour.SetInputData(grid)
    edges.SetInputConnection(contour.GetOutputPort())
    edges.FeatureEdgesOff()
    edges.ManifoldEdgesOff()
    depth = -float(field.distance.min())
    for level in np.random.default_rng(4).uniform(-0.8 * depth, 0.02, 6):
        contour.SetValue(0, level)
        edges.Update()
        assert contour.GetOutput().GetNumberOfCells() > 10
        assert edges.GetOutput().GetNumberOfCells() == 0, level


def test_levels_that_are_not_balanced() -> None:
    field = sdfcli.build(shapes.star(np.random.default_rng(2), 2), octree="bvh", depth=6, device="cpu")
    found = conforming(field)
    assert [len(each) for each in found.corner] == [field.leaves, 0, 0]
    assert (found.value == field.distance).all()


def test_one_leaf() -> None:
    field = sdfcli.build(shapes.cube(), depth=1, device="cpu")
    found = conforming(field)
    assert [len(each) for each in found.corner] == [field.leaves, 0, 0]
