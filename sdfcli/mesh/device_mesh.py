"""DeviceMesh: a mesh's arrays on a device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdfcli.backend import Array, Backend, C, Group
from sdfcli.backend.packed import Packed
from sdfcli.mesh.arrays import Floats


@dataclass(frozen=True)
class DeviceMesh:
    """Vertices and faces on a device, from which kernels gather triangles.

    vertex  (v, 3) float64, in the mesh's units.
    face    (f, 3) uint32.
    domain  the cube mapped to the unit cube.
    """

    backend: Backend
    vertex: Array
    face: Array
    domain: Group

    def position(self) -> Array:
        """First vertex at each vertex's position, (v,) uint32."""
        backend, xp, count = self.backend, self.backend.xp, len(self.vertex)
        mask = (1 << (2 * count - 1).bit_length()) - 1
        table, position = backend.filled(mask + 1, C.NONE, np.uint32), xp.empty(count, np.uint32)
        backend.run("sdf_weld_enter", count, mask=mask, vertex=self.vertex, table=table)
        backend.run("sdf_weld_find", count, mask=mask, vertex=self.vertex, table=table, position=position)
        return position

    def areas(self) -> Array:
        """Twice each face's area, (f,) float64, in the unit cube."""
        area = self.backend.xp.empty(len(self.face), np.float64)
        given = {"domain": self.domain, "vertex": self.vertex, "face": self.face}
        self.backend.run("sdf_face_areas", len(area), area=area, **given)
        return area

    def sums(self, shell: Array | None, shells: int, flat: float) -> tuple[Floats, Floats, int]:
        """Twice the area and six times the volume of each shell, (shells,), in the unit cube; and the degenerate face
        count: faces with a height up to `flat` longest sides.

        shell: (f,) uint32, each face's shell; C.NONE, or None for all: not summed. Volumes are sums over tetrahedra
        with their apex at the unit cube's centre.
        """
        faces = len(self.face)
        found = Packed(self.backend, zeros=True, sums=(np.uint64, (shells, 4)), degenerate=(np.uint32, (1,)))
        self.backend.run(
            "sdf_face_sums",
            -(-faces // C.FACE_RUN),
            faces=faces,
            domain=self.domain,
            flat=flat**2,
            vertex=self.vertex,
            face=self.face,
            shell=shell,
            **found.arrays,
        )
        sums, degenerate = found.to_host().values()
        exact = sums.view(np.int64) * np.array([2.0**-28, 2.0**-60] * 2)
        return exact[:, 0] + exact[:, 1], exact[:, 2] + exact[:, 3], int(degenerate[0])
