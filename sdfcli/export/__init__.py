"""Export of fields to other programs' formats: one module per format, and the format table."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sdfcli.params import ENDINGS, GRID_RESOLUTION


@dataclass(frozen=True)
class Format:
    """A format of `sdfcli export`.

    writer   `module.function` of this package: `write(path, field)` for the octree, which may return more facts to
             report; `write(path, field, lattice)` for a grid. Imported when a file is written.
    grid     whether it holds a regular grid; otherwise the octree.
    dtypes   whether the writer takes the grid's `dtype`, float32 or float16.
    band     whether the grid is a narrow band, whose writer takes its `half_width` and returns facts to report.
    resolution   default point count of a grid along its longest side.
    header   whether the writer also takes a path for a JSON `header`, and the file's `name` in it.
    series   writer for all frames of a sequence; None if the format holds one field.
    own      whether it is sdfcli's own format, which has fields and sequences.
    holds, programs, made_by   row in the documentation's table, in Markdown.
    """

    writer: str
    holds: str
    programs: str
    made_by: str = "sdfcli"
    grid: bool = True
    dtypes: bool = False
    band: bool = False
    resolution: int = GRID_RESOLUTION
    header: bool = False
    series: str | None = None
    own: bool = False


OWN = Format(
    "own.write_field",
    "the field itself, or all frames of a sequence, in the newest [version](../file.md#versions)",
    "sdfcli, programs that read HDF5",
    "h5py",
    grid=False,
    own=True,
)

FORMATS = {
    ".vtkhdf": Format(
        "vtkhdf.write_vtkhdf",
        "the octree itself: a voxel a leaf, divided beside finer ones",
        "ParaView 5.12 and later, VTK",
        "h5py",
        grid=False,
        series="series.write_series",
    ),
    **dict.fromkeys(ENDINGS, OWN),
    ".vti": Format("vti.write_vti", "a regular grid", "ParaView, VTK"),
    ".npz": Format("npz.write_grid", "a regular grid", "NumPy, PyTorch, JAX", dtypes=True),
    ".raw": Format(
        "raw.write_raw", "a regular grid and a JSON header", "Unity, engines, textures", dtypes=True, header=True
    ),
    ".nrrd": Format("images.write_nrrd", "a regular grid", "3D Slicer, ITK, teem"),
    ".mha": Format("images.write_mha", "a regular grid", "ITK, 3D Slicer"),
    ".zarr.zip": Format("zarr.write_zarr", "a regular grid", "zarr, xarray, Dask", dtypes=True),
    ".sdf": Format("sdfgen.write_sdf", "a regular grid, as text", "programs that read SDFGen's files"),
    ".cdf": Format("cdf.write_cdf", "cubic elements", "Bullet, Discregrid", resolution=41),
    ".vdb": Format("vdb.write_vdb", "a narrow band in OpenVDB", "Houdini, Blender", dtypes=True, band=True),
    ".nvdb": Format("nvdb.write_nvdb", "a narrow band in NanoVDB", "Warp, renderers on GPUs", band=True),
}
"""Formats by file ending, in the help's order."""
TYPED = [ending for ending, form in FORMATS.items() if form.dtypes]
"""Endings of formats whose grids have a `dtype`."""
BANDS = [ending for ending, form in FORMATS.items() if form.band]
"""Endings of formats with a narrow band."""


def load(writer: str) -> Any:
    """Imports the function that a `Format` names."""
    module, _, function = writer.partition(".")
    return getattr(import_module(f"{__name__}.{module}"), function)
