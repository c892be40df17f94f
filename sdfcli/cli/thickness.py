"""`sdfcli thickness`: a mesh's wall thickness."""

from __future__ import annotations

import math
import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sdfcli.cli import options
from sdfcli.cli.build_options import Scale
from sdfcli.cli.output import print_json, print_table, progress, say
from sdfcli.cli.records import Amount, Count, Line, Record, Rule, Vector, took
from sdfcli.cli.wording import place_text
from sdfcli.errors import CheckFailedError, UsageError
from sdfcli.params import UNITS, check_scale

if TYPE_CHECKING:
    from sdfcli.quality.walls import Thickness

QUANTILES = (0.01, 0.05, 0.5)
BAR = 40
"""Characters of the histogram's longest bar."""
BINS, NARROW = 6, 0.05
"""Minimum bin count from the thinnest place to the end of the picture's scale, the maximum is 2.5 times this; and the
minimum width of that range, as a fraction of its end."""

Share = Annotated[Amount, Rule(maximum=1)]


class Place(Record):
    """The thinnest place."""

    thickness: Amount
    opposite: Amount | None
    point: Vector
    face: Count


class Quantile(Record):
    """A share of the opposed surface, and the thickness that it does not exceed."""

    share: Share
    thickness: Amount


class Bin(Record):
    """A bin of the histogram; the last one has no `high`."""

    low: Amount
    high: Amount | None
    share: Share


class Measured(Line, title="thickness", shared="input triangles vertices seconds notes"):
    """One line."""

    output: Annotated[str | None, "the file of `-o`"] = None  # type: ignore[assignment]
    picture: Annotated[str | None, "the file of `--picture`"] = None
    units: Annotated[str | None, "unit of all lengths, as `mm`, given in the file; null if none"]
    samples: Annotated[Count, "number of points on the surface"]
    thinnest: Annotated[
        Place | None,
        "the smallest `thickness`, its `point` and `face`, and the `opposite` distance there, null without one; null "
        "if nothing has a thickness",
    ]
    quantiles: Annotated[list[Quantile], "thickness that a `share` of the opposed surface does not exceed"]
    histogram: Annotated[
        list[Bin], "share of the whole surface by thickness, from `low` up to, but not including, `high`"
    ]
    opposed: Annotated[Share, "share of the surface that has a thickness: some side opposes it"]
    encloses: Annotated[bool, "whether the mesh has an inside; else lengths are measured behind its faces"]
    limit: Annotated[float | None, "`--min`"]
    below: Annotated[Share | None, "share of the surface that is thinner than `--min`; null without that"]
    passed: Annotated[bool | None, "whether that is at most `--allow`; null without `--min`"]


