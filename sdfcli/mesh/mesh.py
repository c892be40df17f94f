"""Mesh: vertices, faces and quantities derived from them, each made on first use."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sdfcli.errors import UsageError
from sdfcli.mesh.arrays import Bools, Floats, Ints, pieces
from sdfcli.mesh.health import Health, degenerate_faces
from sdfcli.mesh.topology import (
    Edges,
    Neighbours,
    Uses,
    connected,
    edge_numbers,
    edges_of,
    neighbours_of,
    twins,
    uses_of,
    weld,
)
from sdfcli.runtime.memory import require

if TYPE_CHECKING:
    from sdfcli.backend import Backend, Group

PADDING = 0.025
"""Space around the mesh on each side, as a fraction of the longest side of its bounds."""

CHECKING = 350
"""Minimum working bytes per triangle of the checks (measured on meshes of 70,000 to a million triangles)."""


@dataclass(frozen=True)
class Domain:
    """The cube in which a field is defined: `(position - origin) / length` lies in the unit cube."""

    origin: Floats
    length: float

    @staticmethod
    def of(place: tuple[float, float, float, float] | None) -> Domain | None:
        """The cube of `BuildParams.domain`."""
        return place and Domain(np.array(place[:3]), place[3])

    @staticmethod
    def around(bounds: Floats) -> Domain:
        """The padded cube around bounds (2, 3)."""
        low, high = bounds
        length = float((high - low).max()) * (1 + 2 * PADDING)
        return Domain((low + high) / 2 - length / 2, length)

    def to_unit(self, points: Any) -> Any:
        """Positions in the unit cube, float64, of points (n, 3) in the mesh's units."""
        return (points - self.origin) / self.length

    def group(self, backend: Backend) -> Group:
        """The domain as kernels read it."""
        x, y, z = self.origin
        return backend.group("Domain", x=x, y=y, z=z, length=self.length)


OF_EDGES = ("uses", "neighbours", "doubled")
"""Attributes that only the choice of the sign reads."""

CONNECTIVITY = ("position", "welded", "edges", "edge_number", "neighbours", "shell", "doubled", "open_edges")
"""Attributes that follow from the faces and from which vertices lie at one position."""

RELEASED = (
    *("unit_triangles", "position", "welded", "edges", "edge_number", "shell", "open_edges", "normals", "area_sums"),
    *OF_EDGES,
)


