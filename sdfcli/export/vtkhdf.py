"""VTKHDF files of the octree for ParaView: an unstructured grid with a voxel per leaf and shared corners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sdfcli.backend import select_backend
from sdfcli.field.field import Field, lattice_position

VTK_VOXEL = 11
CHUNK = 1 << 15


def write_vtkhdf(path: Path, field: Field) -> None:
    """Writes point data `distance` (float32) and cell data `level` (uint8), in VTKHDF 2.0.

    A voxel's corners are in Morton order, as a leaf's.
    """
    import h5py

    # The file is made in memory: on a full disk HDF5 may abort the process.
    with h5py.File("field.vtkhdf", "w", driver="core", backing_store=False) as file:
        _write(file.create_group("VTKHDF"), field)
        file.flush()
        path.write_bytes(file.id.get_file_image())


def _write(root: Any, field: Field) -> None:
    backend = select_backend("cpu")  # where loading the field has made its corners
    corner = backend.to_host(field.on(backend)["leaf_corner"])
    leaves, corners = len(field.leaf_key), len(field.corner_key)
    root.attrs["Version"] = np.array([2, 0])
    root.attrs["Type"] = np.bytes_("UnstructuredGrid")
    for name, count in (("Points", corners), ("Cells", leaves), ("ConnectivityIds", 8 * leaves)):
        root["NumberOf" + name] = np.array([count])
    points = field.domain.origin + field.domain.length * lattice_position(field.corner_key)
    for name, data in (
        ("Points", points),
        ("Connectivity", corner.ravel().astype(np.int64)),
        ("Offsets", np.arange(0, 8 * leaves + 1, 8, dtype=np.int64)),
        ("Types", np.full(leaves, VTK_VOXEL, np.uint8)),
        ("PointData/distance", field.distance),
        ("CellData/level", field.leaf_level),
    ):
        chunks = (min(CHUNK, len(data)), *data.shape[1:])
        root.create_dataset(name, data=data, chunks=chunks, compression="gzip", compression_opts=1, shuffle=True)
