"""`isosurface`: level sets of fields and volumes as triangle meshes."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Backend, select_backends
from sdfcli.errors import InputError, OutOfMemoryError, UsageError
from sdfcli.extract.marching_cubes import Surface, extract
from sdfcli.extract.proven import proven_distance
from sdfcli.extract.resolution import default_cells
from sdfcli.extract.scan import at_once
from sdfcli.extract.sharp import check_sharp, sharpened
from sdfcli.extract.sources import FieldSource, Source, VolumeSource
from sdfcli.field.field import Field, gpu_of
from sdfcli.mesh.arrays import unmasked
from sdfcli.params import real
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.runtime.files import existing_file
from sdfcli.runtime.memory import unreadable


class PlacedVolume(Protocol):
    """A volume with its place, as `Field.grid` returns it: distance[i, j, k] lies at origin + spacing x (i, j, k)."""

    @property
    def distance(self) -> npt.NDArray[np.float32]:
        """(nx, ny, nz)."""

    @property
    def origin(self) -> npt.NDArray[np.float64]:
        """(3,)."""

    @property
    def spacing(self) -> float:
        """The same along all axes."""


def isosurface(
    source: Field | PlacedVolume | PathLike[str] | npt.ArrayLike,
    *,
    iso: float = 0.0,
    cells: int | None = None,
    spacing: npt.ArrayLike | None = None,
    sharp: MeshDistance | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Surface:
    """Extracts a level set from a field or volume as a triangle mesh, by marching cubes; smaller values are inside.

    From a field with proven bounds, the surface's distance from the mesh is proven, too: `Surface.proven`.

    Args:
        source: a Field, a field file's path, or a volume (nx, ny, nz) as a Grid, an array or the path of a .npy, .npz
            or .vti file. A volume's value [i, j, k] lies at spacing x (i, j, k), of a Grid and in .npz and .vti files
            at the place stored there. A CuPy volume stays on its device, and gives CuPy arrays.
        iso: level, a distance in the mesh's units or a value in the volume.
        cells: cell count along each axis of a field's domain. None: the smallest power of two that keeps the surface
            within half the build's tolerance of the field's, at most 1024, or 4096 if thin walls need it.
        spacing: spacing of a volume's values, a number or three. None: 1.
        sharp: exact distances to the mesh that the field was built from: vertices move onto it, and its edges and
            corners become sharp. None: as sharp as the cells allow.
        device: `auto`, `cpu`, `cuda`, `cuda:N`, or several GPUs as in `cuda:0,1`. The result is the same on all.
        threads: CPU thread count; default: all CPUs available to the process.

    Raises:
        InputError: the source cannot be read or used, or has no surface at this level.
        UsageError: a parameter is out of range.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the surface does not fit into memory.
    """
    opened = open_source(source)
    if sharp is not None:
        check_sharp(opened, iso)
    there = gpu_of(opened)
    backends = select_backends(there or device, threads)
    try:
        placed = make_source(opened, backends, iso, cells, spacing)
        found = extract(placed, backends, to_host=there is None)
        if sharp is not None:
            found = sharpened(found, placed.grid, opened, sharp)
        proven = proven_distance(found, opened, iso, backends[0]) if isinstance(opened, Field) else None
        return replace(found, proven=proven)
    except MemoryError as error:
        raise OutOfMemoryError(f"out of memory: {error}; try a smaller --cells") from error


class Volume(NamedTuple):
    """A volume from a file with its place: value [i, j, k] lies at origin + spacing x (i, j, k).

    values   (nx, ny, nz).
    spacing  (3,), or one for all axes.
    origin   (3,), or one for all axes.
    """

    values: Any
    spacing: npt.NDArray[np.float64]
    origin: npt.NDArray[np.float64]


def open_source(source: Field | PlacedVolume | PathLike[str] | npt.ArrayLike) -> Any:
    """A Field, an array, memory-mapped if from a .npy file, or a Volume. Raises InputError for anything else."""
    if isinstance(source, Field):
        return source
    if not isinstance(source, str | PathLike):
        placed: Any = source
        if all(hasattr(placed, name) for name in ("distance", "origin", "spacing")):
            return Volume(placed.distance, np.asarray(placed.spacing), np.asarray(placed.origin))
        return unmasked(source if hasattr(source, "dtype") else np.asarray(source), "volume")
    path = existing_file(source)
    read = VOLUMES.get(path.suffix.lower())
    if read is None:
        from sdfcli.field.store import load

        return load(path)
    try:
        return read(path)
    except FAULTS as error:
        raise unreadable(path, "cannot be read as a volume", error) from error


def _read_npz(path: Path) -> Volume:
    """A volume from the arrays `distance`, `origin` and `spacing`, as `sdfcli export` writes them."""
    with np.load(path, allow_pickle=False) as arrays:
        if "distance" not in arrays:
            raise InputError(f"no array `distance`; it has {', '.join(sorted(arrays)) or 'none'}")
        spacing, origin = (np.asarray(arrays.get(name, default)) for name, default in (("spacing", 1), ("origin", 0)))
        for name, array in (("spacing", spacing), ("origin", origin)):
            if array.shape not in ((), (1,), (3,)) or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
                raise InputError(f"{name} must be a finite number, or three")
        return Volume(arrays["distance"], spacing.astype(np.float64), origin.astype(np.float64))


def _read_vti(path: Path) -> Volume:
    from sdfcli.mesh.formats.vtk_xml import read_image

    return Volume(*read_image(path))


VOLUMES: dict[str, Callable[[Path], Any]] = {
    ".npy": lambda path: np.load(path, mmap_mode="r", allow_pickle=False),
    ".npz": _read_npz,
    ".vti": _read_vti,
}
"""Volume readers by file ending."""
FAULTS = InputError, OSError, ValueError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error
"""Exceptions from reading a volume that is damaged or too large for memory."""


def make_source(
    opened: Any, backends: Sequence[Backend], iso: float, cells: int | None, spacing: npt.ArrayLike | None
) -> Source:
    """The Source for `extract`. Raises UsageError for parameters not applicable to the source."""
    if not abs(real(iso)) <= float(np.finfo(np.float32).max):
        raise UsageError(f"--iso {iso}: use a finite number")
    if isinstance(opened, Field):
        if spacing is not None:
            raise UsageError("--spacing is for volumes; a field has its own scale")
        chosen = default_cells(backends[0], opened, iso) if cells is None else cells
        return _field_source(opened, backends, chosen, iso)
    if cells is not None:
        raise UsageError("--cells is for fields; a volume has its own")
    if isinstance(opened, Volume):
        if spacing is not None:
            raise UsageError("--spacing is for arrays and .npy volumes; a Grid, .npz and .vti files have their own")
        return VolumeSource(opened.values, iso, opened.spacing, opened.origin)
    return VolumeSource(opened, iso, 1.0 if spacing is None else spacing)


def _field_source(field: Field, backends: Sequence[Backend], cells: int, iso: float) -> Source:
    """A field's Source, made by the first device while the others receive the field."""

    def ready(backend: Backend) -> Source | None:
        with backend.active():
            if backend is backends[0]:
                return FieldSource(backend, field, cells, iso)
            field._arrays_on(backend)
            return None

    source = at_once(ready, backends)[0]
    assert source is not None
    return source
