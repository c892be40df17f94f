"""Face topology on the host: connected components, duplicates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.mesh.arrays import Bools, Ints


def connected(count: int, pairs: Ints) -> Ints:
    """Connected components in the graph with nodes 0 .. count - 1 and edges `pairs` (p, 2): for each node, (count,),
    the smallest node in its component."""
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
    """Faces (k,) among (f, 3) with the same vertices as another face, grouped by vertices and ascending within each
    group; and (k,) whether a face has the same vertices as the previous one."""
    corners = np.sort(faces, axis=1).T
    index = np.lexsort(corners)
    again = np.zeros(len(index), bool)
    again[1:] = (corners[:, index[1:]] == corners[:, index[:-1]]).all(axis=0)
    more = again | np.append(again[1:], False)[: len(again)]
    return index[more], again[more]
