"""Training samples for DeepSDF (Park et al. 2019, section 5.1 and supplement)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError
from sdfcli.extract.isosurface import isosurface
from sdfcli.extract.marching_cubes import Surface
from sdfcli.field.field import Field

Floats = npt.NDArray[np.float64]

NEAR = 0.94
"""Share of samples near the surface, as in DeepSDF's program (47 of 50); the others are uniform."""
VARIANCES = (0.0025, 0.00025)
"""Noise variances for points near the surface, each for half the points, with the shape in the unit sphere."""
BUFFER = 1.03
"""Unit sphere radius, in shape radii."""
BATCH = 1 << 20
"""Samples per batch."""


def write_samples(path: Path, field: Field, count: int, seed: int, normalized: bool) -> tuple[int, int]:
    """Writes `pos` (n, 4) and `neg` (m, 4) float32, rows of x, y, z and signed distance; returns n and m.

    n + m is count; 0 counts as positive. Points and distances are in the mesh's units or, if normalized, moved and
    scaled so that the surface lies in the unit sphere: (point + offset) * scale, with `offset` (3,) and `scale` in the
    file. All points lie in the field's domain. The same seed gives the same file.

    Raises InputError for a field without signs.
    """
    if field.info.get("sign") == "none":
        raise InputError("the field has no signs: there are no inner points to sample")
    surface = isosurface(field)
    low, high = surface.vertices.min(axis=0), surface.vertices.max(axis=0)
    offset = -(low + high) / 2
    radius = BUFFER * float(np.linalg.norm(surface.vertices + offset, axis=1).max())
    sides: tuple[list[Floats], list[Floats]] = ([], [])
    for points in _points(field, surface, radius, count, np.random.default_rng(seed)):
        distance = field.sample(points)[:, None]
        rows = np.hstack([(points + offset) / radius, distance / radius] if normalized else [points, distance])
        inside = distance[:, 0] < 0
        sides[0].append(rows[~inside].astype(np.float32))
        sides[1].append(rows[inside].astype(np.float32))
    positive, negative = (np.concatenate(side) for side in sides)
    with open(path, "wb") as file:
        np.savez(file, pos=positive, neg=negative, offset=offset, scale=1 / radius)
    return len(positive), len(negative)


def _points(field: Field, surface: Surface, radius: float, count: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Points near the surface, then uniform ones in the domain; points outside the domain are redrawn."""
    corner = surface.vertices[surface.faces]
    area = np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1).cumsum()
    near = round(NEAR * count)
    shares = [(near - near // 2, VARIANCES[0]), (near // 2, VARIANCES[1]), (count - near, None)]
    low, length = field.domain.origin, field.domain.length
    for share, variance in shares:
        made = 0
        while made < share:
            n = min(share - made, BATCH)
            if variance is None:
                points = low + length * rng.random((n, 3))
            else:
                face = np.searchsorted(area, area[-1] * rng.random(n), side="right")
                noise = radius * variance**0.5 * rng.normal(size=(n, 3))
                points = _on_triangles(corner[np.minimum(face, len(area) - 1)], rng) + noise
            points = points[((points >= low) & (points <= low + length)).all(axis=1)]
            made += len(points)
            yield points


def _on_triangles(corner: Floats, rng: np.random.Generator) -> Floats:
    """One uniform point on each triangle (n, 3, 3)."""
    u, v = rng.random((2, len(corner), 1))
    over = u + v > 1
    u, v = np.where(over, 1 - u, u), np.where(over, 1 - v, v)
    return np.asarray(corner[:, 0] + u * (corner[:, 1] - corner[:, 0]) + v * (corner[:, 2] - corner[:, 0]))
