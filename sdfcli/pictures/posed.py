"""Additions to a picture of a field's surface: a posed mesh, and dots at its contacts."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, Group
from sdfcli.errors import InputError, UsageError
from sdfcli.field.field import Field
from sdfcli.mesh.arrays import Floats, pieces
from sdfcli.mesh.load import MeshSource, load_mesh, make_mesh
from sdfcli.mesh.mesh import Domain, Mesh, face_normals
from sdfcli.params import check_scale
from sdfcli.query.poses import checked_poses
from sdfcli.query.units import check_units, note_on_size
from sdfcli.spatial.morton import morton_order, order_of
from sdfcli.spatial.radix_tree import Bvh, build_bvh, refit

CREASE = 0.94
"""Minimum cosine between face and vertex normals for smooth shading at the vertex: 20 degrees, as between faces 40
degrees apart."""

DOT = 0.0045
"""Dot radius, as a fraction of its distance from the eye."""

SPACING = 3.6
"""Minimum distance between dots, in radii: the surface shows between them."""


class Contact(Protocol):
    """Contacts, one per row: `Contacts` from `sdfcli.contacts`, or their `manifold`.

    point     (k, 3), in the field's units.
    distance  (k,), negative inside.
    """

    @property
    def point(self) -> Floats: ...
    @property
    def distance(self) -> Floats: ...


@dataclass(frozen=True)
class Company:
    """Kernel arguments for shapes drawn with the field's surface.

    mesh  a mesh.
    dots  balls, deepest first.
    deep  number of dots inside.
    """

    mesh: Group | None = None
    dots: Group | None = None
    deep: int = 0


class PosedMesh:
    """A posed mesh for several pictures: its tree is built once per device.

    Args:
        source: a path, a `trimesh.Trimesh`, a (vertices, faces) pair, or a Mesh.
        pose: (4, 4), a rotation, a translation and one scale; None: the mesh is not moved.
        scale: factor for the mesh's coordinates, as for `sdfcli.build`.
        units: the field's unit, to which a mesh file's coordinates are converted, as for `sdfcli.build`.

    Attributes:
        mesh: the posed Mesh, with vertices in the field's units.

    Raises:
        InputError: the mesh cannot be read or used; the pose shears or mirrors it; several poses.
    """

    def __init__(
        self,
        source: MeshSource,
        pose: npt.ArrayLike | None = None,
        *,
        scale: float | None = None,
        units: str | None = None,
    ) -> None:
        check_scale(scale, units)
        mesh = load_mesh(source, scale=scale, units=units)
        self._name = str(source) if isinstance(source, str | PathLike) else "the mesh"
        self._units, self._scales = mesh.units, np.ones(1)
        if pose is not None:
            poses, self._scales = checked_poses(pose)
            if len(poses) != 1:
                raise InputError(f"pose: one (4, 4) is needed, not {len(poses)}")
            mesh = make_mesh(moved(mesh.vertices, poses[0]), mesh.faces, "the posed mesh")
        self.mesh: Mesh = mesh
        self._made: dict[str, tuple[Bvh, Array]] = {}

    def _check_units(self, field: Field) -> None:
        """Raises InputError if the mesh is in another unit than a field; see query/units.py."""
        check_units(field, self._units, self._scales, self._name)

    def size_note(self, field: Field) -> str | None:
        """A note if the mesh's size differs much from a field's, and the unit of either is unknown; else None."""
        return note_on_size(field, self._units, self.mesh.diagonal, self._name)

    def _group(self, backend: Backend, domain: Domain) -> Group:
        """The mesh as kernel arguments, in the unit cube of a field's domain."""
        if backend.name not in self._made:
            normals = backend.from_host(corner_normals(self.mesh))
            self._made[backend.name] = (
                refit(backend, build_bvh(backend, order_of(self.mesh.on(backend).on_device))),
                normals,
            )
            self.mesh.release()
        return shapes_group(backend, domain, self.mesh.domain, *self._made[backend.name])


def posed_mesh(source: MeshSource | PosedMesh | None, pose: npt.ArrayLike | None) -> PosedMesh | None:
    """A picture's mesh, or None. Raises PosedMesh's errors, and UsageError for a pose without a mesh or a second
    pose."""
    if isinstance(source, PosedMesh) or source is None:
        if pose is not None:
            raise UsageError("a pose needs a mesh" if source is None else "pose: the mesh has one already")
        return source
    return PosedMesh(source, pose)


def moved(points: Floats, pose: Floats) -> Floats:
    """Points (n, 3) moved by a pose (4, 4)."""
    with np.errstate(over="ignore", invalid="ignore"):  # make_mesh checks that vertices are finite
        return np.column_stack([sum(points[:, k] * row[k] for k in range(3)) + row[3] for row in pose[:3]])


