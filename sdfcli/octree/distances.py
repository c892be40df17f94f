"""Exact signed distances at the points of an adaptive octree."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import Array, Group
from sdfcli.octree.levels import GrowableTable
from sdfcli.scene import Scene
from sdfcli.sign.propagate import KnownSigns


class ExactDistances:
    """Measures points, by index, into the columns of an octree's `points`.

    order    the triangles.
    queries  distances measured so far.
    seeds    candidate slots per point.
    """

    def __init__(self, scene: Scene, points: GrowableTable) -> None:
        self._scene, self._points, self.order, self._signer = scene, points, scene.order, scene.signer
        self.queries, self.seeds = 0, max(1, scene.index.seeds)

    @property
    def args(self) -> Group:
        """Kernel arguments: the points and their nearest triangles."""
        points, order = self._points, self.order
        if not points.groups:
            points.groups["points"] = self._scene.backend.group(
                "Points",
                triangles=len(order),
                triangle_key=order.keys,
                triangle=order.triangle,
                distance=points.signed,
                gradient=points.gradient if points.has("gradient") else None,
                slot=points.slot,
            )
        return points.groups["points"]

    def blank(self, count: int) -> tuple[Array, Array]:
        """Uninitialised positions (count, 3) float32 and candidates (count, seeds) uint32 of points to measure."""
        xp = self._scene.backend.xp
        return xp.empty((count, 3), np.float32), xp.empty((count, self.seeds), np.uint32)

    def nearest(self, position: Array, seed: Array | None) -> tuple[Array, Array]:
        """Unsigned distances (m,) float32 and nearest slots (m,) uint32 of positions (m, 3)."""
        self.queries += len(position)
        with self._scene.stages("query", self._scene.backend):
            return self._scene.nearest(position, seed)

    def measure(self, first: int, position: Array, seed: Array | None = None, known: KnownSigns | None = None) -> None:
        """Writes exact signed distances of points from index `first`, at positions (m, 3). known: signs of the same
        cells' points; None for the root's corners."""
        backend, points, part = self._scene.backend, self._points, slice(first, first + len(position))
        distance, slot = self.nearest(position, seed)
        with self._scene.stages("sign", backend):
            if known is None and self._signer.caps:
                points.clear[part] = self._signer.caps.room(position)
            signs = self._signer.sign(position, distance, slot, known)
        backend.run(
            "sdf_octree_measured",
            len(position),
            position=position,
            slot=slot,
            distance=distance,
            **signs._asdict(),
            triangle=self.order.triangle,
            nearest=points.slot[part],
            signed_distance=points.signed[part],
            gradient=points.gradient[part] if points.has("gradient") else None,
        )

    def known(self, first: int, row: Array, points: Array, level: int) -> KnownSigns:
        """Signs of older points, for new points from index `first`. row: (m,), rows of the new points' owners; points:
        (rows, 27), the points of the level's opened cells."""
        clear = self._points.clear if self._signer.caps else None
        return KnownSigns(first, row, points, 0.5 ** (level + 1), self._points.signed, clear)
