"""`sdfcli bench surface`: marching cubes by stage."""

from __future__ import annotations

from typing import Annotated

import typer

from sdfcli.cli import options
from sdfcli.cli.bench_options import Repeat, numbers
from sdfcli.cli.output import print_json, print_table, progress
from sdfcli.cli.records import Amount, Count, Json, Line, keyed
from sdfcli.errors import UsageError

MOST_NODES = 1024
"""Maximum nodes along an axis: the library scans up to 2^31 numbers."""

Sizes = Annotated[
    str | None,
    typer.Option(
        "--nodes",
        metavar="N[,N...]",
        help="Nodes along each axis; 128, 256, 512 and 1024 by default, on the CPU 64 and 128.",
        show_default=False,
    ),
]


class SurfaceTimed(Line, title="bench surface", shared="triangles device"):
    """A line per volume."""

    nodes: Annotated[Count, "volume nodes along each axis"]
    milliseconds: Annotated[Amount, "median milliseconds, by the host's clock"]
    stages: Annotated[
        Json,
        keyed(Amount, "source flags flag_scan cases count_scan polygons"),
        "milliseconds by stage, as for `extract`, but by median",
    ]
    scan_share: Annotated[Amount, "share of the two scans in the five stages after the input"]
    cell_scan: Annotated[Amount, "median milliseconds of the first scan with a flag per cell, as in the paper"]


def bench_surface(
    sizes: Sizes = None,
    repeat: Repeat = 5,
    device: options.Device = "auto",
    threads: options.Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Time marching cubes by stage on volumes of metaballs, with the scans' share.

    Example: sdfcli bench surface --nodes 256
    """
    from sdfcli.apps.bench.surface import SIZES, SIZES_CPU, measure_surface
    from sdfcli.backend import select_backend

    chosen = None if sizes is None else numbers(sizes, "--nodes")
    for nodes in chosen or ():
        if nodes != int(nodes) or not 8 <= nodes <= MOST_NODES:
            raise UsageError(f"--nodes {nodes:g}: use whole numbers from 8 to {MOST_NODES}")
    backend = select_backend(device, threads)
    volumes = list(map(int, chosen)) if chosen else SIZES_CPU if backend.name == "cpu" else SIZES
    rows = []
    with progress("bench surface", quiet or json) as update:
        for row in measure_surface(backend, volumes, repeat, update):
            if json:
                print_json(SurfaceTimed(device=backend.name, **vars(row)))
            stages = [f"{row.stages[name]:.3f}" for name in list(row.stages)[1:]]
            share = f"{100 * row.scan_share:.0f} %"
            ends = f"{row.milliseconds:.3f}", f"{row.cell_scan:.3f}"
            rows.append((f"{row.nodes}^3", f"{row.triangles:,}", *stages, share, *ends))
    if not (json or quiet):
        header = ("volume", "triangles", "flags", "scan", "cases", "scan", "polygons", "scans", "all", "scan by cell")
        print_table(f"Milliseconds by stage of marching cubes, {backend.name}", rows, header)