def corner_angles(triangles: Floats, normals: Floats) -> Floats:
    """Angles (f, 3) at the corners of triangles (f, 9), in radians. normals: see `face_normals`."""
    angle = np.empty((len(triangles), 3))
    for part in pieces(len(triangles)):
        corner = triangles[part].reshape(-1, 3, 3)
        side = corner[:, [1, 2, 0]] - corner
        # |u x v|, twice the area, is the same at all corners.
        length = np.linalg.norm(normals[part], axis=1, keepdims=True)
        angle[part] = np.arctan2(length, np.einsum("fij,fij->fi", side, -side[:, [2, 0, 1]]))
    return angle


def corner_normals(mesh: Mesh) -> npt.NDArray[np.float32]:
    """Unit normals (f, 9) at face corners: the vertex's, weighted by angle, if near the face's (CREASE), else the
    face's."""
    normals = face_normals(mesh.unit_triangles)
    face, angle = unit_rows(normals), corner_angles(mesh.unit_triangles, normals)
    vertex = np.take(mesh.backend.to_host(mesh.position).astype(np.int64), mesh.faces)
    weighted = ((angle * face[:, axis, None]).ravel() for axis in range(3))
    smooth = unit_rows(np.column_stack([np.bincount(vertex.ravel(), weights=each) for each in weighted]))
    result = np.empty((len(face), 3, 3), np.float32)
    for part in pieces(len(face)):
        own, corner = face[part, None], smooth[vertex[part]]
        result[part] = np.where((corner * own).sum(axis=2, keepdims=True) > CREASE, corner, own)
    return result.reshape(-1, 9)


def unit_rows(vectors: Floats) -> Floats:
    """Vectors (n, 3) scaled to length 1; zero vectors stay."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1))


def company_of(
    backend: Backend, domain: Domain, mesh: PosedMesh | None, contacts: Contact | None, eye: Floats
) -> Company:
    """A mesh and dots in a domain's unit cube. eye: (3,), in the same cube.

    Among contacts close to each other, only the deepest has a dot (SPACING).
    """
    group = None if mesh is None else mesh._group(backend, domain)
    point, distance = _places(contacts)
    if len(point) == 0:
        return Company(group)
    order = np.lexsort((*point.T, distance))
    centre, distance = domain.to_unit(point[order]), distance[order]
    radius = DOT * np.linalg.norm(centre - eye, axis=1)
    chosen = spread(centre, SPACING * float(radius.max()))
    centre, distance, radius = centre[chosen], distance[chosen], radius[chosen, None]
    ends = np.concatenate((centre - radius, centre + radius))
    cube = Domain.around(np.array([ends.min(axis=0), ends.max(axis=0)]))
    ball = cube.to_unit(np.stack((centre - radius, centre + radius, centre), axis=1)).reshape(-1, 9)
    whole = Domain(np.zeros(3), 1.0)
    return Company(group, shapes_group(backend, whole, cube, tree_over(backend, ball)), int((distance < 0).sum()))


def spread(points: Floats, apart: float) -> npt.NDArray[np.int64]:
    """Indices of points (n, 3) farther than `apart` from each other; earlier points are preferred."""
    cell = np.floor((points - points.min(axis=0)) / (apart / 2)) @ [1, 2**12, 2**24]  # some 250 along each axis
    left, chosen = np.sort(np.unique(cell, return_index=True)[1]), []
    while len(left):
        chosen.append(left[0])
        left = left[((points[left] - points[left[0]]) ** 2).sum(axis=1) > apart**2]
    return np.array(chosen)


def _places(contacts: Contact | None) -> tuple[Floats, Floats]:
    """Points (k, 3) and distances (k,) on the host. Raises InputError for other shapes and non-finite numbers."""
    if contacts is None:
        return np.empty((0, 3)), np.empty(0)
    given = (array.get() if hasattr(array, "get") else array for array in (contacts.point, contacts.distance))
    point, distance = (np.asarray(array, np.float64) for array in given)
    if point.shape != (*distance.shape, 3) or distance.ndim != 1:
        raise InputError(
            f"contacts: points (k, 3) and distances (k,) are needed, not {point.shape} and {distance.shape}"
        )
    if not (np.isfinite(point).all() and np.isfinite(distance).all()):
        raise InputError("contacts: a number is not finite")
    return point, distance


def tree_over(backend: Backend, triangles: Floats) -> Bvh:
    """Radix tree over triangles (n, 9) in the unit cube."""
    return refit(backend, build_bvh(backend, morton_order(backend, triangles)))


def shapes_group(backend: Backend, domain: Domain, cube: Domain, bvh: Bvh, normal: Array | None = None) -> Group:
    """Triangles or balls as kernel arguments, in a domain's unit cube. bvh: in the unit cube of `cube`."""
    x, y, z = domain.to_unit(cube.origin)
    return backend.group(
        "Shapes",
        count=len(bvh.order),
        triangle=bvh.order.triangle,
        triangle_id=bvh.order.triangle_id,
        normal=normal,
        child=bvh.child,
        box=bvh.box,
        x=x,
        y=y,
        z=z,
        edge=cube.length / domain.length,
    )
