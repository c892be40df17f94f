"""The water's surface: a level of its particles' density, by marching cubes."""

from __future__ import annotations

import numpy as np

from sdfcli.apps.flow.run import Flow, State
from sdfcli.backend import C
from sdfcli.extract.marching_cubes import Surface, extract
from sdfcli.extract.metaballs import BULK, density
from sdfcli.extract.sources import VolumeSource

RADIUS = 2.5
"""Radius of a particle's ball, in spacings: smooth; at 1.5, single particles show."""

CELL = 0.5
"""Grid cell, in spacings."""

LEVEL = 0.5 * BULK * RADIUS**3
"""Half the density inside the water."""

DROP = (3 / (4 * np.pi)) ** (1 / 3) / RADIUS
"""Radius of a sphere with a particle's volume, in radii of its ball."""

LEAST = LEVEL / (1 - 3 * DROP**2)
"""Density at a particle that has none around it, so that its surface is that sphere."""


def water_surface(flow: Flow, state: State) -> Surface:
    """The water's closed surface, in metres, the same on all devices and threads; empty without water.

    Surfaces of all states have nodes on one lattice.
    """
    spacing = flow.fluid.spacing
    cell, place = CELL * spacing, state.place[state.kind == C.FLUID].astype(np.float64)
    if not len(place):
        return Surface(np.empty((0, 3)), np.empty((0, 3), np.uint32), False)
    first = np.floor(place.min(axis=0) / cell - RADIUS / CELL).astype(np.int64)
    last = np.ceil(place.max(axis=0) / cell + RADIUS / CELL).astype(np.int64)
    nodes = tuple(map(int, last - first + 1))
    volume = density(flow.backend, place - first * cell, RADIUS * spacing, cell, nodes, LEAST)  # type: ignore[arg-type]
    return extract(VolumeSource(volume, -LEVEL, cell, state.origin + first * cell), [flow.backend])
