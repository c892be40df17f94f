"""The k nearest triangles to points: exact, or among a shifted sort's candidates (see neighbours/triangles.h)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.errors import UsageError
from sdfcli.params import FORMS
from sdfcli.scene import Scene
from sdfcli.spatial.shifted_sort import ShiftedSort, for_k


def check_form(form: str, name: str = "approximate") -> None:
    """Raises UsageError for a form not in FORMS."""
    if form not in FORMS:
        raise UsageError(f"{name} {form}: use {', '.join(FORMS)}")


def box_vectors(backend: Backend, triangle: Array, form: str) -> Array:
    """Bounding boxes of triangles (n, 9) float32 as float32 vectors in one of params.FORMS.

    `minmax`: both corners, (n, 6); `size`: lower corner and edges, (n, 6); both after Park 2019. `ball`: centre and
    half the diagonal, (n, 4), with distances equal to those in `minmax` divided by sqrt(2).
    """
    xp = backend.xp
    corner = triangle.reshape(-1, 3, 3)
    low, high = corner.min(axis=1), corner.max(axis=1)
    size = high - low
    if form == "minmax":
        return xp.concatenate([low, high], axis=1)
    if form == "size":
        return xp.concatenate([low, size], axis=1)
    square = size * size
    half = 0.5 * xp.sqrt(square[:, :1] + square[:, 1:2] + square[:, 2:])
    return xp.concatenate([0.5 * (low + high), half], axis=1).astype(np.float32)


def point_vectors(points: Array, form: str) -> Array:
    """Points (m, 3) float32 as boxes with zero size: float32 vectors matching `box_vectors` in the same form."""
    beside: Any = points if form == "minmax" else np.zeros_like(points if form == "size" else points[:, :1])
    vectors: Array = np.concatenate([points, beside], axis=1)
    return vectors


class NearestTriangles:
    """Nearest-triangle queries over a scene's mesh. A form's sort is built on first use."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._sorts: dict[str, ShiftedSort] = {}

    def __reduce__(self) -> Any:  # sorts hold device addresses
        return NearestTriangles, (self._scene,)

    def nearest(self, points: Array, k: int) -> tuple[Array, Array]:
        """`exact` as fast as the device finds it, for points sorted along a curve."""
        index = self._scene.reference
        found = index.nearest_triangles(points, k)
        if found is not None:
            return found
        _, slot = index.nearest(points)
        return self.exact(points, k, slot[:, None], k // 2)

    def exact(self, points: Array, k: int, seed: Array | None = None, around: int = 0) -> tuple[Array, Array]:
        """Finds the k nearest triangles to points (m, 3) float32 in the unit cube, ordered by distance, then by face.

        seed: (m, j) uint32, slots to start from; rows with fewer than j end with 0xffffffff. around: slots before and
        after each seed that are tested as well. Results do not depend on them.

        Returns distances (m, k) float32 and faces (m, k) uint32. If there are fewer than k: infinite, and 0xffffffff.
        """
        return self._of(points, k, seed, around, walk=True)

    def approximate(self, points: Array, k: int, form: str, shifts: int | None = None) -> tuple[Array, Array]:
        """The shifted sort's k nearest boxes in a form, with the distances to their triangles; see `exact`.

        shifts: curve count; default: all.
        """
        return self.of_seeds(points, k, self.candidates(points, k, form, shifts))

    def of_seeds(self, points: Array, k: int, seed: Array) -> tuple[Array, Array]:
        """Ranks the given triangles only; see `exact`."""
        return self._of(points, k, seed, 0, walk=False)

    def candidates(self, points: Array, k: int, form: str, shifts: int | None = None) -> Array:
        """Slots (m, k) uint32 for `approximate`."""
        if form not in self._sorts:
            vectors = box_vectors(self._scene.backend, self._scene.order.triangle, form)
            self._sorts[form] = ShiftedSort(self._scene.backend, vectors)
        return self._sorts[form].candidates(point_vectors(points, form), k, shifts)[1]

    def _of(self, points: Array, k: int, seed: Array | None, around: int, walk: bool) -> tuple[Array, Array]:
        backend, xp, bvh = self._scene.backend, self._scene.backend.xp, self._scene.bvh
        distance, face = xp.empty((len(points), k), np.float32), xp.empty((len(points), k), np.uint32)
        backend.run(
            for_k("sdf_nearest_triangles", k),
            len(points),
            triangles=len(bvh.order),
            k=k,
            walk=walk,
            seeds=0 if seed is None else seed.shape[1],
            around=around,
            points=points,
            triangle=bvh.order.triangle,
            triangle_id=bvh.order.triangle_id,
            child=bvh.child,
            box=bvh.box,
            seed=seed,
            distance=distance,
            face=face,
        )
        return distance, face
