"""The unit of a file's coordinates."""

from __future__ import annotations

from pathlib import Path

from sdfcli.mesh.formats.apart import EXTRAS, units_apart
from sdfcli.mesh.formats.threemf import unit_of


def units_of(path: Path) -> str | None:
    """The unit of a file's coordinates; None where the format has none. Raises what reading the file raises."""
    suffix = path.suffix.lower()
    if suffix in (".glb", ".gltf"):
        return "metre"
    if suffix in EXTRAS:
        return units_apart(path)
    return unit_of(path) if suffix == ".3mf" else None