@dataclass(frozen=True)
class Mesh:
    """Triangles: vertices (v, 3) float64 in the mesh's units, faces (f, 3) int64. Every vertex is finite and used."""

    vertices: Floats
    faces: Ints

    @cached_property
    def bounds(self) -> Floats:
        """Lower and upper corner (2, 3)."""
        return bounds_of(self.vertices)

    @cached_property
    def diagonal(self) -> float:
        """Length of the diagonal of the bounds."""
        return diagonal_of(self.bounds)

    @cached_property
    def unit(self) -> float:
        """The length that tolerances are fractions of: the diagonal, unless it is placed."""
        return self.diagonal

    @cached_property
    def domain(self) -> Domain:
        """The padded cube around the bounds, unless it is placed."""
        return Domain.around(self.bounds)

    def placed(self, domain: Domain | None, unit: float | None) -> Mesh:
        """The mesh with another domain and unit; None: its own. Raises UsageError where it leaves the domain."""
        if domain is None and unit is None:
            return self
        mesh = Mesh(self.vertices, self.faces)
        if domain is not None:
            low, high = self.bounds
            if (low < domain.origin).any() or (high > domain.origin + domain.length).any():
                raise UsageError(f"the mesh leaves the domain: it reaches from {_place(low)} to {_place(high)}")
            mesh.__dict__["domain"] = domain
        if unit is not None:
            mesh.__dict__["unit"] = unit
        return mesh

    @cached_property
    def unit_triangles(self) -> Floats:
        """Corners of the triangles (f, 9) float64 in the unit cube."""
        return np.take(self.domain.to_unit(self.vertices), self.faces, axis=0).reshape(-1, 9)

    @cached_property
    def welded(self) -> Ints:
        """Faces (f, 3) after welding vertices at equal positions."""
        return np.take(self.position, self.faces)

    @cached_property
    def position(self) -> Ints:
        """For each vertex (v,) the first vertex at its position."""
        return weld(self.vertices)

    @cached_property
    def uses(self) -> Uses:
        """The half-edges of the welded faces, sorted by edge."""
        return uses_of(self.welded)

    @cached_property
    def edges(self) -> Edges:
        """The undirected edges of the welded faces."""
        return edges_of(self.uses)

    @cached_property
    def edge_number(self) -> Ints:
        """The numbers (f, 3) of the edges from each corner of the welded faces to the next."""
        return edge_numbers(self.welded)

    @cached_property
    def neighbours(self) -> Neighbours:
        """Pairs of faces that share an edge."""
        return neighbours_of(self.uses)

    @cached_property
    def shell(self) -> Ints:
        """For each face (f,) the number of its shell; faces are connected across edges of two faces."""
        first = connected(len(self.faces), self.neighbours.pairs)
        number: Ints = (np.cumsum(first == np.arange(len(first))) - 1)[first]
        return number

    @cached_property
    def doubled(self) -> tuple[Ints, Bools]:
        """The faces that have the vertices of another one; see `twins`."""
        return twins(self.welded)

    @cached_property
    def normals(self) -> Floats:
        """Normals (f, 3) in the unit cube; their length is twice the face's area."""
        return face_normals(self.unit_triangles)

    @cached_property
    def area_sums(self) -> Floats:
        """Cumulative sums (f,) of twice the faces' areas in the unit cube."""
        return np.cumsum(np.linalg.norm(self.normals, axis=1))

    @cached_property
    def health(self) -> Health:
        """Counts of the mesh's faults. Raises OutOfMemoryError where the checks do not fit into memory."""
        require(CHECKING * len(self.faces), f"checking {len(self.faces):,} triangles")
        with ThreadPoolExecutor(2) as helpers:  # NumPy releases the GIL
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
        """Ends (e, 2) of the open edges; see Health."""
        return self.edges.ends(self.edges.forward != self.edges.backward)

    def release(self, names: tuple[str, ...] = RELEASED) -> None:
        """Frees derived attributes; they are made again on use."""
        for name in names:
            self.__dict__.pop(name, None)

    def with_faces(self, faces: Ints) -> Mesh:
        """A mesh of other faces with the same vertices and domain."""
        mesh = Mesh(self.vertices, faces)
        mesh.__dict__.update(domain=self.domain, unit=self.unit, position=self.position)
        return mesh

    def subset(self, faces: Bools) -> Mesh:
        """A mesh of the faces where `faces` (f,) is true, with the same vertices and domain."""
        chosen = np.flatnonzero(faces)
        mesh = self.with_faces(np.take(self.faces, chosen, axis=0))
        for name in "unit_triangles", "normals", "welded":
            mesh.__dict__[name] = np.take(getattr(self, name), chosen, axis=0)
        mesh.__dict__["uses"] = self.uses.of(faces)
        return mesh

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of vertices and faces, independent of the file format."""
        digest = hashlib.sha256(np.ascontiguousarray(self.vertices, "<f8").data)
        digest.update(np.ascontiguousarray(self.faces, "<i8").data)
        return digest.hexdigest()


def face_normals(triangles: Floats) -> Floats:
    """Normals (m, 3) of triangles (m, 9); their length is twice the area."""
    normals = np.empty((len(triangles), 3))
    for part in pieces(len(triangles)):
        t = np.ascontiguousarray(triangles[part].T)
        u, v = t[3:6] - t[0:3], t[6:9] - t[0:3]
        for k, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
            normals[part, k] = u[i] * v[j] - u[j] * v[i]
    return normals


def diagonal_of(bounds: Floats) -> float:
    """Length of the diagonal of bounds (2, 3)."""
    return float(np.linalg.norm(bounds[1] - bounds[0]))


def _place(point: Floats) -> str:
    return ",".join(f"{x:g}" for x in point)


def bounds_of(points: Floats) -> Floats:
    """Lower and upper corner (2, 3) of points (n, 3). By column: min(axis=0) takes 20 times as long."""
    return np.array([[column.min() for column in points.T], [column.max() for column in points.T]])
