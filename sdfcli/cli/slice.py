"""`sdfcli slice`: a picture of a field in a plane."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from sdfcli.cli import options
from sdfcli.cli.output import print_written, progress


def slice_plane(
    file: options.FieldFile,
    output: options.Picture = None,
    axis: Annotated[str, typer.Option(**options.words("x", "y", "z"), help="Axis normal to the plane.")] = "z",
    at: Annotated[
        float | None,
        typer.Option(
            help="Position along the axis, in the mesh's units; the middle of the surface by default.",
            show_default=False,
        ),
    ] = None,
    size: Annotated[int, typer.Option(help="Pixels along the domain's edge, 64 to 4096.")] = 800,
    octree: Annotated[bool, typer.Option("--octree", help="Draw the octree's leaves.")] = False,
    device: options.Device = "auto",
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Plot the distances in a plane: blue inside, red outside, with contour lines and a scale.

    Example: sdfcli slice bunny.h5 --axis x --octree
    """
    from sdfcli.backend import select_backend
    from sdfcli.field.store import load
    from sdfcli.pictures.png import check_picture, write_png
    from sdfcli.pictures.slice import check_size, place_of_plane, slice_image

    target = output or Path(f"{file.stem}_{axis}.png")
    check_picture(target, force, file)
    check_size(axis, size)
    with progress(str(file), quiet or json) as update:
        start = time.perf_counter()
        field = load(file)
        update("drawing")
        where = place_of_plane(select_backend(device), field, axis, at)
        picture = slice_image(field, axis=axis, at=where, size=size, octree=octree, device=device)
        write_png(target, picture, force)
    height, width = picture.shape[:2]
    facts = {"width": width, "height": height, "axis": axis, "at": where}
    rows = [("plane", f"{axis} = {where:.9g}"), ("picture", f"{width} x {height}")]
    print_written(file, [target], facts, rows, time.perf_counter() - start, json, quiet)
