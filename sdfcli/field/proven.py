"""Proven bounds on a field's error: their code in a file, and intervals around its distances. docs/internals/proof.md
derives the bounds, docs/reference/file.md specifies the code."""

from __future__ import annotations

import math
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, Group, select_backend
from sdfcli.errors import InputError
from sdfcli.field.device_field import DeviceField
from sdfcli.field.field import Field, gpu_of, stated
from sdfcli.field.stated_error import StatedError
from sdfcli.params import INSIDE

NO_BOUNDS = "the field stores no proven bounds; build it with --prove (in Python prove=True)"

UNBOUNDED = 255
"""Code of a leaf without a bound."""

ROUNDING = 1e-12
"""Exceeds the relative rounding errors of a few operations."""


def _code_values() -> npt.NDArray[np.float64]:
    """Bounds (256,) by code, in tolerances: floats with a mantissa of four bits, from 1/256; 128 is 1."""
    code = np.arange(256)
    values = np.ldexp(16.0 + (code & 15), (code >> 4) - 12)
    values[UNBOUNDED] = math.inf
    return np.asarray(values)


VALUES = _code_values()


def encode(bound: npt.NDArray[np.float64], tolerance: float) -> npt.NDArray[np.uint8]:
    """Codes (n,) of bounds (n,), rounded up. Both are in units."""
    return np.searchsorted(VALUES[:UNBOUNDED] * tolerance, bound).astype(np.uint8)


def leaf_errors(field: Field) -> npt.NDArray[np.float64]:
    """Bounds (256,) by code, in mesh units."""
    return np.asarray(VALUES * float(field.info["parameters"]["tolerance"]) * field.unit * (1 + ROUNDING))


def proven_error(field: Field) -> StatedError | None:
    """The largest proven bound, as an error that holds at every point of the domain. None if not proven everywhere: no
    bounds are stored, a leaf has none, holes may change the sign, or a bound is not below the band."""
    if field.leaf_bound is None:
        return None
    with stated(field.info):
        closed = field.info["sign"] == "none" or field.info["certificate"]["closed"]
        band = field.unit * float(field.info["parameters"]["band"])
        near = float(leaf_errors(field)[int(field.leaf_bound.max())])
    return StatedError(near, band, proven=True) if closed and near < band else None


def error_for_bounds(field: Field) -> StatedError:
    """The error from which bounds on true distances follow: proven where it can be, else stated. Raises InputError if
    the field's info states none."""
    return proven_error(field) or StatedError.of(field)


_CODES: WeakKeyDictionary[DeviceField, tuple[Array, Array]] = WeakKeyDictionary()


def error_group(field: Field, error: StatedError, backend: Backend) -> Group:
    """Kernel arguments of a field's error, see kernels/contact/bounds.h: each leaf's own if proven."""
    code, value = None, None
    if error.proven:
        key = field._on_device(backend)
        if key not in _CODES:
            assert field.leaf_bound is not None
            _CODES[key] = backend.from_host(field.leaf_bound, np.uint8), backend.from_host(leaf_errors(field))
        code, value = _CODES[key]
    return backend.group("StatedError", near=error.near, band=error.band, code=code, value=value)


def bound_at(field: Field, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """See Field.bound."""
    if field.leaf_bound is None:
        raise InputError(NO_BOUNDS)
    with stated(field.info):
        parameters, unit = field.info["parameters"], field.unit
        tolerance, band = float(parameters["tolerance"]), unit * float(parameters["band"])
        closed = field.info["sign"] == "none" or field.info["certificate"]["closed"]
    device = gpu_of(points)
    xp: Any = select_backend(device).xp if device else np
    value, leaf = field._evaluate(points, "result", "leaf_of")
    place = (xp.asarray(points, np.float64) - xp.asarray(field.domain.origin)) / field.domain.length
    away = (1 + ROUNDING) * field.domain.length * xp.linalg.norm(place - xp.clip(place, 0.0, 1.0), axis=-1)
    # At p, the domain's nearest point: `near` is the error within the band, d the distance, own = |f(p)|.
    near = xp.asarray(VALUES * tolerance * unit)[xp.asarray(field.leaf_bound)[leaf]]
    own = xp.abs(value - away) + ROUNDING * away
    share = xp.minimum(near / band, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        most = xp.where(share < 1.0, own / (1.0 - share), math.inf)  # d <= own + share d outside the band
    most = xp.minimum(most, math.sqrt(3.0) * field.domain.length)  # the mesh lies in the domain
    bound: npt.NDArray[np.float64] = (1 + ROUNDING) * near * xp.maximum(1.0, most / band)
    if not closed or parameters.get("sign") == INSIDE:  # outside the domain, the sign is not that of `sample`
        bound += xp.where(away > 0.0, 2.0 * (own + away), 0.0)
        return bound
    least = xp.sqrt(xp.maximum(own - bound, 0.0) ** 2 + away**2)  # the domain is convex
    bound = xp.maximum(bound, own + away - least) + ROUNDING * away
    return bound
