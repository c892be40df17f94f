"""MeshDistance: exact distances to a mesh, without a field. The index is built once, for many queries."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

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
from sdfcli.sign.signer import Signer
from sdfcli.spatial.index import DistanceIndex
from sdfcli.spatial.shifted_sort import check_neighbours

FAR = 1e9
"""Distance from the domain, in its edges, beyond which points are moved nearer (see distance/points.h)."""

CHUNK = 1 << 20
"""Points per batch that need not fit into the free memory."""

BYTES = 128
"""Memory for a point of a batch while it is queried, beside its answer."""


class _Asked(NamedTuple):
    """A batch of m points in Morton order.

    order  (m,) uint32: the points' numbers.
    at     (m, 3) float32: their positions in the unit cube.
    scale  (m,) float64: factors of their distances.
    """

    order: Array
    at: Array
    scale: Array

    def sent_back(self, values: Array) -> Array:
        """Values (m, ...) in the points' own order."""
        result = values.copy()
        result[self.order] = values
        return result


class MeshDistance:
    """Exact distances to a mesh, by a BVH in float32 over the unit cube: errors are about 1e-7 of the mesh's size, or
    of the distance where that is larger.

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
        self.scene = Scene.of(load_mesh(source, backend), BuildParams(sign=sign).sign, backend)
        _ = self.scene.unsigned_index
        self._triangles = NearestTriangles(self.scene)

    @classmethod
    def of(cls, scene: Scene) -> MeshDistance:
        """Exact distances to the mesh of an existing scene, for few points."""
        found = cls.__new__(cls)
        found.scene, found._triangles = scene, NearestTriangles(scene)
        return found

    @property
    def _index(self) -> DistanceIndex:
        return self.scene.reference

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
        _ = self._signer
        return self.scene.choice

    @cached_property
    def _signer(self) -> Signer:
        """Made on first use: unsigned distances do without it."""
        if not self.scene.settled:
            self.scene.make_room()
        return self.scene.signer

    def signed_distance(self, points: Any) -> Any:
        """Signed distances (n,) float64 at points (n, 3), in the mesh's units, negative inside.

        For CuPy points the result is a CuPy array, else a NumPy array. Raises InputError for points that are not
        (n, 3) finite numbers.
        """
        return self._look_up(points, self._signed)[0]

    def distance(self, points: Any) -> Any:
        """Unsigned distances (n,) float64; see `signed_distance`."""
        return self._look_up(points, self._unsigned)[0]

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

        def nearest(asked: _Asked) -> tuple[Array, Array]:
            at = asked.at
            if approximate is not None:
                distance, face = self._triangles.approximate(at, k, approximate)
            else:
                _, slot = self._index.nearest(at)
                distance, face = self._triangles.exact(at, k, slot[:, None], k // 2)
            face = face.view(np.int32).astype(np.int64)  # the number of none is -1
            return asked.sent_back(distance * asked.scale[:, None]), asked.sent_back(face)

        distances, faces = self._look_up(points, nearest, 32 * k)
        return distances, faces

    def _unsigned(self, asked: _Asked) -> tuple[Array]:
        return (self._in_units(asked, self._index.nearest(asked.at)[0], None),)

    def _signed(self, asked: _Asked) -> tuple[Array]:
        distance, slot = self._index.nearest(asked.at)
        self.scene.signs_next()
        inside = self._signer.inside_along(asked.at, distance, slot)
        return (self._in_units(asked, distance, inside.view(np.uint8)),)

    def _nearest(self, asked: _Asked) -> tuple[Array, Array]:
        at, order = asked.at, self._index.order
        _, slot = self._index.nearest(at)
        result = self.backend.xp.empty((len(at), 3), np.float64)
        self.backend.run("sdf_closest", len(at), points=at, slot=slot, triangle=order.triangle, nearest=result)
        on_mesh = result * self.mesh.domain.length + self.backend.from_host(self.mesh.domain.origin)
        return asked.sent_back(on_mesh), asked.sent_back(order.triangle_id[slot].astype(np.int64))

    def _in_units(self, asked: _Asked, distance: Array, inside: Array | None) -> Array:
        """Distances (m,) float64 in the mesh's units and the points' own order, negative where inside (m,) uint8."""
        result = self.backend.xp.empty(len(distance), np.float64)
        given = {"order": asked.order, "distance": distance, "inside": inside, "scale": asked.scale}
        self.backend.run("sdf_look_up_done", len(distance), **given, result=result)
        return result

    def _look_up(self, points: Any, answer: Callable[[_Asked], tuple[Array, ...]], nbytes: int = 32) -> tuple[Any, ...]:
        """Queries points (n, 3) in batches, each in Morton order.

        answer: results (m, ...) in the points' own order. nbytes: memory for the answer at a point.
        """
        backend, xp = self.backend, self.backend.xp
        on_device = is_cupy(points)
        home = xp if on_device else np
        given = backend.from_host(as_points(home, points.get() if on_device and xp is np else points))
        batch = self._batch(len(given), BYTES + nbytes)
        if len(given) <= batch:
            results = answer(self._in_order(given))
        else:
            for first in range(0, len(given), batch):
                answers = answer(self._in_order(given[first : first + batch]))
                if first == 0:
                    results = tuple(xp.empty((len(given), *each.shape[1:]), each.dtype) for each in answers)
                for result, values in zip(results, answers, strict=True):
                    result[first : first + batch] = values
        if on_device and xp is np:
            from sdfcli.backend.cuda import import_cupy

            return tuple(import_cupy().asarray(result) for result in results)
        return tuple(result if on_device else backend.to_host(result) for result in results)

    def _batch(self, points: int, nbytes: int) -> int:
        """The points of a batch: those that the index takes best, in half of the free memory."""
        best = self._index.batch
        if min(points, best) <= CHUNK:
            return best
        return min(best, max(CHUNK, self.backend.memory_free() // (2 * nbytes)))

    def _in_order(self, points: Array) -> _Asked:
        """Points (n, 3), float32 or float64, in Morton order. Raises InputError where one is not finite."""
        backend, xp, n = self.backend, self.backend.xp, len(points)
        bits = max(1, (n - 1).bit_length())
        single = points.dtype == np.float32
        asked = backend.group(
            "AskedPoints",
            points=None if single else points,
            single=points if single else None,
            domain=self.mesh.domain.group(backend),
            far=FAR,
            bits=bits,
        )
        keys, wrong = xp.empty(n, np.uint64), xp.zeros(1, np.uint32)
        backend.run("sdf_look_up", n, asked=asked, keys=keys, wrong=wrong)
        checked = backend.copy_async(wrong)
        backend.sort_alone(keys)  # keys hold the number: several times as fast as a permutation
        order, unit, scale = xp.empty(n, np.uint32), xp.empty((n, 3), np.float32), xp.empty(n, np.float64)
        backend.run("sdf_look_up_sorted", n, asked=asked, keys=keys, order=order, unit=unit, scale=scale)
        if checked()[0]:
            raise InputError("the points to look up must be finite")
        return _Asked(order, unit, scale)
