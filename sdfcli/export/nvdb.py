"""NanoVDB files with a narrow band."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sdfcli.export.lattice import Distances, Lattice
from sdfcli.export.narrow_band import facts_of, narrow_band
from sdfcli.vdb import nanovdb


def write_nvdb(path: Path, field: Distances, lattice: Lattice, half_width: float | None) -> dict[str, Any]:
    """Writes a float grid `surface` of class level set. Returns facts to report. Raises the errors of `narrow_band`."""
    band = narrow_band(field, lattice, half_width)
    nanovdb.write(path, band)
    return facts_of(band)
