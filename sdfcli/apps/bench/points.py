"""Point sets for query benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.errors import UsageError
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.mesh import Mesh
from sdfcli.octree.cells import SplitCells
from sdfcli.octree.corners import Corners, corners_of
from sdfcli.octree.density import bvh_octree, points_of
from sdfcli.quality.accuracy import on_surface
from sdfcli.spatial.morton import MORTON_BITS, Order, morton_keys

OCTREES = ("octree", "levels", "bvh")
"""Octrees with queried corners; see `make_octree`. `levels`: `octree`, level by level."""
POINTS = (*OCTREES, "near", "rand", "grid")

SPREAD = 0.005
"""Standard deviation of `near`, as a fraction of the diagonal."""
PADDING = 0.05
"""Margin of `rand` and `grid` around the bounds, as a fraction of their longest edge."""
SEED = 1


def check_points(kind: str) -> None:
    """Raises UsageError for a name not in POINTS."""
    if kind not in POINTS:
        raise UsageError(f"--points {kind}: use {', '.join(POINTS)}")


def make_octree(backend: Backend, order: Order, kind: str, depth: int) -> Corners:
    """Octree by kind. `octree`, `levels`: refined where a cell meets a triangle's box; `bvh`: the thesis's."""
    if kind == "bvh":
        return bvh_octree(backend, order, depth)
    finest = _cells_met(backend, order, depth - 1) << np.uint64(3 * (MORTON_BITS - depth + 1))
    splits = SplitCells(backend, backend.xp.repeat(finest, 2), depth)  # cells met, and their ancestors
    return corners_of(backend, points_of(backend, splits))


def _cells_met(backend: Backend, order: Order, level: int) -> Array:
    """Sorted Morton codes of a level's cells that meet a triangle's box."""
    xp = backend.xp
    corner = order.triangle.reshape(-1, 3, 3)
    edge = 2**level
    low, high = (
        xp.clip(xp.floor(bound * edge), 0, edge - 1).astype(np.int64) for bound in (corner.min(1), corner.max(1))
    )
    size = high - low + 1
    end = xp.cumsum(size.prod(axis=1))
    place = xp.arange(int(end[-1]))
    owner = xp.searchsorted(end, place, side="right")
    place = place - (end - size.prod(axis=1))[owner]
    across = size[owner]
    step = xp.stack(
        [place % across[:, 0], place // across[:, 0] % across[:, 1], place // (across[:, 0] * across[:, 1])], 1
    )
    middle = (low[owner] + step + 0.5) / edge
    return _unique(xp, xp.sort(morton_keys(backend, middle) >> np.uint64(3 * (MORTON_BITS - level))))


def make_points(backend: Backend, mesh: Mesh, kind: str, count: int | None = None) -> Array:
    """Points (m, 3) float32 in the unit cube.

    kind: `near`, surface points with noise, or `rand`, uniform in the padded bounding box, both in random order, by
    default 8,000,000 points on a GPU and 500,000 on the CPU; `grid`, a lattice in the same box, row by row.
    """
    on_gpu = backend.xp is not np
    rng = np.random.default_rng(SEED)
    low, high = mesh.bounds
    padding = PADDING * (high - low).max()
    low, high = low - padding, high + padding
    count = count or (8_000_000 if on_gpu else 500_000)
    points: Floats
    if kind == "near":
        points = on_surface(mesh, count, rng) + rng.normal(scale=SPREAD * mesh.diagonal, size=(count, 3))
    elif kind == "rand":
        points = rng.uniform(low, high, (count, 3))
    else:
        side = 256 if on_gpu else 80
        steps = [np.linspace(low[k], high[k], side) for k in range(3)]
        points = np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1).reshape(-1, 3)
    return backend.from_host(mesh.domain.to_unit(points), np.float32)


def _unique(xp: Any, ordered: Array) -> Array:
    """A sorted array's unique values."""
    first = xp.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]
