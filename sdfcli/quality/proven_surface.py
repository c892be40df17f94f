"""What a proof says about a field's surface, where the field is 0; docs/internals/proof.md derives it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, C
from sdfcli.field.field import Field
from sdfcli.mesh.arrays import Floats, Ints

CHUNK = 1 << 20
"""Leaves whose values are gathered together: 32 MB."""


@dataclass(frozen=True, eq=False)
class ProvenSurface:
    """A field's surface beside the mesh's, jumps and open holes apart.

    Attributes:
        error: the largest possible distance of the field's surface from the mesh, in units; infinite if no bound holds.
        lost: leaves (k,) in which faces may lie, while the field has no surface in them and in the leaves around.
        extra: leaves (k,) with surface of the field, while no face lies in them and in the leaves around.
    """

    error: float
    lost: Ints
    extra: Ints


def proven_surface(field: Field, backend: Backend, mark: Ints, bound: Floats, band: float) -> ProvenSurface:
    """From a proof's marks (n,) by leaf, see kernels/verify/prove.h, and bounds (n,) in units; band: in units."""
    arrays = field._arrays_on(backend)
    corner, value = arrays["leaf_corner"], arrays["value"]
    crossed = np.empty(len(corner), bool)
    for first in range(0, len(corner), CHUNK):
        own = value[corner[first : first + CHUNK]]  # a trilinear function's extremes are at corners
        crossed[first : first + CHUNK] = backend.to_host((own.min(axis=1) <= 0) & (own.max(axis=1) >= 0))
    known, faces = np.isfinite(bound), mark & C.PROOF_FREE == 0
    error = float(bound[crossed & known].max(initial=0.0))
    return ProvenSurface(
        error if error < band else np.inf,  # a distance beyond the band may exceed any multiple of its bound
        lost=np.flatnonzero(known & faces & ~_near(backend, corner, len(value), crossed)),
        extra=np.flatnonzero(known & crossed & ~_near(backend, corner, len(value), faces)),
    )


def _near(backend: Backend, corner: Array, corners: int, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which leaves (n,) share a corner with a chosen one: in a balanced octree, all around."""
    xp, near = backend.xp, np.empty(len(chosen), bool)
    touched, which = xp.zeros(corners, bool), backend.from_host(chosen)
    for first in range(0, len(chosen), CHUNK):
        here = slice(first, first + CHUNK)
        touched[corner[here][which[here]].reshape(-1)] = True
    for first in range(0, len(chosen), CHUNK):
        here = slice(first, first + CHUNK)
        near[here] = backend.to_host(touched[corner[here]].any(axis=1))
    return near
