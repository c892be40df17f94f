"""`sdfcli extract`: isosurfaces as triangle meshes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.output import human_bytes, print_json, print_table, progress, say
from sdfcli.errors import OutOfMemoryError, UsageError

if TYPE_CHECKING:
    from sdfcli.extract.marching_cubes import Surface
    from sdfcli.extract.sources import Grid


Source = Annotated[Path, typer.Argument(metavar="FILE", help="Field, or volume (.npy, three axes).")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Mesh file: .ply, .obj, .stl or .glb; NAME_iso.ply by default."),
]
Resolution = Annotated[
    int | None,
    typer.Option(
        help="Grid cells along an axis of the domain; by default those of the finest octree level, at most 1024.",
        show_default=False,
    ),
]
Iso = Annotated[float, typer.Option(help="Iso value, a distance or a volume's value; smaller values are inside.")]
Spacing = Annotated[
    str | None,
    typer.Option(help="Grid spacing of a volume: S or SX,SY,SZ; 1 by default.", show_default=False),
]


def extract(
    file: Source,
    output: Output = None,
    resolution: Resolution = None,
    iso: Iso = 0.0,
    spacing: Spacing = None,
    device: options.Devices = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Extract an isosurface as a watertight triangle mesh, by marching cubes.

    Example: sdfcli extract bunny.h5 --iso 0.002 --resolution 512 -o shell.ply
    """
    from sdfcli.backend import select_backends
    from sdfcli.extract.isosurface import default_resolution, finest, make_source, open_source
    from sdfcli.extract.marching_cubes import extract as extract_surface
    from sdfcli.extract.mesh_file import check_ending, write_mesh
    from sdfcli.field.field import Field
    from sdfcli.runtime.files import check_target, written_whole

    target = output or Path(file.stem + "_iso.ply")
    check_ending(target)
    check_target(target, force, file)
    distances = _distances(spacing)
    with progress(str(file), quiet or json) as update:
        times = [time.perf_counter()]
        opened = open_source(file)
        backends = select_backends(device, threads)
        if isinstance(opened, Field) and resolution is None and default_resolution(opened) < finest(opened):
            cells = f"{default_resolution(opened)} cells along an axis; the octree's finest level has {finest(opened)}"
            _note(cells, quiet)
        times.append(time.perf_counter())
        update("extracting")
        try:
            source = make_source(opened, backends[0], iso, resolution, distances)
            surface = extract_surface(source, backends)
        except MemoryError as error:
            raise OutOfMemoryError(f"out of memory: {error}; try a smaller --resolution") from error
        times.append(time.perf_counter())
        update("writing")
        cell = float(source.grid.frame[3:].min())
        with written_whole(target, force) as temporary:
            write_mesh(temporary, target.suffix.lower(), surface, cell)
        times.append(time.perf_counter())
    _note_limits(surface, target, cell, quiet)
    names = ",".join(backend.name for backend in backends)
    report = {"input": str(file), "output": str(target), "iso": iso, **_facts(source.grid, surface), "device": names}
    report |= {"seconds": _seconds(times), "bytes": target.stat().st_size}
    if json:
        print_json(report)
    elif not quiet:
        _print_report(report)


def _note(text: str, quiet: bool) -> None:
    if not quiet:
        say(f"note: {text}")


def _note_limits(surface: Surface, target: Path, cell: float, quiet: bool) -> None:
    """Notes on the precision of the file format and on a surface cut by the grid's border."""
    from sdfcli.extract.mesh_file import DOUBLES, rounding

    coarse, ending = rounding(surface, cell), target.suffix
    if coarse is not None and ending.lower() not in DOUBLES:
        off = f"coordinates are off by up to {coarse:.2g}, at cells of {cell:.2g}"
        _note(f"{ending} holds single precision: {off}", quiet)
    if surface.cut:
        _note("the surface reaches the border of the grid, and is open there", quiet)


def _facts(grid: Grid, surface: Surface) -> dict[str, Any]:
    return {
        "cells": [int(n) for n in (reversed(grid.cells) if grid.reversed else grid.cells)],
        "vertices": len(surface.vertices),
        "triangles": len(surface.faces),
        "closed": not surface.cut,
    }


def _seconds(times: list[float]) -> dict[str, float]:
    """Seconds by stage, from the times at which stages began and the last one ended."""
    ends = zip(("load", "extract", "write"), times[:-1], times[1:], strict=True)
    stages = {name: round(end - begin, 4) for name, begin, end in ends}
    return {**stages, "total": round(times[-1] - times[0], 4)}


def _distances(spacing: str | None) -> list[float] | float | None:
    if spacing is None:
        return None
    try:
        numbers = [float(word) for word in spacing.split(",")]
    except ValueError as error:
        raise UsageError(f"--spacing {spacing}: use a number, or three with commas between") from error
    if len(numbers) not in (1, 3):
        raise UsageError(f"--spacing {spacing}: use a number, or three with commas between")
    return numbers if len(numbers) == 3 else numbers[0]


def _print_report(report: dict[str, Any]) -> None:
    rows = [
        ("surface", f"at {report['iso']:g}, {'closed' if report['closed'] else 'open at the border of the grid'}"),
        ("grid", " x ".join(f"{n:,}" for n in report["cells"]) + " cells"),
        ("mesh", f"{report['triangles']:,} triangles, {report['vertices']:,} vertices"),
        ("time", f"{report['seconds']['total']:.2f} s on {report['device']}"),
        ("file", f"{report['output']}, {human_bytes(report['bytes'])}"),
    ]
    print_table(report["input"], rows)
