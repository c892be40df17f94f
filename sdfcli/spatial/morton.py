"""(a) Morton codes, and triangles in Morton order; Hilbert order for points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, C
from sdfcli.mesh.device_mesh import DeviceMesh

MORTON_BITS: int = C.MORTON_BITS
"""Bits per axis in a code."""

LATTICE_BITS: int = C.LATTICE_BITS
"""The lattice for leaves and corners has 2^20 cells per domain edge."""


@dataclass(frozen=True)
class Order:
    """Triangles along the Morton curve. A triangle's index in this order is its slot.

    keys         (n,) uint64, sorted: 3 x 21 bits from the centroid in the unit cube. Equal keys keep mesh order; the
                 BVH distinguishes them by slot.
    triangle_id  (n,) uint32, by slot: the face in the mesh.
    triangle     (n, 9) float32, corners in the unit cube, by slot.
    """

    keys: Array
    triangle_id: Array
    triangle: Array

    def __len__(self) -> int:
        return len(self.triangle_id)


def morton_keys(backend: Backend, unit_points: Array) -> Array:
    """Morton codes (n,) uint64 for points (n, 3) float64 in the unit cube."""
    keys = backend.xp.empty(len(unit_points), np.uint64)
    backend.run("sdf_morton", len(unit_points), points=unit_points, keys=keys)
    return keys


def curve_order(backend: Backend, unit_points: Array) -> Array:
    """A permutation (n,) uint32 that sorts points (n, 3) float32 in the unit cube along the Hilbert curve."""
    keys = backend.xp.empty(len(unit_points), np.uint32)
    backend.run("sdf_curve", len(unit_points), points=unit_points, keys=keys)
    return backend.sort(keys).astype(np.uint32)


def morton(mesh: DeviceMesh) -> Array:
    """Morton codes (n,) uint64 for a mesh's face centroids in the unit cube."""
    keys = mesh.backend.xp.empty(len(mesh.face), np.uint64)
    mesh.backend.run("sdf_triangle_keys", len(keys), domain=mesh.domain, vertex=mesh.vertex, face=mesh.face, keys=keys)
    return keys


def sort(mesh: DeviceMesh, keys: Array) -> Order:
    """The faces sorted by their Morton codes (n,), which are sorted in place (the thesis, 2.3)."""
    backend, xp, n = mesh.backend, mesh.backend.xp, len(keys)
    order = backend.sort(keys)
    triangle_id, triangle = xp.empty(n, np.uint32), xp.empty((n, 9), np.float32)
    arrays = {"order": order, "triangle_id": triangle_id, "triangle": triangle}
    backend.run("sdf_triangles_sorted", 3 * n, domain=mesh.domain, vertex=mesh.vertex, face=mesh.face, **arrays)
    return Order(keys, triangle_id, triangle)


def order_of(mesh: DeviceMesh) -> Order:
    """A mesh's faces in Morton order."""
    return sort(mesh, morton(mesh))


def morton_order(backend: Backend, unit_triangles: npt.NDArray[np.float64]) -> Order:
    """Triangles (n, 9) float64 in the unit cube, from the host, in Morton order on the device."""
    vertex = backend.from_host(np.reshape(unit_triangles, (-1, 3)))
    face = backend.from_host(np.arange(len(vertex), dtype=np.uint32).reshape(-1, 3))
    return order_of(DeviceMesh(backend, vertex, face, backend.group("Domain", x=0.0, y=0.0, z=0.0, length=1.0)))
