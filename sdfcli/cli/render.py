"""`sdfcli render`: a picture of a field's surface, optionally with a mesh."""

from __future__ import annotations

import math
import re
import time as clock
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.build_options import Scale, Units
from sdfcli.cli.fields import (
    check_choice,
    fields_of,
    for_each,
    open_field,
    outputs_by_name,
    pattern_of,
    say_file_notes,
    single,
)
from sdfcli.cli.output import print_written, progress
from sdfcli.cli.records import Count, Line
from sdfcli.errors import UsageError
from sdfcli.params import NAME

if TYPE_CHECKING:
    from sdfcli.field.field import Field
    from sdfcli.pictures.posed import PosedMesh
    from sdfcli.query.contacts import Manifold
    from sdfcli.query.sphere_tree import SphereTree

Margin = Annotated[float | None, "maximum distance of contact triangles; with `--margin`"]


class Drawn(Line, shared="input output bytes seconds"):
    """Keys of all pictures."""

    width: Annotated[Count, "picture width in pixels"]
    height: Annotated[Count, "picture height in pixels"]
    view: Annotated[str, "view direction, as given"]
    up: Annotated[str, "up axis"]


class Rendered(Drawn, title="render"):
    """One picture."""

    warnings: Annotated[
        list[str], "reasons for doubt: a surface cut off by the domain's border, a mesh of another size"
    ]


class RenderedMesh(Rendered, title="render --mesh"):
    """One picture, with a mesh."""

    posed: Annotated[str, "the mesh of `--mesh`"]
    margin: Margin = None
    contacts: Annotated[Count | None, "contact triangle count; with `--margin`"] = None


class RenderedFrame(Drawn, title="render --frames", shared="frame time"):
    """A line per numbered file; `seconds` count from the start."""

    posed: Annotated[str | None, "the mesh of `--mesh`"] = None
    margin: Margin = None


class RenderedFrames(Drawn, title="render --frames, moving", shared="frames"):
    """One moving picture."""

    posed: Annotated[str | None, "the mesh of `--mesh`"] = None
    margin: Margin = None
    lasts: Annotated[float, "duration of one loop, in seconds"]


def render(
    named: options.FieldFiles,
    output: options.Picture = None,
    size: Annotated[
        str, typer.Option(metavar="WxH", help="Picture size in pixels, at most 8192 per side; N for N x N.")
    ] = "800x600",
    view: options.View = "-30,20",
    up: options.Up = "y",
    iso: Annotated[
        str | None,
        typer.Option(
            metavar="D[,D...]",
            help="Iso value, a distance; 0 by default, or a thin skin if the field has no signs. Of several, all but "
            "the smallest are translucent.",
            show_default=False,
        ),
    ] = None,
    mesh: Annotated[
        Path | None,
        typer.Option(help="Mesh to draw with the surface; its parts inside are red.", show_default=False),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TX,TY,TZ[,RX,RY,RZ]",
            help="Pose of --mesh: rotation about the fixed axes x, then y, then z, in degrees, or QX,QY,QZ,QW, then "
            "translation.",
            show_default=False,
        ),
    ] = None,
    units: Units = None,
    scale: Scale = None,
    margin: Annotated[
        float | None,
        typer.Option(
            metavar="D",
            help="Mark contacts with dots: triangles of --mesh up to this distance; red inside, amber outside.",
            show_default=False,
        ),
    ] = None,
    transparent: Annotated[
        bool, typer.Option("--transparent", help="Leave the background out; for .png and .apng.")
    ] = False,
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
    """Render the surface as a shaded picture, without a display; with --frames, a sequence under one camera.

    Example: sdfcli render bunny.h5 --view front --size 1600x1200
    """
    from sdfcli.pictures.level import is_cut, shown_levels
    from sdfcli.pictures.png import FORMATS, check_picture, write_picture
    from sdfcli.pictures.render import check_size, shot_of, view_axes
    from sdfcli.pictures.render import render as draw_opaque

    check_choice(frame, time, frames)
    files = fields_of(named)
    width, height = parse_size(size)
    look: dict[str, Any] = {"width": width, "height": height, "view": view, "up": up, "iso": parse_iso(iso)}
    look |= {"device": device, "threads": threads}
    draw = partial(draw_opaque, transparent=transparent)
    guest = Guest(mesh, at, margin, device, threads, scale=scale, units=units)
    facts = {"view": view, "up": up, **guest.facts}

    def notes(field: Field) -> list[str]:
        cut = [
            f"the surface at {level:g} reaches the border of the domain, and is open there: build with a larger "
            "--domain"
            for level in shown_levels(field, look["iso"])
            if is_cut(field, level)
        ]
        return [*cut, *guest.notes(field)]

    if frames is not None:
        from sdfcli.cli.film import Film

        file, target = single(files, pattern_of(named, files, output, f"{NAME}.gif"))
        film, found_notes = Film(file, target, frames, fps, force, transparent), dict[str, None]()

        def shoot(field: Field, shot: Any, _: float) -> Any:
            found_notes.update(dict.fromkeys(notes(field)))
            return draw(field, shot=shot, mesh=guest.posed, contacts=guest.contacts(field), **look)

        film.shoot(
            lambda fields: shot_of(fields, mesh=guest.posed, **look),
            shoot,
            lambda _: facts,
            RenderedFrame,
            RenderedFrames,
            json,
            quiet,
        )
        if not quiet:
            say_file_notes(found_notes, file, None)
        return
    if fps is not None:
        raise UsageError("--fps is for --frames")
    check_size(width, height)
    view_axes(view, up)
    targets = outputs_by_name(named, files, output, f"{NAME}.png", FORMATS)
    for each in targets:
        check_picture(each, force, *files, transparent=transparent)

    def write(file: Path, target: Path, place: str | None) -> None:
        with progress(str(file), quiet or json) as update:
            start = clock.perf_counter()
            field = open_field(file, frame, time)
            update("drawing")
            found = guest.contacts(field)
            write_picture(target, draw(field, mesh=guest.posed, contacts=found, **look), force)
            warnings = notes(field)
        told = {"width": width, "height": height, **facts, "warnings": warnings}
        rows = [("picture", f"{width} x {height}, view {view}, {up} up")]
        if mesh is not None:
            rows += [("mesh", str(mesh) if at is None else f"{mesh} at {at}")]
        if found is not None:
            told["contacts"] = len(found)
            rows += [("contacts", f"{len(found):,} triangles up to {margin:g}")]
        record = Rendered if mesh is None else RenderedMesh
        print_written(record, file, [target], told, rows, clock.perf_counter() - start, json, quiet, place)
        if not quiet:
            say_file_notes(warnings, file, place)

    for_each(files, targets, write, json)


