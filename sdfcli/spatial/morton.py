"""(a) Morton codes, and triangles in Morton order; Hilbert order of points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, C

MORTON_BITS: int = C.MORTON_BITS
"""Bits per axis of a code."""

LATTICE_BITS: int = C.LATTICE_BITS
"""The lattice of leaves and corners has 2^20 cells per edge of the domain."""


@dataclass(frozen=True)
class Order:
    """Triangles along the Morton curve. A triangle's index in this order is its slot.

    keys         (n,) uint64, sorted: 3 x 21 bits of the centroid in the unit cube. Equal keys keep the mesh's order;
                 the BVH distinguishes them by slot.
    triangle_id  (n,) uint32, by slot: the face in the mesh.
    triangle     (n, 9) float32, corners in the unit cube, by slot.
    """

    keys: Array
    triangle_id: Array
    triangle: Array

    def __len__(self) -> int:
        return len(self.triangle_id)


def morton_keys(backend: Backend, unit_points: Array) -> Array:
    """Morton codes (n,) uint64 of points (n, 3) float64 in the unit cube."""
    keys = backend.xp.empty(len(unit_points), np.uint64)
    backend.run("sdf_morton", len(unit_points), points=unit_points, keys=keys)
    return keys


def curve_order(backend: Backend, unit_points: Array) -> Array:
    """The order (n,) uint32 of points (n, 3) float32 in the unit cube along the Hilbert curve."""
    keys = backend.xp.empty(len(unit_points), np.uint32)
    backend.run("sdf_curve", len(unit_points), points=unit_points, keys=keys)
    return backend.sort(keys).astype(np.uint32)


def morton(backend: Backend, triangles: Array) -> Array:
    """Morton codes (n,) uint64 of the centroids of triangles (n, 9) float64 in the unit cube."""
    keys = backend.xp.empty(len(triangles), np.uint64)
    backend.run("sdf_triangle_keys", len(triangles), corners=triangles, keys=keys)
    return keys


def sort(backend: Backend, triangles: Array, keys: Array) -> Order:
    """Triangles (n, 9) float64 sorted by their Morton codes (n,), which are sorted in place (the thesis, 2.3)."""
    xp, n = backend.xp, len(keys)
    order = backend.sort(keys)
    triangle_id, triangle = xp.empty(n, np.uint32), xp.empty((n, 9), np.float32)
    arrays = {"order": order, "corners": triangles, "triangle_id": triangle_id, "triangle": triangle}
    backend.run("sdf_triangles_sorted", 9 * n, **arrays)
    return Order(keys, triangle_id, triangle)


def morton_order(backend: Backend, unit_triangles: npt.NDArray[np.float64]) -> Order:
    """Triangles (n, 9) float64 in the unit cube, from the host, in Morton order on the device."""
    triangles = backend.from_host(unit_triangles)
    return sort(backend, triangles, morton(backend, triangles))
