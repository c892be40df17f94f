"""The level set shown in a picture: level, leaves and centre."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Backend
from sdfcli.errors import InputError, UsageError
from sdfcli.extract.sources import leaves_at
from sdfcli.field.field import Field, lattice_position
from sdfcli.field.stated_error import StatedError, is_unsigned
from sdfcli.mesh.arrays import pieces
from sdfcli.params import real


def stated_error(field: Field) -> float | None:
    """Stated error near the surface, in the mesh's units; None if the field has none."""
    try:
        return StatedError.of(field).near
    except InputError:
        return None


def skin_of(field: Field) -> float:
    """Surface level: 0, or for an unsigned field twice its error, a skin around the surface, as its distances are 0
    only on the surface, up to the error, and never negative."""
    return 2 * (stated_error(field) or 1e-3 * field.domain.length) if is_unsigned(field) else 0.0


def shown_level(field: Field, iso: float | None, skin: float | None = None) -> float:
    """The level to show: `iso`, by default 0, or for an unsigned field `skin`, by default its own.

    Raises UsageError for a level that is not finite.
    """
    if iso is None:
        return skin if skin is not None and is_unsigned(field) else skin_of(field)
    if not math.isfinite(iso) or abs(iso) > float(np.finfo(np.float32).max):
        raise UsageError(f"--iso {iso}: use a finite number")
    return iso


def shown_levels(field: Field, iso: float | Sequence[float] | None, skin: float | None = None) -> list[float]:
    """The levels to show, from the innermost on: `shown_level` of each.

    Raises UsageError for a level that is not finite, or none.
    """
    several: list[float | None] = [None] if iso is None else [real(each) for each in np.atleast_1d(np.asarray(iso))]
    if not several:
        raise UsageError("--iso: name at least one level")
    return sorted({shown_level(field, each, skin) for each in several})


def is_cut(field: Field, level: float) -> bool:
    """Whether the level set reaches the domain's border. Exact: there the field is trilinear between corners."""
    below = above = False
    for part in pieces(field.corners):
        place = lattice_position(field.corner_key[part])
        border = field.distance[part][((place == 0) | (place == 1)).any(axis=1)]
        below, above = below or bool((border < level).any()), above or bool((border >= level).any())
    return below and above


def box_of(backend: Backend, field: Field) -> npt.NDArray[np.float64]:
    """Lower and upper corner (2, 3) of the surface's leaves, in the mesh's units; without a surface, the domain's."""
    try:
        leaves = leaves_at(backend, field, shown_level(field, None))
        low, high = leaves[:, :3].min(axis=0), (leaves[:, :3] + leaves[:, 3:]).max(axis=0)
    except InputError:
        low, high = np.zeros(3), np.ones(3)
    return np.asarray(field.domain.origin + np.stack((low, high)) * field.domain.length)


def middle_of(backend: Backend, field: Field) -> npt.NDArray[np.float64]:
    """Centre (3,) of the surface's bounding box, in the mesh's units; without a surface, the domain's centre."""
    return np.asarray(box_of(backend, field).mean(axis=0))
