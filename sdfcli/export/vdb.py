"""OpenVDB files, written by its Python module, from conda-forge or Blender's package `bpy`; PyPI has no wheel."""

from __future__ import annotations

import contextlib
import math
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

from sdfcli.errors import DeviceError
from sdfcli.export.lattice import Distances, Lattice, check_memory, values

BYTES = 6
"""Working bytes per value, including the tree."""

BLENDERS_MODULES = "*/python/lib/python3*/site-packages"
"""Module folders in the package `bpy`, which depend on the Blender and Python versions."""


def write_vdb(path: Path, field: Distances, lattice: Lattice) -> None:
    """Writes a float grid `distance` of class level set, with every lattice value active.

    Raises DeviceError if the module `openvdb` is not installed; OutOfMemoryError.
    """
    openvdb = _openvdb()
    check_memory(lattice, BYTES)
    # Above all distances in the domain: a voxel that equals the background is inactive.
    beyond = math.sqrt(3) * field.domain.length
    grid = openvdb.FloatGrid(beyond)
    grid.name = "distance"
    grid.gridClass = openvdb.GridClass.LEVEL_SET
    grid.transform = openvdb.createLinearTransform(voxelSize=lattice.spacing)
    grid.transform.postTranslate(tuple(float(x) for x in lattice.origin))
    layer = lattice.shape[1] * lattice.shape[2]
    for i, piece in enumerate(values(field, lattice, x_fastest=False, piece=layer)):
        grid.copyFromArray(piece.reshape(1, *lattice.shape[1:]), ijk=(i, 0, 0))
    openvdb.write(str(path), grids=[grid])


def _openvdb() -> Any:
    """The module `openvdb`; in Blender's package `bpy` it lies in a folder outside Python's path."""
    try:
        return import_module("openvdb")
    except ImportError as error:
        with contextlib.suppress(ImportError):
            bpy = find_spec("bpy")  # before its import, which points `bpy.__path__` at Blender's scripts
            import_module("bpy")  # loads the libraries that the module needs
            roots = (bpy and bpy.submodule_search_locations) or []
            folders = [str(each) for root in roots for each in Path(root).glob(BLENDERS_MODULES)]
            spec = PathFinder.find_spec("openvdb", folders)
            if spec and spec.loader:
                module = module_from_spec(spec)
                spec.loader.exec_module(module)
                return module
        raise DeviceError(
            "OpenVDB files need the module openvdb: conda install -c conda-forge openvdb, "
            "or, with Python 3.13, pip install 'bpy>=5.2'"
        ) from error