class Guest:
    """The mesh drawn with the surface, if any.

    facts  report entries.
    """

    def __init__(
        self,
        mesh: Path | None,
        at: str | None,
        margin: float | None,
        device: str,
        threads: int | None,
        *,
        scale: float | None,
        units: str | None,
    ) -> None:
        """Raises UsageError for a pose, a margin, a scale or a unit without a mesh, and for invalid ones."""
        from sdfcli.query.poses import pose_at

        for name, value in (("--at", at), ("--margin", margin), ("--scale", scale), ("--units", units)):
            if mesh is None and value is not None:
                raise UsageError(f"{name} is for --mesh")
        if margin is not None and not math.isfinite(margin):
            raise UsageError(f"--margin {margin}: use a finite distance")
        self._placed: dict[str, Any] = {"scale": scale, "units": units}
        self._mesh, self._margin, self._device, self._threads = mesh, margin, device, threads
        self._pose = None if at is None else pose_at(at)
        given = {"posed": mesh and str(mesh), "margin": margin}
        self.facts: dict[str, Any] = {name: value for name, value in given.items() if value is not None}

    @cached_property
    def posed(self) -> PosedMesh | None:
        """The mesh at its pose. Raises InputError if it cannot be read or used."""
        from sdfcli.pictures.posed import PosedMesh

        return None if self._mesh is None else PosedMesh(self._mesh, self._pose, **self._placed)

    @cached_property
    def _tree(self) -> SphereTree:
        from sdfcli.query.sphere_tree import SphereTree

        assert self.posed is not None
        return SphereTree(self.posed.mesh, self._device, self._threads)

    def notes(self, field: Field) -> list[str]:
        """Notes on sizes that differ much, perhaps by their units."""
        note = None if self.posed is None else self.posed.size_note(field)
        return [] if note is None else [note]

    def contacts(self, field: Field) -> Manifold | None:
        """Contacts with a field up to the margin; None without a margin."""
        if self._margin is None:
            return None
        from numpy import eye

        from sdfcli.query.contacts import contacts

        return contacts(field, self._tree, eye(4), margin=self._margin).manifold


def parse_iso(iso: str | None) -> list[float] | None:
    """Parses comma-separated levels. Raises UsageError for anything else."""
    try:
        return None if iso is None else [float(word) for word in iso.split(",")]
    except ValueError:
        raise UsageError(f"--iso {iso}: use a distance, or several with commas between") from None


def parse_size(size: str) -> tuple[int, int]:
    """Parses WxH, or N for both, into width and height. Raises UsageError for anything else."""
    match = re.fullmatch(r"(\d{1,9})(?:x(\d{1,9}))?", size)
    if match is None:
        raise UsageError(f"--size {size}: use WIDTHxHEIGHT, as in 800x600, or one number for both")
    return int(match.group(1)), int(match.group(2) or match.group(1))
