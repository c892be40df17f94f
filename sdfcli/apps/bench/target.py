"""Profiler target process: launches every distance query variant on a mesh, or particle steps.

The counted launches lie between the profiler's start and stop, after preparation and skipped launches.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from sdfcli.apps.bench.ncu import KERNELS
from sdfcli.errors import SdfError
from sdfcli.runtime.memory import as_sdf_error

if TYPE_CHECKING:
    from sdfcli.apps.bench.workload import Workload
    from sdfcli.backend import Backend


def run(workload: Workload, backend: Backend, skip: int, count: int, whole: bool = False) -> None:
    """Launches every variant `skip` times, then `count` times for the profiler; if `whole`, runs the whole pipeline."""

    def times(number: int) -> None:
        if whole:
            for _ in range(number):
                workload.stages()
            return
        for variant in KERNELS:
            for _ in range(number):
                workload.query(variant)

    counted(times, backend, skip, count)


def counted(times: Callable[[int], None], backend: Backend, skip: int, count: int) -> None:
    """Runs a function `skip` times, then `count` times for the profiler."""
    times(skip)
    with backend.profiled():
        times(count)


def main(arguments: list[str] | None = None) -> None:
    """Runs the target; on an error, exits with its code after one line on standard error."""
    parser = argparse.ArgumentParser(prog="sdfcli.apps.bench.target", description=__doc__)
    parser.add_argument("mesh")
    parser.add_argument("--points", default="octree")
    parser.add_argument("--depth", type=int, default=9)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--skip", type=int, default=5)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--whole", action="store_true", help="the whole pipeline, not the queries alone")
    given = parser.parse_args(arguments)
    from sdfcli.apps.bench.workload import Workload
    from sdfcli.apps.flow.bench import FlowSteps, flow_layout
    from sdfcli.backend import select_backend
    from sdfcli.mesh.load import load_mesh

    try:
        backend = select_backend(given.device)
        layout = flow_layout(given.mesh)
        if layout is not None:
            counted(FlowSteps(backend, layout).run, backend, given.skip, given.count)
            return
        workload = Workload(load_mesh(given.mesh), backend, given.points, given.depth)
        run(workload, backend, given.skip, given.count, given.whole)
    except (SdfError, MemoryError) as error:
        known = as_sdf_error(error)
        print("sdfcli:", *str(known).split(), file=sys.stderr)
        sys.exit(known.exit_code)
