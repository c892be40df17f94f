"""Export of fields to other programs' formats: one module per format, and the format table."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sdfcli.params import ENDINGS


@dataclass(frozen=True)
class Format:
    """A format of `sdfcli export`.

    writer   `module.function` of this package: `write(path, field)` for the octree, which may return more facts to
             report; `write(path, field, lattice)` for a grid. Imported when a file is written.
    grid     whether it holds a regular grid; otherwise the octree.
    dtypes   whether the writer takes the grid's `dtype`, float32 or float16.
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
        "the octree itself: a voxel a leaf, shared corners",
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
    ".nvdb": Format(
        "nvdb.write_nvdb",
        "a regular grid in NanoVDB",
        "Warp, renderers on GPUs",
        "[NVIDIA Warp](https://nvidia.github.io/warp): `pip install 'sdfcli[nvdb]'`",
    ),
    ".vdb": Format(
        "vdb.write_vdb",
        "a regular grid in OpenVDB",
        "Houdini, Blender",
        "OpenVDB's module `openvdb`, where it is installed",
    ),
}
"""Formats by file ending, in the help's order."""
TYPED = [ending for ending, form in FORMATS.items() if form.dtypes]
"""Endings of formats whose grids have a `dtype`."""


def load(writer: str) -> Any:
    """Imports the function that a `Format` names."""
    module, _, function = writer.partition(".")
    return getattr(import_module(f"{__name__}.{module}"), function)
