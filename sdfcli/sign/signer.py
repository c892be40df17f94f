"""The signer's protocol, and unsigned distances."""

from __future__ import annotations

from typing import Protocol

from sdfcli.backend import Array, Backend


class Signer(Protocol):
    """Decides the sign of points.

    closed  whether the surface has no holes: its winding number is a whole number then.
    """

    closed: bool

    def inside(self, points: Array, slot: Array) -> Array:
        """(m,) bool for points (m, 3) float32 whose nearest slots (m,) are known."""


class NoSigner:
    """Unsigned distances: nothing is inside."""

    closed = False

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def inside(self, points: Array, slot: Array) -> Array:
        """All False."""
        return self.backend.xp.zeros(len(points), bool)
