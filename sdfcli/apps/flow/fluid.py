"""Constants of the explicit MPS method (Koshizuka, Shibata, Murotani 2014; see docs/internals/particles.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sdfcli.backend import Backend, Group

REACH = 2.1
"""Radius of influence, in spacings."""

CONTACT = 0.9
"""Distance below which particles bounce, in spacings."""

RESTITUTION = 0.2
"""Coefficient of restitution for particles and walls."""

DENSITY = 1000.0
"""Mass density, in kg/m^3."""

VISCOSITY = 1e-6
"""Kinematic viscosity of water, in m^2/s."""

DIFFUSES = 0.5
"""Maximum share of its velocity that a particle exchanges with its neighbours per time step, for stability."""

COURANT = 0.55
"""Maximum distance sound travels per time step, in spacings."""

COINCIDENT = 1e-6
"""Distance below which two particles coincide and do not interact, in spacings."""

DIMENSIONS = 3


def weight(r: float, reach: float) -> float:
    """A neighbour's weight at distance r."""
    return reach / r - 1 if 0 < r < reach else 0.0


def lattice_sums() -> tuple[float, float]:
    """n0, the number density inside a lattice, and lambda, the mean squared neighbour distance in squared spacings."""
    steps = range(-math.ceil(REACH), math.ceil(REACH) + 1)
    squares = [x * x + y * y + z * z for x in steps for y in steps for z in steps]
    weights = [weight(math.sqrt(square), REACH) for square in squares]
    density = math.fsum(weights)
    return density, math.fsum(w * square for w, square in zip(weights, squares, strict=True)) / density


@dataclass(frozen=True)
class Fluid:
    """Particle fluid.

    spacing    particle spacing at rest, in metres.
    sound      artificial speed of sound, in m/s, about ten times the fastest flow.
    step       time step, in seconds.
    gravity    (x, y, z), in m/s^2.
    viscosity  kinematic, in m^2/s.
    """

    spacing: float
    sound: float
    step: float
    gravity: tuple[float, float, float]
    viscosity: float = VISCOSITY

    @property
    def reach(self) -> float:
        """Radius of influence, in metres."""
        return REACH * self.spacing

    @property
    def most_viscous(self) -> float:
        """Maximum stable viscosity, in m^2/s."""
        return DIFFUSES * lattice_sums()[1] * self.spacing**2 / (2 * DIMENSIONS * self.step)

    def group(self, backend: Backend) -> Group:
        """Constants as a kernel argument."""
        density, spread = lattice_sums()
        x, y, z = self.gravity
        return backend.group(
            "Fluid",
            reach=self.reach,
            least_sq=(COINCIDENT * self.spacing) ** 2,
            contact_sq=(CONTACT * self.spacing) ** 2,
            bounce=(1 + RESTITUTION) / 2,
            viscous=2 * DIMENSIONS * self.viscosity / (density * spread * self.spacing**2),
            slope=DIMENSIONS / (DENSITY * density),
            stiffness=self.sound**2 * DENSITY / density,
            density=density,
            step=self.step,
            gx=x,
            gy=y,
            gz=z,
        )
