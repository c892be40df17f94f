"""Topology of faces on the host: connected components, duplicates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.mesh.arrays import Bools, Ints


def connected(count: int, pairs: Ints) -> Ints:
    """Connected components of the graph of 0 .. count - 1 with edges `pairs` (p, 2): the smallest member of each
    one's component, (count,)."""
    label = np.arange(count)
    a, b = pairs[:, 0], pairs[:, 1]
    while len(a):
        # Hook each root to the smallest adjacent root, then compress paths.
        np.minimum.at(label, np.maximum(a, b), np.minimum(a, b))
        above = label[label]
        while not np.array_equal(above, label):
            label, above = above, above[above]
        a, b = label[a], label[b]
        apart = a != b
        a, b = a[apart], b[apart]
    return label


def twins(faces: npt.NDArray[Any]) -> tuple[Ints, Bools]:
    """The faces (k,) of (f, 3) with the vertices of another one, grouped by vertices and ascending in each group; and
    (k,) whether a face has those of the one before it."""
    corners = np.sort(faces, axis=1).T
    index = np.lexsort(corners)
    again = np.zeros(len(index), bool)
    again[1:] = (corners[:, index[1:]] == corners[:, index[:-1]]).all(axis=0)
    more = again | np.append(again[1:], False)[: len(again)]
    return index[more], again[more]
