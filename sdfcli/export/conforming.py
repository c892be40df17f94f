"""Cells whose faces agree at changes in level, so that contours are closed: a leaf beside finer ones becomes pyramids
and tetrahedra around its centre."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.backend import any_backend
from sdfcli.field.field import Field, lattice_key, lattice_position
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.spatial.morton import LATTICE_BITS

VOXEL, PYRAMID, TETRAHEDRON = 11, 14, 10
"""VTK's cell types."""
NONE = -1

STEPS = np.array([1, 3, 9])
"""A leaf's corners and midpoints are numbered 0 to 26: 0, 1 or 2 along x, then y, then z."""


def _rings() -> Ints:
    """A leaf's six faces (6, 9): corners and edge midpoints in turn, counter-clockwise seen from inside; the centre."""
    rings = []
    for axis in range(3):
        u, v = STEPS[(axis + 1) % 3], STEPS[(axis + 2) % 3]
        around = [0, u, 2 * u, 2 * u + v, 2 * u + 2 * v, u + 2 * v, 2 * v, v]
        rings += [[*around, u + v], [2 * STEPS[axis] + k for k in (0, *around[:0:-1], u + v)]]
    return np.array(rings)


FACES = _rings()
CORNERS = 2 * (np.indices((2, 2, 2)).reshape(3, -1).T @ STEPS[::-1])
"""The corners' numbers, in Morton order."""


class Cells(NamedTuple):
    """An unstructured grid.

    position  (m, 3) float64 in the unit cube: the field's corners, then centres.
    value     (m,) float32.
    corner    each cell's points, in VTK's order, for voxels (n, 8), pyramids (p, 5) and tetrahedra (t, 4).
    leaf      the cells' leaves: (n,), (p,) and (t,).
    """

    position: Floats
    value: npt.NDArray[np.float32]
    corner: tuple[Ints, Ints, Ints]
    leaf: tuple[Ints, Ints, Ints]


def conforming(field: Field) -> Cells:
    """A field's leaves as voxels; those beside finer ones as pyramids and tetrahedra, whose faces are theirs.

    If neighbours differ by more than one level, as in octrees by density, all leaves are voxels.
    """
    corner = np.asarray(field._arrays_on(any_backend())["leaf_corner"]).astype(np.int64)
    position = lattice_position(field.corner_key)
    leaf, point, graded = _midpoints(field, corner, position)
    whole = np.ones(field.leaves, np.bool_)
    none = np.empty((0, 5), np.int64), np.empty((0, 4), np.int64)
    if not graded or not len(leaf):
        every, nowhere = np.arange(field.leaves), np.empty(0, np.int64)
        return Cells(position, field.distance, (corner, *none), (every, nowhere, nowhere))
    whole[leaf] = False
    apex = len(position) + np.arange(len(leaf))
    pyramids, tetrahedra = [], []
    for ring in FACES:
        face = point[:, ring]
        middle = face[:, 1:8:2]
        refined, plain = face[:, 8] >= 0, (middle < 0).all(axis=1)
        row = np.flatnonzero(plain)
        pyramids.append((row, face[row][:, [0, 2, 4, 6]]))
        row = np.flatnonzero(refined)
        pyramids += [(row, face[row][:, [k, k + 1, 8, k - 1 if k else 7]]) for k in (0, 2, 4, 6)]
        row = np.flatnonzero(~refined & ~plain)
        tetrahedra += [(row[there], corners[there]) for there, corners in _fan(face[row, :8])]
    corners, leaves = [corner[whole]], [np.flatnonzero(whole)]
    for parts in (pyramids, tetrahedra):
        row = np.concatenate([row for row, _ in parts])
        base = np.concatenate([each for _, each in parts])
        corners.append(np.column_stack((base, apex[row])))
        leaves.append(leaf[row])
    half = 0.5 ** (field.leaf_level[leaf].astype(np.float64) + 1)
    centre = position[corner[leaf, 0]] + half[:, None]
    value = field.distance[corner[leaf]].astype(np.float64).mean(axis=1).astype(np.float32)
    points = np.concatenate((position, centre)), np.concatenate((field.distance, value))
    return Cells(*points, tuple(corners), tuple(leaves))  # type: ignore[arg-type]


def _midpoints(field: Field, corner: Ints, position: Floats) -> tuple[Ints, Ints, bool]:
    """Leaves (t,) with finer neighbours, and their points (t, 27), NONE where there is none; and whether neighbours
    differ by one level at most."""
    full = 1 << LATTICE_BITS
    some = np.flatnonzero(np.bincount(corner.ravel(), minlength=field.corners) < 8)
    at = (position[some] * full).astype(np.int64)
    found: list[tuple[Ints, Ints, Ints]] = []
    for octant in np.ndindex(2, 2, 2):
        within = at - octant
        inside = ((within >= 0) & (within < full)).all(axis=1)
        leaf = np.searchsorted(field.leaf_key, lattice_key(within[inside]), side="right") - 1
        edge = full >> field.leaf_level[leaf].astype(np.int64)
        apart = 2 * (at[inside] - (position[corner[leaf, 0]] * full).astype(np.int64))
        if (apart % edge[:, None]).any():
            return np.empty(0, np.int64), np.empty((0, 27), np.int64), False
        number = (apart // edge[:, None]) @ STEPS
        beside = ~np.isin(number, CORNERS)
        found.append((leaf[beside], number[beside], some[inside][beside]))
    leaf, number, point = (np.concatenate(each) for each in zip(*found, strict=True))
    leaves, row = np.unique(leaf, return_inverse=True)
    points = np.full((len(leaves), 27), NONE, np.int64)
    points[:, CORNERS] = corner[leaves]
    points[row, number] = point
    return leaves, points, True


def _fan(ring: Ints) -> list[tuple[npt.NDArray[np.bool_], Ints]]:
    """Triangles (rows, 3) of faces (n, 8) with midpoints on edges, around the midpoint that comes first in Morton
    order, as in the leaf across the face; each with the rows (n,) that have it."""
    middle = np.where(ring[:, 1::2] < 0, np.iinfo(np.int64).max, ring[:, 1::2])
    first = 2 * middle.argmin(axis=1)[:, None] + 1
    turned = np.take_along_axis(ring, (first + np.arange(8)) % 8, axis=1)
    triangles = []
    for k in (1, 3, 5):
        has = turned[:, k + 1] >= 0
        triangles.append((~has, turned[:, [0, k, k + 2]]))
        triangles += [(has, turned[:, [0, k, k + 1]]), (has, turned[:, [0, k + 1, k + 2]])]
    return triangles
