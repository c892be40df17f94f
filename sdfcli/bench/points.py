"""The points at which queries are compared."""

from __future__ import annotations

import numpy as np

from sdfcli.accuracy import on_surface
from sdfcli.backend import Array, Backend
from sdfcli.errors import UsageError
from sdfcli.mesh import Floats, Mesh
from sdfcli.stages.bvh_octree import bvh_octree
from sdfcli.stages.order import Order, morton_keys

POINTS = ("octree", "near", "rand", "grid")

SPREAD = 0.005
"""Standard deviation of `near`, as a fraction of the diagonal."""
PADDING = 0.05
"""By which `rand` and `grid` reach beyond the bounds, as a fraction of their longest edge."""
SEED = 1


def check_points(kind: str) -> None:
    """Raises UsageError for a word that is not in POINTS."""
    if kind not in POINTS:
        raise UsageError(f"--points {kind}: use {', '.join(POINTS)}")


def make_points(backend: Backend, mesh: Mesh, order: Order, kind: str, depth: int) -> Array:
    """Points (m, 3) float32 in the unit cube, in Morton order.

    kind: `octree`, the corners of the thesis's octree of that depth; `near`, points of the surface moved a little;
    `rand`, anywhere in the padded bounding box; `grid`, a lattice in it.
    """
    check_points(kind)
    if kind == "octree":
        return bvh_octree(backend, order, depth).position
    on_gpu = backend.xp is not np
    rng = np.random.default_rng(SEED)
    low, high = mesh.bounds
    padding = PADDING * (high - low).max()
    low, high = low - padding, high + padding
    count = 8_000_000 if on_gpu else 500_000
    points: Floats
    if kind == "near":
        points = on_surface(mesh, count, rng) + rng.normal(scale=SPREAD * mesh.diagonal, size=(count, 3))
    elif kind == "rand":
        points = rng.uniform(low, high, (count, 3))
    else:
        side = 256 if on_gpu else 80
        steps = [np.linspace(low[k], high[k], side) for k in range(3)]
        points = np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1).reshape(-1, 3)
    unit = backend.from_host(mesh.domain.to_unit(points))
    return backend.xp.ascontiguousarray(unit[backend.xp.argsort(morton_keys(backend, unit))].astype(np.float32))
