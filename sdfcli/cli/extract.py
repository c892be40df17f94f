"""`sdfcli extract`: the surface at a distance, as a mesh."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.output import human_bytes, print_json, print_table, progress, say
from sdfcli.errors import OutOfMemoryError, UsageError


def extract(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A field, or a volume (.npy, three axes).")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A .ply, .obj, .stl or .glb file; NAME_iso.ply by default."),
    ] = None,
    resolution: Annotated[
        int | None,
        typer.Option(
            help="Cells along an axis of the field's domain; those of its finest level by default, 1024 at most.",
            show_default=False,
        ),
    ] = None,
    iso: Annotated[float, typer.Option(help="The distance, or the volume's value; smaller ones are inside.")] = 0.0,
    spacing: Annotated[
        str | None,
        typer.Option(
            help="Distance of a volume's neighbouring values: S or SX,SY,SZ; 1 by default.", show_default=False
        ),
    ] = None,
    device: options.Devices = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Turn the surface at a distance into a watertight triangle mesh, by marching cubes.

    Example: sdfcli extract bunny.h5 --iso 0.002 --resolution 512 -o shell.ply
    """
    from sdfcli.backend import select_backends
    from sdfcli.extract.isosurface import default_resolution, finest, make_source, open_source
    from sdfcli.extract.marching_cubes import extract as extract_surface
    from sdfcli.extract.mesh_file import DOUBLES, check_ending, rounding, write_mesh
    from sdfcli.field import Field
    from sdfcli.outputs import check_target, written_whole

    target = output or Path(file.stem + "_iso.ply")
    check_ending(target)
    check_target(target, force, file)
    distances = _distances(spacing)

    def note(text: str) -> None:
        if not quiet:
            say(f"note: {text}")

    with progress(str(file), quiet or json) as tell:
        start = time.perf_counter()
        opened = open_source(file)
        backends = select_backends(device, threads)
        if isinstance(opened, Field) and resolution is None and default_resolution(opened) < finest(opened):
            note(f"{default_resolution(opened)} cells along an axis; the octree's finest level has {finest(opened)}")
        loaded = time.perf_counter()
        tell("extracting")
        try:
            source = make_source(opened, backends[0], iso, resolution, distances)
            surface = extract_surface(source, backends)
        except MemoryError as error:
            raise OutOfMemoryError(f"out of memory: {error}; try a smaller --resolution") from error
        extracted = time.perf_counter()
        tell("writing")
        cell = float(source.grid.frame[3:].min())
        with written_whole(target, force) as temporary:
            write_mesh(temporary, target.suffix.lower(), surface, cell)
        done = time.perf_counter()
    coarse = rounding(surface, cell)
    if coarse is not None and target.suffix.lower() not in DOUBLES:
        note(
            f"{target.suffix} holds single precision: coordinates are off by up to {coarse:.2g}, at cells of {cell:.2g}"
        )
    if surface.cut:
        note("the surface reaches the border of the grid, and is open there")
    report: dict[str, Any] = {
        "input": str(file),
        "output": str(target),
        "iso": iso,
        "cells": [int(n) for n in (reversed(source.grid.cells) if source.grid.reversed else source.grid.cells)],
        "vertices": len(surface.vertices),
        "triangles": len(surface.faces),
        "closed": not surface.cut,
        "device": ",".join(backend.name for backend in backends),
        "seconds": {
            "load": round(loaded - start, 4),
            "extract": round(extracted - loaded, 4),
            "write": round(done - extracted, 4),
            "total": round(done - start, 4),
        },
        "bytes": target.stat().st_size,
    }
    if json:
        print_json(report)
    elif not quiet:
        _print_report(report)


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
