"""Narrow passages: corners beside one are free if the ball fits into its middle, so that cells need not be finer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.field.field import Field
from sdfcli.query.mesh_distance import MeshDistance

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
    beside = backend.filled(field.corners, 0, np.uint8)
    given = {name: arrays[name] for name in ("leaf_corner", "leaf_level", "value")}
    limits = {"low": radius - reach, "high": radius, "slope": SLOPE, "length": edge}
    backend.run("sdf_passage_corners", field.leaves, beside=beside, **limits, **given)
    corner = backend.compact(beside)
    points = backend.xp.empty((len(corner), 3), np.float64)
    place = {"domain": field.domain.group(backend), "corner_key": backend.from_host(field.corner_key)}
    backend.run("sdf_passage_points", len(corner), corner=corner, point=points, **place)
    fits, value = takes(points, distances, radius, reach, backend), backend.copied(arrays["value"])
    backend.run("sdf_passage_opened", len(corner), free=FREE * radius, corner=corner, fits=fits, value=value)
    made = replace(field, distance=backend.to_host(value), step=None, parts=1)
    made._keep_on(backend, {**arrays, "value": value})
    return made


def takes(points: Array, distances: MeshDistance, radius: float, reach: float, backend: Backend) -> Array:
    """Whether a ball fits at most `reach` away from points (n, 3) float64, midway between surfaces: (n,) uint8.

    A point moves midway between its nearest surface and the opposite one, then again if a third one is nearer there, as
    in a hole. Points and result are on the device.
    """
    xp, left, here = backend.xp, backend.spaced(len(points), 1), backend.copied(points)
    fits = backend.filled(len(points), 0, np.uint8)
    for _ in range(STEPS):
        one, two = distances.closest(here)[0], xp.empty_like(here)
        backend.run("sdf_passage_opposite", len(left), reach=reach, point=here, nearest=one, opposite=two)
        two, kept = distances.closest(two)[0], xp.empty(len(left), np.uint8)
        ends = {"one": one, "two": two, "point": points}
        backend.run("sdf_passage_middle", len(left), reach=reach, number=left, here=here, near=kept, **ends)
        near = backend.compact(kept)
        left, here, kept = backend.taken(left, near), backend.taken(here, near), kept[: len(near)]
        away = distances.distance(here)
        backend.run("sdf_passage_fits", len(left), radius=radius, number=left, distance=away, fits=fits, narrow=kept)
        narrow = backend.compact(kept)
        left, here = backend.taken(left, narrow), backend.taken(here, narrow)
    return fits
