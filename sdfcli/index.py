"""Exact distances from a mesh, without a field: the index is built once and asked many times."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend, select_backend
from sdfcli.errors import InputError
from sdfcli.field import as_points, is_cupy
from sdfcli.mesh import Mesh, load_mesh
from sdfcli.params import BuildParams
from sdfcli.stages.bvh import Bvh
from sdfcli.stages.distance import make_bvh, nearest
from sdfcli.stages.order import morton_keys
from sdfcli.stages.sign import Signer, choose_sign, settle_sign

FAR = 1e9
"""In edges of the domain."""

CHUNK = 1 << 20
"""Points looked up at a time."""


class MeshDistance:
    """Exact distances to a mesh, by a BVH in float32 over the unit cube: errors are about 1e-7 of the mesh's size.

    source: a path, a trimesh mesh, or a (vertices, faces) pair. sign and device: as for `sdfcli.build`.
    """

    def __init__(self, source: Any, sign: str = "auto", device: str = "auto", threads: int | None = None) -> None:
        self.backend = select_backend(device, threads)
        self.mesh, choice = choose_sign(load_mesh(source), BuildParams(sign=sign).sign)
        self.bvh = make_bvh(self.backend, self.mesh.unit_triangles)
        self.sign, self.signer = settle_sign(self.backend, self.mesh, self.bvh, choice)

    @classmethod
    def of(cls, backend: Backend, mesh: Mesh, bvh: Bvh, signer: Signer) -> MeshDistance:
        """An index over stages that are there already."""
        index = cls.__new__(cls)
        index.backend, index.mesh, index.bvh, index.signer = backend, mesh, bvh, signer
        return index

    def signed_distance(self, points: Any) -> Any:
        """Signed distances (n,) float64 at points (n, 3), negative inside, in the mesh's units.

        NumPy in, NumPy out; CuPy in, CuPy out. Raises InputError for points that are not (n, 3) or not finite.
        """
        return self._look_up(points, self._signed)

    def distance(self, points: Any) -> Any:
        """Unsigned distances (n,) float64; see `signed_distance`."""
        return self._look_up(points, lambda at, distance, slot: distance * self.mesh.domain.length)

    def closest(self, points: Any) -> tuple[Any, Any]:
        """The nearest points (n, 3) float64 on the mesh, and the faces (n,) int64 on which they lie."""
        nearest_points = self._look_up(points, self._nearest, width=3)
        faces = self._look_up(points, lambda at, distance, slot: self.bvh.order.triangle_id[slot])
        return nearest_points, faces.astype(np.int64)

    def _signed(self, at: Array, distance: Array, slot: Array) -> Array:
        inside = self.signer.inside(at, slot)
        return self.backend.xp.where(inside, -distance, distance) * self.mesh.domain.length

    def _nearest(self, at: Array, distance: Array, slot: Array) -> Array:
        result = self.backend.xp.empty((len(at), 3), np.float64)
        triangle = self.bvh.order.triangle
        self.backend.run("sdf_closest", len(at), points=at, slot=slot, triangle=triangle, nearest=result)
        return result * self.mesh.domain.length + self.backend.from_host(self.mesh.domain.origin)

    def _look_up(self, points: Any, answer: Any, width: int | None = None) -> Any:
        """Looks points up in Morton order, chunk by chunk, and puts the answers into the points' own order."""
        backend, xp = self.backend, self.backend.xp
        on_device = is_cupy(points)
        given = as_points(xp, points.get() if on_device and xp is np else points)
        if not bool(xp.isfinite(given).all()):
            raise InputError("the points to look up must be finite")
        result = xp.empty((len(given),) if width is None else (len(given), width), np.float64)
        origin = backend.from_host(self.mesh.domain.origin)
        for first in range(0, len(given), CHUNK):
            unit = (given[first : first + CHUNK] - origin) / self.mesh.domain.length
            # Squares of distances beyond FAR would leave float32. Seen from there, the mesh is a point.
            times = xp.maximum(xp.abs(unit - 0.5).max(axis=1) / FAR, 1.0)
            unit = xp.ascontiguousarray(0.5 + (unit - 0.5) / times[:, None])
            order = xp.argsort(morton_keys(backend, unit))
            at = xp.ascontiguousarray(unit[order].astype(np.float32))
            distance, slot = nearest(backend, self.bvh, at)
            result[first + order] = answer(at, distance.astype(np.float64) * times[order], slot)
        if on_device and xp is np:
            from sdfcli.backend.cuda import import_cupy

            return import_cupy().asarray(result)
        return result if on_device else backend.to_host(result)
