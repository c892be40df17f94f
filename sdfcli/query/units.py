"""Units of a field and of a mesh that is posed against it."""

from __future__ import annotations

import numpy as np

from sdfcli.errors import InputError
from sdfcli.field.field import Field
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import UNITS

CONVERTED = 1e-3
"""Maximum relative deviation of a pose's scale from the factor between two units: three digits of it are enough."""

UNLIKE = 20.0
"""Minimum ratio of two sizes that may come from different units: below 25.4, as for inches and millimetres."""


def check_units(field: Field, units: str | None, scales: Floats, name: str = "the mesh") -> None:
    """Raises InputError if a field and a mesh have known, different units, unless the poses convert between them.

    units: the mesh's. scales: (t,), the poses' scales. name: the mesh's, for the error.
    """
    if units is None or field.units is None or units == field.units:
        return
    factor = UNITS[units] / UNITS[field.units] if {units, field.units} <= UNITS.keys() else None
    if factor is None or len(scales) == 0 or (np.abs(scales / factor - 1) > CONVERTED).any():
        remedy = "--scale" if factor is None else f"--units {field.units}, or by --scale"
        raise InputError(f"{name} is in {units}, the field in {field.units}: convert the mesh, by {remedy}")


def size_note(field: Field, mesh: Mesh, scales: Floats, name: str = "the mesh") -> str | None:
    """A note on a posed mesh of another magnitude than the field's, if the unit of either is unknown; else None.

    scales, name: as for `check_units`.
    """
    if len(scales) == 0:
        return None
    return note_on_size(field, mesh.units, float(np.median(scales)) * mesh.diagonal, name)


def note_on_size(field: Field, units: str | None, diagonal: float, name: str) -> str | None:
    """`size_note` for a mesh with known units and diagonal, the latter as posed."""
    if units is not None and field.units is not None:
        return None
    ratio = diagonal / float(field.info.get("mesh", {}).get("diagonal") or field.domain.length)
    if 1 / UNLIKE < ratio < UNLIKE:
        return None
    nameless = "it names no" if units is None else "the field names no"
    if units is field.units:
        nameless = "neither names a"
    times = f"{float(f'{max(ratio, 1 / ratio):.2g}'):,.0f} times"
    size_of = f"{times} as large as" if ratio > 1 else f"{times} smaller than"
    return f"{name} is {size_of} the field's mesh, and {nameless} unit: if they differ, use --scale"
