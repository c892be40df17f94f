"""VTKHDF files with particles over time, which ParaView can animate."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from sdfcli.apps.flow.run import State
from sdfcli.backend import C
from sdfcli.export.points import begin_points, end_points
from sdfcli.export.vtkhdf import append
from sdfcli.runtime.streamed import streamed_hdf5


def write_particles(path: Path, states: Iterable[State]) -> None:
    """Writes one time step per state, in VTKHDF 2.0: points in metres, with point data `velocity`, `pressure`,
    `number`, and with wall particles `kind` (0 water, 1 wall).

    Holds one state in memory. Raises OSError if the file cannot be written.
    """
    names = ["velocity", "pressure", "number"]
    times: list[float] = []
    counts: list[int] = []
    with streamed_hdf5(path) as (file, check):
        root = begin_points(file)
        for state in states:
            if not times and (state.kind == C.WALL).any():
                names.append("kind")
            times.append(state.time)
            counts.append(len(state))
            append(root, "Points", state.position)
            for name in names:
                append(root, f"PointData/{name}", getattr(state, name))
            check()
        end_points(root, np.array(counts, np.int64), times, names)
