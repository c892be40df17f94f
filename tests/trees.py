"""Trees over triangles and their queries, for tests that need no scene."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.spatial.index import DistanceIndex
from sdfcli.spatial.morton import morton_order
from sdfcli.spatial.radix_tree import Bvh, build_bvh, refit
from sdfcli.spatial.select import make_index


def make_bvh(backend: Backend, unit_triangles: Any) -> Bvh:
    """Radix tree over triangles (n, 9) in the unit cube."""
    return refit(backend, build_bvh(backend, morton_order(backend, unit_triangles)))


def index_of(backend: Backend, bvh: Bvh, query: str = "fast") -> DistanceIndex:
    """A query's index over a radix tree's triangles."""
    return make_index(backend, bvh.order, query, bvh)


def index_over(backend: Backend, unit_triangles: Any) -> DistanceIndex:
    """The `fast` index over triangles (n, 9) in the unit cube."""
    return make_index(backend, morton_order(backend, np.reshape(unit_triangles, (-1, 9))))


def nearest(
    backend: Backend, bvh: Bvh, points: Array, seed: Array | None = None, query: str = "fast"
) -> tuple[Array, Array]:
    """See DistanceIndex."""
    return index_of(backend, bvh, query).nearest(points, seed)


def visits(
    backend: Backend, bvh: Bvh, points: Array, seed: Array | None = None, query: str = "fast"
) -> tuple[Array, Array]:
    """See DistanceIndex."""
    return index_of(backend, bvh, query).visits(points, seed)
