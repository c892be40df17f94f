"""Leaks: volume that a larger ball leaves unreached, and the smallest radius that holds."""

from __future__ import annotations

from sdfcli.backend import Array, Backend
from sdfcli.solid.flood import Unsigned

STEPS = (2**0.5, 2.0, 2**1.5, 4.0, 2**2.5, 8.0)
"""Larger radii that are tested, in radii."""
LOST = 0.25
"""Share of a larger ball's unreached volume, above which it counts as lost."""
LEAST = 1e-4
"""Minimum lost volume, as a share of the bounding box's."""


def holding(found: Unsigned, radius: float, backend: Backend, inside: bool = False) -> float | None:
    """The smallest of the tested larger radii that keeps a volume from the flood which `radius` lets in; None if none
    does. Volumes are compared where both balls would fit. inside: only the largest room counts."""

    def kept_by(root: Array, deep: float) -> float:
        return found.room(backend, root, deep)[1] if inside else found.pocket(backend, root, deep)

    root = found.components(backend, radius)
    low, high = found.mesh.bounds
    least = LEAST * float((high - low).max()) ** 3
    for step in STEPS:
        larger = step * radius
        if larger > found.most:
            return None
        kept = kept_by(found.components(backend, larger), larger)
        if kept - kept_by(root, larger) > max(LOST * kept, least):
            return larger
    return None


def smallest(found: Unsigned, radius: float, backend: Backend, inside: bool = False) -> float:
    """The smallest tested radius, from `radius` on, which no larger one improves."""
    larger = holding(found, radius, backend, inside)
    while larger is not None:
        radius, larger = larger, holding(found, larger, backend, inside)
    return radius
