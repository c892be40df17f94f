"""VTKHDF point files for ParaView, with one step per pose or time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.export.vtkhdf import PACKED

KINDS = ("Vertices", "Lines", "Polygons", "Strips")
"""Cell kinds in a VTKHDF PolyData file; only the first is used."""


def begin_points(file: Any) -> Any:
    """Creates a file's VTKHDF 2.0 group, to which `Points` and `PointData/NAME` are to be appended, step by step."""
    root = file.create_group("VTKHDF")
    root.attrs["Version"] = np.array([2, 0])
    root.attrs["Type"] = np.bytes_("PolyData")
    return root


def end_points(root: Any, counts: npt.NDArray[np.int64], times: Sequence[float], names: Iterable[str]) -> None:
    """Adds the data common to all steps. counts: points per step; times: one per step; names: point data names."""
    steps, first = len(counts), np.concatenate(([0], np.cumsum(counts)[:-1]))
    root["NumberOfPoints"] = counts
    for kind in KINDS:
        each = counts if kind == "Vertices" else np.zeros(steps, np.int64)
        group = root.create_group(kind)
        group["NumberOfCells"] = group["NumberOfConnectivityIds"] = each
        # All steps read the same ids, from 0: after an empty step, VTK would read others at a wrong offset.
        put(group, "Connectivity", np.arange(each.max()))
        put(group, "Offsets", np.arange(each.max() + 1))
    index = root.create_group("Steps")
    index.attrs["NSteps"] = steps
    index["Values"] = np.asarray(times, np.float64)
    index["PartOffsets"], index["NumberOfParts"] = np.arange(steps), np.ones(steps, np.int64)
    index["PointOffsets"] = first
    index["CellOffsets"] = index["ConnectivityIdOffsets"] = np.zeros((steps, len(KINDS)), np.int64)
    for name in names:
        index[f"PointDataOffsets/{name}"] = first


def put(group: Any, name: str, values: Any) -> None:
    """Adds an array, compressed."""
    group.create_dataset(name, data=values, **(PACKED if len(values) else {}))
