"""VTKHDF files with one step per field, which ParaView plays with its time bar."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from sdfcli.export.vtkhdf import append, counts, datasets, write_type
from sdfcli.field.field import Field
from sdfcli.runtime.streamed import streamed_hdf5

FIRST = {
    "PointOffsets": "NumberOfPoints",
    "CellOffsets": "NumberOfCells",
    "ConnectivityIdOffsets": "NumberOfConnectivityIds",
    "PointDataOffsets/distance": "NumberOfPoints",
    "CellDataOffsets/level": "NumberOfCells",
}
"""Step offsets, and the sizes that they sum over the preceding steps."""


def write_series(path: Path, steps: Iterable[tuple[float, Field]]) -> dict[str, int]:
    """Writes one step per time, in seconds, and field, each as `write_vtkhdf` does, in VTKHDF 2.0. Returns the step
    count, and total leaf and corner counts.

    Memory holds one field. Raises OSError if the file cannot be written.
    """
    times: list[float] = []
    sizes: dict[str, list[int]] = {name: [] for name in sorted(set(FIRST.values()))}
    leaves = corners = 0
    with streamed_hdf5(path) as (file, check):
        root = file.create_group("VTKHDF")
        write_type(root)
        for time, field in steps:
            times.append(time)
            leaves, corners, grid = leaves + field.leaves, corners + field.corners, datasets(field)
            for name, count in counts(grid).items():
                sizes[name].append(count)
            for name, data in grid.items():
                append(root, name, data)
            check()
        for name, each in sizes.items():
            root[name] = np.array(each)
        index = root.create_group("Steps")
        index.attrs["NSteps"] = len(times)
        index["Values"] = np.array(times, np.float64)
        index["PartOffsets"], index["NumberOfParts"] = np.arange(len(times)), np.ones(len(times), np.int64)
        for name, size in FIRST.items():
            index[name] = np.concatenate(([0], np.cumsum(sizes[size])[:-1]))
    return {"frames": len(times), "leaves": leaves, "corners": corners}
