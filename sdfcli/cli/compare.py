"""`sdfcli compare`: the Hausdorff distance of two meshes, proven, and their mean distance."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.output import print_json, print_table, progress, say
from sdfcli.cli.records import ABSENT, Amount, Count, Line, Record, Vector
from sdfcli.cli.wording import place_text
from sdfcli.errors import CheckFailedError
from sdfcli.params import UNITS

if TYPE_CHECKING:
    from sdfcli.quality.comparison import Comparison, Deviation

DIGITS = 4, 6
"""Minimum and maximum significant digits of bounds."""


class Direction(Record):
    """Distances from one mesh's points to the other mesh."""

    lower: Amount
    upper: Amount
    point: Vector
    face: Count
    nearest: Vector
    nearest_face: Count
    mean: Amount
    mean_error: Amount
    rms: Amount
    rms_error: Amount
    outside: Annotated[Amount | None, ""]
    inside: Annotated[Amount | None, ""]
    samples: Count


KEYS = (
    "`lower` and `upper` bound of the largest distance; the `point` at distance `lower`, its `face`, the `nearest` "
    "point of the other mesh and its face, `nearest_face`; `mean` and `rms` distance at `samples` random points, with "
    "their standard errors `mean_error` and `rms_error`; and the largest distance found `outside` and `inside` the "
    "other mesh, null if that has no inside"
)


