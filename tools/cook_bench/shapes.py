"""Meshes by formula, in metres."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import trimesh

Floats = npt.NDArray[np.float64]
AROUND = 96
"""Corners of round shapes."""


def columns(profile: Floats, thread: float = 0.0, pitch: float = 1.0) -> Floats:
    """Points of (radius, height) turned around the z axis: (AROUND, n, 3).

    thread: depth of a helical thread, by which points with a third column of 1 go in and out.
    """
    angle = np.arange(AROUND) * 2 * np.pi / AROUND
    radius = np.broadcast_to(profile[:, 0], (AROUND, len(profile))).copy()
    if thread:
        phase = (profile[:, 1] / pitch - angle[:, None] / (2 * np.pi)) % 1
        radius += profile[:, 2] * thread * (np.clip(np.abs(4 * phase - 2), 0.5, 1.5) - 1)
    height = np.broadcast_to(profile[:, 1], radius.shape)
    return np.stack((radius * np.cos(angle)[:, None], radius * np.sin(angle)[:, None], height), axis=-1)


def revolved(profile: Floats, thread: float = 0.0, pitch: float = 1.0) -> trimesh.Trimesh:
    """The surface of a closed polygon around the z axis. Arguments as for `columns`."""
    vertices = columns(profile, thread, pitch)
    i, j = np.indices(vertices.shape[:2])
    here, up = i * len(profile) + j, i * len(profile) + (j + 1) % len(profile)
    right, both = (each % (AROUND * len(profile)) for each in (here + len(profile), up + len(profile)))
    faces = np.concatenate((np.stack((here, right, both), -1), np.stack((here, both, up), -1))).reshape(-1, 3)
    made = trimesh.Trimesh(vertices.reshape(-1, 3), faces)
    made.update_faces(made.nondegenerate_faces())
    if made.volume < 0:
        made.invert()
    return made


def circle(radius: float, wire: float, corners: int) -> Floats:
    """A ring's profile."""
    angle = np.arange(corners) * 2 * np.pi / corners
    return np.stack((radius + wire * np.cos(angle), wire * np.sin(angle)), axis=1)


def rod(radius: float, length: float, slabs: int) -> Floats:
    """A cylinder's profile, from the axis to the axis, with corners between slabs."""
    height = np.linspace(-length / 2, length / 2, slabs + 1)
    side = np.stack((np.full_like(height, radius), height), axis=1)
    return np.concatenate(([[0, height[0]]], side, [[0, height[-1]]]))


def levels(low: float, high: float, step: float) -> Floats:
    """Heights for a thread."""
    return np.linspace(low, high, 1 + round((high - low) / step))


def threaded(radius: float, length: float, step: float) -> Floats:
    """The profile of a rod with a thread."""
    height = levels(-length / 2, length / 2, step)
    side = np.stack((np.full_like(height, radius), height, np.ones_like(height)), axis=1)
    return np.concatenate(([[0, height[0], 0]], side, [[0, height[-1], 0]]))


def nut_profile(inner: float, outer: float, length: float, step: float) -> Floats:
    """The profile of a round nut with a thread inside: corners up its outside, then down its inside."""
    height = levels(-length / 2, length / 2, step)
    outside = np.stack((np.full_like(height, outer), height, np.zeros_like(height)), axis=1)
    inside = np.stack((np.full_like(height, inner), height, np.ones_like(height)), axis=1)[::-1]
    return np.concatenate((outside, inside))


def sectors(mesh: trimesh.Trimesh, around: int) -> list[Floats]:
    """The corners of a mesh around the z axis in pieces: two neighbouring columns each."""
    angle = np.arctan2(mesh.vertices[:, 1], mesh.vertices[:, 0]) * around / (2 * np.pi)
    column = np.rint(angle).astype(np.int64) % around
    return [np.asarray(mesh.vertices[(column == k) | (column == (k + 1) % around)]) for k in range(around)]


def slabs(mesh: trimesh.Trimesh, count: int) -> list[Floats]:
    """The corners of an upright convex mesh in pieces, one upon another; its corners have `count + 1` heights."""
    height = np.unique(mesh.vertices[:, 2].round(9))
    assert len(height) == count + 1
    z = mesh.vertices[:, 2]
    return [np.asarray(mesh.vertices[(z > a - 1e-9) & (z < b + 1e-9)]) for a, b in pairwise(height)]


@dataclass(frozen=True)
class Tetrahedra:
    """A solid: vertices (v, 3) and tetrahedra (t, 4), with positive volumes."""

    vertices: Floats
    cells: npt.NDArray[np.int64]


def swept(columns: Floats, section: npt.NDArray[np.int64]) -> Tetrahedra:
    """The solid around the z axis whose columns (around, n, 3) have sections of triangles (t, 3).

    Prisms between columns are cut by diagonals from the smaller number to the larger one, as their neighbours are.
    """
    around, count = columns.shape[:2]
    a, b, c = np.sort(section, axis=1).T
    cuts = np.stack(((a, b, c, c + count), (a, b, b + count, c + count), (a, a + count, b + count, c + count)))
    cells = cuts.transpose(0, 2, 1).reshape(-1, 4) + count * np.arange(around)[:, None, None]
    cells = cells.reshape(-1, 4) % (around * count)
    vertices = columns.reshape(-1, 3)
    origin, *edges = (vertices[cells[:, k]] for k in range(4))
    negative = np.linalg.det(np.stack([each - origin for each in edges], axis=1)) < 0
    cells[negative] = cells[negative][:, [0, 1, 3, 2]]
    return Tetrahedra(vertices, cells)


def solid_ring(profile: Floats, centre: float) -> Tetrahedra:
    """The solid of a ring, with vertices along its centre line, at a radius."""
    count = len(profile)
    corner = np.arange(count)
    fan = np.stack((corner, (corner + 1) % count, np.full(count, count)), axis=1)
    return swept(columns(np.concatenate((profile, [[centre, 0]]))), fan)


def solid_nut(profile: Floats, middle: float, thread: float, pitch: float) -> Tetrahedra:
    """The solid of a nut, with vertices within its wall, at a radius."""
    rows = len(profile) // 2
    within = np.stack((np.full(rows, middle), profile[:rows, 1], np.zeros(rows)), axis=1)
    points = np.concatenate((profile, within))
    low = np.arange(rows - 1)
    walls = (low, 2 * rows + low, 1), (2 * rows - 1 - low, 2 * rows + low, -1)  # from a side to the middle
    quads = [np.stack((side, side + up, inner + 1, inner), axis=1) for side, inner, up in walls]
    corners = np.concatenate(quads)
    return swept(columns(points, thread, pitch), np.concatenate((corners[:, :3], corners[:, [0, 2, 3]])))
