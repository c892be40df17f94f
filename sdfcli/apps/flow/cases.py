"""Initial states: the paper's dam break, and water boxes next to a field."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdfcli.backend import C
from sdfcli.errors import UsageError

MOST_PARTICLES = 1 << 28
"""Maximum particle count."""


@dataclass(frozen=True)
class Start:
    """Particles at rest and their domain.

    position   (n, 3) float64, in metres.
    kind       (n,) uint8: C.FLUID or C.WALL.
    low, high  (3,) float64, box: particles that leave it are removed.
    """

    position: npt.NDArray[np.float64]
    kind: npt.NDArray[np.uint8]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


def fill(box: npt.NDArray[np.float64], low: npt.ArrayLike, high: npt.ArrayLike, spacing: float) -> Start:
    """Water box with corners (2, 3) in a domain. The first particle lies half a spacing inside its lower faces."""
    counts = np.maximum(np.floor((box[1] - box[0]) / spacing + 1e-6), 1)
    count = math.prod(counts.tolist())
    if not count <= MOST_PARTICLES:
        raise UsageError(f"{count:.3g} particles are too many; use a larger spacing, or a smaller box")
    position = box[0] + spacing * (lattice(counts.astype(np.int64)) + 0.5)
    kind = np.full(len(position), C.FLUID, np.uint8)
    return Start(position, kind, np.asarray(low, np.float64), np.asarray(high, np.float64))


def lattice(counts: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Lattice nodes (n, 3), x fastest."""
    nx, ny, nz = np.asarray(counts).tolist()
    z, y, x = np.meshgrid(np.arange(nz), np.arange(ny), np.arange(nx), indexing="ij")
    return np.column_stack([x.ravel(), y.ravel(), z.ravel()])


DAM_SPACING = 0.02
"""Particle spacing in the paper's case, in metres."""

LAYERS = 3
"""Wall particle layers."""


def dam_break(scale: int = 1) -> Start:
    """Water column, 0.26 m wide and 0.52 m high, in a tank of wall particles: 19,136 particles at scale 1.

    The paper and its source, the book's sample program (Koshizuka, Shibata, Murotani 2014), have this particle count;
    the paper's case is inferred from the program. scale: refinement factor.
    """
    spacing = DAM_SPACING / scale
    inner = np.array([50, 10, 33]) * scale  # tank cells, open above
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
