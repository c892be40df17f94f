"""`sdfcli bench scale`: whole builds for increasingly large meshes, and their growth exponents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.bench_options import numbers
from sdfcli.cli.output import human_bytes, print_json, print_lines, print_table, progress
from sdfcli.cli.records import Line, items

if TYPE_CHECKING:
    from sdfcli.apps.bench.scale import Row


Scale = Annotated[
    str | None,
    typer.Option(
        metavar="X[,X...]",
        help="Triangle counts, in multiples of the mesh's; 1,4,16 by default.",
        show_default=False,
    ),
]
Depth = Annotated[
    int | None,
    typer.Option(help="Level of the thesis's octree; by default the adaptive octree is used.", show_default=False),
]


class ScalesTimed(Line, title="bench scale", shared="input device"):
    """A line per mesh."""

    rows: Annotated[
        list[Any],
        items("sdfcli.apps.bench.scale:Row"),
        "one per build: `made` (`given`, `copies`, `subdivided`), `triangles`, `read` (seconds to read the file's "
        "bytes), `seconds` (of the process), `stages` (seconds, by column), `leaves`, `file_bytes`, `field_bytes`, "
        "`host_bytes`, `device_bytes` (null on a CPU)",
    ]
    exponents: Annotated[
        dict[str, dict[str, float]],
        "growth exponents with the triangle count, for `copies` and `subdivided`, by column",
    ]


def bench_scale(
    meshes: options.Meshes,
    scale: Scale = None,
    depth: Depth = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Time whole builds of a mesh's copies and subdivisions, and report how time and memory grow.

    Example: sdfcli bench scale dragon.ply --scale 1,4,16
    """
    from sdfcli.apps.bench.scale import SCALES, check_scales, exponents, measure
    from sdfcli.backend import select_backend
    from sdfcli.params import BuildParams

    BuildParams(depth=depth)  # refuses a level out of range before the first build
    factors = check_scales(SCALES if scale is None else numbers(scale, "--scale"))
    backend = select_backend(device, threads)
    given = ["--device", backend.name, *([] if threads is None else ["--threads", str(threads)])]
    if depth is not None:
        given += ["--octree", "bvh", "--depth", str(depth)]
    octree = "adaptive octree" if depth is None else f"bvh to depth {depth}"
    for mesh in meshes:
        with progress(mesh, quiet or json) as update:
            rows = list(measure(mesh, factors, backend, given, update))
        slopes = exponents(rows)
        if json:
            print_json(ScalesTimed(input=mesh, device=backend.name, rows=rows, exponents=slopes))
        elif not quiet:
            _print_rows(f"{mesh}, {octree}, {backend.name}: seconds of a process", rows, slopes)


def _print_rows(title: str, rows: Sequence[Row], slopes: dict[str, dict[str, float]]) -> None:
    lines = [
        (
            f"{row.triangles:,}",
            row.made,
            f"{row.read:.3f}",
            f"{row.seconds:.2f}",
            *(f"{seconds:.3f}" for seconds in row.stages.values()),
            f"{row.leaves:,}",
            human_bytes(row.host_bytes),
            f"{row.host_bytes / row.triangles:,.0f}",
            "-" if row.device_bytes is None else human_bytes(row.device_bytes),
        )
        for row in rows
    ]
    parts = tuple(rows[0].stages)
    print_table(title, lines, ("triangles", "", "read", "all", *parts, "leaves", "host", "B/triangle", "device"))
    for made, of in slopes.items():
        words = ", ".join(f"{name.replace('_', ' ')} {slope:.2f}" for name, slope in of.items())
        print_lines(f"Exponents of growth with the triangles, {made}: {words}.")
