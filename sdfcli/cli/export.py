"""`sdfcli export`: fields in other programs' formats."""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.fields import FrameRange, open_field
from sdfcli.cli.output import print_written, progress
from sdfcli.cli.records import Count, Line, Vector, size
from sdfcli.errors import UsageError
from sdfcli.export import FORMATS, TYPED, Format, load
from sdfcli.params import GRID_RESOLUTION

if TYPE_CHECKING:
    from sdfcli.field.field import Field

OCTREES = ", ".join(ending for ending, form in FORMATS.items() if not form.grid)
GRIDS = ", ".join(ending for ending, form in FORMATS.items() if form.grid)
SAMPLED = " or ".join(ending for ending, form in FORMATS.items() if form.samples)

Out = Annotated[
    Path | None,
    typer.Argument(
        metavar="OUT",
        help=f"Output file; its ending selects the format: {OCTREES} for the octree; {GRIDS} for a regular grid.",
        show_default=False,
    ),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Output file, in place of OUT.")]
Resolution = Annotated[
    int | None,
    typer.Option(help=f"Grid points along the longest side; {GRID_RESOLUTION} by default.", show_default=False),
]
Window = Annotated[
    str | None,
    typer.Option(
        metavar="X0,Y0,Z0,X1,Y1,Z1",
        help="Bounding box of the grid, in the mesh's units; the field's domain by default.",
        show_default=False,
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        **options.words("float32", "float16"),
        help=f"Number format of {' and '.join(TYPED)} grids; float32 by default.",
        show_default=False,
    ),
]
Samples = Annotated[
    int | None,
    typer.Option(help=f"Number of DeepSDF samples ({SAMPLED}: pos and neg), in place of a grid.", show_default=False),
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed of the samples.")]
Normalized = Annotated[bool, typer.Option("--normalized", help="Scale the shape to the unit sphere, as DeepSDF does.")]


class ExportedGrid(Line, title="export", shared="input output bytes seconds"):
    """To a regular grid."""

    shape: Annotated[list[Count], size(3), "grid points along x, y, z"]
    origin: Annotated[Vector, "position of the first grid point"]
    spacing: Annotated[float, "distance between grid points"]


class ExportedOctree(Line, title="export to .vtkhdf", shared="input output bytes seconds leaves corners"):
    """A field."""


class ExportedOctrees(Line, title="export to .vtkhdf, sequence", shared="input output bytes seconds frames"):
    """All frames of a sequence."""

    leaves: Annotated[Count, "of all frames together"]
    corners: Annotated[Count, "of all frames together"]


class ExportedSamples(Line, title="export --samples", shared="input output bytes seconds"):
    """For DeepSDF."""

    pos: Annotated[Count, "samples outside"]
    neg: Annotated[Count, "samples inside"]


def export(
    file: options.FieldFile,
    out: Out = None,
    output: Output = None,
    resolution: Resolution = None,
    window: Window = None,
    dtype: Dtype = None,
    samples: Samples = None,
    seed: Seed = 0,
    normalized: Normalized = False,
    frame: options.Frame = None,
    time: options.Time = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Convert a field for other programs: ParaView, NumPy, game engines, NanoVDB, OpenVDB, DeepSDF.

    Formats hold the octree itself or a regular grid; .raw comes with a JSON header file. For a sequence, .vtkhdf holds
    all frames unless one is chosen.

    Example: sdfcli export bunny.h5 bunny.vti --resolution 256
    """
    from sdfcli.export.files import format_of, targets_of, write
    from sdfcli.runtime.files import check_target, written_whole
    from sdfcli.sequence.file import is_sequence

    if (out is None) == (output is None):
        raise UsageError("name one output file: `sdfcli export FILE OUT`, or `-o OUT`")
    output = output or out
    assert output is not None
    form = format_of(output)
    _check_options(form, resolution, window, dtype, samples, normalized)
    box = _box(window)
    targets = targets_of(output)
    for target in targets:
        check_target(target, force, file)
    with progress(str(file), quiet or json) as update:
        record: type[Line]
        start = clock.perf_counter()
        series = form.series is not None and frame is None and time is None and is_sequence(file)
        field: Any = FrameRange(file, ":") if series else open_field(file, frame, time)
        update(f"writing {output}")
        with ExitStack() as stack:
            temporary = [stack.enter_context(written_whole(target, force)) for target in targets]
            if series:
                record = ExportedOctrees
                facts = _octrees(form, temporary[0], field, update)
            elif samples is not None:
                record = ExportedSamples
                facts = _samples(form, temporary[0], field, samples, seed, normalized)
            else:
                record = ExportedGrid if form.grid else ExportedOctree
                facts = write(form, temporary, output.name, field, resolution, box, dtype)
        seconds = clock.perf_counter() - start
    rows = [(name, _text(value)) for name, value in facts.items()]
    print_written(record, file, targets, facts, rows, seconds, json, quiet)


def _octrees(form: Format, path: Path, frames: FrameRange, update: Callable[[str], None]) -> dict[str, Any]:
    steps = ((frames.time(k), field) for k, field in frames.fields(update, "writing"))
    facts: dict[str, Any] = load(str(form.series))(path, steps)
    return facts


def _samples(form: Format, path: Path, field: Field, count: int, seed: int, normalized: bool) -> dict[str, Any]:
    positive, negative = load(str(form.samples))(path, field, count, seed, normalized)
    return {"pos": positive, "neg": negative}


def _check_options(
    form: Format, resolution: int | None, window: str | None, dtype: str | None, samples: int | None, normalized: bool
) -> None:
    """Raises UsageError for options that do not apply to the format."""
    from sdfcli.export.files import check_grid_options

    if samples is not None and (form.samples is None or samples < 1):
        raise UsageError(f"--samples: use 1 or more, and a name that ends in {SAMPLED}")
    if normalized and samples is None:
        raise UsageError("--normalized is for --samples")
    if samples is not None and (resolution is not None or window is not None):
        raise UsageError("--resolution and --window are for grids")
    if samples is not None and dtype is not None:
        raise UsageError("--dtype is for grids, not for --samples")
    check_grid_options(form, resolution, window, dtype)


def _box(window: str | None) -> list[float] | None:
    if window is None:
        return None
    try:
        numbers = [float(word) for word in window.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 6:
        raise UsageError(f"--window {window}: use six comma-separated numbers: X0,Y0,Z0,X1,Y1,Z1")
    return numbers


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:.9g}"
