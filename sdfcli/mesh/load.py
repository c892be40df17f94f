"""Checked meshes from files, arrays and trimesh objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, C, any_backend
from sdfcli.backend.packed import Packed
from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Bools, Faces, Floats, unmasked
from sdfcli.mesh.mesh import Domain, Mesh, bounds_of
from sdfcli.params import BuildParams
from sdfcli.runtime.files import existing_file
from sdfcli.runtime.memory import release_freed, unreadable
from sdfcli.runtime.threads import kept_threads

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
    seen = _look(backend, points, named)
    triangles, vertex, bounds, used = seen.faces, seen.vertex, seen.bounds, seen.used
    if seen.unknown:
        wide = named.astype(np.int64)
        bad = int(np.flatnonzero((wide < 0).any(1) | (wide >= len(points)).any(1))[0])
        number = next(int(number) for number in wide[bad] if not 0 <= number < len(points))
        raise InputError(f"{name}: face {bad} names vertex {number}, but there are {len(points)} vertices")
    every = used.all()
    if not every:
        triangles = np.take(np.cumsum(used, dtype=np.uint32) - np.uint32(1), triangles)
        points = np.compress(used, points, axis=0)  # these two are several times as fast as an index
        # By the host, as few meshes have vertices that nobody uses.
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
    """Arrays as they were looked at.

    faces, face  (m, 3) uint32, the numbers in `faces`: the same array where it can be, on the host; on the device.
    vertex       (v, 3) float64, on the device.
    used         (v,) which vertices faces name.
    unknown      whether a face names none of these.
    bounds       their lower and upper corner (2, 3); None where a vertex is not finite.
    """

    faces: Faces
    face: Array
    vertex: Array
    used: Bools
    unknown: bool
    bounds: Floats | None


def _look(backend: Backend, points: Floats, faces: npt.NDArray[Any]) -> _Seen:
    """Looks at vertices (v, 3), and faces (m, 3) of whole numbers; what is found comes to the host by one copy."""
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
        from sdfcli.mesh.formats.notes import noted
        from sdfcli.mesh.formats.readers import read_file

        # make_mesh checks that vertices are finite.
        with noted(path) as notes, np.errstate(all="ignore"):
            vertices, faces = read_file(path)
        release_freed()  # what readers of text took besides
    except Exception as error:  # each loader of trimesh has exceptions of its own
        raise unreadable(path, "cannot be read as a mesh", error) from error
    if len(faces) == 0:
        raise InputError(f"{path}: no faces in this file; a surface is needed")
    mesh = make_mesh(vertices, faces, str(path))
    mesh.__dict__["notes"] = notes
    return mesh


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
        self._threads, self._source, self._apart = kept_threads(3), source, Event()
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
        self._apart.wait()

    def submit(self, work: Callable[[], T]) -> Callable[[], T]:
        """Runs work in a thread, which may wait for what was submitted before; the returned function waits for its
        result."""
        return self._threads.submit(work).result
