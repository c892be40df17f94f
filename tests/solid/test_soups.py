"""Soups of furniture, vehicles and plants, against floods of dense grids."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import shapes
import soups
import surfaces
from sdfcli.backend import select_backend
from sdfcli.mesh.load import make_mesh
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.solid.solidify import GAP, Solid, solid_of

RADIUS = 0.08
SPACING = RADIUS / 3
SURELY_CLOSED, SURELY_OPEN = 0.6, 1.45
"""Radii of balls that reach, on the grid, all that a ball of radius 1 may reach, and only that which it must."""


def least_of_runs(label: Any, free: Any, axis: int) -> Any:
    """`label`, where each run of free cells along an axis has its minimum."""
    moved, free = np.moveaxis(label, axis, -1), np.moveaxis(free, axis, -1)
    start = np.ones(free.shape, bool)
    start[..., 1:] = free[..., 1:] != free[..., :-1]
    first = np.flatnonzero(start)
    least = np.minimum.reduceat(moved.ravel(), first)
    runs = np.repeat(least, np.diff(np.append(first, moved.size))).reshape(moved.shape)
    return np.moveaxis(np.where(free, runs, moved), -1, axis)


def components(free: Any) -> Any:
    """The number of the first cell of each free cell's component, by faces; the cell count elsewhere."""
    label = np.where(free, np.arange(free.size).reshape(free.shape), free.size)
    while True:
        before = label
        for axis in range(3):
            label = least_of_runs(label, free, axis)
        if np.array_equal(label, before):
            return label


class Grid:
    """Distances on a dense grid around a shape."""

    def __init__(self, shape: shapes.Shape) -> None:
        low, high = (way(shape[0], axis=0) for way in (np.min, np.max))
        self.low = low - 4 * RADIUS
        self.cells = np.ceil((high + 4 * RADIUS - self.low) / SPACING).astype(int)
        index = np.indices(self.cells).reshape(3, -1).T
        self.points = self.low + SPACING * index
        self.distance = MeshDistance(shape, "none", "cpu").distance(self.points).reshape(self.cells)

    def reached(self, radius: float) -> Any:
        """Cells that a ball's centre reaches from the corner."""
        return components(self.distance > radius) == 0

    def parts(self, radius: float) -> int:
        """Components of all that the ball's centre does not reach."""
        rest = ~self.reached(radius)
        return len(np.unique(components(rest)[rest]))

    def at(self, points: Any) -> tuple[Any, ...]:
        """Cells (3, n) nearest to points (n, 3)."""
        return tuple(np.round((points - self.low) / SPACING).astype(int).T)


def widened(cells: Any, steps: int) -> Any:
    """Cells up to `steps` away along axes."""
    for axis in range(3):
        for _ in range(steps):
            cells = cells | np.roll(cells, 1, axis) | np.roll(cells, -1, axis)
    return cells


def solid(shape: shapes.Shape) -> Solid:
    return solid_of(make_mesh(*shape), GAP, RADIUS / GAP, select_backend("cpu"), measured=False)


@pytest.mark.parametrize("name", soups.MAKERS)
def test_a_soup_has_the_shells_that_are_seen(name: str) -> None:
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed", seed)
    shape = shapes.moved(soups.made(name, seed, RADIUS), turn=shapes.turn(np.random.default_rng(seed)))
    made, grid = solid(shape), Grid(shape)

    found = surfaces.topology(made)  # type: ignore[arg-type]
    assert {name: getattr(found, name) for name in surfaces.CLOSED} == surfaces.CLOSED
    manifold3d = pytest.importorskip("manifold3d")
    whole = manifold3d.Manifold(manifold3d.Mesh(made.vertices.astype(np.float32), made.faces))
    assert whole.status() == manifold3d.Error.NoError
    assert len(whole.decompose()) == made.shells
    assert grid.parts(RADIUS) == made.shells
    assert 3 <= made.shells <= 5  # two to four screws

    outside = grid.reached(SURELY_OPEN * RADIUS).ravel()
    inside = ~grid.reached(SURELY_CLOSED * RADIUS).ravel()
    signed = MeshDistance((made.vertices, made.faces), "winding", "cpu").signed_distance(grid.points)
    assert (signed[outside] > 0).all()
    deep = inside & (grid.distance.ravel() > 1.5 * RADIUS)
    assert (signed[deep] < 0).all()
    near = widened(grid.reached(SURELY_CLOSED * RADIUS), 4)  # no inner wall, also in passages of about two radii
    assert near[grid.at(made.vertices)].all()
