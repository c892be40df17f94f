"""VTKHDF octree files for ParaView: an unstructured grid with shared corners, a voxel per leaf where levels agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.export.conforming import PYRAMID, TETRAHEDRON, VOXEL, conforming
from sdfcli.field.field import Field
from sdfcli.runtime.libraries import import_h5py

KINDS = VOXEL, PYRAMID, TETRAHEDRON
CHUNK = 1 << 15
PACKED = {"compression": "gzip", "compression_opts": 1, "shuffle": True}


def write_vtkhdf(path: Path, field: Field) -> None:
    """Writes point data `distance` (float32) and cell data `level` (uint8), in VTKHDF 2.0.

    A voxel's corners are in Morton order, like a leaf's. See `conforming` for leaves beside finer ones.
    """
    h5py = import_h5py()
    # The file is created in memory: on a full disk HDF5 may abort the process.
    with h5py.File("field.vtkhdf", "w", driver="core", backing_store=False) as file:
        root = file.create_group("VTKHDF")
        write_type(root)
        grid = datasets(field)
        for name, count in counts(grid).items():
            root[name] = np.array([count])
        for name, data in grid.items():
            chunks = (min(CHUNK, len(data)), *data.shape[1:])
            root.create_dataset(name, data=data, chunks=chunks, **PACKED)
        file.flush()
        path.write_bytes(file.id.get_file_image())


def write_type(root: Any) -> None:
    """Writes the attributes of the group VTKHDF."""
    root.attrs["Version"] = np.array([2, 0])
    root.attrs["Type"] = np.bytes_("UnstructuredGrid")


def counts(grid: dict[str, npt.NDArray[Any]]) -> dict[str, int]:
    """Sizes of a grid, by name in the file."""
    names = {"NumberOfPoints": "Points", "NumberOfCells": "Types", "NumberOfConnectivityIds": "Connectivity"}
    return {name: len(grid[array]) for name, array in names.items()}


def datasets(field: Field) -> dict[str, npt.NDArray[Any]]:
    """Arrays of a field's grid, by name in the file."""
    cells = conforming(field)
    sizes = [np.full(len(each), each.shape[1]) for each in cells.corner]
    types = [np.full(len(each), kind, np.uint8) for each, kind in zip(cells.corner, KINDS, strict=True)]
    return {
        "Points": field.domain.origin + field.domain.length * cells.position,
        "Connectivity": np.concatenate([each.ravel() for each in cells.corner]),
        "Offsets": np.cumsum(np.concatenate(([0], *sizes))),
        "Types": np.concatenate(types),
        "PointData/distance": cells.value,
        "CellData/level": field.leaf_level[np.concatenate(cells.leaf)],
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
