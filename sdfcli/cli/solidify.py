"""`sdfcli solidify`: closed meshes from any triangles."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.build_options import Gap, MaxMemory, Scale, Units, memory_limit
from sdfcli.cli.output import error_text, human_bytes, print_json, print_table, progress, say
from sdfcli.cli.records import Amount, Count, Json, Line, keyed
from sdfcli.cli.wording import length_text
from sdfcli.params import parse_gap

if TYPE_CHECKING:
    from sdfcli.solid.solidify import Solid

ENDINGS = (".ply", ".obj", ".stl", ".glb", ".3mf")


class Solidified(Line, title="solidify", shared="input output bytes seconds device notes"):
    """The solid. Lengths are in the mesh's units, or `--units`."""

    gap: Annotated[Amount, "radius of the ball that floods the outside"]
    thickness: Annotated[Amount, "minimum thickness of a sheet"]
    diagonal: Annotated[Amount, "the mesh's bounding box diagonal"]
    triangles: Annotated[Count, "faces"]
    vertices: Annotated[Count, "vertices"]
    shells: Annotated[Count, "connected parts"]
    volume: Annotated[Amount, "enclosed volume"]
    leak: Annotated[Amount | None, "a larger radius that keeps a volume which `gap` lets the outside into; else null"]
    seen_distance: Annotated[
        Json | None,
        keyed(float, "seen mean most largest"),
        "from random points of the mesh that the outside sees to the solid: the `seen` share of its area, the `mean` "
        "and the `largest` distance, and that of 99 % of the points, `most`; null if it sees none",
    ]


def solidify(
    mesh: Annotated[Path, typer.Argument(metavar="MESH", help="Triangle mesh.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Mesh file: .ply, .obj, .stl, .glb or .3mf; NAME_solid.ply by default.",
            show_default=False,
        ),
    ] = None,
    gap: Gap = None,
    faces: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Face count to collapse edges to; all faces by default. Needs manifold3d.",
            show_default=False,
        ),
    ] = None,
    scale: Scale = None,
    units: Units = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    device: options.Device = "auto",
    threads: options.Threads = None,
    max_memory: MaxMemory = None,
) -> None:
    """Make a closed, manifold mesh from any triangles: a flood finds the outside, all else is solid.

    A ball of radius --gap floods the outside. Gaps up to two radii wide are closed, faces that it does not see are
    dropped, and sheets become thin plates.

    Example: sdfcli solidify truck.obj -o truck.3mf --faces 50000
    """
    from sdfcli.startup import driver

    driver.start(device)
    from sdfcli.runtime.files import check_ending, check_target
    from sdfcli.solid.solidify import leak_text
    from sdfcli.solid.solidify import solidify as make

    most, chosen = memory_limit(max_memory), None if gap is None else parse_gap(gap)
    target = output or Path(f"{mesh.stem}_solid.ply")
    check_ending(target, *ENDINGS)
    check_target(target, force, mesh)
    begin = time.perf_counter()
    with progress(str(mesh), quiet or json) as update:
        given: dict[str, Any] = {"scale": scale, "units": units, "max_memory": most}
        given |= {"device": device, "threads": threads, "progress": update}
        found = make(mesh, gap=chosen, faces=faces, **given)
        middle = time.perf_counter()
        update("writing")
        _write(target, force, found)
    end = time.perf_counter()
    seconds = {"solid": round(middle - begin, 4), "write": round(end - middle, 4), "total": round(end - begin, 4)}
    report = _record(mesh, target, found, seconds)
    if json:
        print_json(report)
    elif not quiet:
        _print(report, found)
    if not quiet:
        for note in found.notes:
            say(f"note: {note}")
        if found.leak is not None:
            say(f"note: {mesh}: {leak_text(found.leak / found.unit)}")
        if faces is not None and len(found.faces) > faces:
            say(f"note: {target}: {len(found.faces):,} faces; fewer would change its shape")


def _write(target: Path, force: bool, found: Solid) -> None:
    from sdfcli.extract.marching_cubes import Surface
    from sdfcli.extract.mesh_3mf import write_3mf
    from sdfcli.extract.mesh_file import write_mesh
    from sdfcli.runtime.files import written_whole

    ending = target.suffix.lower()
    with written_whole(target, force) as temporary:
        if ending == ".3mf":
            write_3mf(temporary, found.vertices, found.faces, found.units)
        else:
            write_mesh(temporary, ending, Surface(found.vertices, found.faces, False), found.thickness / 2)


def _record(mesh: Path, target: Path, found: Solid, seconds: dict[str, float]) -> Solidified:
    return Solidified(
        input=str(mesh),
        output=str(target),
        bytes=target.stat().st_size,
        seconds=seconds,
        device=found.device,
        notes=found.notes,
        gap=found.gap,
        thickness=found.thickness,
        diagonal=found.unit,
        triangles=len(found.faces),
        vertices=len(found.vertices),
        shells=found.shells,
        volume=found.volume,
        leak=found.leak,
        seen_distance=None if found.distance is None else vars(found.distance),
    )


def _print(report: Solidified, found: Solid) -> None:
    def text(length: float) -> str:
        return length_text(length / found.unit, found.unit, "diagonal")

    rows = [
        ("mesh", f"{report.triangles:,} triangles, {report.vertices:,} vertices, closed"),
        ("solid", f"{report.shells:,} shell{'' if report.shells == 1 else 's'}, volume {report.volume:.6g}"),
        ("gap", f"{text(found.gap)}; sheets are {error_text(found.thickness)} thick"),
    ]
    if away := found.distance:
        words = f"mean {error_text(away.mean)}, 99 % {error_text(away.most)}, largest {text(away.largest)}"
        rows.append(("distance", f"{words}, from the {away.seen:.0%} of the input that the outside sees"))
    rows.append(("time", f"{report.seconds['total']:.2f} s on {report.device}"))
    rows.append(("file", f"{report.output}, {human_bytes(report.bytes)}"))
    print_table(report.input, rows)
