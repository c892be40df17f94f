"""Signer: the interface for sign methods; NoSigner: unsigned distances."""

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
"""Minimum distance between a clear winding number and 0.5. On closed surfaces winding numbers are integers."""


class Signs(NamedTuple):
    """Signs at m points, as arguments for sdf_octree_measured, in one of three forms.

    inside   (m,) uint8: 0, 1, or UNKNOWN where the winding number decides.
    winding  (m,) float32.
    normals  (n, 7, 3) float32: pseudonormals by slot.
    """

    inside: Array | None = None
    winding: Array | None = None
    normals: Array | None = None


class Signer(ABC):
    """A sign method. By default each point is classified independently.

    method  none, pseudonormal or winding.
    closed  whether the surface has no holes, hence integer winding numbers.
    caps    caps over the holes, if signs depend on them; None if the sign changes only at the surface.
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
        """Signs at an octree's new points (m, 3) with unsigned distances (m,). known: signs at older points in the same
        cells, for propagation; None for the first points."""

    @abstractmethod
    def for_kernels(self) -> Group:
        """The group NewSigns, for kernels that compute signs at an octree's new points directly."""

    @abstractmethod
    def confidence(self, points: Floats) -> float | None:
        """Share of points (n, 3) in the unit cube with a clear winding number (see LEVEL); None without signs or
        points. 1 on a closed surface; less if points lie in the mouths of holes."""

    def inside_along(self, points: Array, distance: Array, slot: Array) -> Array:
        """`inside` at points (m, 3) sorted along a curve, with unsigned distances (m,); signs may be propagated."""
        return self.inside(points, slot)

    def sign_corners(self, corners: CellPoints, distance: Array, slot: Array) -> Array:
        """Signs an octree's corner distances (m,) float32 in place and returns them; signs may be propagated."""
        self.backend.negate(distance, self.inside(corners.position, slot))
        return distance

    def prepare(self) -> None:  # noqa: B027
        """Computes the data needed besides the triangle order, once the radix tree is no longer needed."""

    def release(self) -> None:  # noqa: B027
        """Frees data that can be recomputed on next use."""

    def rebuild(self, bvh: Bvh) -> None:  # noqa: B027
        """Recomputes the signer's data from another tree over the same triangles."""


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
    """Share of points (n, 3) in the unit cube with a clear winding number; see LEVEL."""
    backend = index.backend
    winding = backend.to_host(index.winding(backend.from_host(points, np.float32), BETA))
    return np.count_nonzero(np.abs(winding - np.float32(0.5)) > LEVEL) / len(points)
