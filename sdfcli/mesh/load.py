"""Checked meshes from files, arrays and trimesh objects."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import unmasked
from sdfcli.mesh.mesh import Domain, Mesh, bounds_of
from sdfcli.params import BuildParams
from sdfcli.runtime.files import existing_file
from sdfcli.runtime.memory import unreadable

T = TypeVar("T")


def make_mesh(vertices: npt.ArrayLike, faces: npt.ArrayLike, name: str = "mesh") -> Mesh:
    """A checked mesh from arrays (v, 3) and (f, 3). Vertices that no face uses are dropped.

    Raises InputError for a mesh without faces, a face with an unknown vertex, a used vertex that is not finite, and an
    extent outside 1e-30 to 1e30, whose squares leave float64.
    """
    points = np.ascontiguousarray(unmasked(vertices, f"{name}: vertices"), dtype=np.float64)
    named = np.asarray(unmasked(faces, f"{name}: faces"))
    triangles = np.ascontiguousarray(named, dtype=np.int64)
    if named.dtype.kind not in "iu" and not np.array_equal(named, triangles):
        raise InputError(f"{name}: faces must be whole numbers, which name vertices")
    if triangles.ndim != 2 or triangles.shape[-1] != 3 or points.ndim != 2 or points.shape[-1] != 3:
        raise InputError(f"{name}: vertices must be (n, 3) and faces (m, 3), not {points.shape} and {triangles.shape}")
    if len(triangles) == 0:
        raise InputError(f"{name}: no faces; a surface is needed, not {len(points)} points")
    if triangles.min() < 0 or triangles.max() >= len(points):
        bad = int(np.flatnonzero((triangles < 0).any(1) | (triangles >= len(points)).any(1))[0])
        wrong = next(int(vertex) for vertex in triangles[bad] if not 0 <= vertex < len(points))
        raise InputError(f"{name}: face {bad} names vertex {wrong}, but there are {len(points)} vertices")
    used = np.zeros(len(points), bool)
    used[triangles] = True
    if not used.all():
        triangles = (np.cumsum(used) - 1)[triangles]
        points = points[used]
    if not np.isfinite(points).all():
        finite = np.isfinite(points).all(axis=1)
        place = int(np.flatnonzero(used)[np.flatnonzero(~finite)[0]])
        raise InputError(f"{name}: vertex {place} is not finite ({int((~finite).sum())} such vertices)")
    low, high = bounds_of(points)
    extent, largest = float((high - low).max()), float(np.maximum(-low, high).max())
    if not 1e-30 < extent < 1e30:
        raise InputError(f"{name}: the extent of the mesh is {extent:g}; it must lie between 1e-30 and 1e30")
    if extent < largest * 1e-12:
        raise InputError(f"{name}: an extent of {extent:g} at coordinates of {largest:g} is below their precision")
    return Mesh(points, triangles)


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
    except Exception as error:  # each loader of trimesh has exceptions of its own
        raise unreadable(path, "cannot be read as a mesh", error) from error
    if len(faces) == 0:
        raise InputError(f"{path}: no faces in this file; a surface is needed")
    return make_mesh(vertices, faces, str(path))


def load_placed(source: Any, params: BuildParams) -> Mesh:
    """`load_mesh`, in the domain of a build, with its unit. Raises UsageError where the mesh leaves the domain."""
    return load_mesh(source).placed(Domain.of(params.domain), params.unit)


class Loading:
    """A mesh that is loaded and hashed by threads. Its methods wait for results, and pass on exceptions."""

    def __init__(self, source: Any, params: BuildParams) -> None:
        self._threads = ThreadPoolExecutor(2)
        loaded = self._threads.submit(load_placed, source, params)
        self.mesh: Callable[[], Mesh] = loaded.result
        self.sha256: Callable[[], str] = self._threads.submit(lambda: loaded.result().sha256).result

    def submit(self, work: Callable[[], T]) -> Callable[[], T]:
        """Runs the last piece of work in a thread; the returned function waits for its result."""
        result = self._threads.submit(work).result
        self._threads.shutdown(wait=False)
        return result
