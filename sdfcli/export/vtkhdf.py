"""VTKHDF octree files for ParaView: an unstructured grid with one voxel per leaf and shared corners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import select_backend
from sdfcli.field.field import Field, lattice_position
from sdfcli.runtime.libraries import import_h5py

VTK_VOXEL = 11
CHUNK = 1 << 15
PACKED = {"compression": "gzip", "compression_opts": 1, "shuffle": True}


def write_vtkhdf(path: Path, field: Field) -> None:
    """Writes point data `distance` (float32) and cell data `level` (uint8), in VTKHDF 2.0.

    A voxel's corners are in Morton order, like a leaf's.
    """
    h5py = import_h5py()
    # The file is created in memory: on a full disk HDF5 may abort the process.
    with h5py.File("field.vtkhdf", "w", driver="core", backing_store=False) as file:
        root = file.create_group("VTKHDF")
        write_type(root)
        for name, count in counts(field).items():
            root[name] = np.array([count])
        for name, data in datasets(field).items():
            chunks = (min(CHUNK, len(data)), *data.shape[1:])
            root.create_dataset(name, data=data, chunks=chunks, **PACKED)
        file.flush()
        path.write_bytes(file.id.get_file_image())


def write_type(root: Any) -> None:
    """Writes the attributes of the group VTKHDF."""
    root.attrs["Version"] = np.array([2, 0])
    root.attrs["Type"] = np.bytes_("UnstructuredGrid")


def counts(field: Field) -> dict[str, int]:
    """Sizes of a field's grid, by name in the file."""
    leaves = field.leaves
    return {
        "NumberOfPoints": field.corners,
        "NumberOfCells": leaves,
        "NumberOfConnectivityIds": 8 * leaves,
    }


def datasets(field: Field) -> dict[str, npt.NDArray[Any]]:
    """Arrays of a field's grid, by name in the file."""
    backend = select_backend("cpu")  # where loading the field created its corners
    corner, leaves = backend.to_host(field._arrays_on(backend)["leaf_corner"]), field.leaves
    return {
        "Points": field.domain.origin + field.domain.length * lattice_position(field.corner_key),
        "Connectivity": corner.ravel().astype(np.int64),
        "Offsets": np.arange(0, 8 * leaves + 1, 8, dtype=np.int64),
        "Types": np.full(leaves, VTK_VOXEL, np.uint8),
        "PointData/distance": field.distance,
        "CellData/level": field.leaf_level,
    }


def append(root: Any, name: str, data: Any) -> None:
    """Appends rows to a dataset, creating it for the first rows."""
    if name not in root:
        rest = data.shape[1:]
        # Coordinates repeat: separate columns, unshuffled, compress to a seventh.
        packed = PACKED | {"chunks": (CHUNK, *(1 for _ in rest)), "shuffle": not rest}
        root.create_dataset(name, (0, *rest), data.dtype, maxshape=(None, *rest), **packed)
    dataset = root[name]
    first = len(dataset)
    dataset.resize(first + len(data), axis=0)
    dataset[first:] = data
