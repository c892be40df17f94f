"""MeshDistance: exact distances to a mesh, without a field. The index is built once for many queries."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, select_backend
from sdfcli.errors import InputError
from sdfcli.field.field import as_points, is_cupy
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.holes import treated
from sdfcli.mesh.load import MeshSource, load_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import OPEN, check_holes, check_sign
from sdfcli.query.nearest_triangles import NearestTriangles, check_form
from sdfcli.query.within import check_radius, filtered, gathered, listed
from sdfcli.runtime.log import LOG
from sdfcli.scene import Scene
from sdfcli.sign.choice import SignChoice
from sdfcli.sign.signer import Signer
from sdfcli.spatial.index import DistanceIndex
from sdfcli.spatial.shifted_sort import MOST_NEIGHBOURS, check_neighbours

FAR = 1e9
"""Distance from the domain, in domain edges, beyond which points are moved closer (see distance/points.h)."""

CHUNK = 1 << 20
"""Minimum points per batch, even if they do not fit into free memory."""

BYTES = 128
"""Bytes per point of a batch during its query, without its result."""


class _Queries(NamedTuple):
    """A batch of m points in Morton order.

    order  (m,) uint32: point indices.
    at     (m, 3) float32: positions in the unit cube.
    scale  (m,) float64: distance factors.
    """

    order: Array
    at: Array
    scale: Array

    def sent_back(self, values: Array) -> Array:
        """Values (m, ...) in the points' original order."""
        result = values.copy()
        result[self.order] = values
        return result


