"""Volumes of metaballs: the density of balls of equal size."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend

BAND = 1 << 24
"""Nodes per launch, in whole layers: interruptible between launches."""

BULK = math.pi * 4 * (1 / 81 - 1 / 405 + 1.5 * (1 / 30 - 1 / 81 + 1 / 162 - 1 / 1215))
"""Integral of a ball's density for radius 1: the mean density of one ball per unit volume."""


def density(
    backend: Backend,
    centre: npt.NDArray[np.float64],
    radius: float,
    spacing: float,
    nodes: tuple[int, int, int],
    least: float = 0.0,
) -> Array:
    """The balls' summed density, negated, at nodes (nx, ny, nz) float32 on the device: smaller values are inside.

    Value [i, j, k] lies at spacing x (i, j, k). A ball's density falls from 1 at its centre to 0 at its radius. Sums
    are in a fixed order: the same bits on all devices.

    centre: (n, 3), inside the grid. least: a ball at whose centre the density is smaller is denser by the quotient.
    """
    xp, run, sizes = backend.xp, backend.run, np.array(nodes, np.uint32)
    with backend.active():
        place = (np.asarray(centre, np.float64) / radius).astype(np.float32)
        cubes = ((sizes - 1) * np.float64(spacing / radius)).astype(np.uint32) + 1
        cube = np.minimum(np.maximum(place, 0).astype(np.uint32), cubes - 1)
        number = np.ravel_multi_index(tuple(cube.T), tuple(cubes)).astype(np.uint32)
        order = np.argsort(number, kind="stable")
        first = xp.empty(int(np.prod(cubes, dtype=np.int64)) + 1, np.uint32)
        run("sdf_metaballs_first", len(first), balls=len(place), cube=backend.from_host(number[order]), first=first)
        balls = backend.group(
            "Metaballs", cubes=backend.from_host(cubes), first=first, centre=backend.from_host(place[order])
        )
        weight = None
        if least:
            weight = xp.empty(len(place), np.float32)
            run("sdf_metaballs_weight", len(place), balls=balls, least=least, weight=weight)
        ask = {"balls": balls, "weight": weight, "nodes": backend.from_host(sizes), "spacing": spacing / radius}
        volume = xp.empty(nodes, np.float32)
        layers = max(1, BAND // (nodes[1] * nodes[2]))
        for layer in range(0, nodes[0], layers):
            value = volume[layer : layer + layers]
            run("sdf_metaballs", value.size, first_layer=layer, value=value.reshape(-1), **ask)
        return volume
