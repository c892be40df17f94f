"""Checked meshes from files, arrays and trimesh objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from os import PathLike
from threading import Event
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, C, any_backend
from sdfcli.backend.packed import Packed
from sdfcli.errors import InputError, UsageError
from sdfcli.mesh.arrays import Bools, Faces, Floats, unmasked
from sdfcli.mesh.mesh import Domain, Mesh, bounds_of
from sdfcli.params import BuildParams
from sdfcli.runtime.files import existing_file
from sdfcli.runtime.memory import release_freed, unreadable
from sdfcli.runtime.schedule import Deferred, Schedule


class MeshLike(Protocol):
    """An object with a mesh's arrays, such as `trimesh.Trimesh`: vertices (v, 3) and faces (f, 3). Meshes of Open3D and
    PyVista, with arrays by other names, are accepted as well."""

    @property
    def vertices(self) -> npt.ArrayLike: ...

    @property
    def faces(self) -> npt.ArrayLike: ...


MeshSource = str | PathLike[str] | tuple[npt.ArrayLike, npt.ArrayLike] | MeshLike
"""A mesh for `sdfcli.build` and others: a path, a pair of arrays, or an object with `vertices` and `faces`."""

MANY_FACES = 200_000
"""Minimum face count for checking arrays on a GPU; below, the CPU finishes before the GPU's results arrive."""


def make_mesh(
    vertices: npt.ArrayLike, faces: npt.ArrayLike, name: str = "mesh", backend: Backend | None = None
) -> Mesh:
    """A checked mesh from arrays (v, 3) and (f, 3). Unused vertices are dropped. backend: the device that will use the
    mesh. A GPU checks the arrays, too, if they are large and have native 32-bit faces; otherwise, and by default, the
    CPU does.

    Raises InputError for a mesh without faces, a face with an unknown vertex, a used vertex that is not finite, and an
    extent outside 1e-30 to 1e30: squares must stay within float64's range.
    """
    points = np.ascontiguousarray(unmasked(vertices, f"{name}: vertices"), dtype=np.float64)
    named = np.asarray(unmasked(faces, f"{name}: faces"))
    if named.dtype.kind not in "iu":
        whole = named.astype(np.int64)
        if not np.array_equal(named, whole):
            raise InputError(f"{name}: faces must be whole numbers, which name vertices")
        named = whole
    if named.ndim != 2 or named.shape[-1] != 3 or points.ndim != 2 or points.shape[-1] != 3:
        raise InputError(f"{name}: vertices must be (n, 3) and faces (m, 3), not {points.shape} and {named.shape}")
    if len(named) == 0:
        raise InputError(f"{name}: no faces; a surface is needed, not {len(points):,} points")
    as_it_is = named.itemsize == 4 and named.dtype.isnative
    if backend is None or not (backend.memory.scarce and as_it_is and len(named) >= MANY_FACES):
        backend = any_backend()
    seen = _look(backend, points, named)
    triangles, vertex, bounds, used = seen.faces, seen.vertex, seen.bounds, seen.used
    if seen.unknown:
        wide = named.astype(np.int64)
        bad = int(np.flatnonzero((wide < 0).any(1) | (wide >= len(points)).any(1))[0])
        number = next(int(number) for number in wide[bad] if not 0 <= number < len(points))
        raise InputError(f"{name}: face {bad} names vertex {number}, but there are {len(points):,} vertices")
    every = used.all()
    if not every:
        triangles = np.take(np.cumsum(used, dtype=np.uint32) - np.uint32(1), triangles)
        points = np.compress(used, points, axis=0)  # take and compress are several times as fast as indexing
        # On the host: few meshes have unused vertices.
        vertex, bounds = backend.from_host(points), bounds_of(points) if np.isfinite(points).all() else None
    if bounds is None:
        finite = np.isfinite(points).all(axis=1)
        place = int(np.flatnonzero(used)[np.flatnonzero(~finite)[0]])
        raise InputError(f"{name}: vertex {place} is not finite ({int((~finite).sum())} such vertices)")
    low, high = bounds
    extent, largest = float((high - low).max()), float(np.maximum(-low, high).max())
    if not 1e-30 < extent < 1e30:
        raise InputError(f"{name}: the extent of the mesh is {extent:g}; it must lie between 1e-30 and 1e30")
    if extent < largest * 1e-12:
        raise InputError(f"{name}: an extent of {extent:g} at coordinates of {largest:g} is below their precision")
    mesh = Mesh(points, triangles)
    mesh.__dict__["bounds"] = bounds
    if backend.memory.scarce:
        mesh.on(backend).__dict__.update({"vertex": vertex, "face": seen.face} if every else {"vertex": vertex})
    return mesh


