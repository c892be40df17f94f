"""Sheets, that is walls and gaps whose two sides lie close to each other: which ones an octree can afford to keep."""

from __future__ import annotations

import numpy as np

from sdfcli.mesh.arrays import Floats
from sdfcli.params import SHEET_CELL

NO_SHEETS = float(np.float32(3.402823466e38))
"""A least thickness above which there are no sheets. As in octree/sheets.h."""
LEAVES = 2.0
"""Leaves for each of the cells into which those with both sides of a sheet are divided by halving along two axes, what
balance asks for included: 0.4 to 1.8 were measured on plates."""
MOST_LEAVES = 10_000_000
"""More are not spent on sheets by default."""
SPARED = 1.1
"""A sheet has not quite the same thickness everywhere: all of it is given up, or nothing."""


def affordable(width: Floats, edge: float, thin: float, share: float) -> float:
    """The least thickness, `thin` or more, at which the sheets of cells with this edge take MOST_LEAVES at most.

    width: (n,), of the sheets in cells, `share` of all; all lengths in edges of the domain.
    """
    halvings = np.ceil(np.log2(edge / (SHEET_CELL * width.astype(np.float64))))
    cost = np.where(halvings > 0, LEAVES * 4.0**halvings / share, 0.0)
    if cost.sum() <= MOST_LEAVES:
        return thin
    order = np.argsort(-width, kind="stable")
    last = int(np.searchsorted(np.cumsum(cost[order]), MOST_LEAVES, side="right"))
    return SPARED * float(width[order[last]])
