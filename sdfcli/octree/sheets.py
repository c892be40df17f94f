"""Sheets (thin walls and gaps): the minimum thickness resolved within an octree's leaf budget."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import C
from sdfcli.mesh.arrays import Floats
from sdfcli.params import SHEET_CELL

NO_SHEETS = float(np.float32(C.NO_SHEET))
"""Minimum thickness that excludes all sheets, as in octree/sheets.h."""
LEAVES = 2.0
"""Leaves per cell of a sheet, with leaves for balance, if cells are halved along two axes (measured: 0.4 to 1.8 on
plates)."""
MOST_LEAVES = 10_000_000
"""Default maximum leaf count for sheets."""
SPARED = 1.1
"""Thickness margin, so that a sheet with slightly varying thickness is kept or dropped as a whole."""


def affordable(width: Floats, edge: float, thin: float, share: float) -> float:
    """The minimum thickness, at least `thin`, at which sheets take at most MOST_LEAVES leaves.

    width: (n,) sheet thicknesses in cells with this edge, a `share` of all cells. Lengths in domain edges.
    """
    halvings = np.ceil(np.log2(edge / (SHEET_CELL * width.astype(np.float64))))
    cost = np.where(halvings > 0, LEAVES * 4.0**halvings / share, 0.0)
    if cost.sum() <= MOST_LEAVES:
        return thin
    order = np.argsort(-width, kind="stable")
    last = int(np.searchsorted(np.cumsum(cost[order]), MOST_LEAVES, side="right"))
    return SPARED * float(width[order[last]])
