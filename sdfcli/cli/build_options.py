"""Options shared by `sdfcli build`, `check` and `sequence`: build parameters, lengths, memory, verdicts."""

from __future__ import annotations

from typing import Annotated

import typer

from sdfcli.cli.options import ADVANCED, DEVICE, words
from sdfcli.errors import UsageError
from sdfcli.params import BUILD_SIGNS, DEFAULT_DEPTH, GAP, OCTREES, THIN, UNITS, VERDICTS, parse_size
from sdfcli.runtime import memory

ACCURACY = "Accuracy"
"""Help panel."""

BARS = VERDICTS[:-1]
"""Verdicts for --require."""

Octree = Annotated[
    str,
    typer.Option(
        **words(*OCTREES),
        help="Refinement criterion: field error, or triangle density.",
        rich_help_panel=ADVANCED,
    ),
]
Depth = Annotated[
    int | None,
    typer.Option(
        help=f"Maximum octree level; {DEFAULT_DEPTH} by default, more if a tolerance below 6e-4 needs it.",
        show_default=False,
        rich_help_panel=ACCURACY,
    ),
]
Tolerance = Annotated[
    float,
    typer.Option(metavar="FRACTION", help="Maximum field error, as a fraction of the bounding box's diagonal."),
]
Band = Annotated[
    float,
    typer.Option(
        metavar="FRACTION",
        help="Distance from the surface, as a fraction of the diagonal or --unit, beyond which the tolerance grows.",
        rich_help_panel=ACCURACY,
    ),
]
Thin = Annotated[
    float | None,
    typer.Option(
        metavar="FRACTION",
        help="Minimum thickness of resolved walls and gaps, as a fraction of the diagonal or --unit; "
        f"{THIN:g} tolerances by default, 0 for no such refinement.",
        show_default=False,
        rich_help_panel=ACCURACY,
    ),
]
Sign = Annotated[
    str,
    typer.Option(
        "--sign",
        **words(*BUILD_SIGNS),
        help="Sign method; auto chooses by the mesh's faults; flood: the mesh's solid, for open meshes and soups; "
        "inside: the walls around a room and all beyond, for scans of rooms.",
    ),
]
Gap = Annotated[
    str | None,
    typer.Option(
        metavar="FRACTION|auto",
        help="Radius of the ball that floods the outside, as a fraction of the diagonal; gaps up to two radii wide are "
        f"closed. {GAP} by default; auto: the smallest radius from there on that does not leak.",
        show_default=False,
    ),
]
Domain = Annotated[
    str | None,
    typer.Option(
        metavar="X,Y,Z,L",
        help="Field domain, a cube: lower corner and edge, in the mesh's units; padded around the mesh by default. "
        "Fields with the same domain share a lattice.",
        show_default=False,
        rich_help_panel=ADVANCED,
    ),
]
Unit = Annotated[
    float | None,
    typer.Option(
        metavar="LENGTH",
        help="Length to which --tolerance, --band and --thin are relative; the mesh's diagonal by default. For the "
        "field's unit see --units.",
        show_default=False,
        rich_help_panel=ACCURACY,
    ),
]
Scale = Annotated[
    float | None,
    typer.Option(
        metavar="FACTOR",
        help="Multiply the mesh's coordinates, as by 0.001 for millimetres to metres; other lengths are then scaled "
        "ones.",
        show_default=False,
    ),
]
Units = Annotated[
    str | None,
    typer.Option(
        **words(*UNITS),
        help="The field's unit, to which coordinates are converted from the file's: millimetres in STEP, metres in "
        "glTF, as named in 3MF, USD and COLLADA. By default they stay in that unit. STL, PLY, OBJ and OFF name none: "
        "use --scale.",
        show_default=False,
    ),
]
MaxError = Annotated[
    float | None,
    typer.Option(
        metavar="LENGTH",
        help="Maximum field error, in the mesh's units: sets --unit so that the tolerance is this length.",
        show_default=False,
    ),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory limit, such as 800M or 4G; 90 % of free memory by default.",
        rich_help_panel=DEVICE,
    ),
]
Require = Annotated[
    str | None,
    typer.Option(
        "--require",
        **words(*BARS),
        help="Worst verdict for exit code 0; a worse one, or a missed tolerance, has exit code 6.",
        show_default=False,
    ),
]


def check_require(require: str | None) -> None:
    """Raises UsageError unless `require` is None or in BARS."""
    if require is not None and require not in BARS:
        raise UsageError(f"--require {require}: use {', '.join(BARS)}")


def memory_limit(size: str | None) -> int | None:
    """Parses --max-memory into bytes, and sets it as this process's limit; None if not given."""
    limit = parse_size(size)
    if limit is not None:
        memory.bound(limit)
    return limit
