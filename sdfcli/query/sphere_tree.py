"""SphereTree: a sphere tree over a mesh, built once for many poses; see kernels/contact/spheres.h."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, C, select_backend
from sdfcli.errors import InputError
from sdfcli.field.field import Field, gpu_of
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.load import MeshSource, load_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import check_scale
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.query.units import check_units, size_note
from sdfcli.runtime.log import LOG
from sdfcli.scene import Scene
from sdfcli.spatial.morton import Order, order_of

ABREAST: int = C.SPHERES_ABREAST
"""Children per node."""

FIRST = 64
"""Maximum node count on the level where a traversal begins."""


@dataclass(frozen=True)
class Level:
    """Node spheres (n, 4) float32, centres and radii in the unit cube; n is a multiple of 8, and padding nodes have a
    negative radius. count: node count without padding."""

    sphere: Array
    count: int


class SphereTree:
    """A triangle mesh, prepared for `sdfcli.contacts` at many poses.

    Args:
        source: a path, a `trimesh.Trimesh`, or a pair of arrays: vertices (v, 3) and faces (f, 3).
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        threads: CPU thread count; default: all CPUs available to the process.
        scale: factor for the mesh's coordinates, as for `sdfcli.build`.
        units: the field's unit, to which a mesh file's coordinates are converted, as for `sdfcli.build`.

    Raises:
        InputError: the mesh cannot be read or used.
        UsageError: an unknown `device`; an impossible `scale` or `units`.
        DeviceError: the device or its software is missing.
    """

    def __init__(
        self,
        source: MeshSource,
        device: str = "auto",
        threads: int | None = None,
        *,
        scale: float | None = None,
        units: str | None = None,
    ) -> None:
        check_scale(scale, units)
        self._backend: Backend = select_backend(device, threads)
        self.mesh: Mesh = load_mesh(source, scale=scale, units=units)
        self._compared = False
        with self._backend.active():
            self._order: Order = order_of(self.mesh.on(self._backend).on_device)
            self._levels: list[Level] = _levels(self._backend, self._order)
        self.mesh.release()

    def __repr__(self) -> str:
        return f"<SphereTree: {len(self.mesh.faces):,} triangles on {self._backend.name}>"

    def _compare(self, field: Field, scales: Floats) -> None:
        """Compares the mesh's unit with a field's; see query/units.py. Logs a warning about sizes once."""
        check_units(field, self.mesh.units, scales)
        if not self._compared:
            self._compared = True
            if note := size_note(field, self.mesh, scales):
                LOG.warning("%s", note)

    @cached_property
    def _solid(self) -> MeshDistance:
        """Distances to the mesh, signed by its inside."""
        return MeshDistance._of(Scene.of(self.mesh, "auto", self._backend))

    @property
    def _encloses(self) -> bool | None:
        """Whether the mesh has an inside; None until some pose needs to know."""
        asked = "_solid" in self.__dict__ and self._solid._scene.settled
        return self._solid.sign.method != "none" if asked else None

    @classmethod
    def _of(cls, mesh: MeshSource | SphereTree, poses: npt.ArrayLike, device: str, threads: int | None) -> SphereTree:
        """Returns `mesh` if already a tree; otherwise builds its tree on the CuPy poses' device, or on `device`.

        Raises InputError if a tree and CuPy poses are on different devices, and the constructor's errors.
        """
        there = gpu_of(poses)
        device = there or device
        if not isinstance(mesh, SphereTree):
            return cls(mesh, device, threads)
        if there and mesh._backend.name != device:
            raise InputError(f"the SphereTree is on {mesh._backend.name}, the poses are on {device}")
        return mesh


def _levels(backend: Backend, order: Order) -> list[Level]:
    """Levels from the finest, with single triangles, to the first with at most FIRST nodes."""
    n, levels, span = len(order), [], 1
    count, below, boxes = n, None, None
    while True:
        padded = -(-count // ABREAST) * ABREAST
        sphere = backend.empty_aligned((padded, 4), np.float32)
        box = backend.xp.empty((padded, 6), np.float32)
        out = {"triangles": n, "triangle": order.triangle, "sphere": sphere, "box": box}
        if below is None:
            backend.run("sdf_sphere_triangles", padded, **out)
        else:
            backend.run("sdf_sphere_parents", padded, span=span, children=len(below), below=below, boxes=boxes, **out)
        levels.append(Level(sphere, count))
        if count <= FIRST:
            return levels
        count, below, boxes, span = -(-count // ABREAST), sphere, box, ABREAST * span
