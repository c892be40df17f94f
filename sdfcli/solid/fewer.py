"""Fewer faces for a closed mesh, by edge collapses that keep it manifold."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from sdfcli.errors import DeviceError
from sdfcli.mesh.mesh import Mesh

SMALLEST = 1e-6
"""Tolerance of the first attempt, in bounding box diagonals."""
HALVINGS = 3
"""Attempts between the last tolerance that leaves too many faces and its double, on a logarithmic scale."""


def fewer_faces(mesh: Mesh, count: int, largest: float) -> Mesh:
    """A closed mesh with at most `count` faces, manifold as before; more where the tolerance `largest` leaves more.

    Raises DeviceError without manifold3d.
    """
    try:
        library = import_module("manifold3d")
    except ImportError as error:
        raise DeviceError("--faces needs manifold3d: pip install 'sdfcli[solid]'") from error
    given = library.Mesh64(np.ascontiguousarray(mesh.vertices), mesh.faces.astype(np.uint64))
    best, tolerance = library.Manifold(given), SMALLEST * mesh.diagonal
    # From tolerance to tolerance: one large step would leave more faces, and move them farther.
    while best.num_tri() > count and tolerance <= largest:
        coarse = best.simplify(tolerance)
        if coarse.num_tri() <= count:
            best = _between(best, coarse, tolerance, count)
            break
        best, tolerance = coarse, 2 * tolerance
    found = best.to_mesh64()
    return Mesh(np.array(found.vert_properties, np.float64)[:, :3], np.array(found.tri_verts, np.uint32))


def _between(fine: Any, coarse: Any, tolerance: float, count: int) -> Any:
    """The simplification of `fine` with the smallest tolerance that leaves at most `count` faces. coarse: that by
    `tolerance`, which does."""
    low, high = tolerance / 2, tolerance
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        made = fine.simplify(middle)
        if made.num_tri() <= count:
            coarse, high = made, middle
        else:
            low = middle
    return coarse
