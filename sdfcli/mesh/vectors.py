"""Products and lengths of vectors, summed from x to z: NumPy's own sums round differently between processors."""

from __future__ import annotations

import numpy as np

from sdfcli.mesh.arrays import Floats


def dot(a: Floats, b: Floats) -> Floats:
    """Dot products (...) of vectors (..., 3)."""
    return np.asarray(a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1] + a[..., 2] * b[..., 2])


def length(a: Floats) -> Floats:
    """Lengths (...) of vectors (..., 3)."""
    return np.asarray(np.sqrt(dot(a, a)))


def cross(a: Floats, b: Floats) -> Floats:
    """Cross products (..., 3) of vectors (..., 3)."""
    pairs = ((1, 2), (2, 0), (0, 1))
    return np.stack([a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in pairs], axis=-1)
