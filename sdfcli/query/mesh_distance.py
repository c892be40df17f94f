"""MeshDistance: exact distances to a mesh, without a field. The index is built once, for many queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend, select_backend
from sdfcli.errors import InputError
from sdfcli.field.field import as_points, is_cupy
from sdfcli.mesh.load import load_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import BuildParams
from sdfcli.query.nearest_triangles import NearestTriangles, check_form
from sdfcli.scene import Scene
from sdfcli.sign.choice import SignChoice
from sdfcli.spatial.shifted_sort import check_neighbours

FAR = 1e9
"""Distance from the domain, in its edges, beyond which points are moved nearer (see distance/points.h)."""

CHUNK = 1 << 20
"""Points per batch, at most 2^21 (see distance/points.h)."""


class MeshDistance:
    """Exact distances to a mesh, by a BVH in float32 over the unit cube: errors are about 1e-7 of the mesh's size.

    Args:
        source: a path, a `trimesh.Trimesh`, or a pair of arrays: vertices (v, 3) and faces (f, 3).
        sign: `auto`, `pseudonormal`, `winding` or `none`, as for `sdfcli.build`.
        device: `auto`, `cpu`, `cuda` or `cuda:N`. Results do not depend on it.
        threads: number of CPU threads; default: all CPUs that the process may use.

    Raises:
        InputError: the mesh cannot be read or used.
        UsageError: an unknown `sign` or `device`.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the mesh or its index does not fit into memory.
    """

    def __init__(self, source: Any, sign: str = "auto", device: str = "auto", threads: int | None = None) -> None:
        backend = select_backend(device, threads)
        self.scene = Scene.of(load_mesh(source), BuildParams(sign=sign).sign, backend)
        self._index = self.scene.index
        self._triangles = NearestTriangles(self.scene)

    @classmethod
    def of(cls, scene: Scene) -> MeshDistance:
        """Exact distances to the mesh of an existing scene, for few points."""
        found = cls.__new__(cls)
        found.scene, found._index = scene, scene.reference
        found._triangles = NearestTriangles(scene)
        return found

    @property
    def backend(self) -> Backend:
        """The device of the queries."""
        return self.scene.backend

    @property
    def mesh(self) -> Mesh:
        """The mesh, its faces oriented as the signs use them."""
        return self.scene.mesh

    @property
    def sign(self) -> SignChoice:
        """The sign method and the reason for it."""
        _ = self.scene.signer
        return self.scene.choice

    def signed_distance(self, points: Any) -> Any:
        """Signed distances (n,) float64 at points (n, 3), in the mesh's units, negative inside.

        For CuPy points the result is a CuPy array, else a NumPy array. Raises InputError for points that are not
        (n, 3) finite numbers.
        """
        return self._look_up(points, self._signed)[0]

    def distance(self, points: Any) -> Any:
        """Unsigned distances (n,) float64; see `signed_distance`."""
        return self._look_up(points, lambda at, scale: (self._index.nearest(at)[0] * scale,))[0]

    def closest(self, points: Any) -> tuple[Any, Any]:
        """The nearest points (n, 3) float64 on the mesh, and their faces (n,) int64; see `signed_distance`."""
        nearest_points, faces = self._look_up(points, self._nearest)
        return nearest_points, faces

    def nearest_triangles(self, points: Any, k: int, approximate: str | None = None) -> tuple[Any, Any]:
        """The k nearest triangles of points (n, 3): unsigned distances, then faces; see `signed_distance`.

        Args:
            points: (n, 3), in the mesh's units.
            k: 1 to 32.
            approximate: `minmax`, `size` or `ball`: the k nearest bounding boxes that a shifted sort finds (see
                `nearest_neighbours`), so that some of the nearest triangles may be missed; by default, none is.
                `minmax` and `size` are those of Park 2019.

        Returns:
            Distances (n, k) float64, ascending, to the triangle itself in each case, and faces (n, k) int64, by face
            where the squares of distances are equal in float32. Where the mesh has fewer than k: infinite, and -1.

        Raises:
            InputError: points that are not (n, 3) finite numbers.
            UsageError: an impossible k or `approximate`.
        """
        check_neighbours(k)
        if approximate is not None:
            check_form(approximate)

        def nearest(at: Array, scale: Array) -> tuple[Array, Array]:
            if approximate is not None:
                distance, face = self._triangles.approximate(at, k, approximate)
            else:
                _, slot = self._index.nearest(at)
                distance, face = self._triangles.exact(at, k, slot[:, None], k // 2)
            return distance * scale[:, None], face.view(np.int32).astype(np.int64)  # the number of none is -1

        distances, faces = self._look_up(points, nearest)
        return distances, faces

    def _signed(self, at: Array, scale: Array) -> tuple[Array]:
        distance, slot = self._index.nearest(at)
        inside = self.scene.signer.inside_along(at, distance, slot)
        return (self.backend.xp.where(inside, -distance, distance) * scale,)

    def _nearest(self, at: Array, scale: Array) -> tuple[Array, Array]:
        _, slot = self._index.nearest(at)
        result = self.backend.xp.empty((len(at), 3), np.float64)
        order = self._index.order
        self.backend.run("sdf_closest", len(at), points=at, slot=slot, triangle=order.triangle, nearest=result)
        on_mesh = result * self.mesh.domain.length + self.backend.from_host(self.mesh.domain.origin)
        return on_mesh, order.triangle_id[slot].astype(np.int64)

    def _look_up(self, points: Any, answer: Callable[..., tuple[Array, ...]]) -> tuple[Any, ...]:
        """Queries points (n, 3) in batches, each in Morton order, and returns results in the points' own order.

        answer: results (m, ...) for unit-cube points (m, 3) and factors of their distances (m,).
        """
        backend, xp = self.backend, self.backend.xp
        on_device = is_cupy(points)
        home = xp if on_device else np
        given = as_points(home, points.get() if on_device and xp is np else points)
        if len(home.flatnonzero(~home.isfinite(given))):
            raise InputError("the points to look up must be finite")
        given = backend.from_host(given, np.float64)
        results: list[Array] = []
        for first in range(0, max(1, len(given)), CHUNK):
            order, at, scale = self._in_order(given[first : first + CHUNK])
            answers = answer(at, scale)
            if not results:
                results = [xp.empty((len(given), *values.shape[1:]), values.dtype) for values in answers]
            for result, values in zip(results, answers, strict=True):
                result[first : first + CHUNK][order] = values
        if on_device and xp is np:
            from sdfcli.backend.cuda import import_cupy

            return tuple(import_cupy().asarray(result) for result in results)
        return tuple(result if on_device else backend.to_host(result) for result in results)

    def _in_order(self, points: Array) -> tuple[Array, Array, Array]:
        """The Morton order of points: indices (n,) uint32, positions (n, 3) float32 in the unit cube, and the factor of
        their distances (n,) float64."""
        backend, xp, n = self.backend, self.backend.xp, len(points)
        keys, order = xp.empty(n, np.uint64), xp.empty(n, np.uint32)
        (unit, at), (scale, sorted_scale) = (
            [xp.empty((n, *shape), dtype) for _ in range(2)] for shape, dtype in (((3,), np.float32), ((), np.float64))
        )
        domain = self.mesh.domain.group(backend)
        backend.run("sdf_look_up", n, points=points, domain=domain, far=FAR, unit=unit, scale=scale, keys=keys)
        keys.sort()  # keys hold the index: several times as fast as argsort
        backend.run(
            "sdf_look_up_sorted",
            n,
            keys=keys,
            unit=unit,
            scale=scale,
            order=order,
            sorted_unit=at,
            sorted_scale=sorted_scale,
        )
        return order, at, sorted_scale
