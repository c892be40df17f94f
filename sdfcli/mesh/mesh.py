"""A triangle mesh, and what follows from its vertices and faces."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sdfcli.mesh.arrays import Bools, Floats, Ints, pieces
from sdfcli.mesh.health import Health, degenerate_faces
from sdfcli.mesh.topology import Edges, Neighbours, Uses, connected, edges_of, neighbours_of, twins, uses_of, weld
from sdfcli.runtime.memory import require

PADDING = 0.025
"""Space around the mesh on each side, as a fraction of the longest side of its bounds."""

CHECKING = 350
"""Bytes that a triangle takes while it is checked, at least: measured on meshes of 70 thousand to a million."""


@dataclass(frozen=True)
class Domain:
    """The cube in which a field is defined: `(position - origin) / length` lies in the unit cube."""

    origin: Floats
    length: float

    def to_unit(self, points: Any) -> Any:
        """Points (n, 3) in the mesh's units, brought into the unit cube in float64."""
        return (points - self.origin) / self.length


OF_EDGES = ("uses", "neighbours", "doubled")
"""What the choice of the sign looks at, and nothing after it."""

RELEASED = ("unit_triangles", "position", "welded", "edges", "shell", "open_edges", "normals", "area_sums", *OF_EDGES)


@dataclass(frozen=True)
class Mesh:
    """Triangles: vertices (v, 3) float64 in the mesh's units, faces (f, 3) int64. Every vertex is finite and used."""

    vertices: Floats
    faces: Ints

    @cached_property
    def bounds(self) -> Floats:
        """(2, 3): the lower and the upper corner."""
        return bounds_of(self.vertices)

    @cached_property
    def diagonal(self) -> float:
        """Length of the diagonal of the bounds: the unit of tolerances."""
        return float(np.linalg.norm(self.bounds[1] - self.bounds[0]))

    @cached_property
    def domain(self) -> Domain:
        """The padded cube around the bounds."""
        low, high = self.bounds
        length = float((high - low).max()) * (1 + 2 * PADDING)
        return Domain((low + high) / 2 - length / 2, length)

    @cached_property
    def unit_triangles(self) -> Floats:
        """(f, 9) float64: the corners of each triangle in the unit cube."""
        return np.take(self.domain.to_unit(self.vertices), self.faces, axis=0).reshape(-1, 9)

    @cached_property
    def welded(self) -> Ints:
        """(f, 3): the faces with vertices at equal positions taken for one."""
        return np.take(self.position, self.faces)

    @cached_property
    def position(self) -> Ints:
        """(v,) for each vertex the number of the first vertex at its position."""
        return weld(self.vertices)

    @cached_property
    def uses(self) -> Uses:
        """How the welded faces use edges."""
        return uses_of(self.welded)

    @cached_property
    def edges(self) -> Edges:
        """The undirected edges of the welded faces."""
        return edges_of(self.uses)

    @cached_property
    def neighbours(self) -> Neighbours:
        """Which faces lie side by side."""
        return neighbours_of(self.uses)

    @cached_property
    def shell(self) -> Ints:
        """(f,) for each face the number of its shell: the faces that are connected across edges of two faces."""
        first = connected(len(self.faces), self.neighbours.pairs)
        number: Ints = (np.cumsum(first == np.arange(len(first))) - 1)[first]
        return number

    @cached_property
    def doubled(self) -> tuple[Ints, Bools]:
        """The faces that have the vertices of another one, see `twins`."""
        return twins(self.welded)

    @cached_property
    def normals(self) -> Floats:
        """(f, 3): the faces' normals in the unit cube, twice as long as their area is large."""
        return face_normals(self.unit_triangles)

    @cached_property
    def area_sums(self) -> Floats:
        """(f,): twice the area of each face and of all before it, in the unit cube."""
        return np.cumsum(np.linalg.norm(self.normals, axis=1))

    @cached_property
    def health(self) -> Health:
        """What is wrong with the mesh. Raises OutOfMemoryError where finding it takes more than there is."""
        require(CHECKING * len(self.faces), f"checking {len(self.faces):,} triangles")
        with ThreadPoolExecutor(2) as helpers:  # NumPy lets other threads run
            degenerate = helpers.submit(lambda: degenerate_faces(self.unit_triangles, self.normals))
            helpers.submit(lambda: self.doubled)
            edges, shells = self.edges, int(self.shell.max()) + 1
        uses = edges.forward + edges.backward
        balanced = edges.forward == edges.backward
        return Health(
            triangles=len(self.faces),
            vertices=len(self.vertices),
            shells=shells,
            open_edges=int(np.sum(~balanced)),
            non_manifold_edges=int(np.sum(uses > 2)),
            inconsistent_edges=int(np.sum((uses == 2) & ~balanced)),
            degenerate_faces=degenerate.result(),
            duplicate_faces=int(self.doubled[1].sum()),
        )

    @cached_property
    def open_edges(self) -> Ints:
        """(e, 2): the ends of the edges whose uses in the two directions differ; none on a closed surface."""
        return self.edges.ends(self.edges.forward != self.edges.backward)

    def release(self, names: tuple[str, ...] = RELEASED) -> None:
        """Frees what was computed for checks and can be computed again."""
        for name in names:
            self.__dict__.pop(name, None)

    def with_faces(self, faces: Ints) -> Mesh:
        """Other faces of the same vertices, in the same domain."""
        mesh = Mesh(self.vertices, faces)
        mesh.__dict__.update(domain=self.domain, position=self.position)
        return mesh

    def subset(self, faces: Bools) -> Mesh:
        """Some of the faces, in the same domain."""
        chosen = np.flatnonzero(faces)
        mesh = self.with_faces(np.take(self.faces, chosen, axis=0))
        for name in "unit_triangles", "normals", "welded":
            mesh.__dict__[name] = np.take(getattr(self, name), chosen, axis=0)
        mesh.__dict__["uses"] = self.uses.of(faces)
        return mesh

    @cached_property
    def sha256(self) -> str:
        """Of the vertices and faces, whatever file they came from."""
        digest = hashlib.sha256(np.ascontiguousarray(self.vertices, "<f8").data)
        digest.update(np.ascontiguousarray(self.faces, "<i8").data)
        return digest.hexdigest()


def face_normals(triangles: Floats) -> Floats:
    """(m, 3): normals of triangles (m, 9), twice as long as their area is large."""
    normals = np.empty((len(triangles), 3))
    for part in pieces(len(triangles)):
        t = np.ascontiguousarray(triangles[part].T)
        u, v = t[3:6] - t[0:3], t[6:9] - t[0:3]
        for k, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
            normals[part, k] = u[i] * v[j] - u[j] * v[i]
    return normals


def bounds_of(points: Floats) -> Floats:
    """(2, 3): the lowest and highest coordinates, column by column: along rows of three NumPy takes twenty times as
    long."""
    return np.array([[column.min() for column in points.T], [column.max() for column in points.T]])
