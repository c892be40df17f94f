"""The flood: unsigned distances on an octree, and the region that a ball reaches from the domain's corner."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sdfcli.backend import Array, Backend, C
from sdfcli.field.field import Field
from sdfcli.field.from_octree import field_of
from sdfcli.mesh.mesh import Domain, Mesh
from sdfcli.octree.grown import Limits
from sdfcli.octree.kinds import OCTREES
from sdfcli.params import BuildParams
from sdfcli.quality.estimate import memory_limit
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.scene import Scene
from sdfcli.solid.passages import opened
from sdfcli.solid.surface import unsigned
from sdfcli.spatial.morton import LATTICE_BITS

CELL = 0.5
"""Edge of the finest cells, in radii, of the default radius for larger ones: else fine parts of the mesh are lost."""
ERROR = 0.25
"""Maximum error of the distances near the surface, in such radii."""
BAND = 2.0
"""Distance from the surface, in such radii, beyond which the error may grow with the distance."""
MARGIN, LEAST_MARGIN = 3.0, 10.0
"""Minimum distance between the mesh and the domain's border, so that the ball passes around the mesh: in radii, and in
default radii."""
SHRINK = 0.9
"""Ratio of successive radii; see `Unsigned.spread`."""
SLACK = 1.2
"""Margin that a ball needs, in radii."""


@dataclass(frozen=True)
class Unsigned:
    """Distances to a mesh on an octree, fine enough for a ball's radius.

    field   unsigned distances, their leaves' levels at most `level`.
    mesh    the mesh, in the octree's domain.
    exact   exact distances to it.
    level   finest level.
    most    the largest radius for which the ball passes around the mesh, in the mesh's units.
    """

    field: Field
    mesh: Mesh
    exact: MeshDistance
    level: int
    most: float

    @classmethod
    def of(
        cls, mesh: Mesh, radius: float, default: float, backend: Backend, most_memory: int | None = None
    ) -> Unsigned:
        """Grows the octree of a mesh, for `radius` and larger ones up to `most`. default: the default radius.

        Raises OutOfMemoryError where it does not fit.
        """
        low, high = mesh.bounds
        fine, margin = min(radius, default), max(MARGIN * radius, LEAST_MARGIN * default)
        needed = float((high - low).max()) + 2 * margin
        level = max(1, math.ceil(math.log2(needed / (CELL * fine))))
        length = CELL * fine * 2**level
        placed = Mesh(mesh.vertices, mesh.faces).placed(Domain((low + high) / 2 - length / 2, length), None)
        share = {"tolerance": ERROR * fine / length, "band": BAND * fine / length}
        params = BuildParams(depth=level, sign="none", thin=0.0, **share)
        scene = Scene.of(placed.on(backend), "none", backend)
        scene.sort()
        limits = Limits.of(params, length, length, memory_limit(backend, most_memory))
        grown = OCTREES["adaptive"].build(scene, limits, None, lambda: None)
        field, _, arrived = field_of(grown, backend, placed.domain, False, False)
        arrived.get()
        exact = unsigned(placed, backend)
        return cls(opened(field, exact, level, fine, backend), placed, exact, level, margin / SLACK)

    def components(self, backend: Backend, radius: float) -> Array:
        """The component (corners,) uint32 of each corner that is farther than `radius` from the mesh, joined along leaf
        edges; 0 for the outside's. Other corners have components of their own."""
        arrays, corners = self.field._arrays_on(backend), self.field.corners
        root = backend.spaced(corners, 1)
        given = {name: arrays[name] for name in ("leaf_corner", "value")}
        backend.run("sdf_flood_join", len(given["leaf_corner"]), radius=radius, parent=root, **given)
        backend.run("sdf_shell_roots", corners, state=None, welded=None, parent=root, number=None)
        return root

    def spread(self, backend: Backend, root: Array, radius: float, fine: float) -> Array:
        """Sides at a smaller radius, as `components`: 0 outside. A corner has the side from which a larger ball reaches
        it: so gaps that `radius` closes stay closed, while the surface keeps the detail of `fine`. root: from
        `components` for `radius`.

        Labels spread from both sides at radii that shrink by SHRINK; corners that neither reaches are not outside.
        """
        arrays, xp = self.field._arrays_on(backend), backend.xp
        given = {name: arrays[name] for name in ("leaf_corner", "value")}
        free = given["value"] > np.float32(radius)
        label = xp.where(free, xp.where(root == 0, np.uint32(C.FLOOD_OUTSIDE), np.uint32(C.FLOOD_INSIDE)), np.uint32(0))
        steps = max(1, math.ceil(math.log(radius / fine) / -math.log(SHRINK)))
        for step in range(1, steps + 1):
            at = max(radius * SHRINK**step, fine)
            while True:
                following = backend.copied(label)
                many = len(given["leaf_corner"])
                backend.run("sdf_flood_grow", many, radius=at, label=label, next=following, **given)
                label, before = following, label
                if not bool((label != before).any()):
                    break
        return (label != np.uint32(C.FLOOD_OUTSIDE)).astype(np.uint32)

    def flooded(self, backend: Backend, root: Array, radius: float) -> Field:
        """Distances to the boundary of the reached region: positive in it, negative elsewhere. root: `components` or
        `spread` for the same radius."""
        value = backend.xp.empty(self.field.corners, np.float32)
        given = {"value": self.field._arrays_on(backend)["value"], "root": root}
        backend.run("sdf_flood_value", len(value), radius=radius, result=value, **given)
        return replace(self.field, distance=backend.to_host(value), step=None, parts=1)

    def pocket(self, backend: Backend, root: Array, deep: float) -> float:
        """Volume, in the mesh's units, of the leaves that are farther than `deep` from the mesh and not reached."""
        total = backend.filled(1, 0, np.uint64)
        self._pockets(backend, root, deep, total=total)
        return float(int(total[0]) * (self.field.domain.length / 2**LATTICE_BITS) ** 3)

    def room(self, backend: Backend, root: Array, deep: float) -> tuple[int, float]:
        """The component with the largest such volume, and this volume; 0, the outside, and 0.0 without any."""
        corner = self.field._arrays_on(backend)["leaf_corner"]
        component = np.asarray(backend.to_host(root[corner.reshape(-1, 8)[:, 0]]), np.int64)
        volumes = backend.xp.empty(self.field.leaves, np.float64)
        self._pockets(backend, root, deep, volume=volumes)
        volume = np.bincount(component, weights=backend.to_host(volumes))
        largest = int(volume.argmax())
        return largest, float(volume[largest]) * self.field.domain.length**3

    def _pockets(
        self, backend: Backend, root: Array, deep: float, volume: Array | None = None, total: Array | None = None
    ) -> None:
        """Volumes (leaves,) float64, in domains, of such leaves, 0 for others; and their sum (1,) uint64."""
        arrays = self.field._arrays_on(backend)
        given = {name: arrays[name] for name in ("leaf_corner", "leaf_level", "value")}
        backend.run("sdf_flood_pocket", self.field.leaves, deep=deep, root=root, volume=volume, total=total, **given)
