"""Flows to begin with: the dam break of the paper, and boxes of water beside a field."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdfcli.backend import C
from sdfcli.errors import UsageError

MOST_PARTICLES = 1 << 28
"""Maximum number of particles."""


@dataclass(frozen=True)
class Start:
    """Particles at rest, and their domain.

    position   (n, 3) float64, in metres.
    kind       (n,) uint8: C.FLUID or C.WALL.
    low, high  (3,) float64: who leaves this box is gone.
    """

    position: npt.NDArray[np.float64]
    kind: npt.NDArray[np.uint8]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


def fill(box: npt.NDArray[np.float64], low: npt.ArrayLike, high: npt.ArrayLike, spacing: float) -> Start:
    """A box of water, its corners (2, 3), in a domain. The first particles are half a spacing off its faces."""
    counts = np.maximum(np.floor((box[1] - box[0]) / spacing + 1e-6), 1)
    count = math.prod(counts.tolist())
    if not count <= MOST_PARTICLES:
        raise UsageError(f"{count:.3g} particles are too many; use a larger spacing, or a smaller box")
    position = box[0] + spacing * (lattice(counts.astype(np.int64)) + 0.5)
    kind = np.full(len(position), C.FLUID, np.uint8)
    return Start(position, kind, np.asarray(low, np.float64), np.asarray(high, np.float64))


def lattice(counts: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Nodes (n, 3) of a lattice, x fastest."""
    nx, ny, nz = np.asarray(counts).tolist()
    z, y, x = np.meshgrid(np.arange(nz), np.arange(ny), np.arange(nx), indexing="ij")
    return np.column_stack([x.ravel(), y.ravel(), z.ravel()])


DAM_SPACING = 0.02
"""Distance of particles, in metres, of the paper's case."""

LAYERS = 3
"""Layers of wall particles."""


def dam_break(scale: int = 1) -> Start:
    """A column of water, 0.26 m wide and 0.52 m high, in a tank of wall particles: 19,136 particles with scale 1.

    That is the paper's number, and that of the sample program of the book that it cites (Koshizuka, Shibata, Murotani
    2014), from which the paper's case is inferred. scale: how many times finer.
    """
    spacing = DAM_SPACING / scale
    inner = np.array([50, 10, 33]) * scale  # cells of the tank, open above
    column = np.array([13, 10, 26]) * scale
    counts = inner + np.array([2 * LAYERS, 2 * LAYERS, LAYERS])
    nodes = lattice(counts) - LAYERS
    position = spacing * nodes
    beside = (nodes[:, :2] < 0).any(axis=1) | (nodes[:, :2] >= inner[:2]).any(axis=1) | (nodes[:, 2] < 0)
    water = ~beside & (nodes < column).all(axis=1)
    kind = np.where(beside, C.WALL, C.FLUID).astype(np.uint8)
    there = beside | water
    border = 0.06
    low, high = np.array([-border] * 3), np.array([1.0 + border, 0.2 + border, 1.2])
    return Start(position[there].astype(np.float64), kind[there], low, high)
