"""`sdfcli view`: a field as one HTML page, drawn by the browser."""

from __future__ import annotations

import os
import sys
import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.fields import (
    check_choice,
    fields_of,
    for_each,
    open_field,
    outputs_of,
    pattern_of,
    say_file_notes,
)
from sdfcli.cli.output import print_written, progress, say
from sdfcli.cli.records import Amount, Count, Line
from sdfcli.cli.wording import leaves_text
from sdfcli.errors import UsageError
from sdfcli.params import NAME, PAGE_LEAVES

if TYPE_CHECKING:
    from collections.abc import Callable

    from sdfcli.field.field import Field


class Viewed(Line, title="view", shared="input output leaves bytes seconds"):
    """One page."""

    shown: Annotated[Count, "leaves in the page"]
    difference: Annotated[
        Amount, "largest difference between the page's field and the field, in the mesh's units; 0 if all is shown"
    ]
    opened: Annotated[bool, "whether a browser was started"]


def view(
    named: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Field files, from `sdfcli build`, folders of them, quoted patterns; a sequence; or meshes, which "
            "are built with the default options.",
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="HTML file; by default named after the field, in the current folder. For several fields a folder, "
            "out/, or a name with {name} for the field's, 'out/{name}.html'.",
        ),
    ] = None,
    view: options.View = "-30,20",
    up: options.Up = "y",
    leaves: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Maximum leaf count, 4096 to 2097152: of larger fields, the finest levels are left out, and the "
            "page says so.",
        ),
    ] = PAGE_LEAVES,
    launch: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open",
            help="Open the page in a browser; by default of one file, on a terminal with a display.",
            show_default=False,
        ),
    ] = None,
    frame: options.Frame = None,
    time: options.Time = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a field as one HTML page that any browser shows: turn, zoom, slice, read distances.

    Example: sdfcli view bunny.h5
    """
    from sdfcli.pictures.render import view_axes
    from sdfcli.pictures.view.data import check_leaves
    from sdfcli.pictures.view.page import ENDINGS, view_page
    from sdfcli.runtime.files import check_ending, check_target

    check_choice(frame, time)
    files = fields_of(named, meshes=True)
    view_axes(view, up)
    check_leaves(leaves)
    if launch and len(files) > 1:
        raise UsageError(f"--open: for one file, not for {len(files):,}")
    pattern = pattern_of(named, files, output, f"{NAME}.html")
    check_ending(pattern, *ENDINGS)
    targets = outputs_of(files, pattern)
    for each in targets:
        check_target(each, force, *files)
    wanted = launch if launch is not None else len(files) == 1 and not json and not quiet and _on_desktop()

    def write(file: Path, target: Path, place: str | None) -> None:
        with progress(str(file), quiet or json) as update:
            start = clock.perf_counter()
            field = _field_of(file, frame, time, device, threads, update)
            update("writing")
            page = view_page(field, name=file.stem, view=view, up=up, leaves=leaves)
            page.save(target, force)
            seconds = clock.perf_counter() - start
        opened = wanted and _opened(target)
        told = {"leaves": field.leaves, "shown": page.leaves, "difference": page.difference, "opened": opened}
        rows = [("octree", leaves_text(field.leaves))]
        print_written(Viewed, file, [target], told, rows, seconds, json, quiet, place)
        if page.difference and not quiet:
            cut = f"the page has {page.leaves:,} of {leaves_text(field.leaves)}, which differ by up to "
            say_file_notes([f"{cut}{page.difference:.2g}; --leaves sets the number"], file, place)
        if launch and not opened:
            say(f"note: no browser started; open {target}")

    for_each(files, targets, write, json)


def _field_of(
    file: Path, frame: int | None, time: float | None, device: str, threads: int | None, update: Callable[[str], None]
) -> Field:
    """A file's field, or that of a mesh."""
    from sdfcli.field.store import is_field

    if is_field(file) or frame is not None or time is not None:
        return open_field(file, frame, time)
    from sdfcli.pipeline import build

    return build(file, device=device, threads=threads, progress=update)


def _on_desktop() -> bool:
    """Whether to open a page unasked: a person at a terminal, with a display."""
    display: Any = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(display) and sys.stdout.isatty() and not os.environ.get("CI")


def _opened(page: Path) -> bool:
    """Whether a browser was started on a page."""
    import webbrowser

    try:
        return webbrowser.open(page.absolute().as_uri())
    except (OSError, ValueError, webbrowser.Error):
        return False
