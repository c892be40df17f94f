"""Coordinate unit of a mesh file."""

from __future__ import annotations

from pathlib import Path

from sdfcli.mesh.formats.apart import EXTRAS, units_apart
from sdfcli.mesh.formats.threemf import unit_of


def units_of(path: Path) -> str | None:
    """A file's coordinate unit; None for formats without one. Raises the same errors as reading the file."""
    suffix = path.suffix.lower()
    if suffix in (".glb", ".gltf"):
        return "metre"
    if suffix in EXTRAS:
        return units_apart(path)
    return unit_of(path) if suffix == ".3mf" else None
