"""Checked meshes from files, arrays and trimesh objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Backend, C, any_backend
from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Bools, Faces, Floats, unmasked
from sdfcli.mesh.mesh import Domain, Mesh
from sdfcli.params import BuildParams
from sdfcli.runtime.files import existing_file
from sdfcli.runtime.memory import release_freed, unreadable
from sdfcli.runtime.threads import executor

T = TypeVar("T")


def make_mesh(vertices: npt.ArrayLike, faces: npt.ArrayLike, name: str = "mesh") -> Mesh:
    """A checked mesh from arrays (v, 3) and (f, 3). Vertices that no face uses are dropped.

    Raises InputError for a mesh without faces, a face with an unknown vertex, a used vertex that is not finite, and an
    extent outside 1e-30 to 1e30, whose squares leave float64.
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
        raise InputError(f"{name}: no faces; a surface is needed, not {len(points)} points")
    backend = any_backend()
    triangles, used, wrong = _named(backend, named, len(points))
    if wrong:
        wide = named.astype(np.int64)
        bad = int(np.flatnonzero((wide < 0).any(1) | (wide >= len(points)).any(1))[0])
        vertex = next(int(vertex) for vertex in wide[bad] if not 0 <= vertex < len(points))
        raise InputError(f"{name}: face {bad} names vertex {vertex}, but there are {len(points)} vertices")
    if not used.all():
        triangles = np.take(np.cumsum(used, dtype=np.uint32) - np.uint32(1), triangles)
        points = np.compress(used, points, axis=0)  # these two are several times as fast as an index
    bounds = _bounds(backend, points)
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
    return mesh


def _named(backend: Backend, faces: npt.NDArray[Any], vertices: int) -> tuple[Faces, Bools, bool]:
    """Whole numbers (m, 3) as uint32, the same array where it can be; which vertices they name; and whether one names
    none of these."""
    if faces.dtype.itemsize < 4 or not faces.dtype.isnative:
        faces = faces.astype(np.int64)
    xp, given = backend.xp, backend.from_host(faces.view(f"u{faces.itemsize}"))
    wide = given.itemsize > 4
    numbers = xp.empty(given.shape, np.uint32) if wide else given
    used, wrong = xp.zeros(vertices, np.uint8), xp.zeros(1, np.uint8)
    backend.run(
        "sdf_faces_named",
        len(given),
        vertices=vertices,
        wide=given if wide else None,
        narrow=None if wide else given,
        face=numbers if wide else None,
        used=used,
        wrong=wrong,
    )
    return backend.to_host(numbers), backend.to_host(used).view(bool), bool(wrong[0])


def _bounds(backend: Backend, points: Floats) -> Floats | None:
    """Lower and upper corner (2, 3) of points (n, 3); None where one is not finite."""
    xp, runs = backend.xp, -(-len(points) // C.FACE_RUN)
    bounds, wrong = xp.empty((runs, 6)), xp.zeros(1, np.uint8)
    given = {"vertices": len(points), "vertex": backend.from_host(points)}
    backend.run("sdf_vertex_bounds", runs, bounds=bounds, wrong=wrong, **given)
    if wrong[0]:
        return None
    columns = backend.to_host(bounds).T
    return np.array([[column.min() for column in columns[:3]], [column.max() for column in columns[3:]]])


def load_mesh(source: Any) -> Mesh:
    """A checked mesh from a path, a `trimesh.Trimesh`, a (vertices, faces) pair, or a Mesh.

    Raises InputError, with the file's name, for a mesh that cannot be read or used; OutOfMemoryError.
    """
    if isinstance(source, Mesh):
        return source
    if isinstance(source, tuple):
        if len(source) != 2:
            raise InputError(f"mesh: a pair (vertices, faces) is needed, not a tuple of {len(source)}")
        return make_mesh(*source)
    if hasattr(source, "vertices") and hasattr(source, "faces"):
        return make_mesh(source.vertices, source.faces)
    path = existing_file(source)
    try:
        from sdfcli.mesh.formats.readers import read_file

        with np.errstate(all="ignore"):  # make_mesh checks that vertices are finite
            vertices, faces = read_file(path)
        release_freed()  # what readers of text took besides
    except Exception as error:  # each loader of trimesh has exceptions of its own
        raise unreadable(path, "cannot be read as a mesh", error) from error
    if len(faces) == 0:
        raise InputError(f"{path}: no faces in this file; a surface is needed")
    return make_mesh(vertices, faces, str(path))


def load_placed(source: Any, params: BuildParams) -> Mesh:
    """`load_mesh`, in the domain of a build, with its unit. Raises UsageError where the mesh leaves the domain."""
    return load_mesh(source).placed(Domain.of(params.domain), params.unit)


def _of_file(source: Any) -> bool:
    return not isinstance(source, (Mesh, tuple)) and not (hasattr(source, "vertices") and hasattr(source, "faces"))


def _done(result: T) -> Callable[[], T]:
    return lambda: result


def _without_arrays_of(source: Any, mesh: Mesh) -> Mesh:
    """A mesh in memory of its own, as a source's arrays may change while it is hashed."""
    if isinstance(source, Mesh):
        return mesh
    theirs = source if isinstance(source, tuple) else [getattr(source, name, None) for name in ("vertices", "faces")]

    def own(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        shared = any(isinstance(each, np.ndarray) and np.may_share_memory(array, each) for each in theirs)
        return array.copy() if shared else array

    return Mesh(own(mesh.vertices), own(mesh.faces))


class Loading:
    """A mesh that is hashed by a thread; others read files, while arrays are looked at here, as a thread would want
    Python's lock, too, and do what else is submitted. Its methods wait for results, and pass on exceptions."""

    def __init__(self, source: Any, params: BuildParams) -> None:
        self._threads = executor(3)
        work = partial(load_placed, source, params)
        self._loaded = loaded = self._threads.submit(work).result if _of_file(source) else _done(work())
        self._apart = Event()

        def hashed() -> str:
            try:
                mesh = _without_arrays_of(source, loaded())
            finally:
                self._apart.set()
            return mesh.sha256

        self.sha256: Callable[[], str] = self._threads.submit(hashed).result

    def mesh(self) -> Mesh:
        """The mesh, once: it is not kept here."""
        loaded: Callable[[], Mesh] = self.__dict__.pop("_loaded")
        return loaded()

    def let_go(self) -> None:
        """Waits until the source's arrays may change. The last call."""
        self._threads.shutdown(wait=False)
        self._apart.wait()

    def submit(self, work: Callable[[], T]) -> Callable[[], T]:
        """Runs work in a thread, which may wait for what was submitted before; the returned function waits for its
        result."""
        return self._threads.submit(work).result
