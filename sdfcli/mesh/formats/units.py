"""Coordinate units of mesh files, and factors between them."""

from __future__ import annotations

from pathlib import Path

from sdfcli.errors import InputError, UsageError
from sdfcli.mesh.formats.apart import EXTRAS, units_apart
from sdfcli.mesh.formats.threemf import unit_of
from sdfcli.params import UNITS

LONG_NAMES = {
    "micron": "um",
    "micrometre": "um",
    "millimeter": "mm",
    "centimeter": "cm",
    "centimetre": "cm",
    "meter": "m",
    "metre": "m",
    "inch": "in",
    "foot": "ft",
}
"""Names in UNITS of the units in files."""


METRES = {1.0: "metre", 0.01: "centimetre", 0.001: "millimeter", 0.0254: "inch", 0.3048: "foot", 1e-6: "micrometre"}
"""Names of units by their length in metres."""


def units_of(path: Path) -> str | None:
    """A file's coordinate unit; None for formats without one. Raises the same errors as reading the file."""
    suffix = path.suffix.lower()
    if suffix in (".glb", ".gltf"):
        return "metre"
    if suffix in EXTRAS:
        return units_apart(path)
    if suffix == ".dae":
        from sdfcli.mesh.formats.collada import metres_of

        return unit_name(metres_of(path))
    return unit_of(path) if suffix == ".3mf" else None


def unit_name(metres: float) -> str:
    """The name of a unit of this length."""
    return next((name for known, name in METRES.items() if abs(metres / known - 1) < 1e-6), f"{metres:g} metres")


def factor_to(unit: str, path: Path) -> float:
    """The factor from a file's coordinates to a unit in UNITS, correctly rounded. Raises UsageError for a file without
    a unit, InputError for one in an unusual unit, and `units_of`'s errors."""
    given = "millimeter" if path.suffix.lower() in (".step", ".stp") else units_of(path)  # tessellated only once
    if given is None:
        raise UsageError(f"--units {unit}: the file names no unit; use --scale, as 0.001 for millimetres to metres")
    if given not in LONG_NAMES:
        raise InputError(f"its unit, {given}, is not known to --units; use --scale")
    return UNITS[LONG_NAMES[given]] / UNITS[unit]
