"""Points at which wall thickness is measured: on faces, by area, and at vertices."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdfcli.mesh.arrays import Bools, Floats, Ints
from sdfcli.mesh.mesh import Mesh, face_normals
from sdfcli.mesh.vectors import length

SMOOTH = 0.94
"""Minimum cosine between a vertex's normal and its faces' for a smooth vertex: 20 degrees, as between faces 40 degrees
apart."""

INWARD = 1e-3
"""Distance of a point for a vertex from that vertex, towards a face's centre, as a fraction of the way."""


@dataclass(frozen=True)
class FacePoints:
    """Points on a mesh's faces: each face is cut into cuts^2 congruent triangles, with a point at each one's centre.

    cuts   (f,) int64, parts per edge.
    start  (f + 1,) int64, each face's first point.
    area   (f,) float64, surface share.
    """

    cuts: Ints
    start: Ints
    area: Floats

    @staticmethod
    def of(mesh: Mesh, count: int) -> FacePoints:
        """About `count` points uniform by area, and at least one per face."""
        area = mesh.areas()
        total = math.fsum(area)
        share = area / total if total > 0 else np.zeros(len(area))
        cuts = np.maximum(1, np.rint(np.sqrt(count * share))).astype(np.int64)
        return FacePoints(cuts, np.concatenate(([0], np.cumsum(cuts**2))), share)

    def __len__(self) -> int:
        return int(self.start[-1])

    def faces(self) -> Ints:
        """Each point's face, (n,)."""
        return np.repeat(np.arange(len(self.cuts)), self.cuts**2)

    def areas(self) -> Floats:
        """Each point's surface share, (n,)."""
        return np.repeat(self.area / self.cuts**2, self.cuts**2)

    def batch(self, first: int, last: int) -> tuple[npt.NDArray[np.uint32], Floats]:
        """Faces (k,) and barycentric weights (k, 3) of points first to last."""
        index = np.arange(first, last)
        face = np.searchsorted(self.start, index, side="right") - 1
        part, cuts = index - self.start[face], self.cuts[face]
        # Row by row from the first corner: row r has r + 1 triangles with its own orientation, and r upside down.
        row = np.sqrt(part).astype(np.int64)
        along = part - row * row
        column, upside_down = along // 2, along % 2
        down = (row + (2 - upside_down) / 3) / cuts
        right = (column + (1 + upside_down) / 3) / cuts
        return face.astype(np.uint32), np.column_stack((1 - down, down - right, right))

    def smallest(self, values: Floats) -> Floats:
        """The smallest of each face's values (n,), without NaN if possible: (f,)."""
        return np.asarray(np.fmin.reduceat(values, self.start[:-1]))


def corner_points(mesh: Mesh) -> tuple[Ints, npt.NDArray[np.uint32], Floats]:
    """Points for vertices: vertices (k,), faces (k,) and barycentric weights (k, 3), sorted by vertex.

    A smooth vertex has one point, on its largest face; a vertex on a crease has one on each of its faces. Points lie
    slightly inside of the faces.
    """
    face, corner = np.divmod(np.arange(3 * len(mesh.faces)), 3)
    vertex = mesh.faces.reshape(-1).astype(np.int64)
    normals = face_normals(mesh.unit_triangles)
    area = length(normals)
    smooth = _smooth(mesh, normals, area)
    order = np.lexsort((corner, -area[face], vertex))
    first = np.concatenate(([True], np.diff(vertex[order]) != 0))
    chosen = order[first | ~smooth[vertex[order]]]
    weight = np.full((len(chosen), 3), INWARD / 3)
    weight[np.arange(len(chosen)), corner[chosen]] = 1 - INWARD * 2 / 3
    return vertex[chosen], face[chosen].astype(np.uint32), weight


def _smooth(mesh: Mesh, normals: Floats, area: Floats) -> Bools:
    """Whether each vertex is smooth, (v,): vertices at one position count as one."""
    position = mesh.backend.to_host(mesh.position).astype(np.int64)
    corner = position[mesh.faces.reshape(-1)]
    mean = np.empty((len(position), 3))
    for axis in range(3):
        mean[:, axis] = np.bincount(corner, np.repeat(normals[:, axis], 3), len(position))
    long = length(mean)
    towards = np.zeros(len(corner))
    for axis in range(3):
        towards += mean[corner, axis] * np.repeat(normals[:, axis], 3)
    sharp = towards < SMOOTH * long[corner] * np.repeat(area, 3)
    return np.asarray(np.bincount(corner, sharp, len(position))[position] == 0)
