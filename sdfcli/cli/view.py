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
            "are built with the default options. With --coarse, addresses of fields, too: http://, https://, s3://.",
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
    coarse: Annotated[
        bool,
        typer.Option(
            "--coarse",
            help="Show the overview of a field of more than 2^21 leaves: without its finest levels, at most 2^17 "
            "leaves. Of an address, only the beginning of the file is fetched.",
        ),
    ] = False,
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
    from sdfcli.batch.inputs import find_fields
    from sdfcli.pictures.render import view_axes
    from sdfcli.pictures.view.data import check_leaves
    from sdfcli.pictures.view.page import ENDINGS, view_page
    from sdfcli.runtime.files import check_ending, check_target
    from sdfcli.runtime.remote import file_name, is_remote

    check_choice(frame, time)
    names = [str(each) for each in find_fields(named, meshes=True)]
    sources = {Path(file_name(name)) if coarse and is_remote(name) else Path(name): name for name in names}
    files = list(sources)
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
        with progress(sources[file], quiet or json) as update:
            start = clock.perf_counter()
            field = _field_of(sources[file], frame, time, coarse, device, threads, update)
            update("writing")
            page = view_page(field, name=file.stem, view=view, up=up, leaves=leaves)
            page.save(target, force)
            seconds = clock.perf_counter() - start
        opened = wanted and _opened(target)
        told = {"leaves": field.leaves, "shown": page.leaves, "difference": page.difference, "opened": opened}
        rows = [("octree", leaves_text(field.leaves))]
        print_written(Viewed, sources[file], [target], told, rows, seconds, json, quiet, place)
        if page.difference and not quiet:
            cut = f"the page has {page.leaves:,} of {leaves_text(field.leaves)}, which differ by up to "
            say_file_notes([f"{cut}{page.difference:.2g}; --leaves sets the number"], file, place)
        if launch and not opened:
            say(f"note: no browser started; open {target}")

    for_each(files, targets, write, json)


def _field_of(
    name: str,
    frame: int | None,
    time: float | None,
    coarse: bool,
    device: str,
    threads: int | None,
    update: Callable[[str], None],
) -> Field:
    """A file's field, or that of a mesh; with `coarse` its overview."""
    from sdfcli.field.coarse import overview_of
    from sdfcli.field.store import is_field, load
    from sdfcli.runtime.remote import is_remote

    file, chosen = Path(name), frame is not None or time is not None
    if coarse and not chosen and (is_remote(name) or is_field(file)):
        return load(name, coarse=True)
    if is_field(file) or chosen:
        field = open_field(file, frame, time)
    else:
        from sdfcli.pipeline import build

        field = build(file, device=device, threads=threads, progress=update)
    return overview_of(field) if coarse else field


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
