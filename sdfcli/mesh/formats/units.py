"""Coordinate units of mesh files, and factors between them."""

from __future__ import annotations

from sdfcli.errors import InputError, UsageError
from sdfcli.params import UNITS


def unit_name(metres: float) -> str:
    """The name in UNITS of a unit of this length; for other lengths, the length in metres, as `0.5 m`."""
    return next((name for name, size in UNITS.items() if abs(metres * 1e6 / size - 1) < 1e-6), f"{metres:g} m")


def in_metres(unit: str | None) -> float:
    """The length of a file's unit: a name in UNITS, or a length from `unit_name`; None: a metre."""
    return 1.0 if unit is None else UNITS[unit] / UNITS["m"] if unit in UNITS else float(unit.split()[0])


def factor_to(unit: str, given: str | None) -> float:
    """The factor from a file's coordinates to a unit in UNITS, correctly rounded. given: the file's unit, see Told.

    Raises UsageError for a file without a unit, InputError for one in an unusual unit.
    """
    if given is None:
        raise UsageError(f"--units {unit}: the file names no unit; use --scale, as 0.001 for millimetres to metres")
    if given not in UNITS:
        raise InputError(f"its unit, {given}, is not known to --units; use --scale")
    return UNITS[given] / UNITS[unit]
