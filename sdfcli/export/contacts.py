"""Files of contacts: text, point clouds, and VTKHDF for ParaView."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sdfcli.export.vtkhdf import PACKED
from sdfcli.query.contacts import Manifold
from sdfcli.query.point_files import CHUNK, write_ply, write_text
from sdfcli.runtime.files import written_whole

COLUMNS = ("pose", "triangle", "x", "y", "z", "distance", "nx", "ny", "nz")
"""Columns of a .csv file; those of a .ply file are the same, with x, y, z before."""

ENDINGS = (".csv", ".ply", ".vtkhdf")

KINDS = ("Vertices", "Lines", "Polygons", "Strips")
"""Kinds of cells that a VTKHDF file of polygons names; only the first is used."""


def write_contacts(path: Path, found: Manifold, poses: int, force: bool) -> None:
    """Writes contacts, in NumPy arrays, in the format that the path ends in: whole or not at all.

    .csv     a line each, under the names COLUMNS.
    .ply     a point cloud with these as properties, in double precision.
    .vtkhdf  VTKHDF 2.0: points, with a step per pose, 0 to poses - 1, and the other columns as point data.

    Raises UsageError if the file exists and `force` is not given, or if it cannot be written.
    """
    with written_whole(path, force) as temporary:
        if path.suffix.lower() == ".vtkhdf":
            _write_vtkhdf(temporary, found, poses)
            return
        front, back = np.column_stack((found.pose, found.triangle)), np.column_stack((found.distance, found.normal))
        parts = (slice(first, first + CHUNK) for first in range(0, len(found), CHUNK))
        if path.suffix.lower() == ".csv":
            with open(temporary, "w") as text:
                rows = (np.column_stack((front[part], found.point[part], back[part])) for part in parts)
                write_text(text, list(COLUMNS), rows, ",", named=True)
        else:
            names = [name for name in COLUMNS if name not in ("x", "y", "z")]
            with open(temporary, "wb") as binary:
                write_ply(binary, names, ((found.point[part], np.hstack((front[part], back[part]))) for part in parts))


def _write_vtkhdf(path: Path, found: Manifold, poses: int) -> None:
    import h5py

    counts = np.bincount(found.pose, minlength=poses)
    first = np.concatenate(([0], np.cumsum(counts)[:-1]))
    nothing = np.zeros(poses, np.int64)
    # The file is made in memory: on a full disk HDF5 may abort the process.
    with h5py.File("contacts.vtkhdf", "w", driver="core", backing_store=False) as file:
        root = file.create_group("VTKHDF")
        root.attrs["Version"] = np.array([2, 0])
        root.attrs["Type"] = np.bytes_("PolyData")
        root["NumberOfPoints"] = counts
        _put(root, "Points", found.point)
        data = {"distance": found.distance, "normal": found.normal, "triangle": found.triangle, "pose": found.pose}
        for name, values in data.items():
            _put(root, f"PointData/{name}", values)
        for kind in KINDS:
            each = counts if kind == "Vertices" else nothing
            group = root.create_group(kind)
            group["NumberOfCells"] = group["NumberOfConnectivityIds"] = each
            # All steps read the same numbers, from 0 on: VTK would look for those behind an empty step elsewhere.
            _put(group, "Connectivity", np.arange(each.max()))
            _put(group, "Offsets", np.arange(each.max() + 1))
        steps = root.create_group("Steps")
        steps.attrs["NSteps"] = poses
        steps["Values"] = np.arange(poses, dtype=np.float64)
        steps["PartOffsets"], steps["NumberOfParts"] = np.arange(poses), np.ones(poses, np.int64)
        steps["PointOffsets"] = first
        steps["CellOffsets"] = steps["ConnectivityIdOffsets"] = np.zeros((poses, len(KINDS)), np.int64)
        for name in data:
            steps[f"PointDataOffsets/{name}"] = first
        file.flush()
        path.write_bytes(file.id.get_file_image())


def _put(group: Any, name: str, values: Any) -> None:
    group.create_dataset(name, data=values, **(PACKED if len(values) else {}))
