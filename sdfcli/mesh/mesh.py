"""Mesh: vertices, faces and lazily derived quantities."""

from __future__ import annotations

import hashlib
import math
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend, Group, any_backend, select_backend
from sdfcli.errors import UsageError
from sdfcli.mesh.arrays import MOST, Bools, Faces, Floats, by_threads, pieces
from sdfcli.mesh.connectivity import Connectivity, OpenEdges
from sdfcli.mesh.device_mesh import DeviceMesh
from sdfcli.mesh.health import FLAT_FACE, Health
from sdfcli.runtime.memory import require

PADDING = 0.025
"""Margin around the mesh on each side, as a fraction of the longest side of its bounds."""

CHECKING = 100
"""Minimum working bytes per triangle during the checks (measured on meshes with 2.6 million triangles)."""


@dataclass(frozen=True)
class Domain:
    """The cube on which a field is defined: `(position - origin) / length` lies in the unit cube."""

    origin: Floats
    length: float

    @staticmethod
    def of(place: tuple[float, float, float, float] | None) -> Domain | None:
        """The cube in `BuildParams.domain`; None without one."""
        return place and Domain(np.array(place[:3]), place[3])

    @staticmethod
    def around(bounds: Floats) -> Domain:
        """The padded cube around bounds (2, 3)."""
        low, high = bounds
        length = float((high - low).max()) * (1 + 2 * PADDING)
        return Domain((low + high) / 2 - length / 2, length)

    def to_unit(self, points: Any) -> Any:
        """Unit cube coordinates, float64, of points (n, 3) in the mesh's units."""
        return (points - self.origin) / self.length

    def excludes(self, points: Floats) -> Bools:
        """Which points (n, 3), in the mesh's units, lie outside: (n,)."""
        unit = self.to_unit(points)
        return np.asarray(((unit < 0) | (unit > 1)).any(axis=1))

    def group(self, backend: Backend) -> Group:
        """The domain as the kernels' struct."""
        x, y, z = self.origin
        return backend.group("Domain", x=x, y=y, z=z, length=self.length)


OF_EDGES = ("position", "connectivity")
"""Derived attributes read only to select the sign method."""

OF_VERTICES = ("vertex", "position")
"""Derived device attributes that do not depend on faces."""

OF_FILE = ("notes", "units", "deflection")
"""Facts from the mesh's file."""

GIVEN = ("vertex", "face", "on_device")
"""Vertices and faces on the device."""

OF_DEVICE = (*GIVEN, "position", "connectivity", "shell")
"""Derived attributes stored on the device."""

RELEASED = (*OF_DEVICE, "open_edges", "unit_triangles", "area_sums")