class MeshDistance:
    """Exact distances to a mesh, from a BVH in float32 over the unit cube: errors are about 1e-7 times the mesh's size,
    or the distance if larger. Where the mesh has no inside, all distances are unsigned; the first signed query then
    logs a warning.

    Args:
        source: a path, a `trimesh.Trimesh`, or a pair of arrays: vertices (v, 3) and faces (f, 3).
        sign: `auto`, `pseudonormal`, `winding` or `none`, as for `sdfcli.build`.
        device: `auto`, `cpu`, `cuda` or `cuda:N`. Results do not depend on it.
        threads: CPU thread count; default: all CPUs available to the process.
        holes: `cap`: the holes of an open mesh are closed by faces, as for `sdfcli.build`; they follow the mesh's own.

    Raises:
        InputError: the mesh cannot be read or used.
        UsageError: an unknown `sign`, `holes` or `device`.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the mesh or its index does not fit into memory.
    """

    def __init__(
        self,
        source: MeshSource,
        sign: str = "auto",
        device: str = "auto",
        threads: int | None = None,
        *,
        holes: str = OPEN,
    ) -> None:
        check_holes(holes)
        backend = select_backend(device, threads)
        mesh = load_mesh(source, backend).on(backend)
        self._scene, self._given = Scene.of(treated(mesh, holes), check_sign(sign), backend), copy(mesh)
        self._given.release()
        self._told, self._known = False, {}
        _ = self._scene.unsigned_index
        self._triangles = NearestTriangles(self._scene)

    @classmethod
    def _of(cls, scene: Scene, given: Mesh | None = None) -> MeshDistance:
        """Exact distances to an existing scene's mesh, for few points, without a warning. given: the mesh before its
        faces were oriented."""
        found = cls.__new__(cls)
        found._scene, found._triangles = scene, NearestTriangles(scene)
        found._given, found._told, found._known = given or scene.mesh, True, {}
        return found

    _told: bool
    """Whether a warning about unsigned distances was logged, or is not to be."""
    _known: dict[str, Any]
    """Results about the mesh, cached by callers."""

    @property
    def _index(self) -> DistanceIndex:
        return self._scene.reference

    @property
    def _backend(self) -> Backend:
        """The query device."""
        return self._scene.backend

    @property
    def mesh(self) -> Mesh:
        """The mesh, its faces oriented as for the signs, with those that close holes."""
        return self._scene.mesh

    @property
    def sign(self) -> SignChoice:
        """The sign method and the reason for it."""
        _ = self._signer
        return self._scene.choice

    @property
    def signed(self) -> bool:
        """Whether `signed_distance` has signs: the mesh has an inside, and `sign` is not `none`."""
        return self.sign.method != "none"

    @cached_property
    def _signer(self) -> Signer:
        """Built on first use; unsigned distances do not need it."""
        if not self._scene.settled:
            self._scene.release_sign_data()
        signer = self._scene.signer
        choice = self._scene.uncounted_choice
        if not self._told and choice.method == "none" and not choice.requested:
            LOG.warning("distances without signs: %s", choice.reason)
        self._told = True
        return signer

    def __repr__(self) -> str:
        return f"<MeshDistance: {len(self.mesh.faces):,} triangles on {self._backend.name}>"

    def signed_distance(self, points: npt.ArrayLike) -> Floats:
        """Signed distances (...) float64 at points (..., 3), in mesh units, negative inside; unsigned ones unless
        `signed`.

        CuPy points give a CuPy array, others a NumPy array. Raises InputError unless points are (..., 3) finite
        numbers.
        """
        distance: Floats
        (distance,) = self._look_up(points, self._signed)
        return distance

    def distance(self, points: npt.ArrayLike) -> Floats:
        """Unsigned distances (...) float64 at points (..., 3); see `signed_distance`."""
        distance: Floats
        (distance,) = self._look_up(points, self._unsigned)
        return distance

    def closest(self, points: npt.ArrayLike) -> tuple[Floats, Ints]:
        """The nearest points (..., 3) float64 on the mesh, and their faces (...) int64; see `signed_distance`."""
        nearest_points, faces = self._look_up(points, self._nearest)
        return nearest_points, faces

    def _nearest_faces(self, points: Array) -> Array:
        """The nearest faces (n,) uint32 to points (n, 3) on the query device."""
        order = self._index.order

        def nearest(queries: _Queries) -> tuple[Array]:
            return (queries.sent_back(order.triangle_id[self._index.nearest(queries.at)[1]]),)

        (faces,) = self._look_up(points, nearest, 4)
        return faces

    def nearest_triangles(self, points: npt.ArrayLike, k: int, approximate: str | None = None) -> tuple[Floats, Ints]:
        """Finds the k nearest triangles to points (..., 3): unsigned distances, then faces; see `signed_distance`.

        Args:
            points: (..., 3), in mesh units.
            k: 1 to 32.
            approximate: `minmax`, `size` or `ball`: take the k nearest bounding boxes that a shifted sort finds (see
                `nearest_neighbours`), which may miss some nearest triangles; default: exact. `minmax` and `size` are
                Park's (2019).

        Returns:
            Distances (..., k) float64, ascending, always to the triangle itself, and faces (..., k) int64, ordered by
            face where squared distances are equal in float32. If the mesh has fewer than k: infinite, and -1.

        Raises:
            InputError: points that are not (..., 3) finite numbers.
            UsageError: an invalid k or `approximate`.
        """
        check_neighbours(k)
        if approximate is not None:
            check_form(approximate)

        def nearest(queries: _Queries) -> tuple[Array, Array]:
            at = queries.at
            if approximate is not None:
                distance, face = self._triangles.approximate(at, k, approximate)
            else:
                distance, face = self._triangles.nearest(at, k)
            face = face.view(np.int32).astype(np.int64)  # missing faces become -1
            return queries.sent_back(distance * queries.scale[:, None]), queries.sent_back(face)

        distances, faces = self._look_up(points, nearest, 32 * k)
        return distances, faces

    def triangles_within(
        self, points: npt.ArrayLike, radius: float, approximate: str | None = None
    ) -> tuple[Ints, Ints, Floats]:
        """Finds all triangles within a radius of points (..., 3): exact distances, see `signed_distance`.

        Args:
            points: (..., 3), in mesh units; n in total.
            radius: maximum distance, in mesh units, inclusive.
            approximate: `minmax`, `size` or `ball`: only the 32 nearest by `nearest_triangles`, if within the radius;
                default: all.

        Returns:
            Starts (n + 1,) int64, faces (m,) int64 and distances (m,) float64: those of point i are entries starts[i]
            to starts[i + 1], ordered by distance, then by face.

        Raises:
            InputError: points that are not (..., 3) finite numbers.
            UsageError: a radius that is negative or not finite, or an invalid `approximate`.
            OutOfMemoryError: the result does not fit into memory.
        """
        check_radius(radius)
        if approximate is not None:
            distance, number = self.nearest_triangles(points, MOST_NEIGHBOURS, approximate)
            return filtered(distance.reshape(-1, MOST_NEIGHBOURS), number.reshape(-1, MOST_NEIGHBOURS), radius)
        order = self._scene.bvh.order
        tree = {"child": self._scene.bvh.child, "box": self._scene.bvh.box}
        given = {
            "radius": radius,
            "triangles": len(order),
            "triangle": order.triangle,
            "triangle_id": order.triangle_id,
        }
        batches: list[tuple[Array, Array, Array, Array]] = []

        def found(queries: _Queries) -> tuple[Array]:
            n = len(queries.at)

            def run(count: Array, start: Array | None, distance: Array | None, face: Array | None) -> None:
                lists = {"count": count, "start": start, "distance": distance, "face": face}
                points = {"points": queries.at, "scale": queries.scale}
                self._backend.run("sdf_distance_within", n, **points, **given, **tree, **lists)

            first = sum(len(batch) for batch, *_ in batches)
            batches.append((first + self._backend.to_host(queries.order), *listed(self._backend, n, run)))
            return (queries.order,)

        self._look_up(points, found, 16)
        starts, faces, distances = gathered(batches)
        if is_cupy(points):
            from sdfcli.startup.cupy import import_cupy

            starts, faces, distances = map(import_cupy().asarray, (starts, faces, distances))
        return starts, faces, distances

    def _unsigned(self, queries: _Queries) -> tuple[Array]:
        return (self._in_units(queries, self._index.nearest(queries.at)[0], None),)

    def _signed(self, queries: _Queries) -> tuple[Array]:
        distance, slot = self._index.nearest(queries.at)
        self._scene.before_signs()
        inside = self._signer.inside_along(queries.at, distance, slot)
        return (self._in_units(queries, distance, inside.view(np.uint8)),)

    def _nearest(self, queries: _Queries) -> tuple[Array, Array]:
        at, order = queries.at, self._index.order
        _, slot = self._index.nearest(at)
        result = self._backend.xp.empty((len(at), 3), np.float64)
        self._backend.run("sdf_closest", len(at), points=at, slot=slot, triangle=order.triangle, nearest=result)
        on_mesh = result * self.mesh.domain.length + self._backend.from_host(self.mesh.domain.origin)
        return queries.sent_back(on_mesh), queries.sent_back(order.triangle_id[slot].astype(np.int64))

    def _in_units(self, queries: _Queries, distance: Array, inside: Array | None) -> Array:
        """Distances (m,) float64 in mesh units and the points' original order, negative where inside (m,) uint8."""
        result = self._backend.xp.empty(len(distance), np.float64)
        given = {"order": queries.order, "distance": distance, "inside": inside, "scale": queries.scale}
        self._backend.run("sdf_look_up_done", len(distance), **given, result=result)
        return result

    def _look_up(
        self, points: npt.ArrayLike, answer: Callable[[_Queries], tuple[Array, ...]], nbytes: int = 32
    ) -> tuple[Any, ...]:
        """Queries points (..., 3) in batches, each in Morton order. Results (...) or (..., k) have the points' shape.

        answer: maps a batch to results (m,) or (m, k) in the points' original order. nbytes: result memory per point.
        """
        backend, xp = self._backend, self._backend.xp
        on_device, there = is_cupy(points), cast(Any, points)
        at = as_points(xp if on_device else np, there.get() if on_device and xp is np else points)
        shape, given = at.shape[:-1], backend.from_host(at.reshape(-1, 3))
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
            from sdfcli.startup.cupy import import_cupy

            results = tuple(import_cupy().asarray(result) for result in results)
        elif not on_device:
            results = tuple(backend.to_host(result) for result in results)
        return tuple(result.reshape(shape + result.shape[1:]) for result in results)

    def _batch(self, points: int, nbytes: int) -> int:
        """Points per batch: the index's preferred batch, limited to half the free memory."""
        best = self._index.batch
        if min(points, best) <= CHUNK:
            return best
        return min(best, max(CHUNK, self._backend.memory_free() // (2 * nbytes)))

    def _in_order(self, points: Array) -> _Queries:
        """Points (n, 3), float32 or float64, in Morton order. Raises InputError if one is not finite."""
        backend, xp, n = self._backend, self._backend.xp, len(points)
        bits = max(1, (n - 1).bit_length())
        single = points.dtype == np.float32
        queries = backend.group(
            "QueryPoints",
            points=None if single else points,
            single=points if single else None,
            domain=self.mesh.domain.group(backend),
            far=FAR,
            bits=bits,
        )
        keys, wrong = xp.empty(n, np.uint64), xp.zeros(1, np.uint32)
        backend.run("sdf_look_up", n, queries=queries, keys=keys, wrong=wrong)
        checked = backend.copy_async(wrong)
        backend.sort_alone(keys)  # keys include the index: several times faster than an argsort
        order, unit, scale = xp.empty(n, np.uint32), xp.empty((n, 3), np.float32), xp.empty(n, np.float64)
        backend.run("sdf_look_up_sorted", n, queries=queries, keys=keys, order=order, unit=unit, scale=scale)
        if checked()[0]:
            raise InputError("the points to look up must be finite")
        return _Queries(order, unit, scale)
