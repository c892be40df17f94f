"""Explicit MPS method in float64 over all particle pairs: written from Koshizuka, Shibata, Murotani 2014 and steps (i)
to (viii) of Tomioka et al. 2025, independent of the kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
FLUID, WALL = 0, 1
DENSITY, VISCOSITY, RESTITUTION = 1000.0, 1e-6, 0.2


def _lattice_sums(reach: float) -> tuple[float, float]:
    side = np.arange(-4, 5)
    squares = np.sum(np.stack(np.meshgrid(side, side, side)) ** 2, axis=0).ravel().astype(float)
    squares = squares[(squares > 0) & (squares < reach**2)]
    weights = reach / np.sqrt(squares) - 1
    return float(weights.sum()), float((weights * squares).sum() / weights.sum())


@dataclass
class Water:
    """Particles: x, u (n, 3); wall (n,). Particles that leave the box low to high are removed, which reduces n."""

    x: Floats
    u: Floats
    wall: npt.NDArray[np.bool_]
    low: Floats
    high: Floats
    spacing: float
    sound: float
    dt: float
    gravity: Floats
    viscosity: float = VISCOSITY

    def __post_init__(self) -> None:
        self.reach = 2.1 * self.spacing
        self.n0, spread = _lattice_sums(2.1)
        self.spread = spread * self.spacing**2
        self.number = np.arange(len(self.x))

    def step(self) -> None:
        fluid = ~self.wall[:, None]
        i, j, r, length, w = self.pairs()
        slower = self.total(i, w[:, None] * (self.u[j] - self.u[i])) - self.share(self.x)[:, None] * self.u
        viscous = 6 * self.viscosity / (self.n0 * self.spread) * slower
        self.u = self.u + fluid * self.dt * (viscous + self.gravity)
        self.x = self.x + fluid * self.dt * self.u
        self.bounce()
        i, j, r, length, w = self.pairs()
        towards = np.sum((self.u[i] - self.u[j]) * r, axis=1)
        hit = (length < 0.9 * self.spacing) & (towards > 0)
        change = ((1 + RESTITUTION) / 2 * towards / length**2)[:, None] * r
        self.u = self.u - fluid * self.total(i[hit], change[hit])
        p = self.pressure()
        least = p.copy()
        np.minimum.at(least, i, p[j])
        own = np.arange(len(p))
        pulls = self.total(i, ((p[j] - least[i]) * w / length**2)[:, None] * r)
        pulls += self.images(np.append(i, own), np.append(j, own), p, least)
        slope = 3 / self.n0 * pulls
        change = -self.dt / DENSITY * fluid * slope
        self.u, self.x = self.u + change, self.x + self.dt * change
        self.bounce()
        there = self.wall | ((self.x >= self.low) & (self.x < self.high)).all(axis=1)
        self.x, self.u, self.wall, self.number = (a[there] for a in (self.x, self.u, self.wall, self.number))

    def share(self, x: Floats) -> Floats:
        """A field wall's share of the number density (n,)."""
        return np.zeros(len(x))

    def bounce(self) -> None:
        """Keeps particles off field walls."""

    def images(self, i: npt.NDArray[np.int64], j: npt.NDArray[np.int64], p: Floats, least: Floats) -> Floats:
        """Field walls' share of the sum for the pressure gradient (n, 3); i, j: all pairs, and each particle itself."""
        return np.zeros_like(self.x)

    def pressure(self) -> Floats:
        i, _, _, _, w = self.pairs()
        density = np.bincount(i, w, len(self.x)) + self.share(self.x)
        return np.asarray(self.sound**2 * DENSITY / self.n0 * np.maximum(density - self.n0, 0))

    def pairs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats, Floats, Floats]:
        """Neighbour pairs: i, j, vector from i to j, its length, weight."""
        square = np.sum([(self.x[:, None, k] - self.x[None, :, k]) ** 2 for k in range(3)], axis=0)
        i, j = np.nonzero((square < self.reach**2) & (square > 1e-12 * self.spacing**2))
        length = np.sqrt(square[i, j])
        return i, j, self.x[j] - self.x[i], length, self.reach / length - 1

    def total(self, i: npt.NDArray[np.int64], values: Floats) -> Floats:
        return np.column_stack([np.bincount(i, values[:, k], len(self.x)) for k in range(3)])


class Tank(Water):
    """Between the faces of the box low to high, without wall particles: after Mitsume et al. 2015, the wall nearest to
    a particle shows it the mirror images of itself and its neighbours, with their pressures."""

    def nearest(self) -> tuple[Floats, Floats]:
        """Distance (n,) from the nearest face, and its normal (n, 3) into the tank."""
        faces = np.stack([self.x - self.low, self.high - self.x], axis=2).reshape(len(self.x), 6)
        face = faces.argmin(axis=1)
        normal = np.zeros_like(self.x)
        normal[np.arange(len(face)), face // 2] = 1 - 2 * (face % 2)
        return faces.min(axis=1), normal

    def bounce(self) -> None:
        """Pushes particles to 0.45 spacings from the walls."""
        for _ in range(4):
            distance, normal = self.nearest()
            out = np.maximum(0.45 * self.spacing - distance, 0)[:, None]
            into = np.minimum(np.sum(self.u * normal, axis=1), 0)[:, None] * (out > 0)
            self.x, self.u = self.x + out * normal, self.u - (1 + RESTITUTION) * into * normal

    def images(self, i: npt.NDArray[np.int64], j: npt.NDArray[np.int64], p: Floats, least: Floats) -> Floats:
        """Sum over the images of j in the nearest wall of i."""
        distance, normal = self.nearest()
        on_wall = self.x - distance[:, None] * normal
        height = np.sum((self.x[j] - on_wall[i]) * normal[i], axis=1)
        r = self.x[j] - 2 * height[:, None] * normal[i] - self.x[i]
        length = np.sqrt(np.sum(r**2, axis=1))
        near = length < self.reach
        i, j, r, length = i[near], j[near], r[near], length[near]
        return self.total(i, ((p[j] - least[i]) * (self.reach / length - 1) / length**2)[:, None] * r)
