"""OpenVDB files with a narrow band."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sdfcli.export.lattice import Distances, Lattice, check_half_range
from sdfcli.export.narrow_band import facts_of, narrow_band
from sdfcli.vdb import openvdb


def write_vdb(path: Path, field: Distances, lattice: Lattice, dtype: str, half_width: float | None) -> dict[str, Any]:
    """Writes a float grid `surface` of class level set. Returns facts to report.

    Raises the errors of `narrow_band`, and InputError for a band beyond float16's range.
    """
    band = narrow_band(field, lattice, half_width)
    half = dtype == "float16"
    if half:
        check_half_range(float(band.background))
    openvdb.write(path, band, half)
    return facts_of(band)
