"""(a) Triangles in Morton order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.mesh import Floats


@dataclass(frozen=True)
class Order:
    """Triangles along the Morton curve. A triangle's place in this order is called its slot.

    keys         (n,) uint64, sorted: 3 x 21 bits of the centroid in the unit cube. Equal keys keep the mesh's order,
                 and the BVH tells them apart by their slot, so that every slot's key is unique.
    triangle_id  (n,) uint32, slot to the mesh's face number.
    triangle     (n, 9) float32, corners in the unit cube, by slot.
    """

    keys: Array
    triangle_id: Array
    triangle: Array

    def __len__(self) -> int:
        return len(self.keys)


def morton_keys(backend: Backend, unit_points: Array) -> Array:
    """Morton codes (n,) uint64 of points (n, 3) float64 in the unit cube."""
    keys = backend.xp.empty(len(unit_points), np.uint64)
    backend.run("sdf_morton", len(unit_points), points=unit_points, keys=keys)
    return keys


def morton_order(backend: Backend, unit_triangles: Floats) -> Order:
    """Sorts triangles (n, 9), float64 in the unit cube, by their centroids' Morton codes (the thesis, section 2.3)."""
    triangles = backend.from_host(unit_triangles)
    keys = morton_keys(backend, (triangles[:, 0:3] + triangles[:, 3:6] + triangles[:, 6:9]) / 3.0)
    order = backend.sort_order(keys)
    return Order(keys[order], order, triangles[order].astype(np.float32))
