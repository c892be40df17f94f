"""`sdfcli slice`: a picture of a field's distances in a plane."""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.fields import (
    check_choice,
    check_no_frame,
    fields_of,
    for_each,
    open_field,
    outputs_by_name,
    pattern_of,
    single,
)
from sdfcli.cli.output import print_written, progress
from sdfcli.cli.records import Count, Line, one_of
from sdfcli.errors import UsageError
from sdfcli.params import NAME


class Sliced(Line, title="slice", shared="input output bytes seconds"):
    """One picture."""

    width: Annotated[Count, "picture width in pixels"]
    height: Annotated[Count, "picture height in pixels"]
    axis: Annotated[str, one_of("x", "y", "z"), "the plane's normal"]
    at: Annotated[float, "its position"]


class SlicedSheet(Line, title="slice --sheet", shared="input output bytes seconds"):
    """One picture of several planes."""

    width: Annotated[Count, "picture width in pixels"]
    height: Annotated[Count, "picture height in pixels"]
    axis: Annotated[str, one_of("x", "y", "z"), "the planes' normal"]
    planes: Annotated[list[float], "their positions"]


class SlicedFrame(Sliced, title="slice --frames", shared="frame time"):
    """A line per numbered file; `seconds` count from the start."""


class SlicedFrames(Sliced, title="slice --frames, moving", shared="frames"):
    """One moving picture."""

    lasts: Annotated[float, "duration of one loop, in seconds"]


def slice_plane(
    named: options.FieldFiles,
    output: options.Picture = None,
    axis: Annotated[str, typer.Option(**options.words("x", "y", "z"), help="Axis normal to the plane.")] = "z",
    at: Annotated[
        float | None,
        typer.Option(
            metavar="D",
            help="Position along the axis, in the mesh's units; by default the surface's middle, or with --frames the "
            "domain's.",
            show_default=False,
        ),
    ] = None,
    size: Annotated[
        int,
        typer.Option(help="Size of the square plane in pixels, 64 to 4096; for --sheet, of all columns together."),
    ] = 800,
    octree: Annotated[bool, typer.Option("--octree", help="Draw the octree's leaves.")] = False,
    why: Annotated[
        bool,
        typer.Option(
            "--why", help="Colour leaves by the cause of their parent's split; needs `build --why`. Implies --octree."
        ),
    ] = False,
    sheet: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Draw N planes in one picture, evenly spaced over the surface's extent along the axis.",
            show_default=False,
        ),
    ] = None,
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
    from sdfcli.pictures.png import FORMATS, check_picture, write_picture
    from sdfcli.pictures.slice import (
        check_size,
        place_of_plane,
        places_of_sheet,
        scale_of,
        sheet_columns,
        slice_image,
    )

    check_choice(frame, time, frames)
    files = fields_of(named)
    if why:
        check_no_frame(frame, time, frames)
    if sheet is not None and (at is not None or frames is not None):
        raise UsageError("--sheet: not with --at or --frames")
    if frames is not None:
        from sdfcli.cli.film import Film

        file, target = single(files, pattern_of(named, files, output, f"{NAME}_{axis}.gif"))
        shared: dict[str, Any] = {"axis": axis, "size": size, "device": device}
        film = Film(file, target, frames, fps, force)
        film.shoot(
            lambda fields: scale_of(fields, at=at, **shared),
            lambda field, scale, time: slice_image(field, scale=scale, time=time, octree=octree, **shared),
            lambda scale: {"axis": axis, "at": scale.at},
            SlicedFrame,
            SlicedFrames,
            json,
            quiet,
        )
        return
    if fps is not None:
        raise UsageError("--fps is for --frames")
    check_size(axis, size)
    if sheet is not None:
        sheet_columns(sheet, size)
    targets = outputs_by_name(named, files, output, f"{NAME}_{axis}.png", FORMATS)
    for each in targets:
        check_picture(each, force, *files)

    def draw(file: Path, target: Path, place: str | None) -> None:
        with progress(str(file), quiet or json) as update:
            start = clock.perf_counter()
            field = open_field(file, frame, time)
            update("drawing")
            look: dict[str, Any] = {"axis": axis, "size": size, "octree": octree, "why": why, "device": device}
            facts: dict[str, Any] = {"axis": axis}
            if sheet is None:
                where = place_of_plane(select_backend(device), field, axis, at)
                facts["at"], plane = where, f"{axis} = {where:.9g}"
                picture = slice_image(field, at=where, **look)
            else:
                facts["planes"] = places_of_sheet(select_backend(device), field, axis, sheet)
                plane = f"{sheet}, {axis} = {facts['planes'][0]:.6g} to {facts['planes'][-1]:.6g}"
                picture = slice_image(field, sheet=sheet, **look)
            write_picture(target, picture, force)
        height, width = picture.shape[:2]
        facts = {"width": width, "height": height, **facts}
        rows = [("plane" if sheet is None else "planes", plane), ("picture", f"{width} x {height}")]
        record = Sliced if sheet is None else SlicedSheet
        print_written(record, file, [target], facts, rows, clock.perf_counter() - start, json, quiet, place)

    for_each(files, targets, draw, json)
