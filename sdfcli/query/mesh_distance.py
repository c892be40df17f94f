"""MeshDistance: exact distances to a mesh, without a field. The index is built once for many queries."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast, overload

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, select_backend
from sdfcli.errors import InputError, UsageError
from sdfcli.field.field import as_points, is_cupy
from sdfcli.mesh.arrays import Bools, Floats, Ints
from sdfcli.mesh.holes import treated
from sdfcli.mesh.load import MeshSource, joined, load_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import OPEN, check_holes, check_sign
from sdfcli.query.nearest_triangles import NearestTriangles, check_form
from sdfcli.query.within import check_radius, filtered, gathered, listed
from sdfcli.runtime.log import LOG
from sdfcli.runtime.numbered import Numbered
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

Reals = Floats | npt.NDArray[np.float32]

ON_FACES: dict[str, tuple[tuple[int, ...], type]] = {
    "distance": ((), np.float64),
    "gradient": ((3,), np.float64),
    "nearest": ((3,), np.float64),
    "weight": ((2,), np.float64),
    "normal": ((3,), np.float64),
    "face_of": ((), np.uint32),
}
"""Outputs of sdf_closest_face: shape and dtype per point."""


@dataclass(frozen=True)
class NearestPoints:
    """The nearest points on a mesh, or on several. Arrays have the query points' shape (...).

    point     (..., 3), in mesh units.
    distance  (...), unsigned; exact for the face, which is found in float32.
    face      (...) int64.
    uv        (..., 2): `point` is (1 - u - v) a + u b + v c for the face's corners a, b, c.
    normal    (..., 3): the face's unit normal, outwards where faces could be oriented; 0 for a face without area.
    part      (...) int64: the number of the face's mesh, among several.
    """

    point: Reals
    distance: Reals
    face: Ints
    uv: Reals
    normal: Reals
    part: Ints


@dataclass(frozen=True)
class RayHits:
    """The first faces on rays. Arrays have the rays' shape (...); without a face: infinite, -1, and 0.

    t       (...): the hit is the origin plus t times the direction.
    face    (...) int64.
    uv      (..., 2): as in NearestPoints.
    normal  (..., 3): the face's unit normal, outwards where faces could be oriented.
    part    (...) int64: the number of the face's mesh, among several.
    """

    t: Reals
    face: Ints
    uv: Reals
    normal: Reals
    part: Ints


class _Queries(NamedTuple):
    """A batch of m points in Morton order.

    given  (m, 3) float32 or float64: the points, in the mesh's units and in their original order.
    order  (m,) uint32: point indices.
    at     (m, 3) float32: positions in the unit cube.
    scale  (m,) float64: distance factors.
    """

    given: Array
    order: Array
    at: Array
    scale: Array

    def sent_back(self, values: Array) -> Array:
        """Values (m, ...) in the points' original order."""
        result = values.copy()
        result[self.order] = values
        return result


