"""`sdfcli bench sequence`: moving meshes' frames per second, by four build methods."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.bench_options import Runs
from sdfcli.cli.output import print_json, print_lines, print_table, progress
from sdfcli.cli.records import Line, OctreeDepth, items

Meshes = Annotated[
    list[str] | None, typer.Argument(metavar="MESH...", help="Triangle meshes; a torus of 69,696 triangles by default.")
]
Frames = Annotated[
    int | None, typer.Option(help="Number of frames; 120 on a GPU, 16 on the CPU by default.", show_default=False)
]
Depth = Annotated[
    int | None,
    typer.Option(help="Level of the thesis's octree; 9 on a GPU, 7 on the CPU by default.", show_default=False),
]


class SequencesTimed(Line, title="bench sequence", shared="input triangles device"):
    """A line per mesh."""

    depth: OctreeDepth
    rows: Annotated[
        list[Any],
        items("sdfcli.apps.bench.sequence:Row"),
        "one per octree and build method: `way`, `octree`, `file` (whether files are written), `frames`, `seconds`, "
        "`per_second` (frames), `steady` (frames per second after the first; null for a process per frame)",
    ]


def bench_sequence(
    meshes: Meshes = None,
    frames: Frames = None,
    depth: Depth = None,
    repeat: Runs = 1,
    device: options.Devices = "auto",
    threads: options.Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure moving meshes' frames per second, by four build methods.

    Example: sdfcli bench sequence bunny.ply --frames 16
    """
    from sdfcli.apps.bench import thesis
    from sdfcli.apps.bench.sequence import LIU_KIM, compare, torus
    from sdfcli.backend.select import device_names
    from sdfcli.mesh.load import load_mesh
    from sdfcli.params import BuildParams

    BuildParams(depth=depth)  # refuses a level out of range before the first method runs
    names = device_names(device)
    on_cpu = names == ["cpu"]
    count = frames if frames is not None else 16 if on_cpu else 120
    level = depth if depth is not None else 7 if on_cpu else 9
    for path in meshes or ["torus"]:
        mesh = load_mesh(path) if meshes else torus()
        with progress(path, quiet or json) as update:
            found = list(compare(mesh, count, level, device=device, threads=threads, repeat=repeat, progress=update))
        head: dict[str, Any] = {"input": path, "triangles": len(mesh.faces), "device": ",".join(names), "depth": level}
        if json:
            print_json(SequencesTimed(**head, rows=found))
        if json or quiet:
            continue
        rows = [
            (
                row.way if row.file else f"{row.way}, no file",
                row.octree,
                f"{row.frames}",
                f"{row.seconds:.2f}",
                f"{row.per_second:.2f}",
                "-" if row.steady is None else f"{row.steady:.2f}",
            )
            for row in found
        ]
        title = f"{path}: {len(mesh.faces):,} triangles, bvh to depth {level}, adaptive by default, {head['device']}"
        print_table(title, rows, ("way", "octree", "frames", "s", "frames/s", "after the first"))
    if not json and not quiet:
        times = " and ".join(f"{name} {thesis.BUILD_MS[name]['cct'][0]:.2f} ms" for name in ("bunny", "dragon"))
        print_lines(
            f"The thesis: {times} a build, the GPU alone ({thesis.GPU}); Liu and Kim 2014: {LIU_KIM:g} frames/s."
        )
