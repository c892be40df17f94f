"""`sdfcli verify`: a field's error, measured against exact distances."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sdfcli.cli import options
from sdfcli.cli.fields import open_field
from sdfcli.cli.output import error_text, print_json, print_table, progress, say
from sdfcli.cli.records import Amount, Count, Line, Record, Vector
from sdfcli.cli.wording import unit_name
from sdfcli.errors import CheckFailedError, InputError, UsageError

if TYPE_CHECKING:
    from sdfcli.field.field import Field
    from sdfcli.verify.accuracy import RegionErrors
    from sdfcli.verify.as_given import TurnedShell

MOST_TURNED = 5
"""Maximum number of turned shells listed individually, without --json."""


class Region(Record):
    """Errors at the points of a region."""

    samples: Count
    max_error: Amount
    rms_error: Amount
    jumps: Annotated[Count, "points left out"]
    cell: Annotated[Amount, "the largest leaf"]


class Turned(Record):
    """A shell that the build turned."""

    faces: Count
    at: Vector
    winding: float
    confirmed: bool


class Verified(Line, title="verify", shared="input tolerance max_error notes"):
    """One line."""

    reference: Annotated[str, "the mesh of `--mesh`"]
    same_mesh: Annotated[bool, "whether the field was built from this mesh"]
    passed: Annotated[bool, "whether the error is within the tolerance"]
    regions: Annotated[
        dict[str, Region],
        "by `near`, `band` and `everywhere`: `samples`, `max_error`, `rms_error`, `jumps` (points left out) and `cell` "
        "(the largest leaf)",
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
    from sdfcli.backend import select_backend
    from sdfcli.mesh.load import load_mesh
    from sdfcli.verify.accuracy import errors, sample_points
    from sdfcli.verify.as_given import GivenMesh

    if tolerance is not None and not 0 < tolerance < 1:
        raise UsageError(f"--tolerance {tolerance:g}: use a fraction of the diagonal between 0 and 1")
    with progress(str(file), quiet or json) as update:
        field = open_field(file, frame, None)
        try:
            made_from, sign = field.info["mesh"]["sha256"], str(field.info["sign"])
            promised, band = (float(field.info["parameters"][name]) for name in ("tolerance", "band"))
            unit, scale, units = (field.info["parameters"].get(name) for name in ("unit", "scale", "units"))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{file}: does not say how it was built; build it again to verify it") from error
        loaded = load_mesh(mesh, scale=scale, units=units)
        source = loaded if unit is None else loaded.placed(None, unit)
        same = source.sha256 == made_from
        allowed = promised if tolerance is None else tolerance
        reference = GivenMesh(source, sign != "none", select_backend(device, threads))
        found = {}
        for region, points in sample_points(source, band, samples, seed).items():
            update(f"{len(points):,} points, {region}")
            found[region] = errors(field, source.unit, allowed, band, reference, points)
    worst = max(region.largest for region in found.values())
    passed = worst <= allowed
    if json:
        print_json(
            Verified(
                input=str(file),
                reference=str(mesh),
                same_mesh=same,
                passed=passed,
                notes=loaded.notes,
                tolerance=allowed,
                max_error=worst,
                regions={name: _figures(field, region) for name, region in found.items()},
                turned=[Turned(**shell._asdict(), confirmed=shell.confirmed) for shell in reference.turned],
            )
        )
    elif not quiet:
        verdict = "passed" if passed else "FAILED"
        above = "at most" if passed else "above"
        unit_text = unit_name(field.info["parameters"])
        print_table(
            f"{file}: {verdict}, error {error_text(worst)} of the {unit_text}, {above} {error_text(allowed)}",
            _rows(found),
            ("region", "points", "max error", "rms error", "at a jump of the sign"),
            verdict=verdict,
        )
        _print_turned(reference.turned)
        if not same:
            say("note: this is not the mesh that the field was built from")
    if not passed:
        fractions = f"{error_text(worst)} of the {unit_name(field.info['parameters'])}, above {error_text(allowed)}"
        raise CheckFailedError(f"{file}: the error is {fractions}")


def _figures(field: Field, region: RegionErrors) -> Region:
    return Region(
        samples=region.samples,
        max_error=region.largest,
        rms_error=region.rms,
        jumps=region.jumps,
        cell=float(field.cell_at([region.where])[1][0]),
    )


def _rows(found: dict[str, RegionErrors]) -> list[tuple[str, ...]]:
    return [
        (name, f"{region.samples:,}", error_text(region.largest), error_text(region.rms), f"{region.jumps:,}")
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