class MeshDistance(Numbered):
    """Exact distances to a mesh, from a BVH in float32 over the unit cube: errors are about 1e-7 times the mesh's size,
    or the distance if larger. Where the mesh has no inside, all distances are unsigned; the first signed query then
    logs a warning.

    Args:
        source: a path, a mesh of trimesh, Open3D or PyVista, or a pair of arrays: vertices (v, 3) and faces (f, 3); or
            a list of these, for the distance to their union. Faces are numbered from mesh to mesh, see `parts`.
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
        source: MeshSource | list[MeshSource],
        sign: str = "auto",
        device: str = "auto",
        threads: int | None = None,
        *,
        holes: str = OPEN,
    ) -> None:
        check_holes(holes)
        backend = select_backend(device, threads)
        if isinstance(source, list):
            meshes = [treated(load_mesh(each), holes) for each in source]
            mesh = whole = joined(meshes).on(backend)
            self.parts = np.cumsum([0, *(len(each.faces) for each in meshes)])
        else:
            mesh = load_mesh(source, backend).on(backend)
            whole = treated(mesh, holes)
            self.parts = np.array([0, len(whole.faces)])
        self._scene, self._given = Scene.of(whole, check_sign(sign), backend), copy(mesh)
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
        found.parts = np.array([0, len(scene.mesh.faces)])
        return found

    parts: Ints
    """First face of each mesh, then the number of faces: (meshes + 1,)."""

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

    @overload
    def signed_distance(self, points: npt.ArrayLike) -> Floats: ...
    @overload
    def signed_distance(self, points: npt.ArrayLike, dtype: npt.DTypeLike) -> Reals: ...
    def signed_distance(self, points: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> Reals:
        """Signed distances (...) at points (..., 3), in mesh units, negative inside; unsigned ones unless `signed`.

        CuPy points give a CuPy array, others a NumPy array. dtype: float64 or float32. Raises InputError unless points
        are (..., 3) finite numbers, UsageError for another dtype.
        """
        distance: Reals
        (distance,) = self._as(dtype, *self._look_up(points, self._signed))
        return distance

    @overload
    def distance(self, points: npt.ArrayLike) -> Floats: ...
    @overload
    def distance(self, points: npt.ArrayLike, dtype: npt.DTypeLike) -> Reals: ...
    def distance(self, points: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> Reals:
        """Unsigned distances (...) at points (..., 3); see `signed_distance`."""
        distance: Reals
        (distance,) = self._as(dtype, *self._look_up(points, self._unsigned))
        return distance

    def contains(self, points: npt.ArrayLike) -> Bools:
        """Whether points (..., 3) are inside: (...) bool; nowhere unless `signed`. See `signed_distance`."""
        return np.signbit(self.signed_distance(points))

    def nearest(self, points: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> NearestPoints:
        """The nearest points to points (..., 3), with their faces, barycentric coordinates and normals; see
        `signed_distance`. `closest` computes in the unit cube, hence with its last bits."""

        def answer(queries: _Queries) -> tuple[Array, ...]:
            point, distance, face, uv, normal = self._on_faces(
                queries, ("nearest", "distance", "face_of", "weight", "normal")
            )
            face = face.astype(np.int64)
            return point, distance, face, uv, normal, self._part_of(face)

        point, distance, face, uv, normal, part = self._look_up(points, answer, 88)
        point, distance, uv, normal = self._as(dtype, point, distance, uv, normal)
        return NearestPoints(point, distance, face, uv, normal, part)

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

    def cast(self, origins: npt.ArrayLike, directions: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> RayHits:
        """The first face on each ray, from origins (..., 3) along directions (..., 3) of any length, broadcast. No ray
        slips between two faces; see `count_hits`. dtype and raises: as for `signed_distance`, and InputError for a
        direction of 0, or numbers outside 1e-100 to 1e100."""

        def answer(rays: dict[str, Any], n: int) -> tuple[Array, ...]:
            xp = self._backend.xp
            t, uv, normal = xp.empty(n, np.float64), xp.empty((n, 2), np.float64), xp.empty((n, 3), np.float64)
            face = xp.empty(n, np.uint32)
            found = {"oriented": self.mesh.face, "t": t, "weight": uv, "normal": normal, "face_of": face}
            self._backend.run("sdf_ray_first", n, **rays, **found)
            face = face.view(np.int32).astype(np.int64)  # missing faces become -1
            return t, face, uv, normal, xp.where(face < 0, face, self._part_of(face))

        t, face, uv, normal, part = self._along_rays(origins, directions, answer)
        t, uv, normal = self._as(dtype, t, uv, normal)
        return RayHits(t, face, uv, normal, part)

    def count_hits(self, origins: npt.ArrayLike, directions: npt.ArrayLike) -> Ints:
        """The number (...) int64 of faces on each ray; see `cast`.

        Exact for the float64 numbers given: a ray through an edge or a vertex counts as one beside it, so that from
        inside a closed surface it is odd. Faces parallel to the ray do not count, faces that contain its origin do.
        """

        def answer(rays: dict[str, Any], n: int) -> tuple[Array, ...]:
            count = self._backend.xp.empty(n, np.uint32)
            self._backend.run("sdf_ray_count", n, **rays, count=count)
            return (count.astype(np.int64),)

        count: Ints
        (count,) = self._along_rays(origins, directions, answer)
        return count

    def _along_rays(
        self,
        origins: npt.ArrayLike,
        directions: npt.ArrayLike,
        answer: Callable[[dict[str, Any], int], tuple[Array, ...]],
    ) -> tuple[Any, ...]:
        """Results (...) of rays, in batches. answer: maps a kernel's arguments of n rays to results (n, ...)."""
        backend, xp = self._backend, self._backend.xp
        on_device = is_cupy(origins)
        home: Any = xp if on_device else np
        given = []
        for values, name in ((origins, "origins"), (directions, "directions")):
            there = cast(Any, values)
            array = as_points(home, there.get() if is_cupy(values) and home is np else values)
            size = abs(array).max(axis=-1)
            if not bool((size < 1e100).all()) or (name == "directions" and not bool((size > 1e-100).all())):
                raise InputError(f"{name} of rays must be finite and below 1e100, directions above 1e-100")
            given.append(array.astype(np.float64, copy=False))
        try:
            from_, way = home.broadcast_arrays(*given)
        except ValueError as error:
            raise InputError(f"origins and directions of rays do not fit: {error}") from error
        shape, bvh, mesh = from_.shape[:-1], self._scene.bvh, self.mesh
        scene = backend.group(
            "RayScene",
            triangles=len(bvh.order),
            triangle_id=bvh.order.triangle_id,
            child=bvh.child,
            box=bvh.box,
            vertex=mesh.vertex,
            face=self._face_as_given,
            domain=mesh.domain.group(backend),
        )
        parts = []
        rows = [each.reshape(-1, 3) for each in (from_, way)]
        for first in range(0, max(1, len(rows[0])), CHUNK):
            here, there = (backend.from_host(home.ascontiguousarray(each[first : first + CHUNK])) for each in rows)
            results = answer({"from": here, "way": there, "scene": scene}, len(here))
            parts.append(results if on_device else [backend.to_host(each) for each in results])
        whole = [
            parts[0][k] if len(parts) == 1 else np.concatenate([part[k] for part in parts])
            for k in range(len(parts[0]))
        ]
        if on_device and xp is np:
            whole = _as_cupy(*whole)
        return tuple(each.reshape(shape + each.shape[1:]) for each in whole)

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
            starts, faces, distances = _as_cupy(starts, faces, distances)
        return starts, faces, distances

    def _exact(self, points: npt.ArrayLike, signed: bool) -> tuple[Floats]:
        """Distances (...) with the bits of `_with_gradient`."""
        distance: Floats
        (distance,) = self._look_up(points, lambda queries: tuple(self._on_faces(queries, ("distance",), signed)))
        return (distance,)

    def _with_gradient(self, points: npt.ArrayLike, signed: bool) -> tuple[Floats, Floats, Floats, Ints, Floats]:
        """Distances (...) with their gradients (..., 3), nearest points (..., 3), faces (...) int64 and uv (..., 2)."""

        def answer(queries: _Queries) -> tuple[Array, ...]:
            distance, gradient, nearest, face, uv = self._on_faces(
                queries, ("distance", "gradient", "nearest", "face_of", "weight"), signed
            )
            return distance, gradient, nearest, face.astype(np.int64), uv

        distance, gradient, nearest, face, uv = self._look_up(points, answer, 80)
        return distance, gradient, nearest, face, uv

    def _on_faces(self, queries: _Queries, wanted: tuple[str, ...], signed: bool = False) -> list[Array]:
        """The `wanted` of ON_FACES, in the points' original order."""
        backend, mesh, n = self._backend, self.mesh, len(queries.at)
        order = self._index.order
        distance, slot = self._index.nearest(queries.at)
        inside = None
        if signed:
            self._scene.before_signs()
            if self._signer.method != "none":
                inside = self._signer.inside_along(queries.at, distance, slot).view(np.uint8)
        found = {name: backend.xp.empty((n, *ON_FACES[name][0]), ON_FACES[name][1]) for name in wanted}
        single = queries.given.dtype == np.float32
        backend.run(
            "sdf_closest_face",
            n,
            order=queries.order,
            points=None if single else queries.given,
            single=queries.given if single else None,
            slot=slot,
            triangle_id=order.triangle_id,
            vertex=mesh.vertex,
            face=self._face_as_given,
            oriented=mesh.face,
            inside=inside,
            **{name: found.get(name) for name in ON_FACES},
        )
        return list(found.values())

    @cached_property
    def _face_as_given(self) -> Array:
        """The faces (f, 3) uint32 before their orientation, then the faces over holes, on the query device."""
        given = self._given.faces
        return self._backend.from_host(np.concatenate((given, self.mesh.faces[len(given) :])))

    def _part_of(self, face: Array) -> Array:
        """The mesh numbers (n,) int64 of faces (n,), on the query device."""
        starts, xp = self._backend.from_host(self.parts[1:-1]), self._backend.xp
        part: Array = xp.searchsorted(starts, face, side="right") if len(starts) else xp.zeros_like(face)
        return part

    def _as(self, dtype: npt.DTypeLike, *arrays: Any) -> list[Any]:
        """Floating-point arrays in another precision. Raises UsageError unless it is float32 or float64."""
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise UsageError(f"dtype {dtype}: use float32 or float64")
        return [array.astype(dtype, copy=False) for array in arrays]

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
            results = tuple(_as_cupy(*results))
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
        return _Queries(points, order, unit, scale)


def _as_cupy(*arrays: Array) -> list[Any]:
    """Arrays of the host as CuPy arrays, for points that were."""
    from sdfcli.startup.cupy import import_cupy

    return [import_cupy().asarray(array) for array in arrays]
