"""NumPy .npz archives of dense grids."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.export.lattice import Distances, Lattice, values


def write_grid(path: Path, field: Distances, lattice: Lattice, dtype: npt.DTypeLike = np.float32) -> None:
    """Writes `distance`, `origin` (3,) and `spacing` (scalar): distance[i, j, k] lies at origin + spacing * (i, j, k).

    The grid may exceed memory, unlike with `numpy.savez`.
    """
    with zipfile.ZipFile(path, "w") as archive:
        pieces = values(field, lattice, dtype, x_fastest=False)
        _write_array(archive, "distance", lattice.shape, np.dtype(dtype), pieces)
        _write_array(archive, "origin", (3,), np.dtype(np.float64), [lattice.origin])
        _write_array(archive, "spacing", (), np.dtype(np.float64), [np.array(lattice.spacing)])


def _write_array(
    archive: zipfile.ZipFile,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    pieces: Iterable[npt.NDArray[Any]],
) -> None:
    little = dtype.newbyteorder("<")
    header = {"descr": np.lib.format.dtype_to_descr(little), "fortran_order": False, "shape": shape}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for piece in pieces:
            file.write(np.ascontiguousarray(piece, little).tobytes())
