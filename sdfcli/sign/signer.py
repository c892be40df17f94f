"""What signers have in common, and unsigned distances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.mesh.arrays import Floats
from sdfcli.sign.caps import Caps
from sdfcli.sign.propagate import CellPoints, KnownSigns
from sdfcli.spatial.moments import BETA, WindingIndex
from sdfcli.spatial.radix_tree import Bvh

LEVEL = 0.25
"""A winding number closer than this to 0.5 leaves inside and outside in doubt. On closed surfaces it is an integer."""


class Signs(NamedTuple):
    """The signs of m points, as sdf_octree_measured takes them: one of three says where a point lies.

    inside   (m,) uint8: 0, 1, or UNKNOWN where the winding number decides.
    winding  (m,) float32.
    normals  (n, 21) float32: the pseudonormals by slot.
    """

    inside: Array | None = None
    winding: Array | None = None
    normals: Array | None = None


class Signer(ABC):
    """Decides which points are inside. Where a signer says nothing else, each point is decided by itself.

    method  none, pseudonormal or winding.
    closed  whether the surface has no holes: its winding number is a whole number then.
    caps    what closes the holes, where signs depend on it; None where the sign changes at the surface alone.
    """

    method: str
    closed: bool
    caps: Caps | None = None

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def inside(self, points: Array, slot: Array) -> Array:
        """(m,) bool for points (m, 3) float32 with their nearest slots (m,)."""

    @abstractmethod
    def sign(self, points: Array, distance: Array, slot: Array, known: KnownSigns | None) -> Signs:
        """The signs of new points (m, 3) of an octree with their unsigned distances (m,). known: the signs of older
        points of the same cells, which may be propagated; None for the first points."""

    @abstractmethod
    def confidence(self, points: Floats) -> float | None:
        """The share of points (n, 3) in the unit cube whose winding number is clear of the level 0.5; None without
        signs or points. 1 on a closed surface; less where points lie in the mouths of holes."""

    def inside_along(self, points: Array, distance: Array, slot: Array) -> Array:
        """`inside` of points (m, 3) along a curve, with their unsigned distances (m,): signs may be propagated."""
        return self.inside(points, slot)

    def sign_corners(self, corners: CellPoints, distance: Array, slot: Array) -> Array:
        """The signed distances (m,) float32 of an octree's corners, from the unsigned ones; maybe in place. Signs may
        be propagated."""
        return self.backend.xp.where(self.inside(corners.position, slot), -distance, distance)

    def release(self) -> None:  # noqa: B027
        """Frees what is made again on its next use."""

    def rebuild(self, bvh: Bvh) -> None:  # noqa: B027
        """Makes what signs take from a tree, from this one of the same triangles."""


class NoSigner(Signer):
    """Unsigned distances: nothing is inside."""

    method, closed = "none", False

    def inside(self, points: Array, slot: Array) -> Array:
        """All False."""
        return self.backend.xp.zeros(len(points), bool)

    def sign(self, points: Array, distance: Array, slot: Array, known: KnownSigns | None) -> Signs:
        """All 0."""
        return Signs(inside=self.backend.xp.zeros(len(points), np.uint8))

    def confidence(self, points: Floats) -> float | None:
        """None."""
        return None


def clear_share(index: WindingIndex, points: Floats) -> float:
    """The share of points (n, 3) in the unit cube whose winding number is clear of the level 0.5."""
    backend = index.backend
    winding = index.winding(backend.from_host(points, np.float32), BETA)
    return len(backend.xp.flatnonzero(backend.xp.abs(winding - 0.5) > LEVEL)) / len(points)