class _Seen(NamedTuple):
    """Results of the array checks.

    faces, face  (m, 3) uint32, vertex indices: on the host, the array given to `_look` if possible; on the device.
    vertex       (v, 3) float64, on the device.
    used         (v,) whether a face uses the vertex.
    unknown      whether a face has a vertex index out of range.
    bounds       lower and upper corner (2, 3); None if a vertex is not finite.
    """

    faces: Faces
    face: Array
    vertex: Array
    used: Bools
    unknown: bool
    bounds: Floats | None


def _look(backend: Backend, points: Floats, faces: npt.NDArray[Any]) -> _Seen:
    """Checks vertices (v, 3) and integer faces (m, 3); results come to the host in a single copy."""
    if faces.dtype.itemsize < 4 or not faces.dtype.isnative:
        faces = faces.astype(np.int64)
    faces = np.ascontiguousarray(faces).view(f"u{faces.itemsize}")
    xp, vertices, runs = backend.xp, len(points), -(-len(points) // C.FACE_RUN)
    flags = dict.fromkeys(("unknown", "infinite"), (np.uint8, (1,)))
    found = Packed(backend, zeros=True, bounds=(np.float64, (6, runs)), used=(np.uint8, (vertices,)), **flags)
    bounds, used, unknown, infinite = (found.arrays[name] for name in ("bounds", "used", "unknown", "infinite"))
    given = backend.from_host(faces)
    wide = given.itemsize > 4
    face = xp.empty(given.shape, np.uint32) if wide else given
    of_faces = {"wide": given, "narrow": None, "face": face} if wide else {"wide": None, "narrow": given, "face": None}
    backend.run("sdf_faces_named", len(faces), vertices=vertices, used=used, unknown=unknown, **of_faces)
    vertex = backend.from_host(points)
    backend.run("sdf_vertex_bounds", runs, vertices=vertices, vertex=vertex, bounds=bounds, infinite=infinite)
    seen = found.to_host()
    finite = len(points) > 0 and not seen["infinite"][0]
    return _Seen(
        faces=backend.to_host(face) if wide else faces,
        face=face,
        vertex=vertex,
        used=seen["used"].view(bool),
        unknown=bool(seen["unknown"][0]),
        bounds=np.array([seen["bounds"][:3].min(axis=1), seen["bounds"][3:].max(axis=1)]) if finite else None,
    )


def load_mesh(
    source: MeshSource, backend: Backend | None = None, scale: float | None = None, units: str | None = None
) -> Mesh:
    """A checked mesh from a path, a `trimesh.Trimesh`, a (vertices, faces) pair, or a Mesh. backend: see `make_mesh`.
    scale, units: see BuildParams.

    Raises InputError, with the file's name, for an unreadable or invalid mesh; UsageError for a source without a unit
    if `units` is given; OutOfMemoryError.
    """
    if isinstance(source, Mesh) and scale is None and units is None:
        return source
    arrays = _arrays_of(source)
    if arrays is not None:
        if units is not None:
            raise UsageError(f"--units {units}: arrays name no unit; use scale")
        return make_mesh(_scaled(arrays[0], scale), arrays[1], backend=backend)
    path = existing_file(source)
    try:
        from sdfcli.mesh.formats.notes import noted
        from sdfcli.mesh.formats.readers import read_file
        from sdfcli.mesh.formats.units import factor_to

        # make_mesh checks that vertices are finite.
        with noted(path) as told, np.errstate(all="ignore"):
            read, faces = read_file(path)
            factor = scale if units is None else factor_to(units, told.units)
            vertices = _scaled(read, factor)
        release_freed()  # working memory of text readers
    except Exception as error:  # each library has its own exceptions
        raise unreadable(path, "cannot be read as a mesh", error) from error
    if len(faces) == 0:
        raise InputError(f"{path}: no faces in this file; a surface is needed")
    mesh = make_mesh(vertices, faces, str(path))
    deflection = None if told.deflection is None else told.deflection * (factor or 1.0)
    known = told.units if scale is None else None
    mesh.__dict__.update(notes=told.notes, deflection=deflection, units=units or known)
    return mesh


def _scaled(vertices: npt.ArrayLike, factor: float | None) -> npt.ArrayLike:
    return vertices if factor is None else np.multiply(unmasked(vertices, "vertices"), factor, dtype=np.float64)


def _arrays_of(source: Any) -> tuple[npt.ArrayLike, npt.ArrayLike] | None:
    """Vertices and faces of an in-memory source; None for a file."""
    if isinstance(source, tuple):
        if len(source) != 2:
            raise InputError(f"mesh: a pair (vertices, faces) is needed, not a tuple of {len(source)}")
        return source
    if hasattr(source, "vertices") and hasattr(source, "faces"):
        return source.vertices, source.faces
    if hasattr(source, "vertices") and hasattr(source, "triangles"):  # Open3D
        return np.asarray(source.vertices), np.asarray(source.triangles)
    if hasattr(source, "vertex") and hasattr(source, "triangle"):  # Open3D's tensors
        return source.vertex.positions.numpy(), source.triangle.indices.numpy()
    if hasattr(source, "points") and hasattr(source, "regular_faces"):  # PyVista
        if not source.is_all_triangles:
            raise InputError("mesh: faces with more than three corners; of a PyVista mesh, its triangulate()")
        return source.points, source.regular_faces
    if not isinstance(source, str | PathLike):
        scene = "; of a scene, its to_mesh()" if hasattr(source, "to_mesh") else ""
        raise InputError(f"mesh: a path, a mesh or (vertices, faces) is needed, not {type(source).__name__}{scene}")
    return None


def joined(meshes: list[Mesh]) -> Mesh:
    """All meshes as one, their faces in order. Raises InputError if there are none."""
    if not meshes:
        raise InputError("mesh: an empty list; at least one mesh is needed")
    first = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes[:-1])])
    faces = [mesh.faces.astype(np.int64) + start for mesh, start in zip(meshes, first, strict=True)]
    return make_mesh(np.concatenate([mesh.vertices for mesh in meshes]), np.concatenate(faces))


