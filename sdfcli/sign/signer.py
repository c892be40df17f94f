"""Signer: the interface of sign methods; NoSigner: unsigned distances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from sdfcli.backend import Array, Backend, Group
from sdfcli.mesh.arrays import Floats
from sdfcli.sign.caps import Caps
from sdfcli.sign.propagate import CellPoints, KnownSigns
from sdfcli.spatial.moments import BETA, CAP_STEPS, LOST, WindingIndex, cap_steps
from sdfcli.spatial.radix_tree import Bvh

LEVEL = 0.25
"""Minimum distance of a clear winding number from 0.5. On closed surfaces winding numbers are integers."""


class Signs(NamedTuple):
    """The signs of m points, arguments of sdf_octree_measured, in one of three forms.

    inside   (m,) uint8: 0, 1, or UNKNOWN where the winding number decides.
    winding  (m,) float32.
    normals  (n, 7, 3) float32: the pseudonormals by slot.
    """

    inside: Array | None = None
    winding: Array | None = None
    normals: Array | None = None


class Signer(ABC):
    """A sign method. By default each point is decided independently.

    method  none, pseudonormal or winding.
    closed  whether the surface has no holes, hence integer winding numbers.
    caps    caps of the holes, where signs depend on them; None where the sign changes at the surface only.
    """

    method: str
    closed: bool
    caps: Caps | None = None

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def inside(self, points: Array, slot: Array) -> Array:
        """Whether points (m, 3) float32 with nearest slots (m,) are inside: (m,) bool."""

    @abstractmethod
    def sign(self, points: Array, distance: Array, slot: Array, known: KnownSigns | None) -> Signs:
        """The signs of new points (m, 3) of an octree with their unsigned distances (m,). known: the signs of older
        points of the same cells, which may be propagated; None for the first points."""

    @abstractmethod
    def for_kernels(self) -> Group:
        """How kernels make the signs of an octree's new points by themselves: the group NewSigns."""

    @abstractmethod
    def confidence(self, points: Floats) -> float | None:
        """The share of points (n, 3) in the unit cube with a clear winding number (see LEVEL); None without signs or
        points. 1 on a closed surface; less where points lie in the mouths of holes."""

    def inside_along(self, points: Array, distance: Array, slot: Array) -> Array:
        """`inside` of points (m, 3) sorted along a curve, with unsigned distances (m,); signs may be propagated."""
        return self.inside(points, slot)

    def sign_corners(self, corners: CellPoints, distance: Array, slot: Array) -> Array:
        """The signed distances (m,) float32 of an octree's corners from the unsigned ones, in place; signs may be
        propagated."""
        self.backend.negate(distance, self.inside(corners.position, slot))
        return distance

    def prepare(self) -> None:  # noqa: B027
        """Makes what the signer needs besides the triangles' order, when the radix tree is not needed any more."""

    def release(self) -> None:  # noqa: B027
        """Frees data that is made again on its next use."""

    def rebuild(self, bvh: Bvh) -> None:  # noqa: B027
        """Makes the signer's data again from another tree over the same triangles."""


class NoSigner(Signer):
    """Unsigned distances: nothing is inside."""

    method, closed = "none", False

    def inside(self, points: Array, slot: Array) -> Array:
        """All False: (m,) bool."""
        return self.backend.xp.zeros(len(points), bool)

    def sign(self, points: Array, distance: Array, slot: Array, known: KnownSigns | None) -> Signs:
        """All 0, outside."""
        return Signs(inside=self.backend.xp.zeros(len(points), np.uint8))

    def for_kernels(self) -> Group:
        return new_signs(self.backend)

    def confidence(self, points: Floats) -> float | None:
        """None."""
        return None


def new_signs(
    backend: Backend, normals: Array | None = None, index: WindingIndex | None = None, caps: Caps | None = None
) -> Group:
    """See Signer.for_kernels. normals: pseudonormals (n, 7, 3) by slot. index, caps: as for WindingIndex.decided."""
    return backend.group(
        "NewSigns",
        normals=normals,
        tree=index and index.group,
        caps=caps and caps.index.group,
        steps=len(CAP_STEPS) if caps else 0,
        step=cap_steps(backend) if caps else None,
        beta=BETA,
        lost=LOST,
        groups=caps and caps.groups,
    )


def clear_share(index: WindingIndex, points: Floats) -> float:
    """The share of points (n, 3) in the unit cube with a clear winding number; see LEVEL."""
    backend = index.backend
    winding = backend.to_host(index.winding(backend.from_host(points, np.float32), BETA))
    return np.count_nonzero(np.abs(winding - np.float32(0.5)) > LEVEL) / len(points)
