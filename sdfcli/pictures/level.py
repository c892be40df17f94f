"""Which surface of a field is shown, and where it lies."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend
from sdfcli.errors import InputError, UsageError
from sdfcli.field import LATTICE_BITS, Field, lattice_position

CELL_BITS = 6
"""The table of leaves has a cell for each 2^-6 of the domain."""


def stated_error(field: Field) -> float | None:
    """The largest error near the surface that the file states, in the mesh's units; None where it states none."""
    try:
        told = [field.info["parameters"]["tolerance"], field.info["max_error"]]
        error = float(field.info["mesh"]["diagonal"]) * max(float(part) for part in told)
    except (KeyError, TypeError, ValueError):
        return None
    return error if math.isfinite(error) and error >= 0 else None


def is_unsigned(field: Field) -> bool:
    """Whether distances have no sign."""
    return field.info.get("sign") == "none"


def shown_level(field: Field, iso: float | None) -> float:
    """The level to show: the one asked for, else 0. An unsigned field is 0 up to its error only on the surface and
    negative nowhere, so there it is twice that error: a skin around the surface.

    Raises UsageError for a level that is not finite.
    """
    if iso is None:
        return 2 * (stated_error(field) or 1e-3 * field.domain.length) if is_unsigned(field) else 0.0
    if not math.isfinite(iso) or abs(iso) > float(np.finfo(np.float32).max):
        raise UsageError(f"--iso {iso}: use a finite number")
    return iso


def first_leaf(backend: Backend, leaf_key: Array) -> Array:
    """(2^18 + 1,) uint32: how many leaves come before each cell of level 6, along the Morton curve."""
    cells = backend.xp.arange((1 << 3 * CELL_BITS) + 1, dtype=np.uint64) << np.uint64(3 * (LATTICE_BITS - CELL_BITS))
    return backend.xp.searchsorted(leaf_key, cells).astype(np.uint32)


def leaves_at(backend: Backend, field: Field, iso: float) -> npt.NDArray[np.float64]:
    """Lower corners and edges (n, 4) of the leaves that the level passes through, in the unit cube.

    Raises InputError where there is none.
    """
    arrays = field.on(backend)
    side = backend.xp.empty(len(field.leaf_key), np.uint8)
    backend.run("sdf_leaf_side", len(side), **{**arrays, "iso": np.float32(iso), "side": side, "around": None})
    met = np.flatnonzero(backend.to_host(side) == 2)
    if len(met) == 0:
        low, high = float(field.distance.min()), float(field.distance.max())
        raise InputError(f"no surface at {iso:g}: the field's values go from {low:g} to {high:g}")
    size = 0.5 ** field.leaf_level[met].astype(np.float64)
    return np.column_stack((lattice_position(field.leaf_key[met]), size))


def middle_of(backend: Backend, field: Field) -> npt.NDArray[np.float64]:
    """The middle (3,) of the surface's box in the mesh's units; that of the domain where there is no surface."""
    try:
        leaves = leaves_at(backend, field, shown_level(field, None))
    except InputError:
        return np.asarray(field.domain.origin + 0.5 * field.domain.length)
    low, high = leaves[:, :3].min(axis=0), (leaves[:, :3] + leaves[:, 3:]).max(axis=0)
    return np.asarray(field.domain.origin + 0.5 * (low + high) * field.domain.length)