def load_placed(source: MeshSource, params: BuildParams, backend: Backend | None = None) -> Mesh:
    """`load_mesh`, with a build's scale, domain and unit. Raises UsageError where the mesh leaves the domain."""
    mesh = load_mesh(source, backend, params.scale, params.units)
    return mesh.placed(Domain.of(params.domain), params.unit)


def _without_arrays_of(source: MeshSource, mesh: Mesh) -> Mesh:
    """The mesh with copies of arrays shared with the source, since they may change during hashing."""
    if isinstance(source, Mesh):
        return mesh
    theirs = _arrays_of(source) or ()

    def own(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        shared = any(isinstance(each, np.ndarray) and np.may_share_memory(array, each) for each in theirs)
        return array.copy() if shared else array

    return Mesh(own(mesh.vertices), own(mesh.faces))


class Loading:
    """Reads a mesh from a file in a thread; arrays are checked in the caller's thread, since a second thread would
    compete for the GIL. Another thread then hashes the mesh.

    sha256  the hash; set by `mesh`.
    """

    sha256: Deferred[str]

    def __init__(self, source: MeshSource, params: BuildParams, run: Schedule) -> None:
        self._run, self._source, self._apart = run, source, Event()
        self._load: Callable[[Backend], Mesh] = partial(load_placed, source, params)
        if _arrays_of(source) is None:
            reading = run.thread(partial(load_placed, source, params))
            self._load = lambda _: reading.get()

    def mesh(self, backend: Backend) -> Mesh:
        """The mesh; can be called once, no reference is retained. backend: see `make_mesh`. Raises as `load_placed`
        does."""
        load: Callable[[Backend], Mesh] = self.__dict__.pop("_load")
        mesh = load(backend)
        self.sha256 = self._run.thread(partial(self._hashed, mesh))
        return mesh

    def _hashed(self, mesh: Mesh) -> str:
        try:
            own = _without_arrays_of(self._source, mesh)
        finally:
            self._apart.set()
        return own.sha256

    def release_source(self) -> None:
        """Waits until the source's arrays may change. Must be the last call."""
        self._apart.wait()
