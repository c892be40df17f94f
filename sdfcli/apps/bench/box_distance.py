"""The distance between a point and a box as vectors, against the distance to the triangle in it (Park 2019, (3) to
(5))."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.apps.bench.recall import to_triangles
from sdfcli.backend import Array
from sdfcli.query.nearest_triangles import NearestTriangles, box_vectors, point_vectors
from sdfcli.scene import Scene
from sdfcli.spatial.shifted_sort import MOST_NEIGHBOURS

EDGES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, np.inf)
"""Interval ends of s / c."""

SEED = 1_729

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """Pairs of a point and a triangle with s / c from `low`, to the next interval; c is the triangle's box's diagonal,
    s the point's distance to the box's lower corner, D = sqrt(s^2 + c^2) the distance in the form `size`.

    pairs        pair count.
    root         mean of D / s, (3).
    series       mean of (s + c^2 / 2 s - c^4 / 8 s^3) / s, (4); None for s < c, where it diverges.
    size, minmax
                 mean of the forms' distances (of minmax divided by sqrt(2)) / the distance to the triangle.
    size_wrong, minmax_wrong
                 share of pairs of triangles at one point that the form ranks unlike their distances.
    """

    low: float
    pairs: int
    root: float
    series: float | None
    size: float
    minmax: float
    size_wrong: float
    minmax_wrong: float


def slots_around(scene: Scene, points: Array) -> npt.NDArray[np.int64]:
    """Slots (m, k) of the 32 nearest triangles to points (m, 3) float32 in the unit cube, and of 32 random ones, in
    random order."""
    backend, rng, count = scene.backend, np.random.default_rng(SEED), len(scene.order)
    face = backend.to_host(NearestTriangles(scene).exact(points, min(MOST_NEIGHBOURS, count))[1]).astype(np.int64)
    slot_of = np.argsort(backend.to_host(scene.order.triangle_id))
    random = rng.integers(0, count, (len(points), MOST_NEIGHBOURS))
    return rng.permuted(np.concatenate([slot_of[face], random], axis=1), axis=1)


def intervals(scene: Scene, points: Array, slots: npt.NDArray[np.int64]) -> Iterator[Interval]:
    """Intervals of s / c over points (m, 3) float32 in the unit cube, each with the triangles in slots (m, k);
    adjacent ones are compared. Intervals without pairs are left out."""
    backend = scene.backend
    true = to_triangles(scene, points, backend.from_host(slots, np.uint32))
    far = {name: _away(scene, points, slots, name) for name in ("size", "minmax")}
    far["minmax"] /= np.sqrt(2)
    box = backend.to_host(box_vectors(backend, scene.order.triangle, "size")).astype(np.float64)[slots]
    s = np.linalg.norm(box[..., :3] - backend.to_host(points)[:, None], axis=2)
    c = np.linalg.norm(box[..., 3:], axis=2)
    there = (true > 0) & (s > 0) & (c > 0)
    true, s = np.where(there, true, 1.0), np.where(there, s, 1.0)
    for low, high in itertools.pairwise(EDGES):
        own = there & (s >= low * c) & (s < high * c)
        if own.any():
            both = own[:, 1:] & own[:, :-1] & (np.diff(true, axis=1) != 0)
            yield Interval(
                low,
                int(own.sum()),
                _mean(np.sqrt(s * s + c * c) / s, own),
                _mean(1 + (c / s) ** 2 / 2 - (c / s) ** 4 / 8, own) if low >= 1 else None,
                _mean(far["size"] / true, own),
                _mean(far["minmax"] / true, own),
                *(_mean(np.diff(far[name], axis=1) * np.diff(true, axis=1) < 0, both) for name in ("size", "minmax")),
            )


def _away(scene: Scene, points: Array, slots: npt.NDArray[np.int64], form: str) -> Floats:
    """Distances (m, k) in a form between points and their triangles' boxes."""
    data, queries = box_vectors(scene.backend, scene.order.triangle, form), point_vectors(points, form)
    rows, own = (scene.backend.to_host(vectors).astype(np.float64) for vectors in (data, queries))
    return np.asarray(np.linalg.norm(rows[slots] - own[:, None], axis=2))


def _mean(values: npt.NDArray[Any], where: npt.NDArray[np.bool_]) -> float:
    return float(values[where].mean()) if where.any() else 0.0
