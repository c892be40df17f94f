"""VTKHDF octree files for ParaView: an unstructured grid with shared corners, whose cells are the leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import select_backend
from sdfcli.export.conforming import conforming_cells, leaf_cells
from sdfcli.field.field import Field
from sdfcli.runtime.libraries import import_h5py

VTK_TETRA, VTK_VOXEL, VTK_PYRAMID = 10, 11, 14
CHUNK = 1 << 15
PACKED = {"compression": "gzip", "compression_opts": 1, "shuffle": True}


def write_vtkhdf(path: Path, field: Field, conforming: bool = False) -> None:
    """Writes point data `distance` (float32) and cell data `level` (uint8), in VTKHDF 2.0.

    conforming: whether leaves beside smaller ones are cut, so that contours are closed; otherwise each leaf is a voxel.
    A voxel's corners are in Morton order, like a leaf's.
    """
    h5py = import_h5py()
    # The file is created in memory: on a full disk HDF5 may abort the process.
    with h5py.File("field.vtkhdf", "w", driver="core", backing_store=False) as file:
        root = file.create_group("VTKHDF")
        write_type(root)
        arrays = datasets(field, conforming)
        for name, count in counts(arrays).items():
            root[name] = np.array([count])
        for name, data in arrays.items():
            chunks = (min(CHUNK, len(data)), *data.shape[1:])
            root.create_dataset(name, data=data, chunks=chunks, **PACKED)
        file.flush()
        path.write_bytes(file.id.get_file_image())


def write_type(root: Any) -> None:
    """Writes the attributes of the group VTKHDF."""
    root.attrs["Version"] = np.array([2, 0])
    root.attrs["Type"] = np.bytes_("UnstructuredGrid")


def counts(arrays: dict[str, npt.NDArray[Any]]) -> dict[str, int]:
    """Sizes of a grid's `datasets`, by name in the file."""
    sizes = {"NumberOfPoints": "Points", "NumberOfCells": "Types", "NumberOfConnectivityIds": "Connectivity"}
    return {name: len(arrays[of]) for name, of in sizes.items()}


def datasets(field: Field, conforming: bool = False) -> dict[str, npt.NDArray[Any]]:
    """Arrays of a field's grid, by name in the file."""
    backend = select_backend("cpu")  # where loading the field created its corners
    cells = conforming_cells(field, backend) if conforming else leaf_cells(field, backend)
    kinds = ((VTK_VOXEL, cells.voxel), (VTK_PYRAMID, cells.pyramid), (VTK_TETRA, cells.tetra))
    sizes = np.repeat([each.shape[1] for _, each in kinds], [len(each) for _, each in kinds])
    return {
        "Points": field.domain.origin + field.domain.length * cells.position,
        "Connectivity": np.concatenate([each.ravel() for _, each in kinds]),
        "Offsets": np.concatenate(([0], np.cumsum(sizes))),
        "Types": np.repeat(np.array([kind for kind, _ in kinds], np.uint8), [len(each) for _, each in kinds]),
        "PointData/distance": cells.value,
        "CellData/level": field.leaf_level[cells.leaf],
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
