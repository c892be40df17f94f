"""`sdfcli render`: a picture of a field's surface."""

from __future__ import annotations

import re
import time as clock
from pathlib import Path
from typing import Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.fields import check_choice, open_field
from sdfcli.cli.output import print_written, progress
from sdfcli.errors import UsageError


def render(
    file: options.FieldFile,
    output: options.Picture = None,
    size: Annotated[str, typer.Option(metavar="WxH", help="Picture size in pixels, at most 8192 a side.")] = "800x600",
    view: Annotated[
        str,
        typer.Option(
            **options.words("front", "back", "left", "right", "top", "bottom", "iso", others="AZIMUTH,ELEVATION"),
            help="View direction, a name or angles in degrees; azimuth 0 is the front, 90 the right side.",
        ),
    ] = "-30,20",
    up: Annotated[
        str,
        typer.Option(**options.words("y", "z"), help="Up axis of the mesh; the front is +z (y up) or -y (z up)."),
    ] = "y",
    iso: Annotated[
        float | None,
        typer.Option(
            help="Iso value, a distance; 0 by default, or a thin skin where the field has no sign.",
            show_default=False,
        ),
    ] = None,
    frame: options.Frame = None,
    time: options.Time = None,
    frames: options.Frames = None,
    fps: options.Fps = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Render the surface as a shaded picture, without a display; or --frames of a sequence, with one camera for all.

    Example: sdfcli render bunny.h5 --view front --size 1600x1200
    """
    from sdfcli.pictures.png import check_picture, write_png
    from sdfcli.pictures.render import check_size, shot_of, view_axes
    from sdfcli.pictures.render import render as draw

    check_choice(frame, time, frames)
    width, height = parse_size(size)
    look: dict[str, Any] = {"width": width, "height": height, "view": view, "up": up, "iso": iso}
    look |= {"device": device, "threads": threads}
    if frames is not None:
        from sdfcli.cli.film import Film

        film = Film(file, output or Path(file.stem + ".gif"), frames, fps, force)
        film.shoot(
            lambda fields: shot_of(fields, **look),
            lambda field, shot, _: draw(field, shot=shot, **look),
            lambda _: {"view": view, "up": up},
            json,
            quiet,
        )
        return
    if fps is not None:
        raise UsageError("--fps is for --frames")
    target = output or Path(file.stem + ".png")
    check_picture(target, force, file)
    check_size(width, height)
    view_axes(view, up)
    with progress(str(file), quiet or json) as update:
        start = clock.perf_counter()
        field = open_field(file, frame, time)
        update("drawing")
        write_png(target, draw(field, **look), force)
    facts = {"width": width, "height": height, "view": view, "up": up}
    rows = [("picture", f"{width} x {height}, view {view}, {up} up")]
    print_written(file, [target], facts, rows, clock.perf_counter() - start, json, quiet)


def parse_size(size: str) -> tuple[int, int]:
    """Width and height. Raises UsageError for what is not WxH."""
    match = re.fullmatch(r"(\d{1,9})x(\d{1,9})", size)
    if match is None:
        raise UsageError(f"--size {size}: use WIDTHxHEIGHT, as in 800x600")
    return int(match.group(1)), int(match.group(2))
