"""OpenVDB, by its own Python module, which has no wheel of its own: conda-forge has it, and so has Blender's `bpy`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sdfcli.errors import DeviceError
from sdfcli.export.lattice import Lattice, check_memory, values
from sdfcli.field import Field

BYTES = 6
"""A value takes, with the tree around it."""


def write_vdb(path: Path, field: Field, lattice: Lattice) -> None:
    """A float grid `distance` of class level set in which every value of the lattice is there.

    Raises DeviceError where the module `openvdb` is not installed, OutOfMemoryError.
    """
    try:
        import openvdb
    except ImportError as error:
        raise DeviceError("OpenVDB files need the module openvdb: conda install -c conda-forge openvdb") from error
    check_memory(lattice, BYTES)
    beyond = float(np.abs(field.distance).max())
    grid = openvdb.FloatGrid(beyond)
    grid.name = "distance"
    grid.gridClass = openvdb.GridClass.LEVEL_SET
    grid.transform = openvdb.createLinearTransform(voxelSize=lattice.spacing)
    grid.transform.postTranslate(tuple(float(x) for x in lattice.origin))
    layer = lattice.shape[1] * lattice.shape[2]
    for i, piece in enumerate(values(field, lattice, x_fastest=False, piece=layer)):
        grid.copyFromArray(piece.reshape(1, *lattice.shape[1:]), ijk=(i, 0, 0))
    openvdb.write(str(path), grids=[grid])
