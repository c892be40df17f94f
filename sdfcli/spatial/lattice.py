"""WindingLattice: winding numbers for closed surfaces, from counted crossings (see kernels/sign/lattice.h)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdfcli.backend import WARP, Array, C, Group
from sdfcli.spatial.moments import BETA, WindingIndex, winding_by_warps

SIDE = 256
"""Nodes along a lattice edge."""


def pays(index: WindingIndex) -> bool:
    """Whether the lattice is the fastest way to many winding numbers: on a GPU, with the node boxes stored."""
    return index.backend.warps and index.box is not None


@dataclass(frozen=True)
class WindingLattice:
    """Winding numbers at the nodes of a lattice over the unit cube, for a surface closed by itself or by caps.

    index   the surface.
    caps    the triangles closing its holes; None: it is closed.
    groups  the caps in groups (see sign/caps.h); None without caps.
    side    nodes along an edge.
    number  (side^3,) uint8: 128 + the winding number, caps included; 0: unknown.
    """

    index: WindingIndex
    caps: WindingIndex | None
    groups: Group | None
    side: int
    number: Array

    @staticmethod
    def of(index: WindingIndex, caps: WindingIndex | None, groups: Group | None) -> WindingLattice:
        """Builds the lattice: finds the columns crossed by each triangle, then sums along columns."""
        backend, xp = index.backend, index.backend.xp
        side, columns = SIDE, SIDE * SIDE
        change = xp.zeros((side + 1, columns), np.uint32)
        unsure, number = xp.zeros(columns, np.uint8), xp.empty(side * columns, np.uint8)
        for each in filter(None, (index, caps)):
            threads = each.triangles * C.LATTICE_ROWS
            backend.run("sdf_lattice_cross", threads, side=side, tree=each.group, change=change, unsure=unsure)
        backend.run("sdf_lattice_sum", columns, side=side, change=change, unsure=unsure, number=number)
        return WindingLattice(index, caps, groups, side, number)

    def winding(self, points: Array, distance: Array) -> Array:
        """Winding numbers (m,) float32 at points (m, 3) float32, on the right side of 0.5; see WindingIndex.decided.

        distance: (m,) float32, unsigned, from the surface. Fast for points sorted along a curve.
        """
        backend, xp, n = self.index.backend, self.index.backend.xp, len(points)
        winding = xp.empty(n, np.float32)
        queried = backend.group(
            "LatticePoints",
            points=points,
            distance=distance,
            lattice=backend.group("SignLattice", side=self.side, number=self.number),
            tree=self.index.group,
            caps=None if self.caps is None else self.caps.group,
            groups=self.groups,
        )
        unsettled, many = xp.empty(n, np.uint32), xp.zeros(1, np.uint32)
        backend.run(
            "sdf_lattice_winding",
            WARP * -(-n // C.RUN),
            count=n,
            queried=queried,
            winding=winding,
            unsettled=unsettled,
            many=many,
        )
        winding_by_warps(self.index, points, winding, BETA, (unsettled, many), self.caps, closed=True)
        return winding
