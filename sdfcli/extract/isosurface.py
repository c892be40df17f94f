"""`isosurface`: level sets of fields and volumes as triangle meshes."""

from __future__ import annotations

import math
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Backend, select_backends
from sdfcli.errors import OutOfMemoryError, UsageError
from sdfcli.extract.marching_cubes import Surface, extract
from sdfcli.extract.sources import FieldSource, Source, VolumeSource
from sdfcli.field.field import Field, gpu_of
from sdfcli.mesh.arrays import unmasked
from sdfcli.runtime.files import existing_file
from sdfcli.runtime.memory import unreadable

MOST_BY_DEFAULT = 1024
"""Default maximum cell count along an axis."""
MOST_FOR_SHEETS, FEW = 4096, 0.05
"""Default maximum cell count along an axis for fields with sheets; minimum share of leaves for sheets to count."""


def isosurface(
    source: Field | PathLike[str] | npt.ArrayLike,
    *,
    iso: float = 0.0,
    resolution: int | None = None,
    spacing: npt.ArrayLike | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Surface:
    """Extracts a level set from a field or volume as a triangle mesh, by marching cubes; smaller values are inside.

    Args:
        source: a Field, a field file's path, or a volume (nx, ny, nz) as an array or a .npy file's path. A volume's
            value [i, j, k] lies at spacing x (i, j, k). A CuPy volume stays on its device, and gives CuPy arrays.
        iso: level, a distance in the mesh's units or a value in the volume.
        resolution: cells along each axis of a field's domain. None: as in the octree's finest level, at most 1024, or
            4096 if thin walls need it.
        spacing: spacing of a volume's values, a number or three. None: 1.
        device: `auto`, `cpu`, `cuda`, `cuda:N`, or several GPUs as in `cuda:0,1`. The result is the same on all.
        threads: CPU thread count; default: all CPUs available to the process.

    Raises:
        InputError: the source cannot be read or used, or has no surface at this level.
        UsageError: a parameter is out of range.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the surface does not fit into memory.
    """
    opened = open_source(source)
    there = gpu_of(opened)
    backends = select_backends(there or device, threads)
    try:
        return extract(make_source(opened, backends[0], iso, resolution, spacing), backends, to_host=there is None)
    except MemoryError as error:
        raise OutOfMemoryError(f"out of memory: {error}; try a smaller --resolution") from error


def open_source(source: Field | PathLike[str] | npt.ArrayLike) -> Any:
    """A Field, or a volume, memory-mapped if from a file. Raises InputError for anything else."""
    if not isinstance(source, str | PathLike):
        found = source if isinstance(source, Field) or hasattr(source, "dtype") else np.asarray(source)
        return found if isinstance(found, Field) else unmasked(found, "volume")
    path = existing_file(source)
    if path.suffix.lower() != ".npy":
        from sdfcli.field.store import load

        return load(path)
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise unreadable(path, "cannot be read as a volume", error) from error


def make_source(
    opened: Any, backend: Backend, iso: float, resolution: int | None, spacing: npt.ArrayLike | None
) -> Source:
    """The Source for `extract`. Raises UsageError for parameters not applicable to the source."""
    if not math.isfinite(iso) or abs(iso) > float(np.finfo(np.float32).max):
        raise UsageError(f"--iso {iso}: use a finite number")
    if isinstance(opened, Field):
        if spacing is not None:
            raise UsageError("--spacing is for volumes; a field has its own scale")
        return FieldSource(backend, opened, default_resolution(opened) if resolution is None else resolution, iso)
    if resolution is not None:
        raise UsageError("--resolution is for fields; a volume has its own")
    return VolumeSource(opened, iso, 1.0 if spacing is None else spacing)


def default_resolution(field: Field) -> int:
    """Cells along an axis in the octree's finest level, at most MOST_BY_DEFAULT.

    If the share of leaves for sheets is FEW or more, the count may rise to MOST_FOR_SHEETS: as in the finest level with
    that share of leaves in it and finer levels.
    """
    count = np.bincount(field.leaf_level)
    if field.info.get("sheets", {}).get("leaves", 0) < FEW * count.sum():
        return min(finest(field), MOST_BY_DEFAULT)
    finer = np.cumsum(count[::-1])[::-1]
    level = int(np.flatnonzero(finer >= FEW * count.sum())[-1])
    return min(max(1 << level, min(finest(field), MOST_BY_DEFAULT)), MOST_FOR_SHEETS)


def finest(field: Field) -> int:
    """Cells along an axis in the octree's finest level."""
    return 1 << int(field.leaf_level.max())
