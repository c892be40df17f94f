"""NanoVDB, by NVIDIA Warp."""

from __future__ import annotations

from pathlib import Path

from sdfcli.errors import DeviceError
from sdfcli.export.lattice import Lattice, check_memory, volume
from sdfcli.field import Field

BYTES = 24
"""A value takes: Warp makes three copies of the array, the grid, and lists of tiles."""


def write_nvdb(path: Path, field: Field, lattice: Lattice) -> None:
    """A float grid in which every value of the lattice is there; beyond it, the largest of them.

    The transform is single precision. Raises DeviceError where Warp is not installed, OutOfMemoryError.
    """
    try:
        import warp
    except ImportError as error:
        raise DeviceError("NanoVDB files need NVIDIA Warp: pip install 'sdfcli[nvdb]'") from error
    warp.config.log_level = warp.LOG_ERROR  # standard output is for results
    check_memory(lattice, BYTES)
    dense = volume(field, lattice)
    grid = warp.Volume.load_from_numpy(
        dense,
        min_world=tuple(float(x) for x in lattice.origin),
        voxel_size=lattice.spacing,
        bg_value=float(dense.max()),
        device="cpu",
    )
    grid.save_to_nvdb(str(path))
