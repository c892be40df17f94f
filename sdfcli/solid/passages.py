"""Narrow passages: corners beside one are free if the ball fits into its middle, so that cells need not be finer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sdfcli.backend import Backend
from sdfcli.field.field import Field, lattice_position
from sdfcli.mesh.arrays import Bools, Floats
from sdfcli.mesh.vectors import dot, length
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.solid.surface import TINY

REACH = 1.1
"""Maximum distance between a corner and a passage's middle, in finest cells' edges: beyond half a cell's diagonal, so
that corners near a slot's or a hole's middle are connected along edges."""
SLOPE = 0.95
"""Minimum slope across a cell that contains no middle between two surfaces."""
STEPS = 3
"""A corner's moves, each midway between two surfaces."""
FREE = 1.05
"""Distance given to corners that become free, in radii."""


def opened(field: Field, distances: MeshDistance, level: int, radius: float, backend: Backend) -> Field:
    """Unsigned distances `field`, in which corners beside passages that the ball takes are free.

    A corner becomes free, with the distance FREE, if the ball fits between two surfaces at most REACH away. level: the
    octree's finest.
    """
    arrays, edge = field._arrays_on(backend), field.domain.length
    reach = REACH * edge / 2**level
    beside = backend.xp.zeros(field.corners, np.uint32)
    given = {name: arrays[name] for name in ("leaf_corner", "leaf_level", "value")}
    limits = {"low": radius - reach, "high": radius, "slope": SLOPE, "length": edge}
    backend.run("sdf_flood_passages", field.leaves, beside=beside, **limits, **given)
    (corner,) = np.nonzero(backend.to_host(beside))
    points = field.domain.origin + edge * lattice_position(field.corner_key[corner])
    value = field.distance.copy()
    value[corner[takes(points, distances, radius, reach)]] = FREE * radius
    made = replace(field, distance=value, step=None, parts=1)
    made._keep_on(backend, {**arrays, "value": backend.from_host(value)})
    return made


def takes(points: Floats, distances: MeshDistance, radius: float, reach: float) -> Bools:
    """Whether a ball fits at most `reach` away from points (n, 3), midway between surfaces: (n,).

    A point moves midway between its nearest surface and the opposite one, then again if a third one is nearer there, as
    in a hole.
    """
    fits, here = np.zeros(len(points), bool), points.copy()
    left = np.arange(len(points))
    for _ in range(STEPS):
        start = here[left]
        one = distances.closest(start)[0]
        two = distances.closest(start + reach * _unit(start - one))[0]
        across = _unit(two - one)
        here[left] += dot(across, (one + two) / 2 - start)[:, None] * across
        moved = here[left] - points[left]
        left = left[dot(moved, moved) <= reach * reach]
        wide = distances.distance(here[left]) > radius
        fits[left[wide]] = True
        left = left[~wide]
    return fits


def _unit(way: Floats) -> Floats:
    """Vectors (n, 3) scaled to length 1; 0 stays."""
    result: Floats = way / np.maximum(length(way), TINY)[:, None]
    return result
