"""Sharp edges by the positions of their ends and the angle between outer faces: neither shared vertices, nor the order
or orientation of faces matter."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sdfcli.mesh.arrays import Bools, Floats, Ints
from sdfcli.mesh.health import FLAT_FACE
from sdfcli.mesh.mesh import Mesh
from sdfcli.mesh.vectors import cross, dot, length

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

    def at(self, kept: Bools | Ints | slice) -> Wedges:
        """Some of the wedges."""
        return Wedges(**{name: array[kept] for name, array in self._asdict().items()})


class _Sides(NamedTuple):
    """Sides of faces, (n,) each, sorted by edge and, in an edge, by the angle around it.

    edge     edge number.
    low      vertices at its ends, the same for all sides of an edge, and
    high     (n,).
    axis     (n, 3) unit vectors from `low` to `high`.
    inwards  (n, 3) unit vectors in the face, away from the edge.
    """

    edge: Ints
    low: Ints
    high: Ints
    axis: Floats
    inwards: Floats

    def at(self, kept: Bools | Ints) -> _Sides:
        """Some of the sides."""
        return _Sides(**{name: array[kept] for name, array in self._asdict().items()})


def wedges(mesh: Mesh, angle: float) -> Wedges:
    """All wedges at a mesh's edges between whose faces the normals turn by more than `angle`, in degrees. Vertices at
    equal positions count as one. Faces without area are left out."""
    side = _in_order(_sides(mesh))
    last = np.append(side.edge[1:] != side.edge[:-1], True)[: len(side.edge)]
    following = np.arange(1, len(side.edge) + 1)
    following[last] = np.flatnonzero(np.diff(side.edge, prepend=-1))
    here, there = side.inwards, side.inwards[following]
    cosine = np.clip(dot(here, there), -1.0, 1.0)
    sharp = np.flatnonzero(-cosine < math.cos(math.radians(angle)))
    here, there, cosine, side = here[sharp], there[sharp], cosine[sharp], side.at(sharp)
    wide = (dot(cross(here, there), side.axis) <= 0) | (following[sharp] == sharp)  # half a turn or more
    halfway = (here + there) * np.where(wide, -1.0, 1.0)[:, None]
    way = halfway / length(halfway)[:, None]
    slanted = np.stack((here + cross(side.axis, here), there - cross(side.axis, there)), axis=1) * 0.5**0.5
    flank = np.where(wide[:, None, None], slanted, way[:, None])
    sine = np.where(wide, 1.0, np.sqrt((1 - cosine) / 2))
    return Wedges(side.edge, mesh.vertices[side.low], mesh.vertices[side.high], way, sine, flank)


def _sides(mesh: Mesh) -> _Sides:
    """The sides of all faces with area, sorted by edge."""
    corner = mesh.backend.to_host(mesh.position)[mesh.faces].astype(np.int64)  # (f, 3)
    at = mesh.domain.to_unit(mesh.vertices)
    one, two, opposite = (np.roll(corner, -k, axis=1).ravel() for k in range(3))
    low, high = np.minimum(one, two), np.maximum(one, two)
    along, aside = at[high] - at[low], at[opposite] - at[low]
    long = length(along)
    with np.errstate(invalid="ignore", divide="ignore"):
        axis = along / long[:, None]
        normal = cross(axis, aside)
        height = length(normal)
        inwards = cross(normal, axis) / height[:, None]
    longest = np.repeat(np.maximum.reduce(long.reshape(-1, 3), axis=1), 3)
    kept = np.flatnonzero(height * long > FLAT_FACE * longest * longest)
    key = low[kept] * len(at) + high[kept]
    order = np.argsort(key, kind="stable")
    kept, edge = kept[order], np.cumsum(np.diff(key[order], prepend=-1) > 0) - 1
    return _Sides(edge, low[kept], high[kept], axis[kept], inwards[kept])


def _in_order(side: _Sides) -> _Sides:
    """Sides sorted by the angle around their edge, too; one of several at the same angle."""
    first = np.flatnonzero(np.diff(side.edge, prepend=-1))[side.edge]  # each edge's first side: its frame
    x = side.inwards[first]
    turn = _quarters(dot(side.inwards, x), dot(side.inwards, cross(side.axis, x)))
    turn[turn > 4 - SAME] = 0.0
    order = np.lexsort((turn, side.edge))
    single = np.ones(len(order), bool)
    single[1:] = (np.diff(side.edge) > 0) | (np.diff(turn[order]) > SAME)
    return side.at(order[single])


def _quarters(x: Floats, y: Floats) -> Floats:
    """Quarter turns from 0 to 4, increasing with the angle of (x, y): an arc tangent's bits differ between machines."""
    share = y / (np.abs(x) + np.abs(y))
    return np.asarray(np.where(x < 0, 2 - share, np.where(y < 0, 4 + share, share)))
