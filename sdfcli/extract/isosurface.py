"""`isosurface`: level sets of fields and volumes as triangle meshes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Backend, select_backends
from sdfcli.errors import OutOfMemoryError, UsageError
from sdfcli.extract.marching_cubes import Surface, extract
from sdfcli.extract.resolution import default_resolution
from sdfcli.extract.sources import FieldSource, Source, VolumeSource
from sdfcli.field.field import Field, is_cupy
from sdfcli.mesh.arrays import unmasked
from sdfcli.runtime.files import existing_file
from sdfcli.runtime.memory import unreadable


def isosurface(
    source: Any,
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
        resolution: cells along each axis of a field's domain. None: the smallest power of two that keeps the surface
            within half the build's tolerance of the field's, at most 1024, or 4096 if thin walls need it.
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
    there = is_cupy(opened)
    backends = select_backends(f"cuda:{opened.device.id}" if there else device, threads)
    try:
        return extract(make_source(opened, backends[0], iso, resolution, spacing), backends, to_host=not there)
    except MemoryError as error:
        raise OutOfMemoryError(f"out of memory: {error}; try a smaller --resolution") from error


def open_source(source: Any) -> Any:
    """A Field, or a volume, memory-mapped if from a file. Raises InputError for anything else."""
    if not isinstance(source, (str, Path)):
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
        chosen = default_resolution(backend, opened, iso) if resolution is None else resolution
        return FieldSource(backend, opened, chosen, iso)
    if resolution is not None:
        raise UsageError("--resolution is for fields; a volume has its own")
    return VolumeSource(opened, iso, 1.0 if spacing is None else spacing)
