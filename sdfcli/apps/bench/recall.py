"""Approximate neighbours' quality, against exact neighbours and against the distance to the mesh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.apps.bench.box_encodings import Form
from sdfcli.backend import Array, C
from sdfcli.scene import Scene

BEYOND = (5, 10, 50, 100)
"""Percentages beyond the exact distance that are counted."""

EQUAL = 1e-6
"""Maximum relative difference between equal distances: triangles may share a nearest point."""


@dataclass(frozen=True)
class Quality:
    """Result quality for one form and shift count.

    points        `near` or `rand`, see points.py.
    shifts        curve count.
    recall        found share of the k nearest vectors.
    ratio         mean of found / exact distance, neighbour by neighbour; `ratio_median`; `ratio_most`: the
                  99.9th percentile.
    within_5, within_10, within_50, within_100
                  share of neighbours found at most 5, 10, 50 or 100 % beyond the exact one: the paper's (2).
    nearest       share of points with their nearest triangle, or for vertices a corner of it, among the k.
    bound         mean of (minimum distance to the k triangles, or vertices) / mesh distance; `bound_median`.
    """

    form: str
    points: str
    shifts: int
    recall: float
    ratio: float
    ratio_median: float
    ratio_most: float
    within_5: float
    within_10: float
    within_50: float
    within_100: float
    nearest: float
    bound: float
    bound_median: float


def recall(found: npt.NDArray[Any], exact: npt.NDArray[Any]) -> float:
    """Share of exact indices (m, k) uint32 among the row's found ones (m, j)."""
    there = exact != C.NONE
    hits = sum(int((there[:, j] & (found == exact[:, j, None]).any(axis=1)).sum()) for j in range(exact.shape[1]))
    return hits / int(there.sum())


class Judge:
    """Measures result quality for points (m, 3) float32 in the unit cube."""

    def __init__(self, scene: Scene, points: Array) -> None:
        self.points, self._scene, self._backend = points, scene, scene.backend
        self._slot = scene.index.nearest_in_any_order(points)[1]
        self._distance = to_triangles(scene, points, self._slot.reshape(-1, 1))[:, 0]

    def judged(
        self, form: Form, place: str, shifts: int, exact: tuple[Array, Array], found: tuple[Array, Array]
    ) -> Quality:
        """exact: distances and indices (m, k). found: squared distances and indices (m, k)."""
        (known, number), (found_sq, candidate) = (
            [self._backend.to_host(part) for part in pair] for pair in (exact, found)
        )
        distance = np.sqrt(found_sq, dtype=np.float64)
        compared = (known > 0) & np.isfinite(known)
        ratio = distance[compared] / known[compared]
        if form.name == "vertices":
            corners = self._scene.mesh.faces[self._backend.to_host(self._scene.order.triangle_id[self._slot])]
            nearest = (candidate[:, :, None] == corners[:, None, :]).any(axis=(1, 2))
            least = distance[:, 0]
        else:
            least = to_triangles(self._scene, self.points, found[1]).min(axis=1)
            nearest = least <= (1 + EQUAL) * self._distance
        off = self._distance > 0
        bound = least[off] / self._distance[off]
        return Quality(
            form.name,
            place,
            shifts,
            recall=recall(candidate, number),
            ratio=float(ratio.mean()),
            ratio_median=float(np.median(ratio)),
            ratio_most=float(np.quantile(ratio, 0.999)),
            **{f"within_{percent}": float((ratio <= 1 + percent / 100 + EQUAL).mean()) for percent in BEYOND},
            nearest=float(nearest.mean()),
            bound=float(bound.mean()),
            bound_median=float(np.median(bound)),
        )


def to_triangles(scene: Scene, points: Array, slot: Array) -> npt.NDArray[np.float64]:
    """Distances (m, k) float64 from points (m, 3) float32 in the unit cube to triangles, (m, k) uint32 slots; infinite
    for missing ones."""
    backend, xp, (m, k) = scene.backend, scene.backend.xp, slot.shape
    each, there = xp.repeat(points, k, axis=0), slot != C.NONE
    nearest = xp.empty((m * k, 3), np.float64)
    known = xp.where(there, slot, np.uint32(0)).reshape(-1)
    backend.run("sdf_closest", m * k, points=each, slot=known, triangle=scene.order.triangle, nearest=nearest)
    away = xp.sqrt(((nearest - each) ** 2).sum(axis=1)).reshape(m, k)
    return backend.to_host(xp.where(there, away, np.inf))
