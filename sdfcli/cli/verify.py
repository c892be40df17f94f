"""`sdfcli verify`: a field's error, measured against exact distances."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.fields import open_field, print_failure
from sdfcli.cli.output import error_text, print_json, print_table, progress, say, show
from sdfcli.cli.records import ABSENT, Amount, Count, Line, Record, Vector
from sdfcli.cli.wording import at_most_text, leaves_text, length_text, lengths_of, place_text, unit_name
from sdfcli.errors import CheckFailedError, InputError, SdfError, UsageError, worst_code
from sdfcli.params import NAME, check_tolerance

if TYPE_CHECKING:
    from sdfcli.field.field import Field
    from sdfcli.quality.accuracy import RegionErrors
    from sdfcli.quality.as_given import TurnedShell
    from sdfcli.quality.prove import Proof
    from sdfcli.quality.proven_surface import ProvenSurface
    from sdfcli.quality.verification import Verification

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


class Unproven(Record):
    """Leaves whose error is not proven to be within the tolerance."""

    reason: str
    leaves: Count
    at: Vector
    cell: Amount


class Surface(Record):
    """What is proven of the field's surface."""

    error: Amount | None
    lengths: dict[str, Amount | None]
    lost: Count
    extra: Count


class Proven(Record):
    """Bounds on the error everywhere in the domain."""

    max_error: Amount
    found: Amount
    lengths: dict[str, Amount]
    leaves: Count
    certified: Amount
    at: Vector
    cell: Amount
    unproven: list[Unproven]
    surface: Surface | None


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
    proof: Annotated[
        Proven,
        "with `--prove`: the largest possible error, `max_error`, and the largest one `found`, both as `lengths`, too; "
        "the number of `leaves` and the share `certified` to be within the tolerance; the centre, `at`, and edge, "
        "`cell`, of the leaf with the largest possible error; for the leaves not certified, `unproven`, by "
        "`reason`: their number, and centre and edge of the first; and of the field's `surface`, null without signs: "
        "its largest possible distance from the mesh, `error`, null if unknown, and the numbers of leaves with `lost` "
        "and with `extra` surface",
    ] = ABSENT


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
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Bound the error everywhere in the domain, too, not only at the points."),
    ] = False,
    frame: options.Frame = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare fields with exact distances at random points; exit code 6 above the tolerance.

    The points lie near the surface, in the band around it, and anywhere in the domain. Exact distances, and the winding
    numbers that decide inside and outside, are computed in float64 by independent code, from the mesh as given. Shells
    that the build turned are listed. With --prove, the largest error that is possible anywhere is bounded, too, and
    must be within the tolerance.

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
        look = {"samples": samples, "tolerance": tolerance, "seed": seed, "prove": prove, "device": device}
        look["threads"] = threads
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
    compared = _compared(field, found)
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
                proof=_proven(field, found.proof, unit) if found.proof else ABSENT,
            )
        )
    verdict = "passed" if found.passed else "FAILED"
    if not alone:
        if not (json or quiet):
            show(f"{file}: {verdict}, {compared}", verdict)
            if found.proof:
                _print_proof(field, found.proof, f"{file}: ")
            _print_turned(found.turned, f"{file}: ")
            if not found.same_mesh:
                say(f"note: {file}: {mesh} is not the mesh that the field was built from")
        elif quiet and not found.passed:
            say(f"sdfcli: {file}: {compared}")
        return 0 if found.passed else CheckFailedError.exit_code
    if not (json or quiet):
        share = f"of the {unit_name(field.info['parameters'])}"
        print_table(
            f"{file}: {verdict}, {compared}",
            _rows(found.regions, unit),
            ("region", "points", "max error", share, "rms error", share, "at a jump of the sign"),
            verdict=verdict,
        )
        if found.proof:
            _print_proof(field, found.proof)
        _print_turned(found.turned)
        if not found.same_mesh:
            say("note: this is not the mesh that the field was built from")
    if not found.passed:
        raise CheckFailedError(f"{file}: {compared}")
    return 0


def _compared(field: Field, found: Verification) -> str:
    """The largest error, found or possible, and the tolerance."""
    worst, allowed, error = found.error, found.tolerance, "error"
    if found.proof:
        worst, error = max(worst, found.proof.error), "error everywhere at most"
    name, side = unit_name(field.info["parameters"]), "within" if worst <= allowed else "above"
    limit = length_text(allowed, found.unit, name)
    return f"{error} {length_text(worst, found.unit, name)}, {side} the tolerance {limit}"


def _proven(field: Field, proof: Proof, unit: float) -> Proven:
    from sdfcli.quality.prove import leaf_boxes

    return Proven(
        max_error=proof.error,
        found=proof.found,
        lengths={"max_error": proof.error * unit, "found": proof.found * unit},
        leaves=len(proof.bound),
        certified=proof.certified,
        at=list(proof.where),
        cell=proof.edge,
        unproven=[
            Unproven(reason=reason, leaves=len(leaves), at=at.tolist(), cell=float(edge))
            for reason, leaves in proof.unproven.items()
            for at, edge in zip(*leaf_boxes(field, leaves[:1]), strict=True)
        ],
        surface=_surface(proof.surface, unit) if proof.surface else None,
    )


def _surface(found: ProvenSurface, unit: float) -> Surface:
    error = found.error if math.isfinite(found.error) else None
    lengths = {"error": error if error is None else error * unit}
    return Surface(error=error, lengths=lengths, lost=len(found.lost), extra=len(found.extra))


def _print_proof(field: Field, proof: Proof, head: str = "") -> None:
    """Prints a proof, and notes the leaves that are not certified. head: the field, if there are several."""
    from sdfcli.quality.prove import leaf_boxes

    name = unit_name(field.info["parameters"])
    share = f"{math.floor(1e4 * proof.certified) / 100:.2f} % of {len(proof.bound):,} leaves certified"
    show(
        f"{head}proof: {share}; the largest possible error, {length_text(proof.error, field.unit, name)}, is at "
        f"{place_text(proof.where)}, and {length_text(proof.found, field.unit, name)} was found"
    )
    if found := proof.surface:
        known = math.isfinite(found.error)
        near = f"lies within {at_most_text(found.error, field.unit, name)} of" if known else "has no bound to"
        show(f"{head}surface: the field's {near} the mesh's; {_differing(found)}")
    for reason, leaves in proof.unproven.items():
        (at,), (edge,) = leaf_boxes(field, leaves[:1])
        say(
            f"note: {head}{len(leaves):,} leaves are not certified: {reason}; the first is at {place_text(at)}, "
            f"with an edge of {edge:.4g}"
        )


def _differing(found: ProvenSurface) -> str:
    """Where a surface and the mesh may have another topology."""
    places = [(found.lost, "with faces may have lost it"), (found.extra, "may have some away from all faces")]
    told = [f"{leaves_text(len(leaves))} {what}" for leaves, what in places if len(leaves)]
    return ", ".join(told) or "none is lost, and none is away from all faces"


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
        place = place_text(shell.at)
        why = f"the winding number of the mesh as it is given is {shell.winding:.3g} in it"
        verb = "was turned:" if shell.confirmed else "was turned in the build, and is not here:"
        say(f"note: {head}a shell of {shell.faces:,} faces, at {place}, {verb} {why}")
    if len(turned) > MOST_TURNED:
        say(f"note: {head}{len(turned) - MOST_TURNED:,} more shells were turned")
