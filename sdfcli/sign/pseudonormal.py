"""PseudonormalSigner: signs by angle-weighted pseudonormals (Baerentzen and Aanaes 2005)."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, Group
from sdfcli.mesh.arrays import Floats, Ints, pieces
from sdfcli.mesh.mesh import Mesh
from sdfcli.mesh.topology import edge_numbers
from sdfcli.sign.propagate import KnownSigns
from sdfcli.sign.signer import Signer, Signs, clear_share, new_signs
from sdfcli.spatial.moments import WindingIndex
from sdfcli.spatial.radix_tree import Bvh


def corner_angles(mesh: Mesh) -> Floats:
    """The faces' angles (f, 3) at their corners, in radians."""
    angle = np.empty((len(mesh.faces), 3))
    for part in pieces(len(mesh.faces)):
        corner = mesh.triangles(part).reshape(-1, 3, 3)
        side = corner[:, [1, 2, 0]] - corner
        # |u x v|, twice the area, is the same at all corners.
        length = np.linalg.norm(mesh.normals[part], axis=1, keepdims=True)
        angle[part] = np.arctan2(length, np.einsum("fij,fij->fi", side, -side[:, [2, 0, 1]]))
    return angle


def pseudonormals(mesh: Mesh, order: Ints) -> npt.NDArray[np.float32]:
    """Outward normals (n, 7, 3) of faces (n,): angle-weighted at the vertices a, b, c, at the edges ab, bc, ca, and of
    the face (Baerentzen and Aanaes 2005). Not normalised, as only signs of products with them are used."""
    edge = edge_numbers(mesh.welded)
    length = np.linalg.norm(mesh.normals, axis=1)
    length[length == 0] = 1.0
    result = np.empty((len(order), 7, 3), np.float32)
    for axis in range(3):  # one by one: a third of the memory
        normal = mesh.normals[:, axis] / length
        result[:, 3:6, axis] = np.bincount(edge.ravel(), weights=np.repeat(normal, 3))[edge[order]]
        result[:, 6, axis] = normal[order]
    del edge
    angle, vertex = corner_angles(mesh), mesh.welded
    for axis in range(3):
        normal = mesh.normals[:, axis] / length
        result[:, :3, axis] = np.bincount(vertex.ravel(), weights=(angle * normal[:, None]).ravel())[vertex[order]]
    return result


class PseudonormalSigner(Signer):
    """Sign of the product with the pseudonormal of the nearest vertex, edge or face."""

    method = "pseudonormal"

    def __init__(self, backend: Backend, mesh: Mesh, bvh: Bvh) -> None:
        super().__init__(backend)
        self.order, self.closed = bvh.order, mesh.health.watertight
        self._of_slots = [pseudonormals(mesh, backend.to_host(self.order.triangle_id)).reshape(-1, 21)]

    @functools.cached_property
    def normals(self) -> Array:
        """Pseudonormals (n, 21) float32 by slot, copied to the device on first use."""
        return self.backend.from_host(self._of_slots.pop())

    def inside(self, points: Array, slot: Array) -> Array:
        result = self.backend.xp.empty(len(points), np.uint8)
        self.backend.run(
            "sdf_pseudonormal",
            len(points),
            points=points,
            slot=slot,
            triangle=self.order.triangle,
            normals=self.normals,
            inside=result,
        )
        return result.view(bool)

    def sign(self, points: Array, distance: Array, slot: Array, known: KnownSigns | None) -> Signs:
        return Signs(normals=self.normals)

    def for_kernels(self) -> Group:
        return new_signs(self.backend, normals=self.normals)

    def confidence(self, points: Floats) -> float | None:
        if self.closed or len(points) == 0:
            return 1.0 if len(points) else None
        return clear_share(WindingIndex.among(self.backend, self.order), points)