@dataclass(frozen=True)
class Mesh:
    """Triangles: vertices (v, 3) float64 in the mesh's units, faces (f, 3) uint32. Every vertex is finite and used."""

    vertices: Floats
    faces: Faces

    def __repr__(self) -> str:
        return f"<Mesh: {len(self.vertices):,} vertices, {len(self.faces):,} faces>"

    @cached_property
    def bounds(self) -> Floats:
        """Lower and upper corner (2, 3)."""
        return bounds_of(self.vertices)

    @cached_property
    def diagonal(self) -> float:
        """Length of the bounding box diagonal."""
        return diagonal_of(self.bounds)

    @cached_property
    def unit(self) -> float:
        """Reference length for relative tolerances: the diagonal, unless `placed` sets another."""
        return self.diagonal

    @cached_property
    def domain(self) -> Domain:
        """The padded cube around the bounds, unless `placed` sets another."""
        return Domain.around(self.bounds)

    def placed(self, domain: Domain | None, unit: float | None) -> Mesh:
        """The mesh with the given domain and unit; None: the default. Raises UsageError where the mesh leaves the
        domain."""
        if domain is None and unit is None:
            return self
        mesh = Mesh(self.vertices, self.faces)
        mesh.__dict__.update(
            {name: self.__dict__[name] for name in ("backend", "vertex", "face", *OF_FILE) if name in self.__dict__}
        )
        if domain is not None:
            low, high = self.bounds
            if (low < domain.origin).any() or (high > domain.origin + domain.length).any():
                raise UsageError(f"the mesh leaves the domain: it reaches from {_place(low)} to {_place(high)}")
            mesh.__dict__["domain"] = domain
        if unit is not None:
            mesh.__dict__["unit"] = unit
        return mesh

    def merged(self) -> Mesh:
        """The mesh with vertices at equal positions merged, in the same order, if arrays are in host memory and more
        than half of the vertices are duplicates; otherwise the mesh itself. In a mesh from a file without vertex
        indices, vertices take most of the memory. Health still counts the original vertices."""
        if self.backend.memory.scarce:
            return self
        count = len(self.vertices)
        kept = self.position == np.arange(count, dtype=np.uint32)
        if 2 * np.count_nonzero(kept) >= count:
            return self
        number = np.cumsum(kept, dtype=np.uint32) - np.uint32(1)
        faces = np.empty_like(self.faces)

        def renumber(part: slice) -> None:
            faces[part] = number[self.position[self.faces[part]]]

        by_threads(renumber, len(faces))
        mesh = Mesh(self.vertices[kept], faces)
        mesh.__dict__.update(bounds=self.bounds, domain=self.domain, unit=self.unit, backend=self.backend)
        mesh.__dict__["vertices_given"] = count
        return mesh

    @cached_property
    def notes(self) -> list[str]:
        """Notes on the mesh's file, without its name: skipped or converted content."""
        return []

    @cached_property
    def units(self) -> str | None:
        """The coordinates' unit, see mesh/formats/notes.py; None if unknown: arrays, files without a unit, and
        coordinates multiplied by a factor."""
        return None

    @cached_property
    def deflection(self) -> float | None:
        """Maximum distance between the triangles and the curved surfaces in the mesh's file, in the mesh's units; None
        for a file of triangles."""
        return None

    @property
    def of_file(self) -> dict[str, Any]:
        """Known units and deflection, by name, as in a field's info."""
        found = {"units": self.units, "deflection": self.deflection}
        return {name: value for name, value in found.items() if value is not None}

    @cached_property
    def vertices_given(self) -> int:
        """Vertex count before merging."""
        return len(self.vertices)

    @cached_property
    def backend(self) -> Backend:
        """Device of the derived arrays: the CPU, unless `on` sets another."""
        return select_backend("cpu")

    def on(self, backend: Backend) -> Mesh:
        """Sets the device, and returns the mesh. Arrays on a previous device are dropped and recomputed on use."""
        if "backend" in self.__dict__ and self.backend.name != backend.name:
            self.release(OF_DEVICE)
        self.__dict__["backend"] = backend
        return self

    @cached_property
    def vertex(self) -> Array:
        """The vertices on the device."""
        return self.backend.from_host(self.vertices)

    @cached_property
    def face(self) -> Array:
        """The faces on the device."""
        return self.backend.from_host(self.faces, np.uint32)

    @cached_property
    def on_device(self) -> DeviceMesh:
        """Vertices and faces on the device."""
        return DeviceMesh(self.backend, self.vertex, self.face, self.domain.group(self.backend))

    @cached_property
    def position(self) -> Array:
        """First vertex at each vertex's position, (v,) uint32; on the device."""
        return self.on_device.position()

    @cached_property
    def connectivity(self) -> Connectivity:
        """Edges and shells; on the device. Raises OutOfMemoryError if host memory is insufficient."""
        if not self.backend.memory.scarce:
            require(CHECKING * len(self.faces), f"checking {len(self.faces):,} triangles")
        return Connectivity.of(self.backend, self.on_device.face, self.position)

    @cached_property
    def shell(self) -> Array:
        """Shell id of each face, (f,) uint32; on the device."""
        return self.connectivity.shell

    @cached_property
    def open_edges(self) -> OpenEdges:
        """Open edges; see Health."""
        return self.connectivity.open_edges

    def shell_sums(self, edges: Connectivity) -> tuple[Floats, Floats]:
        """Twice the area and six times the volume of each shell, (shells,); see DeviceMesh.sums."""
        area, volume, self.__dict__["degenerate"] = self.on_device.sums(edges.shell, edges.shells, FLAT_FACE)
        return area, volume

    @cached_property
    def degenerate(self) -> int:
        """Degenerate face count; also set by `shell_sums`."""
        return self.on_device.sums(None, 0, FLAT_FACE)[2]

    @cached_property
    def health(self) -> Health:
        """Fault counts."""
        edges = self.connectivity
        return Health(
            triangles=len(self.faces),
            vertices=self.vertices_given,
            shells=edges.shells,
            open_edges=edges.open,
            non_manifold_edges=edges.non_manifold,
            inconsistent_edges=edges.inconsistent,
            degenerate_faces=self.degenerate,
            duplicate_faces=int(edges.doubled.again.sum()),
        )

    def triangles(self, chosen: Any = slice(None)) -> Floats:
        """Corners (k, 9) float64, unit cube coordinates, of the chosen faces; default: all."""
        corners = np.take(self.vertices, self.faces[chosen], axis=0)
        return np.asarray(self.domain.to_unit(corners)).reshape(-1, 9)

    @cached_property
    def unit_triangles(self) -> Floats:
        """Triangle corners (f, 9) float64, unit cube coordinates."""
        return self.triangles()

    def areas(self) -> Floats:
        """Twice each face's area (f,) in the unit cube; computed on the CPU, which needs the result while a GPU has
        other work."""
        mesh = copy(self).on(any_backend()) if self.backend.memory.scarce else self
        return np.asarray(mesh.backend.to_host(mesh.on_device.areas()))

    @cached_property
    def area_sums(self) -> Floats:
        """Cumulative sums (f,) over twice the face areas in the unit cube."""
        backend = any_backend()  # a GPU if no CPU kernels exist
        area = backend.from_host(self.areas())
        backend.run("sdf_area_sums", 1, faces=len(area), area=area)
        return np.asarray(backend.to_host(area))

    def release(self, names: tuple[str, ...] = RELEASED) -> None:
        """Frees derived attributes; they are recomputed on use."""
        for name in names:
            self.__dict__.pop(name, None)

    def with_faces(self, faces: Faces) -> Mesh:
        """A mesh with other faces and the same vertices, domain and device."""
        mesh = Mesh(self.vertices, faces)
        mesh.__dict__.update(domain=self.domain, unit=self.unit, backend=self.backend)
        mesh.__dict__.update({name: self.__dict__[name] for name in OF_VERTICES if name in self.__dict__})
        return mesh

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of vertices and faces, independent of the file format."""
        digest = hashlib.sha256(np.ascontiguousarray(self.vertices, "<f8").data)
        wide = np.empty((min(MOST, len(self.faces)), 3), "<i8")  # allocated once: page faults cost more than filling it
        for first in range(0, len(self.faces), MOST):
            part = self.faces[first : first + MOST]
            wide[: len(part)] = part
            digest.update(wide[: len(part)].data)
        return digest.hexdigest()


def face_normals(triangles: Floats) -> Floats:
    """Normals (m, 3) of triangles (m, 9); each length is twice the area."""
    normals = np.empty((len(triangles), 3))
    for part in pieces(len(triangles)):
        t = np.ascontiguousarray(triangles[part].T)
        u, v = t[3:6] - t[0:3], t[6:9] - t[0:3]
        for k, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
            normals[part, k] = u[i] * v[j] - u[j] * v[i]
    return normals


def diagonal_of(bounds: Floats) -> float:
    """Diagonal length of bounds (2, 3)."""
    x, y, z = (bounds[1] - bounds[0]).tolist()
    return math.sqrt(x * x + y * y + z * z)  # NumPy's vector norm rounds differently between processors


def _place(point: Floats) -> str:
    return ",".join(f"{x:g}" for x in point)


def bounds_of(points: Floats) -> Floats:
    """Lower and upper corner (2, 3) of points (n, 3). Column by column: min(axis=0) takes 20 times as long."""
    return np.array([[column.min() for column in points.T], [column.max() for column in points.T]])
