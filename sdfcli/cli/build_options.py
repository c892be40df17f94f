"""Options shared by `sdfcli build` and `sdfcli sequence`: build parameters, lengths and memory."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sdfcli.cli.options import words
from sdfcli.errors import UsageError
from sdfcli.params import DEFAULT_DEPTH, LENGTHS, OCTREES, THIN, UNITS
from sdfcli.runtime import memory

Octree = Annotated[str, typer.Option(**words(*OCTREES), help="Refinement criterion: field error, or triangle density.")]
Depth = Annotated[
    int | None,
    typer.Option(
        help=f"Maximum octree level; {DEFAULT_DEPTH} by default, more if a tolerance below 6e-4 needs it.",
        show_default=False,
    ),
]
Tolerance = Annotated[float, typer.Option(help="Maximum field error, as a fraction of the bounding box's diagonal.")]
Band = Annotated[
    float,
    typer.Option(
        help="Distance from the surface, as a fraction of the diagonal, beyond which the tolerance grows with distance."
    ),
]
Thin = Annotated[
    float | None,
    typer.Option(
        metavar="FRACTION",
        help="Minimum thickness of resolved walls and gaps, as a fraction of the diagonal; "
        f"{THIN:g} tolerances by default, 0 for no such refinement.",
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
    ),
]
Unit = Annotated[
    float | None,
    typer.Option(
        metavar="LENGTH",
        help="Length to which --tolerance, --band and --thin are relative; the mesh's diagonal by default.",
        show_default=False,
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
        help="The field's unit: converts meshes whose file names one (STEP, 3MF, glTF, USD, COLLADA).",
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
    typer.Option(metavar="SIZE", help="Memory limit, such as 800M or 4G; 90 % of free memory by default."),
]


def parse_domain(domain: str | None) -> Any:
    """Splits --domain into numbers; BuildParams checks them."""
    return domain if domain is None else domain.split(",")


def unit_for(unit: float | None, max_error: float | None, tolerance: float) -> float | None:
    """The unit from --unit or --max-error. Raises UsageError if both are given, or for an impossible length."""
    if max_error is None:
        return unit
    if unit is not None:
        raise UsageError("--max-error and --unit both set the unit; use one of them")
    if not 0 < max_error < LENGTHS[1]:
        raise UsageError(f"--max-error {max_error}: use a length above 0, in the mesh's units")
    return max_error / tolerance if tolerance > 0 else None


def memory_limit(size: str | None) -> int | None:
    """Parses --max-memory into bytes, and sets it as this process's limit; None if not given."""
    if size is None:
        return None
    from sdfcli.verify.estimate import parse_size

    limit = parse_size(size)
    memory.bound(limit)
    return limit
