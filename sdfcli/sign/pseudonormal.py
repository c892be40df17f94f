"""PseudonormalSigner: signs from angle-weighted pseudonormals (Baerentzen and Aanaes 2005)."""

from __future__ import annotations

import functools

import numpy as np

from sdfcli.backend import Array, Backend, C, Group
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.mesh import Mesh
from sdfcli.sign.propagate import KnownSigns
from sdfcli.sign.signer import Signer, Signs, clear_share, new_signs
from sdfcli.spatial.moments import WindingIndex
from sdfcli.spatial.radix_tree import Bvh


def pseudonormals(mesh: Mesh, order: Array) -> Array:
    """Outward normals (n, 7, 3) float32 for faces (n,) uint32, on the mesh's device: angle-weighted at vertices a, b, c
    and edges ab, bc, ca, and the face normal (Baerentzen and Aanaes 2005). Not normalised, as only the signs of dot
    products are used."""
    on_device, backend, xp = mesh.on_device, mesh.backend, mesh.backend.xp
    vertices, corners = len(on_device.vertex), 3 * len(on_device.face)
    welded, corner = (xp.empty(on_device.face.shape, np.uint32) for _ in range(2))
    first = xp.zeros(vertices + 1, np.uint32)
    backend.run(
        "sdf_weld_faces",
        corners,
        face=on_device.face,
        position=mesh.position,
        welded=welded,
        corners=first[:-1],
        parent=None,
    )
    backend.inclusive_scan(first)
    backend.run("sdf_corner_enter", corners, welded=welded, first=first, corner=corner)
    given = {"domain": on_device.domain, "vertex": on_device.vertex, "face": on_device.face}
    normal, normals = xp.empty((vertices, 3), np.float32), xp.empty((len(order), 7, 3), np.float32)
    lists = {"first": first, "corner": corner, "normal": normal}
    backend.run("sdf_vertex_normals", vertices, **given, **lists)
    slot = backend.filled(len(on_device.face), C.NONE, np.uint32)
    backend.run("sdf_placed", len(order), number=order, place=slot)
    rows = {"welded": welded, "triangle_id": order, "slot": slot, "normals": normals}
    backend.run("sdf_weighted_normals", len(order), **rows, **given, **lists)
    return normals


class PseudonormalSigner(Signer):
    """Sign of the dot product with the pseudonormal at the nearest vertex, edge or face."""

    method = "pseudonormal"

    def __init__(self, backend: Backend, mesh: Mesh, bvh: Bvh) -> None:
        super().__init__(backend)
        self.order, self.closed = bvh.order, mesh.health.watertight
        self._mesh = mesh

    @functools.cached_property
    def normals(self) -> Array:
        """Pseudonormals (n, 7, 3) float32 by slot, computed on first use."""
        return pseudonormals(self._mesh.on(self.backend), self.order.triangle_id)

    def prepare(self) -> None:
        self.backend.release_cached()
        _ = self.normals

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