def thickness(
    mesh: Annotated[Path, typer.Argument(metavar="MESH", help="Triangle mesh.")],
    least: Annotated[
        float | None,
        typer.Option(
            "--min",
            metavar="T",
            help="Required thickness, in the mesh's units: exit code 6 if the mesh is thinner.",
            show_default=False,
        ),
    ] = None,
    allow: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the surface that may be thinner than --min.")
    ] = 0.0,
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw the mesh coloured by thickness: PNG or JPEG; with --min, what is thinner is red.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the mesh with its thickness as face or vertex data: .vtp or .ply.",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        str,
        typer.Option(**options.words("faces", "vertices"), help="Elements with values in the file of -o."),
    ] = "faces",
    samples: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of points on the surface; at least one per face.")
    ] = 100_000,
    size: Annotated[
        str, typer.Option(metavar="WxH", help="Size of --picture in pixels, without its scale; N for N x N.")
    ] = "800x600",
    view: options.View = "-30,20",
    up: options.Up = "y",
    units: Annotated[
        str | None,
        typer.Option(
            **options.words(*UNITS),
            help="Unit of all lengths, to which the file's coordinates are converted; the file's by default.",
            show_default=False,
        ),
    ] = None,
    scale: Scale = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure a mesh's wall thickness: the thinnest place, a histogram, a coloured picture or mesh.

    The thickness at a point is the diameter of the largest ball inside that touches the surface there and a side that
    opposes it. Side faces of a plate do not: its thickness is that of the plate up to its edges. An edge of less than
    50 degrees thins to 0. The distance along the inward normal to the other side is reported as well.

    Example: sdfcli thickness part.stl --min 0.8 --picture thin.png
    """
    from sdfcli.cli.render import parse_size
    from sdfcli.export.wall_map import ENDINGS
    from sdfcli.pictures.png import check_picture, write_picture
    from sdfcli.pictures.render import check_size, view_axes
    from sdfcli.quality.walls import thickness as measure
    from sdfcli.runtime.files import check_ending, check_target

    check_scale(scale, units)
    if least is not None and not 0 < least < math.inf:
        raise UsageError(f"--min {least:g}: use a positive length")
    if not 0 <= allow <= 1:
        raise UsageError(f"--allow {allow:g}: use a share from 0 to 1")
    if allow and least is None:
        raise UsageError("--allow is for --min")
    width, height = parse_size(size)
    check_size(width, height)
    view_axes(view, up)
    if output is not None:
        check_ending(output, *ENDINGS)
        check_target(output, force, mesh)
    if picture is not None:
        check_picture(picture, force, mesh)
    with progress(str(mesh), quiet or json) as update:
        start = clock.perf_counter()
        update("loading")
        walls = measure(
            mesh, at=at, samples=samples, scale=scale, units=units, device=device, threads=threads, progress=update
        )
        if output is not None:
            update("writing")
            walls.save(output, force=force)
        if picture is not None:
            update("drawing")
            drawn = walls.picture(
                width=width, height=height, view=view, up=up, limit=least, device=device, threads=threads
            )
            write_picture(picture, drawn, force)
        seconds = clock.perf_counter() - start
    report = _report(mesh, walls, least, allow, seconds, output, picture)
    if json:
        print_json(report)
    elif not quiet:
        _print_report(report)
    if not quiet:
        for note in walls.notes:
            say(f"note: {mesh}: {note}")
    if report.passed is False:
        raise CheckFailedError(f"{mesh}: {_fault(report)}")


def _report(
    mesh: Path,
    walls: Thickness,
    least: float | None,
    allow: float,
    seconds: float,
    output: Path | None,
    picture: Path | None,
) -> Measured:
    from sdfcli.pictures.slice import nice_step
    from sdfcli.pictures.wall_picture import Scale as ColourScale

    thinnest, edges = walls.thinnest, list[float]()
    if thinnest:
        high = ColourScale.of(walls, None).high
        step = nice_step(max(high - thinnest.thickness, NARROW * high) / BINS)
        first, last = math.floor((thinnest.thickness + walls.resolution) / step), math.ceil(high / step)
        edges = [float(f"{step * k:.9g}") for k in range(first, max(first, last) + 1)]
    shares = walls.histogram([*edges, math.inf]).tolist() if edges else []
    below = None if least is None else walls.share_below(least)
    passed: bool | None = None
    if least is not None and below is not None:
        thick_enough = below <= allow if allow else thinnest is None or thinnest.thickness >= least - walls.resolution
        passed = walls.encloses and thick_enough
    return Measured(
        input=str(mesh),
        output=None if output is None else str(output),
        picture=None if picture is None else str(picture),
        triangles=len(walls.faces),
        vertices=len(walls.vertices),
        units=walls.units,
        samples=len(walls.samples.face),
        thinnest=thinnest
        and Place(
            thickness=thinnest.thickness,
            opposite=None if math.isnan(thinnest.opposite) else thinnest.opposite,
            point=list(thinnest.point),
            face=thinnest.face,
        ),
        quantiles=[Quantile(share=share, thickness=walls.quantile(share)) for share in QUANTILES if thinnest],
        histogram=[
            Bin(low=low, high=high, share=share)
            for low, high, share in zip(edges, [*edges[1:], None] if edges else [], shares, strict=True)
        ],
        opposed=walls.opposed,
        encloses=walls.encloses,
        limit=least,
        below=below,
        passed=passed,
        notes=walls.notes,
        seconds=took(seconds),
    )


def _fault(report: Measured) -> str:
    """Why --min is not met."""
    if not report.encloses:
        return "the mesh has no inside, so its walls have no thickness"
    thinnest = report.thinnest
    assert thinnest
    share = f"{report.below:.2%} of the surface is thinner than {report.limit:g}"
    return f"{share}; {thinnest.thickness:.4g} at the thinnest, at {place_text(thinnest.point)}"


def _print_report(report: Measured) -> None:
    verdict = "" if report.passed is None else "passed" if report.passed else "FAILED"
    unit = report.units or "in the mesh's units"
    rows = [("mesh", f"{report.triangles:,} triangles, {report.vertices:,} vertices; lengths {unit}")]
    if report.thinnest is None:
        rows += [("thinnest", "no walls: no side opposes another")]
    else:
        thinnest = report.thinnest
        across = "" if thinnest.opposite is None else f", {thinnest.opposite:.4g} along the normal"
        rows += [
            ("thinnest", f"{thinnest.thickness:.4g}{across}, at {place_text(thinnest.point)}"),
            ("quantiles", ", ".join(f"{each.share:.0%} up to {each.thickness:.4g}" for each in report.quantiles)),
        ]
    if report.limit is not None:
        rows += [(f"below {report.limit:g}", f"{report.below:.2%} of the surface")]
    most = max((each.share for each in report.histogram), default=0.0)
    for each in report.histogram:
        upper = "and more" if each.high is None else f"to {each.high:g}"
        bar = "#" * math.ceil(BAR * each.share / most) if each.share else ""
        rows += [(f"{each.low:g} {upper}", f"{each.share:7.2%} {bar}".rstrip())]
    if report.opposed < 1:
        rows += [("none", f"{1 - report.opposed:7.2%} no side opposes it")]
    rows += [("time", f"{report.seconds['total']:.2f} s, {report.samples:,} points")]
    rows += [(name, path) for name, path in (("picture", report.picture), ("file", report.output)) if path]
    print_table(f"{report.input}: {verdict}" if verdict else report.input, rows, verdict=verdict)
