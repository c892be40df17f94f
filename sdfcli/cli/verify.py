"""`sdfcli verify`: a field's error, measured against exact distances."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sdfcli.cli import options
from sdfcli.cli.fields import open_field
from sdfcli.cli.output import error_text, print_json, print_table, progress, say
from sdfcli.cli.records import Amount, Count, Line, Record, Vector
from sdfcli.cli.wording import length_text, lengths_of, unit_name
from sdfcli.errors import CheckFailedError
from sdfcli.params import check_tolerance

if TYPE_CHECKING:
    from sdfcli.field.field import Field
    from sdfcli.quality.accuracy import RegionErrors
    from sdfcli.quality.as_given import TurnedShell

MOST_TURNED = 5
"""Maximum number of turned shells listed individually, without --json."""


class Region(Record):
    """Errors at the points of a region."""

    samples: Count
    max_error: Amount
    rms_error: Amount
    lengths: dict[str, Amount]
    jumps: Annotated[Count, "points left out"]
    cell: Annotated[Amount, "the largest leaf"]


class Turned(Record):
    """A shell that the build turned."""

    faces: Count
    at: Vector
    winding: float
    confirmed: bool


class Verified(Line, title="verify", shared="input tolerance max_error lengths notes"):
    """One line."""

    reference: Annotated[str, "the mesh of `--mesh`"]
    same_mesh: Annotated[bool, "whether the field was built from this mesh"]
    passed: Annotated[bool, "whether the error is within the tolerance"]
    regions: Annotated[
        dict[str, Region],
        "by `near`, `band` and `everywhere`: `samples`, `max_error`, `rms_error`, both as `lengths` in the mesh's "
        "units, `jumps` (points left out) and `cell` (the largest leaf)",
    ]
    turned: Annotated[
        list[Turned],
        "shells that the build turned: `faces` (count), a point `at` one face, the smallest `winding` number in front "
        "of it in the mesh as given, and `confirmed`: whether that is negative",
    ]


def verify(
    file: options.FieldFile,
    mesh: Annotated[Path, typer.Option("--mesh", help="Mesh that the field was built from.")],
    samples: Annotated[int, typer.Option(min=3, help="Number of random points.")] = 100_000,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Maximum error, as a fraction of the diagonal; the field's own tolerance by default.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the points.")] = 0,
    frame: options.Frame = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare a field with exact distances at random points; exit code 6 above the tolerance.

    The points lie near the surface, in the band around it, and anywhere in the domain. Exact distances, and the winding
    numbers that decide inside and outside, are computed in float64 by independent code, from the mesh as given. Shells
    that the build turned are listed.

    Example: sdfcli verify bunny.h5 --mesh bunny.ply --samples 1000000
    """
    check_tolerance(tolerance)
    from sdfcli.quality.verification import verify as compare

    with progress(str(file), quiet or json) as update:
        field = open_field(file, frame, None)
        found = compare(
            field,
            mesh,
            samples=samples,
            tolerance=tolerance,
            seed=seed,
            device=device,
            threads=threads,
            progress=update,
        )
    worst, allowed, unit = found.error, found.tolerance, found.unit
    if json:
        print_json(
            Verified(
                input=str(file),
                reference=str(mesh),
                same_mesh=found.same_mesh,
                passed=found.passed,
                notes=found.notes,
                tolerance=allowed,
                max_error=worst,
                lengths=lengths_of({"tolerance": allowed, "max_error": worst}, unit),
                regions={name: _figures(field, region, unit) for name, region in found.regions.items()},
                turned=[Turned(**shell._asdict(), confirmed=shell.confirmed) for shell in found.turned],
            )
        )
    elif not quiet:
        verdict = "passed" if found.passed else "FAILED"
        share = f"of the {unit_name(field.info['parameters'])}"
        print_table(
            f"{file}: {verdict}, {_compared(field, unit, worst, allowed)}",
            _rows(found.regions, unit),
            ("region", "points", "max error", share, "rms error", share, "at a jump of the sign"),
        )
        _print_turned(found.turned)
        if not found.same_mesh:
            say("note: this is not the mesh that the field was built from")
    if not found.passed:
        raise CheckFailedError(f"{file}: {_compared(field, unit, worst, allowed)}")


def _compared(field: Field, unit: float, worst: float, allowed: float) -> str:
    """The largest error and the tolerance. unit: in the mesh's units."""
    name, side = unit_name(field.info["parameters"]), "within" if worst <= allowed else "above"
    return f"error {length_text(worst, unit, name)}, {side} the tolerance {length_text(allowed, unit, name)}"


def _figures(field: Field, region: RegionErrors, unit: float) -> Region:
    return Region(
        samples=region.samples,
        max_error=region.largest,
        rms_error=region.rms,
        lengths={"max_error": region.largest * unit, "rms_error": region.rms * unit},
        jumps=region.jumps,
        cell=float(field.cell_at([region.where])[1][0]),
    )


def _rows(found: dict[str, RegionErrors], unit: float) -> list[tuple[str, ...]]:
    return [
        (
            name,
            f"{region.samples:,}",
            *(error_text(scale * value) for value in (region.largest, region.rms) for scale in (unit, 1.0)),
            f"{region.jumps:,}",
        )
        for name, region in found.items()
    ]


def _print_turned(turned: list[TurnedShell]) -> None:
    for shell in turned[:MOST_TURNED]:
        place = ", ".join(f"{x:.4g}" for x in shell.at)
        why = f"the winding number of the mesh as it is given is {shell.winding:.3g} in it"
        verb = "was turned:" if shell.confirmed else "was turned in the build, and is not here:"
        say(f"note: a shell of {shell.faces:,} faces, at {place}, {verb} {why}")
    if len(turned) > MOST_TURNED:
        say(f"note: {len(turned) - MOST_TURNED:,} more shells were turned")
