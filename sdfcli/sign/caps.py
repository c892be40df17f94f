"""Caps: triangles that close an open surface's holes, so that its winding number is an integer."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from sdfcli.backend import Array, Backend, C, Group
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.connectivity import OpenEdges
from sdfcli.mesh.mesh import Mesh
from sdfcli.mesh.repair import cones, holes
from sdfcli.spatial.index import DistanceIndex
from sdfcli.spatial.moments import WindingIndex
from sdfcli.spatial.morton import Order, morton_order
from sdfcli.spatial.radix_tree import build_bvh, refit
from sdfcli.spatial.select import make_index

GROUPS = 64
BOX_MARGIN = C.BOX_MARGIN
"""Margin above the rounding error in a distance to a box, as in geometry/boxes.h."""
SMALL = 0.45
"""Maximum winding number of the caps that does not affect the sign."""


def cap_triangles(mesh: Mesh, open_edges: OpenEdges | None = None) -> Floats:
    """Cones (c, 9) in the unit cube over the loops of open edges, which close the surface with consistent orientation.

    An edge with k more uses in one direction gets k triangles in the other direction.

    open_edges: from the included faces; None: from all.
    """
    ends, excess = mesh.open_edges if open_edges is None else open_edges
    ends = np.repeat(np.where((excess > 0)[:, None], ends[:, ::-1], ends), np.abs(excess), axis=0)
    vertex, of_end = np.unique(ends, return_inverse=True)
    position = mesh.domain.to_unit(mesh.vertices[vertex])[of_end.reshape(-1, 2)]
    return cones(holes(ends), position[:, 0], position[:, 1])


def reach_sq(caps: Floats) -> Floats:
    """Squared ranges (n,) of triangles (n, 3, 3): beyond the square root of their sum, the total winding number is
    below SMALL, as a solid angle is at most area / distance^2."""
    side = np.cross(caps[:, 1] - caps[:, 0], caps[:, 2] - caps[:, 0])
    return np.asarray(0.5 * np.linalg.norm(side, axis=1) / (4 * np.pi * SMALL))


@dataclass(frozen=True)
class Caps:
    """The caps over an open surface's holes.

    order  the caps in Morton order.
    index  their moments.
    box    (k, 6) float32: bounds for k groups of neighbouring caps.
    area   (k,) float32: each group's sum over `reach_sq`.
    guard  distance from the caps, in the unit cube, beyond which their winding number is below SMALL.
    """

    backend: Backend
    order: Order
    index: WindingIndex
    box: Array
    area: Array
    guard: float

    @staticmethod
    def of(backend: Backend, mesh: Mesh, open_edges: OpenEdges | None = None) -> Caps | None:
        """Builds a mesh's caps; None for a closed surface. open_edges: see `cap_triangles`."""
        triangles = cap_triangles(mesh, open_edges)
        if len(triangles) == 0:
            return None
        guard = float(np.sqrt(reach_sq(triangles.reshape(-1, 3, 3)).sum()))
        order = morton_order(backend, triangles)
        index = WindingIndex.of(backend, refit(backend, build_bvh(backend, order)), boxes=True)
        groups = _groups(backend.to_host(order.triangle).astype(np.float64))
        box, area = (backend.from_host(each, np.float32) for each in groups)
        return Caps(backend, order, index, box, area, guard)

    @functools.cached_property
    def groups(self) -> Group:
        """The groups as kernels read them."""
        return self.backend.group("Caps", groups=len(self.area), box=self.box, area=self.area)

    def room(self, points: Array) -> Array:
        """Lower bounds (m,) float32 on the radius around points (m, 3) within which the caps' winding number is below
        SMALL; negative where it may be larger at the point itself."""
        room = self.backend.xp.empty(len(points), np.float32)
        self.backend.run("sdf_sign_clear", len(points), points=points, caps=self.groups, clear=room)
        return room

    @functools.cached_property
    def tree(self) -> DistanceIndex:
        """Index for distances to the caps, built on first use: few callers need it."""
        return make_index(self.backend, self.order)

    def distance(self, points: Array) -> Array:
        """Distances (m,) float32 from points (m, 3) to the nearest cap."""
        return self.tree.nearest(points)[0]


def _groups(triangles: Floats) -> tuple[Floats, Floats]:
    """Boxes (k, 6) and areas (k,) for groups of triangles (n, 9), consecutive along a curve."""
    caps = triangles.reshape(-1, 3, 3)
    groups = min(GROUPS, len(caps))
    first = len(caps) * np.arange(groups) // groups
    low = np.minimum.reduceat(caps.min(axis=1), first) - BOX_MARGIN
    high = np.maximum.reduceat(caps.max(axis=1), first) + BOX_MARGIN
    return np.concatenate([low, high], axis=1), np.add.reduceat(reach_sq(caps), first)
