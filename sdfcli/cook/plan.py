"""Plan: the grid and the build that keep a tolerance, for simulators that interpolate distances between grid points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdfcli.cook.config import BAND, CELLS, CookConfig
from sdfcli.cook.part import Part
from sdfcli.errors import InputError
from sdfcli.params import BuildKeywords

FIELD_SHARE = 1 / 8
"""The field's share of the tolerance. A grid with the tolerance as its cell adds at most sqrt(3)/2 tolerances:
distances change by no more than the length moved, and a point's mean distance to its cell's corners, with their
trilinear weights, is at most half the diagonal."""
BEYOND = 8
"""Cells around the box in the field's domain: grids end at whole cells, or blocks of 8."""
STEP = 2 ** (1 / 4)
"""Factor between cells tried for a size limit."""


@dataclass(frozen=True)
class Plan:
    """A grid's box and cell, in metres.

    tolerance  maximum error within the band.
    band       distance from the surface.
    low, high  (3,) float64: the box, with its margin.
    cell       a grid cell's edge.
    """

    tolerance: float
    band: float
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    cell: float

    def cells(self, multiple: int = 1) -> npt.NDArray[np.int64]:
        """Cells along x, y, z that cover the box (3,), in multiples."""
        count = np.ceil((self.high - self.low) / self.cell / multiple - 1e-6).astype(np.int64)
        return np.asarray(np.maximum(count, 1) * multiple)


def plan_for(
    config: CookConfig,
    part: Part,
    preset: int,
    size: Callable[[Plan], float],
    *,
    ratio: float = 1.0,
    margin: float | None = None,
) -> Plan:
    """The plan for a part.

    preset: cells along the longest side where the configuration is silent.
    size: the files' bytes. A preset's cells are enlarged until `max_bytes` holds.
    ratio: cell edge in tolerances.
    margin: preset in metres. None: the band or, if larger, 0.1 longest sides.

    Raises InputError if all vertices are one point, and where `max_bytes` or the largest grid contradict the tolerance.
    """
    low, high = part.vertices.min(axis=0), part.vertices.max(axis=0)
    longest = float((high - low).max())
    if not longest > 0:
        raise InputError(f"{part.place}: all vertices are one point; remove this collision mesh")
    if config.cells is not None:
        cell = longest / config.cells
    else:
        cell = longest / preset if config.tolerance is None else ratio * config.tolerance
    if longest / cell > CELLS[1] * (1 + 1e-6):
        raise InputError(
            f"{part.place}: a tolerance of {config.tolerance:g} m asks for {longest / cell:.0f} cells, and grids have "
            f"up to {CELLS[1]}; use --tolerance {longest / CELLS[1] / ratio:.2g} or more"
        )

    def with_cell(cell: float) -> Plan:
        tolerance = cell / ratio if config.tolerance is None else config.tolerance
        band = BAND * tolerance if config.band is None else config.band
        space = max(longest / 10, band) if margin is None else margin
        if config.margin is not None:
            space = config.margin
        return Plan(tolerance, band, low - space, high + space, cell)

    made = with_cell(cell)
    while config.max_bytes is not None and size(made) > config.max_bytes:
        free = config.tolerance is None and config.cells is None
        if not free or longest / made.cell < CELLS[0]:
            change = "a larger --max-bytes" if free else "a larger --tolerance or --max-bytes"
            raise InputError(
                f"{part.place}: {size(made) / 1e6:.3g} MB with cells of {made.cell:.3g} m, and --max-bytes allows "
                f"{config.max_bytes / 1e6:.3g} MB; use {change}"
            )
        made = with_cell(made.cell * STEP)
    return made


def build_parameters(plan: Plan, part: Part) -> BuildKeywords:
    """Build parameters for a plan's share of the tolerance, in a domain around its box."""
    diagonal = part.diagonal
    edge = float((plan.high - plan.low).max()) + 2 * BEYOND * plan.cell
    corner = (plan.low + plan.high - edge) / 2
    return BuildKeywords(
        tolerance=min(FIELD_SHARE * plan.tolerance / diagonal, 0.1),
        band=min(plan.band / diagonal, 0.9),
        domain=(float(corner[0]), float(corner[1]), float(corner[2]), edge),
    )


def area_of(part: Part) -> float:
    """Surface area, in square metres."""
    a, b, c = (part.vertices[part.faces[:, k]] for k in range(3))
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)
