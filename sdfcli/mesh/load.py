"""Checked meshes from files, arrays and trimesh objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, C, any_backend
from sdfcli.backend.packed import Packed
from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Bools, Faces, Floats, unmasked
from sdfcli.mesh.mesh import Domain, Mesh
from sdfcli.params import BuildParams
from sdfcli.runtime.files import existing_file
from sdfcli.runtime.memory import release_freed, unreadable
from sdfcli.runtime.threads import executor

T = TypeVar("T")

MANY_FACES = 200_000
"""Minimum faces for which a GPU looks at arrays: of fewer the CPU is done before the GPU's answers have come."""


def make_mesh(
    vertices: npt.ArrayLike, faces: npt.ArrayLike, name: str = "mesh", backend: Backend | None = None
) -> Mesh:
    """A checked mesh from arrays (v, 3) and (f, 3). Vertices that no face uses are dropped. backend: the device on
    which it will be used, which looks at arrays that are large, and that it takes as they are; by default, and at
    others, the CPU.

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
    as_it_is = named.itemsize == 4 and named.dtype.isnative
    if backend is None or not (backend.memory.scarce and as_it_is and len(named) >= MANY_FACES):
        backend = any_backend()
    triangles, face, used, wrong = _named(backend, named, len(points))
    if wrong:
        wide = named.astype(np.int64)
        bad = int(np.flatnonzero((wide < 0).any(1) | (wide >= len(points)).any(1))[0])
        vertex = next(int(vertex) for vertex in wide[bad] if not 0 <= vertex < len(points))
        raise InputError(f"{name}: face {bad} names vertex {vertex}, but there are {len(points)} vertices")
    if not used.all():
        triangles = np.take(np.cumsum(used, dtype=np.uint32) - np.uint32(1), triangles)
        points = np.compress(used, points, axis=0)  # these two are several times as fast as an index
    vertex = backend.from_host(points)
    bounds = _bounds(backend, vertex)
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
        mesh.on(backend).__dict__.update({"vertex": vertex, "face": face} if used.all() else {"vertex": vertex})
    return mesh


def _named(backend: Backend, faces: npt.NDArray[Any], vertices: int) -> tuple[Faces, Array, Bools, bool]:
    """Whole numbers (m, 3) as uint32, the same array where it can be, on the host and on the device; which vertices
    they name; and whether one names none of these."""
    if faces.dtype.itemsize < 4 or not faces.dtype.isnative:
        faces = faces.astype(np.int64)
    faces = np.ascontiguousarray(faces).view(f"u{faces.itemsize}")
    xp, given = backend.xp, backend.from_host(faces)
    wide = given.itemsize > 4
    numbers = xp.empty(given.shape, np.uint32) if wide else given
    found = Packed(backend, zeros=True, used=(np.uint8, (vertices,)), wrong=(np.uint8, (1,)))
    backend.run(
        "sdf_faces_named",
        len(given),
        vertices=vertices,
        wide=given if wide else None,
        narrow=None if wide else given,
        face=numbers if wide else None,
        **found.arrays,
    )
    used, wrong = found.to_host().values()
    return backend.to_host(numbers) if wide else faces, numbers, used.view(bool), bool(wrong[0])


def _bounds(backend: Backend, vertex: Array) -> Floats | None:
    """Lower and upper corner (2, 3) of points (n, 3) on the device; None where one is not finite."""
    xp, runs = backend.xp, -(-len(vertex) // C.FACE_RUN)
    bounds, wrong = xp.empty((runs, 6)), xp.zeros(1, np.uint8)
    backend.run("sdf_vertex_bounds", runs, vertices=len(vertex), vertex=vertex, bounds=bounds, wrong=wrong)
    if backend.to_host(wrong)[0]:
        return None
    columns = backend.to_host(bounds).T
    return np.array([[column.min() for column in columns[:3]], [column.max() for column in columns[3:]]])


def load_mesh(source: Any, backend: Backend | None = None) -> Mesh:
    """A checked mesh from a path, a `trimesh.Trimesh`, a (vertices, faces) pair, or a Mesh. backend: see `make_mesh`.

    Raises InputError, with the file's name, for a mesh that cannot be read or used; OutOfMemoryError.
    """
    if isinstance(source, Mesh):
        return source
    arrays = _arrays_of(source)
    if arrays is not None:
        return make_mesh(*arrays, backend=backend)
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


def _arrays_of(source: Any) -> tuple[Any, Any] | None:
    """The vertices and faces of a source that lies in memory; None for a file."""
    if isinstance(source, tuple):
        if len(source) != 2:
            raise InputError(f"mesh: a pair (vertices, faces) is needed, not a tuple of {len(source)}")
        return source
    return (source.vertices, source.faces) if hasattr(source, "vertices") and hasattr(source, "faces") else None


def load_placed(source: Any, params: BuildParams, backend: Backend | None = None) -> Mesh:
    """`load_mesh`, in the domain of a build, with its unit. Raises UsageError where the mesh leaves the domain."""
    return load_mesh(source, backend).placed(Domain.of(params.domain), params.unit)


def _without_arrays_of(source: Any, mesh: Mesh) -> Mesh:
    """A mesh in memory of its own, as a source's arrays may change while it is hashed."""
    if isinstance(source, Mesh):
        return mesh
    theirs = _arrays_of(source) or ()

    def own(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        shared = any(isinstance(each, np.ndarray) and np.may_share_memory(array, each) for each in theirs)
        return array.copy() if shared else array

    return Mesh(own(mesh.vertices), own(mesh.faces))


class Loading:
    """A mesh that is read from a file by a thread, while arrays are looked at by who asks for it, as a thread would
    want Python's lock, too; then another one hashes it, and does what else is submitted.

    sha256  waits for the hash, once the mesh was asked for.
    """

    sha256: Callable[[], str]

    def __init__(self, source: Any, params: BuildParams) -> None:
        self._threads, self._source, self._apart = executor(3), source, Event()
        self._load: Callable[[Backend], Mesh] = partial(load_placed, source, params)
        if _arrays_of(source) is None:
            reading = self._threads.submit(load_placed, source, params)
            self._load = lambda _: reading.result()

    def mesh(self, backend: Backend) -> Mesh:
        """The mesh, once: it is not kept here. backend: see `make_mesh`. Raises what `load_placed` raises."""
        load: Callable[[Backend], Mesh] = self.__dict__.pop("_load")
        mesh = load(backend)
        self.sha256 = self._threads.submit(self._hashed, mesh).result
        return mesh

    def _hashed(self, mesh: Mesh) -> str:
        try:
            own = _without_arrays_of(self._source, mesh)
        finally:
            self._apart.set()
        return own.sha256

    def let_go(self) -> None:
        """Waits until the source's arrays may change. The last call."""
        self._threads.shutdown(wait=False)
        self._apart.wait()

    def submit(self, work: Callable[[], T]) -> Callable[[], T]:
        """Runs work in a thread, which may wait for what was submitted before; the returned function waits for its
        result."""
        return self._threads.submit(work).result
