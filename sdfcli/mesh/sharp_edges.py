"""Sharp edges by the positions of their ends and the angle between outer faces: neither shared vertices, nor the order
or orientation of faces matter."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sdfcli.mesh.arrays import Bools, Floats, Ints
from sdfcli.mesh.health import FLAT_FACE
from sdfcli.mesh.mesh import Mesh

SAME = 1e-7
"""Angle, in quarter turns, up to which two faces at an edge count as one."""


class Wedges(NamedTuple):
    """Wedges of space between two neighbouring faces around an edge, whose angle is far from a straight one.

    A convex edge of a solid has such a wedge outside, a concave one too; both have one inside. The rim of a sheet has a
    single one, with a full turn.

    edge   (k,) edge number.
    start  (k, 3) ends of the edge, in the mesh's units, and
    end    (k, 3).
    way    (k, 3) unit vectors halfway between the faces, into the wedge: the mean of the faces' normals there.
    sine   (k,) sine of half the wedge's angle; 1 above a straight angle.
    flank  (k, 2, 3) unit vectors into the wedge at 45 degrees to the faces; below a straight angle `way`, twice.
    """

    edge: Ints
    start: Floats
    end: Floats
    way: Floats
    sine: Floats
    flank: Floats

    def at(self, kept: Bools | Ints) -> Wedges:
        """Some of the wedges."""
        return Wedges(**{name: array[kept] for name, array in self._asdict().items()})


def wedges(mesh: Mesh, angle: float) -> Wedges:
    """All wedges at a mesh's edges between whose faces the normals turn by more than `angle`, in degrees. Vertices at
    equal positions count as one. Faces without area are left out."""
    position = mesh.backend.to_host(mesh.position)
    corner = position[mesh.faces].astype(np.int64)  # (f, 3)
    at = mesh.domain.to_unit(mesh.vertices)
    one, two, opposite = (np.roll(corner, -k, axis=1).ravel() for k in range(3))
    low, high = np.minimum(one, two), np.maximum(one, two)
    along, aside = at[high] - at[low], at[opposite] - at[low]
    length = _length(along)
    with np.errstate(invalid="ignore", divide="ignore"):
        axis = along / length[:, None]
        normal = _cross(axis, aside)
        height = _length(normal)
        inwards = _cross(normal, axis) / height[:, None]  # unit, in the face, away from the edge
    longest = np.repeat(np.maximum.reduce(length.reshape(-1, 3), axis=1), 3)
    kept = np.flatnonzero(height * length > FLAT_FACE * longest * longest)
    kept = kept[np.lexsort((kept, high[kept], low[kept]))]
    fresh = np.diff(low[kept], prepend=-1) | np.diff(high[kept], prepend=-1)
    edge = np.cumsum(fresh != 0) - 1
    first = kept[np.flatnonzero(fresh)][edge]  # each edge's first half-edge: its frame
    x, y = inwards[first], _cross(axis[first], inwards[first])
    turn = _quarters(_dot(inwards[kept], x), _dot(inwards[kept], y))
    turn[turn > 4 - SAME] = 0.0
    order = np.lexsort((turn, edge))
    edge, kept, turn = edge[order], kept[order], turn[order]
    single = np.ones(len(edge), bool)
    single[1:] = (edge[1:] != edge[:-1]) | (turn[1:] - turn[:-1] > SAME)
    edge, kept = edge[single], kept[single]
    begin = np.flatnonzero(np.diff(edge, prepend=-1))
    number = np.repeat(np.arange(len(begin)), np.diff(np.append(begin, len(edge))))
    following = np.arange(1, len(edge) + 1)
    last = np.append(edge[1:] != edge[:-1], True)[: len(edge)]
    following[last] = begin[number[last]]
    here, there = inwards[kept], inwards[kept[following]]
    cosine = np.clip(_dot(here, there), -1.0, 1.0)
    convex = (_dot(_cross(here, there), axis[kept]) <= 0) | (following == np.arange(len(edge)))  # half a turn or more
    sharp = np.flatnonzero(-cosine < math.cos(math.radians(angle)))
    halfway = (here + there)[sharp] * np.where(convex[sharp], -1.0, 1.0)[:, None]
    sine = np.where(convex[sharp], 1.0, np.sqrt((1 - cosine[sharp]) / 2))
    way = halfway / _length(halfway)[:, None]
    slanted = (here + _cross(axis[kept], here))[sharp], (there - _cross(axis[kept], there))[sharp]
    flank = np.where(convex[sharp, None, None], np.stack(slanted, axis=1) * 0.5**0.5, way[:, None])
    start, end = (mesh.vertices[each[kept[sharp]]] for each in (low, high))
    return Wedges(edge[sharp], start, end, way, sine, flank)


def _quarters(x: Floats, y: Floats) -> Floats:
    """Quarter turns from 0 to 4, increasing with the angle of (x, y): an arc tangent's bits differ between machines."""
    share = y / (np.abs(x) + np.abs(y))
    return np.asarray(np.where(x < 0, 2 - share, np.where(y < 0, 4 + share, share)))


def _dot(a: Floats, b: Floats) -> Floats:
    return a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1] + a[:, 2] * b[:, 2]


def _length(a: Floats) -> Floats:
    return np.sqrt(_dot(a, a))


def _cross(a: Floats, b: Floats) -> Floats:
    pairs = ((1, 2), (2, 0), (0, 1))
    return np.stack([a[:, i] * b[:, j] - a[:, j] * b[:, i] for i, j in pairs], axis=1)
