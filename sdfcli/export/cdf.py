"""Discregrid's `.cdf` files, which Bullet takes as collision shapes: cubic serendipity elements, 32 nodes a cell."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from sdfcli.export.lattice import PIECE, Distances, Lattice, check_fits

BYTES = 32 * 8 * 5
"""Working bytes per cell."""
CORNERS = [(i, j, k) for k in (0, 3) for j in (0, 3) for i in (0, 3)]
ENDS = [(a, b) for a in (0, 3) for b in (0, 3)]
NODES = np.array(
    CORNERS
    + [(t, a, b) for a, b in ENDS for t in (1, 2)]
    + [(a, t, b) for b, a in ENDS for t in (1, 2)]
    + [(a, b, t) for a, b in ENDS for t in (1, 2)]
)
"""A cell's nodes, in thirds of its edge: its corners, then two on each edge along x, y, z."""


def write_cdf(path: Path, field: Distances, lattice: Lattice) -> None:
    """Writes float64 values at the nodes of the cells between lattice points. Raises OutOfMemoryError."""
    cells = np.array(lattice.shape) - 1
    count = int(cells.prod())
    check_fits(BYTES * count)
    cell = np.stack(np.unravel_index(np.arange(count), cells[::-1]), axis=1)[:, None, ::-1]
    at = (3 * cell + NODES).reshape(-1, 3)
    side = 3 * cells + 1
    code = (at[:, 2] * side[1] + at[:, 1]) * side[0] + at[:, 0]
    used = np.zeros(side.prod(), np.bool_)
    used[code] = True
    known, number = np.flatnonzero(used), (np.cumsum(used, dtype=np.uint32) - np.uint32(1))[code]
    rest, i = np.divmod(known, side[0])
    k, j = np.divmod(rest, side[1])
    node = np.stack((i, j, k), axis=1)
    value = np.empty(len(node), "<f8")
    for first in range(0, len(node), PIECE):
        part = slice(first, first + PIECE)
        value[part] = field.sample(lattice.origin + node[part] * (lattice.spacing / 3))
    high = lattice.origin + cells * lattice.spacing
    with open(path, "wb") as file:
        file.write(struct.pack("<6d", *lattice.origin, *high))
        file.write(struct.pack("<3I", *cells))
        file.write(struct.pack("<6d", *[lattice.spacing] * 3, *[1 / lattice.spacing] * 3))
        file.write(struct.pack("<QQ", count, 1))  # cells, and fields: one
        for rows, array in (
            (len(value), value),
            (count, number.astype("<u4", copy=False)),  # each cell's nodes
            (count, np.arange(count, dtype="<u4")),  # the cells' places: all are stored
        ):
            file.write(struct.pack("<QQ", 1, rows) + array.tobytes())
