"""`sdfcli slice`: a picture of a field's distances in a plane."""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.fields import check_choice, check_no_frame, open_field
from sdfcli.cli.output import print_written, progress
from sdfcli.cli.records import Count, Line, one_of
from sdfcli.errors import UsageError


class Sliced(Line, title="slice", shared="input output bytes seconds"):
    """One picture."""

    width: Annotated[Count, "picture width in pixels"]
    height: Annotated[Count, "picture height in pixels"]
    axis: Annotated[str, one_of("x", "y", "z"), "the plane's normal"]
    at: Annotated[float, "its position"]


class SlicedFrame(Sliced, title="slice --frames", shared="frame time"):
    """A line per numbered file; `seconds` count from the start."""


class SlicedFrames(Sliced, title="slice --frames, moving", shared="frames"):
    """One moving picture."""

    lasts: Annotated[float, "duration of one loop, in seconds"]


def slice_plane(
    file: options.FieldFile,
    output: options.Picture = None,
    axis: Annotated[str, typer.Option(**options.words("x", "y", "z"), help="Axis normal to the plane.")] = "z",
    at: Annotated[
        float | None,
        typer.Option(
            help="Position along the axis, in the mesh's units; by default the surface's middle, or with --frames the "
            "domain's.",
            show_default=False,
        ),
    ] = None,
    size: Annotated[int, typer.Option(help="Size of the square plane in pixels, 64 to 4096.")] = 800,
    octree: Annotated[bool, typer.Option("--octree", help="Draw the octree's leaves.")] = False,
    why: Annotated[
        bool,
        typer.Option(
            "--why", help="Colour leaves by the cause of their parent's split; needs `build --why`. Implies --octree."
        ),
    ] = False,
    frame: options.Frame = None,
    time: options.Time = None,
    frames: options.Frames = None,
    fps: options.Fps = None,
    device: options.Device = "auto",
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Plot distances in a plane: blue inside, red outside, with contour lines and a scale; --frames share plane and
    scale.

    Example: sdfcli slice bunny.h5 --axis x --octree
    """
    from sdfcli.backend import select_backend
    from sdfcli.pictures.png import check_picture, write_picture
    from sdfcli.pictures.slice import check_size, place_of_plane, scale_of, slice_image

    check_choice(frame, time, frames)
    if why:
        check_no_frame(frame, time, frames)
    if frames is not None:
        from sdfcli.cli.film import Film

        look: dict[str, Any] = {"axis": axis, "size": size, "device": device}
        film = Film(file, output or Path(f"{file.stem}_{axis}.gif"), frames, fps, force)
        film.shoot(
            lambda fields: scale_of(fields, at=at, **look),
            lambda field, scale, time: slice_image(field, scale=scale, time=time, octree=octree, **look),
            lambda scale: {"axis": axis, "at": scale.at},
            SlicedFrame,
            SlicedFrames,
            json,
            quiet,
        )
        return
    if fps is not None:
        raise UsageError("--fps is for --frames")
    target = output or Path(f"{file.stem}_{axis}.png")
    check_picture(target, force, file)
    check_size(axis, size)
    with progress(str(file), quiet or json) as update:
        start = clock.perf_counter()
        field = open_field(file, frame, time)
        update("drawing")
        where = place_of_plane(select_backend(device), field, axis, at)
        picture = slice_image(field, axis=axis, at=where, size=size, octree=octree, why=why, device=device)
        write_picture(target, picture, force)
    height, width = picture.shape[:2]
    facts = {"width": width, "height": height, "axis": axis, "at": where}
    rows = [("plane", f"{axis} = {where:.9g}"), ("picture", f"{width} x {height}")]
    print_written(Sliced, file, [target], facts, rows, clock.perf_counter() - start, json, quiet)
