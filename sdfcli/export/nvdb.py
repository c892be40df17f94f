"""NanoVDB files, written by NVIDIA Warp."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sdfcli.errors import DeviceError
from sdfcli.export.lattice import Distances, Lattice, check_memory, volume

BYTES = 24
"""Working bytes per value: three array copies, the grid, and tile lists."""


def write_nvdb(path: Path, field: Distances, lattice: Lattice) -> None:
    """Writes a float grid with every lattice value; the background is the maximum value.

    The transform has single precision. Raises DeviceError if Warp is not installed; OutOfMemoryError.
    """
    with _warp() as warp:
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


@contextlib.contextmanager
def _warp() -> Iterator[Any]:
    """Warp, initialised. It caches compiled kernels in the user's cache folder or, if that is not writable, in a
    temporary folder."""
    try:
        import warp
    except ImportError as error:
        raise DeviceError("NanoVDB files need NVIDIA Warp: pip install 'sdfcli[nvdb]'") from error
    warp.config.log_level = warp.LOG_ERROR  # standard output is for results
    try:
        _start(warp)
        writable = os.access(warp.config.kernel_cache_dir, os.W_OK)
    except OSError:
        writable = False
    if writable:
        yield warp
        return
    with tempfile.TemporaryDirectory(prefix="sdfcli-") as folder:
        warp.config.kernel_cache_dir = folder  # for the rest of the process: Warp reads it once
        _start(warp)
        yield warp


def _start(warp: Any) -> None:
    """Initialises Warp without its library's warning on standard error if there is no GPU."""
    said = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        warp.init()
    finally:
        os.dup2(said, 2)
        os.close(said)
        os.close(nowhere)
