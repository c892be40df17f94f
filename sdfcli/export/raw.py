"""Raw values for game engines and textures, with a separate JSON header file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.export.lattice import Distances, Lattice, values


def header_path(path: Path) -> Path:
    """Header path for a value file, in the same folder."""
    return path.with_name(path.name + ".json")


def write_raw(path: Path, header: Path, name: str, field: Distances, lattice: Lattice, dtype: npt.DTypeLike) -> None:
    """Writes contiguous little-endian values, x fastest, then y, then z. name: the file's name in the header."""
    low, high = np.inf, -np.inf
    with open(path, "wb") as file:
        for piece in values(field, lattice, dtype, x_fastest=True):
            low, high = min(low, float(piece.min())), max(high, float(piece.max()))
            file.write(piece.tobytes())
    facts: dict[str, Any] = {
        "file": name,
        "dtype": np.dtype(dtype).name,
        "byte_order": "little",
        "shape": list(lattice.shape),
        "axes": ["x", "y", "z"],
        "order": "x fastest, then y, then z",
        "origin": [float(x) for x in lattice.origin],
        "spacing": [lattice.spacing] * 3,
        "units": "those of the mesh",
        "sign": "none" if field.info.get("sign") == "none" else "negative inside",
        "min": low,
        "max": high,
    }
    header.write_text(json.dumps(facts, indent=2) + "\n")
