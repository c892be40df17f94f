"""Contact files: text, point clouds, and VTKHDF for ParaView."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sdfcli.export.points import begin_points, end_points, put
from sdfcli.query.contacts import Manifold
from sdfcli.query.point_files import CHUNK, write_ply, write_text
from sdfcli.runtime.files import written_whole
from sdfcli.runtime.libraries import import_h5py

COLUMNS = ("pose", "triangle", "x", "y", "z", "distance", "nx", "ny", "nz")
"""Columns of a .csv file; a .ply file has the same, with x, y, z first."""

ENDINGS = (".csv", ".ply", ".vtkhdf")


def write_contacts(path: Path, found: Manifold, poses: int, force: bool) -> None:
    """Writes contacts, in NumPy arrays, in the format of the path's ending: whole or not at all.

    .csv     one line per contact, after a line with the names COLUMNS.
    .ply     a point cloud with the columns as properties, in double precision.
    .vtkhdf  VTKHDF 2.0: points, with one step per pose, 0 to poses - 1, and the other columns as point data.

    Raises UsageError if the file exists and `force` is not set, or if it cannot be written.
    """
    with written_whole(path, force) as temporary:
        if path.suffix.lower() == ".vtkhdf":
            _write_vtkhdf(temporary, found, poses)
            return
        front = np.column_stack((found.pose, found.triangle)).astype(np.float64)
        back = np.column_stack((found.distance, found.normal))
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
    h5py = import_h5py()
    # The file is created in memory: on a full disk HDF5 may abort the process.
    with h5py.File("contacts.vtkhdf", "w", driver="core", backing_store=False) as file:
        root = begin_points(file)
        data = {"distance": found.distance, "normal": found.normal, "triangle": found.triangle, "pose": found.pose}
        put(root, "Points", found.point)
        for name, values in data.items():
            put(root, f"PointData/{name}", values)
        end_points(root, np.bincount(found.pose, minlength=poses), range(poses), data)
        file.flush()
        path.write_bytes(file.id.get_file_image())
