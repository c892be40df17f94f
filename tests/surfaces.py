"""Mesh properties for tests. NumPy only, from the faces alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sdfcli.extract.marching_cubes import Surface
from sdfcli.mesh.mesh import Mesh


@dataclass(frozen=True)
class Topology:
    """Mesh counts.

    open      directed edges without their opposite.
    repeated  repeated uses of a directed edge: non-manifold, or inconsistently oriented.
    euler     vertices - edges + faces.
    unused    vertices without a face.
    fans      closed face fans beyond one per vertex: two parts that meet in a vertex.
    """

    open: int
    repeated: int
    euler: int
    unused: int
    fans: int


CLOSED = {"open": 0, "repeated": 0, "unused": 0, "fans": 0}


def topology(surface: Surface) -> Topology:
    faces, count = surface.faces.astype(np.int64), len(surface.vertices)
    start, end = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    edge, opposite = start * count + end, end * count + start
    different = np.unique(edge)
    is_open = ~np.isin(edge, opposite)
    rings = 0
    if len(different) == len(edge) and not is_open.any():
        # Half-edges around a vertex: the next is the opposite of the preceding edge in the same face.
        place = np.argsort(edge)
        twin = place[np.searchsorted(edge[place], opposite)]
        following = twin[np.arange(len(edge)).reshape(-1, 3)[:, [2, 0, 1]].ravel()]
        rings = orbits(following) - len(np.unique(faces))
    return Topology(
        open=int(is_open.sum()),
        repeated=len(edge) - len(different),
        euler=count - len(np.unique(np.minimum(edge, opposite))) + len(faces),
        unused=count - len(np.unique(faces)),
        fans=rings,
    )


def orbits(permutation: Any) -> int:
    """The permutation's cycle count."""
    least = np.arange(len(permutation))
    jump = np.asarray(permutation)
    while True:  # doubling: the minimum within 1, 2, 4 ... steps
        smaller = np.minimum(least, least[jump])
        if np.array_equal(smaller, least):
            return len(np.unique(least))
        least, jump = smaller, jump[jump]


def check_closed(surface: Surface) -> Topology:
    found = topology(surface)
    assert {name: getattr(found, name) for name in CLOSED} == CLOSED
    assert not surface.cut
    return found


def volume(surface: Surface | Mesh) -> float:
    """A closed surface's volume: negative for inward orientation."""
    a, b, c = (surface.vertices[surface.faces[:, k]] for k in range(3))
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)


def points_about(rng: np.random.Generator, triangles: Any, count: int) -> Any:
    """Points (count, 3) float32: in and around the cube, near triangles, and on their corners."""
    corner = triangles.reshape(-1, 3)
    near = corner[rng.integers(0, len(corner), count)] + rng.normal(size=(count, 3)) * 10.0 ** -rng.uniform(
        1, 6, (count, 1)
    )
    anywhere = rng.uniform(-0.5, 1.5, (count, 3))
    kind = rng.integers(0, 3, (count, 1))
    on = corner[rng.integers(0, len(corner), count)]
    return np.where(kind == 0, near, np.where(kind == 1, anywhere, on)).astype(np.float32)
