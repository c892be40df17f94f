"""`sdfcli bench flood`: jump flooding's passes, their order, their growth, and a picture of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.bench_options import Repeat
from sdfcli.cli.output import print_json, print_table, progress
from sdfcli.cli.records import Line, items

if TYPE_CHECKING:
    from sdfcli.apps.bench.flood import Row


Depth = Annotated[
    int | None,
    typer.Option(help="Largest grid: 2^DEPTH cells per side; 8 on a GPU, 5 on the CPU by default.", show_default=False),
]
Picture = Annotated[
    Path | None,
    typer.Option(
        help="Draw a 64 x 64 Voronoi diagram pass by pass, by halving and by doubling steps: .png or .jpg.",
        show_default=False,
    ),
]


class FloodsTimed(Line, title="bench flood", shared="input device"):
    """A line per mesh."""

    rows: Annotated[
        list[Any],
        items("sdfcli.apps.bench.flood:Row"),
        "one per flood: `order`, `planted` (`mesh`, `random`), `depth`, `nodes`, `seeds`, `passes`, `milliseconds`, "
        "`missed` (share of nodes), `excess_max`, `excess_rms` (node spacings), `unreached` (share of nodes)",
    ]


def bench_flood(
    meshes: options.Meshes,
    depth: Depth = None,
    picture: Picture = None,
    repeat: Repeat = 5,
    device: options.Device = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare jump flooding's orders of passes, and its time and errors by grid size and by seed count.

    Example: sdfcli bench flood bunny.ply --picture voronoi.png
    """
    from sdfcli.apps.bench import flood
    from sdfcli.backend import select_backend
    from sdfcli.mesh.load import load_mesh
    from sdfcli.pictures.png import check_picture, write_picture

    if picture is not None:
        check_picture(picture, force)
    backend = select_backend(device, threads)
    level = depth if depth is not None else 5 if backend.name == "cpu" else 8
    flood.check_depth(level)
    if picture is not None:
        write_picture(picture, flood.picture(backend), force)
    for mesh in meshes:
        with progress(mesh, quiet or json) as update:
            rows = list(flood.measure(load_mesh(mesh), backend, level, repeat, update))
        if json:
            print_json(FloodsTimed(input=mesh, device=backend.name, rows=rows))
        elif not quiet:
            _print_rows(f"{mesh}, {backend.name}", rows, level)


def _print_rows(title: str, rows: Sequence[Row], depth: int) -> None:
    tables = {
        f"orders of passes, 2^{depth} cells per side": [
            row for row in rows if row.planted == "mesh" and row.depth == depth
        ],
        "JFA by grid size": [row for row in rows if row.planted == "mesh" and row.order == "JFA"],
        f"JFA by random seeds, 2^{depth} cells per side": [row for row in rows if row.planted == "random"],
    }
    header = ("", "nodes", "seeds", "passes", "ms", "ns/node/pass", "missed %", "excess max", "rms", "unreached %")
    for k, (name, chosen) in enumerate(tables.items()):
        lines = [
            (
                row.order,
                f"{row.nodes:,}",
                f"{row.seeds:,}",
                f"{row.passes}",
                f"{row.milliseconds:.3f}",
                f"{1e6 * row.milliseconds / row.nodes / row.passes:.3f}",
                f"{100 * row.missed:.2f}",
                f"{row.excess_max:.3f}",
                f"{row.excess_rms:.4f}",
                f"{100 * row.unreached:.2f}",
            )
            for row in chosen
        ]
        print_table(f"{title}: {name}", lines, header, apart=k > 0)