class Compared(Line, title="compare", shared="input notes"):
    """The comparison of two meshes. Lengths are in the meshes' units."""

    other: Annotated[str, "the second mesh"]
    passed: Annotated[bool, "whether the distance is proven to be within `--max-distance`; true without it"]
    decided: Annotated[bool, "whether the bounds decide that"]
    lower: Annotated[Amount, "lower bound of the Hausdorff distance, attained at a point"]
    upper: Annotated[Amount, "its upper bound, proven"]
    max_distance: Annotated[Amount, "`--max-distance`"] = ABSENT
    diagonal: Annotated[Amount, "diagonal of the bounding box around both meshes"]
    a_to_b: Annotated[Direction, f"from the first mesh's points to the second mesh: {KEYS}"]
    b_to_a: Annotated[Direction, "from the second mesh's points to the first mesh: the same keys"]
    output: Annotated[str, "the picture; with `--picture`"] = ABSENT


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="Triangle mesh.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Triangle mesh to compare it with.")],
    max_distance: Annotated[
        float | None,
        typer.Option(
            metavar="D",
            help="Maximum distance, in the meshes' units; exit code 6 unless the Hausdorff distance is proven to be "
            "within it.",
            show_default=False,
        ),
    ] = None,
    within: Annotated[
        float, typer.Option(metavar="FRACTION", help="Maximum relative difference of the two bounds.")
    ] = 0.01,
    samples: Annotated[
        int, typer.Option(min=2, help="Number of random points per mesh, for mean, rms, outside and inside.")
    ] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the points.")] = 0,
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a picture of both meshes, coloured by their distance to each other: PNG or JPEG.",
            show_default=False,
        ),
    ] = None,
    size: Annotated[int, typer.Option(help="Width and height of each mesh in the picture, in pixels.")] = 700,
    view: options.View = "-30,20",
    up: options.Up = "y",
    sign: options.Sign = "auto",
    units: Annotated[
        str | None,
        typer.Option(
            **options.words(*UNITS),
            help="Unit of the results, to which both files' coordinates are converted: millimetres in STEP, metres in "
            "glTF, as named in 3MF, USD and COLLADA. STL, PLY, OBJ and OFF name none: use --scale.",
            show_default=False,
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            metavar="FACTOR",
            help="Multiply the coordinates of B, as by 1000 for a B in metres and an A in millimetres.",
            show_default=False,
        ),
    ] = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure the Hausdorff distance of two meshes, proven; exit code 6 above --max-distance.

    The largest distance of a point of either mesh to the other lies between two bounds: one attained at a point that
    is printed, and one that holds for all points. Mean and rms distances come from random points.

    Example: sdfcli compare scan.ply decimated.ply --max-distance 0.05
    """
    from sdfcli.mesh.load import load_mesh
    from sdfcli.pictures.comparison import check_image, comparison_image
    from sdfcli.pictures.png import check_picture, write_picture
    from sdfcli.quality.comparison import compare as measure

    if picture is not None:
        check_picture(picture, force, a, b)
        check_image(size, view, up)
    with progress(f"{a}, {b}", quiet or json) as update:
        found = measure(
            a,
            b,
            max_distance=max_distance,
            within=within,
            samples=samples,
            seed=seed,
            sign=sign,
            units=units,
            scale=scale,
            device=device,
            threads=threads,
            progress=update,
        )
        if picture is not None:
            update("picture")
            meshes = load_mesh(a, units=units), load_mesh(b, units=units, scale=scale)
            drawn = comparison_image(
                *meshes,
                names=_names(a, b),
                largest=found.upper,
                size=size,
                view=view,
                up=up,
                sign=sign,
                device=device,
                threads=threads,
            )
            write_picture(picture, drawn, force)
    sentence = _sentence(found)
    if json:
        print_json(
            Compared(
                input=str(a),
                other=str(b),
                passed=found.passed,
                decided=found.decided,
                lower=found.lower,
                upper=found.upper,
                max_distance=ABSENT if max_distance is None else max_distance,
                diagonal=found.diagonal,
                a_to_b=_direction(found.a_to_b),
                b_to_a=_direction(found.b_to_a),
                output=ABSENT if picture is None else str(picture),
                notes=found.notes,
            )
        )
    elif not quiet:
        _print_report(a, b, found, sentence, picture)
    if not found.passed:
        raise CheckFailedError(f"{a}, {b}: {sentence}")


def _direction(way: Deviation) -> Direction:
    facts: dict[str, Any] = {name: each for name, each in vars(way).items() if name != "parts"}
    return Direction(**facts | {"point": list(way.point), "nearest": list(way.nearest)})


def _sentence(found: Comparison) -> str:
    """The Hausdorff distance, and its relation to the maximum distance."""
    distance = f"Hausdorff distance {bounds_text(found.lower, found.upper)}"
    if found.max_distance is None:
        return distance
    limit = f"the maximum distance {found.max_distance:.6g}"
    if not found.decided:
        return f"{distance}, too close to {limit} to decide"
    return f"{distance}, {'within' if found.passed else 'above'} {limit}"


def bounds_text(lower: float, upper: float) -> str:
    """Two bounds with as many digits as tell them apart, up to a limit, rounded away from each other."""
    least, most = DIGITS
    gap = (upper - lower) / upper if upper > 0 else 1.0
    digits = min(most, max(least, 1 - math.floor(math.log10(gap)))) if gap > 0 else most
    low, high = (_rounded(value, digits, way) for value, way in ((lower, -1), (upper, 1)))
    return low if low == high else f"{low} to {high}"


def _rounded(value: float, digits: int, way: int) -> str:
    """A number with some significant digits, rounded down or up (-1, 1)."""
    from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

    rounding = ROUND_CEILING if way > 0 else ROUND_FLOOR
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal(Decimal(value))):.12g}"


def _print_report(a: Path, b: Path, found: Comparison, sentence: str, picture: Path | None) -> None:
    verdict = "" if found.max_distance is None else "passed" if found.passed else "FAILED"
    names, ways = _names(a, b), (found.a_to_b, found.b_to_a)
    rows = [
        (
            f"{names[k]} to {names[1 - k]}",
            bounds_text(way.lower, way.upper),
            f"{way.mean:.3g}",
            f"{way.rms:.3g}",
            *("-" if each is None else f"{each:.4g}" for each in (way.outside, way.inside)),
        )
        for k, way in enumerate(ways)
    ]
    title = f"{a}, {b}: {f'{verdict}, ' if verdict else ''}{sentence}"
    print_table(title, rows, ("distances", "largest", "mean", "rms", "outside", "inside"), verdict=verdict)
    error = max((each / value for way in ways for each, value in _errors(way)), default=0.0)
    facts = [
        (f"farthest in {names[k]}", f"{place_text(way.point, 6)}, face {way.face}; nearest: face {way.nearest_face}")
        for k, way in enumerate(ways)
    ]
    sampled = f"mean, rms, outside and inside, at {ways[0].samples:,} points"
    facts.append(("sampled", f"{sampled}; standard errors up to {error:.1%} of mean and rms"))
    if picture is not None:
        facts.append(("picture", str(picture)))
    print_table("", facts)
    for note in found.notes:
        say(f"note: {note}")


def _names(a: Path, b: Path) -> tuple[str, str]:
    """The meshes' names without folders, if they differ."""
    return (a.name, b.name) if a.name != b.name else (str(a), str(b))


def _errors(way: Deviation) -> list[tuple[float, float]]:
    return [(error, value) for error, value in ((way.mean_error, way.mean), (way.rms_error, way.rms)) if value > 0]
