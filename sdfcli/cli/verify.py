"""`sdfcli verify`: a field's error, measured against exact distances."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.fields import open_field, print_failure
from sdfcli.cli.output import error_text, print_json, print_table, progress, say, show
from sdfcli.cli.records import Amount, Count, Line, Record, Vector
from sdfcli.cli.wording import length_text, lengths_of, unit_name
from sdfcli.errors import CheckFailedError, InputError, SdfError, UsageError, worst_code
from sdfcli.params import NAME, check_tolerance

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
    """A line per field."""

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
    named: options.FieldFiles,
    mesh: Annotated[
        Path,
        typer.Option(
            "--mesh",
            help="Mesh that the field was built from; for several fields the folder of their meshes, or a name with "
            "{name}, as in 'scans/{name}.ply'.",
        ),
    ],
    recursive: Annotated[
        bool,
        typer.Option(
            "--recursive", "-r", help="Search subfolders, too; their meshes are in the same subfolders of --mesh."
        ),
    ] = False,
    samples: Annotated[int, typer.Option(min=3, help="Number of random points.")] = 100_000,
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="FRACTION",
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
    """Compare fields with exact distances at random points; exit code 6 above the tolerance.

    The points lie near the surface, in the band around it, and anywhere in the domain. Exact distances, and the winding
    numbers that decide inside and outside, are computed in float64 by independent code, from the mesh as given. Shells
    that the build turned are listed.

    Example: sdfcli verify bunny.h5 --mesh bunny.ply --samples 1000000
    """
    from sdfcli.batch.inputs import find_fields

    check_tolerance(tolerance)
    places = {Path(field): place.with_suffix("") for field, place in find_fields(named, recursive).items()}
    files = [*places]
    if len(files) > 1 and NAME not in str(mesh) and not os.path.exists(mesh):
        raise UsageError(f"--mesh {mesh}: no such folder")
    if len(files) > 1 and not (NAME in str(mesh) or os.path.isdir(mesh)):
        raise UsageError(f"--mesh {mesh}: {len(files)} fields need a folder, or a name with {NAME}, as in '{NAME}.ply'")
    codes = []
    for file in files:
        look = {"samples": samples, "tolerance": tolerance, "seed": seed, "device": device, "threads": threads}
        alone = len(files) == 1
        try:
            codes.append(_verify(file, _mesh_of(file, places[file], mesh), frame, look, alone, json, quiet))
        except SdfError as error:
            if alone:
                raise
            codes.append(print_failure(file, error, json))
    if len(files) > 1 and not (json or quiet):
        passed, missed = codes.count(0), codes.count(CheckFailedError.exit_code)
        counts = ((passed, "passed"), (missed, "FAILED"), (len(files) - passed - missed, "not verified"))
        show(f"{len(files):,} fields: {', '.join(f'{count:,} {word}' for count, word in counts if count)}")
    if worst := worst_code(codes):
        raise typer.Exit(worst)


def _mesh_of(file: Path, place: Path, mesh: Path) -> Path:
    """A field's mesh: `mesh`, with the field's name in place of {name}, or its file of that name if it is a folder.

    place: the field's path in its folder, without its ending. Raises InputError for a folder without such a mesh, or
    with several.
    """
    from sdfcli.mesh.formats.readers import FORMATS

    if not os.path.isdir(mesh):
        return Path(str(mesh).replace(NAME, place.as_posix()))
    folder = mesh / place.parent
    beside = folder.iterdir() if folder.is_dir() else ()
    found = sorted(each for each in beside if each.stem == place.name and each.suffix.lower() in FORMATS)
    if len(found) != 1:
        several = " and ".join(each.name for each in found)
        fault = f"{several} have this field's name" if found else f"no mesh is named {place.as_posix()}"
        raise InputError(f"{file}: --mesh {mesh}: {fault}; use a name with {NAME}, as in '{mesh / NAME}.ply'")
    return found[0]


def _verify(
    file: Path, mesh: Path, frame: int | None, look: dict[str, Any], alone: bool, json: bool, quiet: bool
) -> int:
    """Compares a field with its mesh, and prints the result: a table if `alone`, else a line. Returns the exit code, of
    several fields, and raises CheckFailedError for a single one."""
    from sdfcli.quality.verification import verify as compare

    with progress(str(file), quiet or json) as update:
        field = open_field(file, frame, None)
        found = compare(field, mesh, **look, progress=update)
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
    verdict, compared = "passed" if found.passed else "FAILED", f"{file}: {_compared(field, unit, worst, allowed)}"
    if not alone:
        if not (json or quiet):
            show(f"{file}: {verdict}, {_compared(field, unit, worst, allowed)}", verdict)
            _print_turned(found.turned, f"{file}: ")
            if not found.same_mesh:
                say(f"note: {file}: {mesh} is not the mesh that the field was built from")
        elif quiet and not found.passed:
            say(f"sdfcli: {compared}")
        return 0 if found.passed else CheckFailedError.exit_code
    if not (json or quiet):
        share = f"of the {unit_name(field.info['parameters'])}"
        print_table(
            f"{file}: {verdict}, {_compared(field, unit, worst, allowed)}",
            _rows(found.regions, unit),
            ("region", "points", "max error", share, "rms error", share, "at a jump of the sign"),
            verdict=verdict,
        )
        _print_turned(found.turned)
        if not found.same_mesh:
            say("note: this is not the mesh that the field was built from")
    if not found.passed:
        raise CheckFailedError(compared)
    return 0


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


def _print_turned(turned: list[TurnedShell], head: str = "") -> None:
    """Notes the shells that a build turned. head: the field, if there are several."""
    for shell in turned[:MOST_TURNED]:
        place = ", ".join(f"{x:.4g}" for x in shell.at)
        why = f"the winding number of the mesh as it is given is {shell.winding:.3g} in it"
        verb = "was turned:" if shell.confirmed else "was turned in the build, and is not here:"
        say(f"note: {head}a shell of {shell.faces:,} faces, at {place}, {verb} {why}")
    if len(turned) > MOST_TURNED:
        say(f"note: {head}{len(turned) - MOST_TURNED:,} more shells were turned")
