"""`sdfcli export`: fields in other programs' formats."""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.fields import FrameRange, fields_of, for_each, is_folder, open_field, outputs_of
from sdfcli.cli.output import print_written, progress, say
from sdfcli.cli.records import ABSENT, Amount, Count, Line, Vector, size, stored
from sdfcli.errors import UsageError
from sdfcli.export import BANDS, FORMATS, TYPED, Format, load
from sdfcli.params import ENDINGS, GRID_RESOLUTION, HALF_WIDTH, NAME

if TYPE_CHECKING:
    from sdfcli.export.lattice import Distances

OCTREES = ", ".join(ending for ending, form in FORMATS.items() if not form.grid)
GRIDS = ", ".join(ending for ending, form in FORMATS.items() if form.grid)

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE... [OUT]",
        help="Fields, folders of them, quoted patterns, sequences, or meshes, whose grids have exact distances. "
        "Without -o the last name is the output.",
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help=f"Output file; its ending selects the format: {OCTREES} for the octree; {GRIDS} for a regular grid. "
        "{name} stands for the input's name, as in 'out/{name}.npz' for several files.",
    ),
]
Resolution = Annotated[
    int | None,
    typer.Option(
        help=f"Grid points along the longest side; default: {GRID_RESOLUTION}, for .cdf {FORMATS['.cdf'].resolution}.",
        show_default=False,
    ),
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
        help=f"Number format of {', '.join(TYPED[:-1])} and {TYPED[-1]} grids; float32 by default.",
        show_default=False,
    ),
]
HalfWidth = Annotated[
    float | None,
    typer.Option(
        "--half-width",
        metavar="N",
        help=f"Half width of the band in {' and '.join(BANDS)} grids, in grid spacings; {HALF_WIDTH:g} by default.",
        show_default=False,
    ),
]
Samples = Annotated[int | None, typer.Option(hidden=True, help="Moved to `sdfcli samples`.")]


class ExportedGrid(Line, title="export", shared="input output bytes seconds"):
    """To a regular grid."""

    shape: Annotated[list[Count], size(3), "grid points along x, y, z"]
    origin: Annotated[Vector, "position of the first grid point"]
    spacing: Annotated[float, "distance between grid points"]
    half_width: Annotated[Amount | None, "half width of a narrow band, in grid spacings"] = ABSENT
    active_voxels: Annotated[Count, "grid points in it"] = ABSENT


class ExportedOctree(Line, title="export to .vtkhdf", shared="input output bytes seconds leaves corners"):
    """A field."""


class ExportedOctrees(Line, title="export to .vtkhdf, sequence", shared="input output bytes seconds frames"):
    """All frames of a sequence."""

    leaves: Annotated[Count, "of all frames together"]
    corners: Annotated[Count, "of all frames together"]


class ExportedField(Line, title="export to .h5", shared="input output bytes seconds leaves corners content_sha256"):
    """A field, in the newest format version. `content_sha256` is the new file's."""


class ExportedSequence(Line, title="export to .h5, sequence", shared="input output bytes seconds frames"):
    """A sequence, with all frames' fields in the newest format version."""

    leaves: Annotated[Count, "of all frames together"]
    corners: Annotated[Count, "of all frames together"]
    content_sha256: Annotated[
        str, stored("mesh", "sha256"), "[checksum](file.md#sequences) of times, motions and the frames' fields"
    ]


def export(
    named: Files,
    output: Output = None,
    resolution: Resolution = None,
    window: Window = None,
    dtype: Dtype = None,
    half_width: HalfWidth = None,
    samples: Samples = None,
    frame: options.Frame = None,
    time: options.Time = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Convert fields for other programs: ParaView, NumPy, game engines, Blender, Houdini, Warp.

    Formats hold the octree itself or a regular grid; .raw comes with a JSON header file. For a sequence, .vtkhdf and
    .h5 hold all frames unless one is chosen; .h5 rewrites files of earlier versions in the newest one. A mesh in place
    of a field gives a grid of exact distances.

    Example: sdfcli export bunny.h5 bunny.vti --resolution 256
    """
    from sdfcli.export.files import check_grid_options, format_of, targets_of, write
    from sdfcli.runtime.files import check_target, written_whole
    from sdfcli.sequence.file import is_sequence

    if samples is not None:
        raise UsageError("--samples: samples come from the mesh: sdfcli samples MESH -o NAME.npz")
    if output is None:
        if len(named) != 2:
            raise UsageError("name the output: FILE OUT for one file, FILE... -o 'out/{name}.npz' for several")
        named, output = named[:1], named[1]
        if Path(output).suffix.lower() in ENDINGS:
            raise UsageError(f"{output}: a field as the last name could be an input; use -o {output}")
    files, pattern = fields_of(named, meshes=True), Path(output)
    if is_folder(named, files, output):
        raise UsageError(f"{output}: is a folder, which selects no format; use -o '{pattern / f'{NAME}.vti'}'")
    form = format_of(pattern)
    check_grid_options(form, resolution, window, dtype, half_width)
    box = _box(window)
    outputs = outputs_of(files, pattern)

    for each in outputs:
        for target in targets_of(each):
            check_target(target, force, *files)

    def convert(file: Path, out: Path, place: str | None) -> None:
        targets = targets_of(out)
        with progress(str(file), quiet or json) as update:
            record: type[Line]
            start = clock.perf_counter()
            series = (form.own or form.series is not None) and frame is None and time is None and is_sequence(file)
            field: Any = FrameRange(file, ":") if series else _open(file, form, frame, time)
            update(f"writing {out}")
            with ExitStack() as stack:
                temporary = [stack.enter_context(written_whole(target, force)) for target in targets]
                if series:
                    record = ExportedSequence if form.own else ExportedOctrees
                    facts = _frames(form, temporary[0], field, update)
                else:
                    record = ExportedGrid if form.grid else ExportedField if form.own else ExportedOctree
                    facts = write(form, temporary, out.name, field, resolution, box, dtype, half_width)
            seconds = clock.perf_counter() - start
        rows = [(name.replace("_", " "), _text(value)) for name, value in facts.items()]
        print_written(record, file, targets, facts, rows, seconds, json, quiet, place)

    for_each(files, outputs, convert, json)


def _open(file: Path, form: Format, frame: int | None, time: float | None) -> Distances:
    """A field, or for a grid a mesh's exact distances; warns if these have no signs."""
    from sdfcli.mesh.formats.readers import FORMATS as MESHES

    if not (form.grid and frame is None and time is None and file.suffix.lower() in MESHES):
        return open_field(file, frame, time)
    from sdfcli.export.lattice import ExactDistances
    from sdfcli.query.mesh_distance import MeshDistance

    exact = ExactDistances(MeshDistance(file))
    if exact.info["sign"] == "none":
        say(f"sdfcli: warning: {file}: distances without signs: {exact.info['sign_reason']}")
    return exact


def _frames(form: Format, path: Path, frames: FrameRange, update: Callable[[str], None]) -> dict[str, Any]:
    """Writes all frames of a sequence."""
    fields = frames.fields(update, "writing")
    if form.own:
        from sdfcli.sequence.save import rewrite_sequence

        return rewrite_sequence(frames.sequence, (field for _, field in fields), path)
    facts: dict[str, Any] = load(str(form.series))(path, ((frames.time(k), field) for k, field in fields))
    return facts


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
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.9g}"
