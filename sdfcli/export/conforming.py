"""Octrees without hanging corners: leaves beside smaller ones are cut into pyramids and tetrahedra."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Backend
from sdfcli.field.field import Field, lattice_position
from sdfcli.mesh.arrays import Floats
from sdfcli.octree.cells import NONE, POINTS

CHUNK = 1 << 18
"""Leaves per step: 27 numbers and their copies take about 0.1 GB."""
GRID = np.arange(POINTS).reshape(3, 3, 3)
"""A leaf's points, by z, y and x."""
CORNERS = GRID[::2, ::2, ::2].ravel()
MIDDLES = np.setdiff1d(GRID, [*CORNERS, 13])
"""Points on edges and faces."""

Cells = npt.NDArray[np.int64]


@dataclass(frozen=True)
class OctreeCells:
    """A field's leaves, some of them cut.

    position  (n, 3) float64 in the unit cube: the field's corners, then the centres of leaves that are cut.
    value     (n,) float32: distances there.
    voxel     (v, 8): corners of the leaves that are not cut, in Morton order.
    pyramid   (p, 5): a base, counter-clockwise seen from the apex, then the apex.
    tetra     (t, 4): a triangle, counter-clockwise seen from the last point, then that.
    leaf      (v + p + t,): the cells' leaves.
    """

    position: Floats
    value: npt.NDArray[np.float32]
    voxel: Cells
    pyramid: Cells
    tetra: Cells
    leaf: Cells


def leaf_cells(field: Field, backend: Backend) -> OctreeCells:
    """A field's leaves as they are, with hanging corners."""
    corner = backend.to_host(field._arrays_on(backend)["leaf_corner"]).astype(np.int64)
    none = np.empty((0, 5), np.int64), np.empty((0, 4), np.int64)
    return OctreeCells(lattice_position(field.corner_key), field.distance, corner, *none, np.arange(field.leaves))


def conforming_cells(field: Field, backend: Backend) -> OctreeCells:
    """Cells of which any two that touch share a whole face.

    Each leaf with a hanging corner is cut along the lines from its centre: a pyramid for each face, four for a face
    with four smaller leaves beside it, tetrahedra for a face with hanging corners on its edges alone.

    Such a face is a polygon, whose triangles have its first hanging corner, so that both leaves cut it alike. Distances
    at hanging corners are the coarser leaf's, at centres the means of eight corners (both by trilinear interpolation).
    """
    arrays = field._arrays_on(backend)
    key, corner = backend.from_host(field.corner_key), backend.to_host(arrays["leaf_corner"]).astype(np.int64)
    parts, position = [], [lattice_position(field.corner_key)]
    value, free = [field.distance], field.corners
    for first in range(0, field.leaves, CHUNK):
        here = slice(first, first + CHUNK)
        given = {name: arrays[name][here] for name in ("leaf_key", "leaf_level", "leaf_corner")}
        found = backend.xp.empty((len(given["leaf_level"]), POINTS), np.uint32)
        backend.run("sdf_leaf_points", len(found), corners=field.corners, corner_key=key, point=found, **given)
        point = backend.to_host(found)
        leaf = first + np.flatnonzero((point[:, MIDDLES] != NONE).any(axis=1))
        centre = np.arange(free, free + len(leaf))
        free += len(leaf)
        at = np.where(point[leaf - first] == NONE, -1, point[leaf - first].astype(np.int64))
        pyramid, of_pyramid, tetra, of_tetra = _cut(at, centre)
        parts.append((leaf, pyramid, leaf[of_pyramid], tetra, leaf[of_tetra]))
        ends = position[0][corner[leaf][:, [0, 7]]]
        position.append((ends[:, 0] + ends[:, 1]) / 2)
        value.append(field.distance[corner[leaf]].mean(axis=1, dtype=np.float64).astype(np.float32))
    hanging, pyramid, of_pyramid, tetra, of_tetra = map(np.concatenate, zip(*parts, strict=True))
    whole = np.setdiff1d(np.arange(field.leaves), hanging)
    return OctreeCells(
        np.concatenate(position),
        np.concatenate(value),
        corner[whole],
        pyramid,
        tetra,
        np.concatenate((whole, of_pyramid, of_tetra)),
    )


def _faces() -> list[tuple[Cells, int, Cells]]:
    """A leaf's faces: points around each (8,), counter-clockwise seen from inside, its middle, and its quarters
    (4, 4)."""
    faces = []
    for axis in range(3):
        for side in (0, 2):
            face = np.take(GRID, side, axis=axis)
            # Rows and columns turn to the third axis, or away from it if that is y.
            if (side == 0) == (axis == 1):
                face = face.T
            ring = face[[0, 0, 0, 1, 2, 2, 2, 1], [0, 1, 2, 2, 2, 1, 0, 0]]
            quarters = [face[y : y + 2, x : x + 2].ravel()[[0, 1, 3, 2]] for y in (0, 1) for x in (0, 1)]
            faces.append((ring, int(face[1, 1]), np.array(quarters)))
    return faces


def _cut(point: Cells, centre: Cells) -> tuple[Cells, Cells, Cells, Cells]:
    """Pyramids (p, 5) and tetrahedra (t, 4) of leaves, each with the leaf's index (p,) and (t,).

    point: (n, 27), -1 for a missing one. centre: (n,).
    """
    pyramids: list[tuple[Cells, Cells]] = []
    tetras: list[tuple[Cells, Cells]] = []

    def add(cells: list[tuple[Cells, Cells]], which: npt.NDArray[np.bool_], base: Cells) -> None:
        (leaf,) = np.nonzero(which)
        cells.append((np.column_stack((base[leaf], centre[leaf])), leaf))

    for ring, middle, quarters in _faces():
        around = point[:, ring]
        halves = around[:, 1::2]
        fine, plain = point[:, middle] >= 0, (halves < 0).all(axis=1)
        for quarter in quarters:
            add(pyramids, fine, point[:, quarter])
        add(pyramids, ~fine & plain, around[:, ::2])
        # The smallest index: the same for the leaf on the other side.
        apex = np.where(halves < 0, np.iinfo(np.int64).max, halves).min(axis=1)
        for k in range(8):
            one, two = around[:, k], around[:, (k + 1) % 8]
            if k % 2 == 0:
                two = np.where(two < 0, around[:, (k + 2) % 8], two)
            some = ~fine & ~plain & (one >= 0) & (one != apex) & (two != apex)
            add(tetras, some, np.column_stack((apex, one, two)))
    (pyramid, of_pyramid), (tetra, of_tetra) = (
        tuple(np.concatenate(each) for each in zip(*cells, strict=True)) for cells in (pyramids, tetras)
    )
    return pyramid, of_pyramid, tetra, of_tetra
