"""`sdfcli query`: distances at points, from a field or exactly from a mesh."""

from __future__ import annotations

import sys
import time as clock
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sdfcli.cli import options
from sdfcli.cli.fields import check_choice, open_field
from sdfcli.cli.output import SCHEMA_VERSION, print_written, progress, say, standard_output
from sdfcli.cli.records import Amount, Count, Line
from sdfcli.errors import InputError, UsageError
from sdfcli.params import FORMS, BuildParams

if TYPE_CHECKING:
    from sdfcli.mesh.arrays import Floats, Ints
    from sdfcli.mesh.mesh import Domain
    from sdfcli.query.mesh_distance import MeshDistance
    from sdfcli.query.point_files import PointStream

OUTPUTS = (".npy", ".csv", ".ply")
COORDINATES = ["x", "y", "z"]
GRADIENT = ["gx", "gy", "gz"]
BOUNDS = ["lower", "upper"]
NEAREST = ["nearest_x", "nearest_y", "nearest_z", "triangle"]
ROWS = ["point", "triangle", "distance"]


Source = Annotated[
    Path, typer.Argument(metavar="FILE", help="Field, level set (.vdb, .nvdb), or mesh for exact distances.")
]
Points = Annotated[
    list[str],
    typer.Argument(
        metavar="POINTS...",
        help="Points: X,Y,Z, repeatable, or a file: .npy (N, 3), .csv, .xyz, .ply, a mesh, or - for text on standard "
        "input.",
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Output file: .npy, .csv or .ply; standard output by default.")
]
Coordinates = Annotated[
    bool, typer.Option("--coordinates", help="Add the points: columns x, y, z; .csv and .ply files always have them.")
]
Outside = Annotated[
    bool,
    typer.Option(
        "--outside", help="Add column outside: 1 outside the field's domain, where distances are upper bounds, else 0."
    ),
]
Gradient = Annotated[bool, typer.Option("--gradient", help="Add the gradient: columns gx, gy, gz.")]
Bounds = Annotated[
    bool,
    typer.Option(
        "--bounds",
        help="Add columns lower and upper, between which the exact distance lies; needs a field of `build --prove`.",
    ),
]
Nearest = Annotated[
    bool, typer.Option("--nearest", help="Add the nearest point on the mesh, and its triangle's index, from 0.")
]
Neighbours = Annotated[
    int | None,
    typer.Option("-k", help="With --nearest: the K nearest triangles, 1 to 32, and their distances instead."),
]
Approximate = Annotated[
    str | None,
    typer.Option(
        "--approximate",
        **options.words(*FORMS),
        help="With -k or --within: search by a shifted sort of boxes; may miss some.",
    ),
]
Within = Annotated[
    float | None,
    typer.Option(
        "--within",
        metavar="R",
        help="All triangles within R of each point instead, R in the mesh's units: a row per pair, with columns point, "
        "triangle, distance.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print a JSON object per point; with -o, one for the file.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")]

Coordinate = Annotated[float | None, "the point; with `--coordinates`"]
GradientAxis = Annotated[float | None, "gradient; with `--gradient`"]
NearestAxis = Annotated[float | None, "nearest point; with `--nearest`"]


class QueriedPoint(Line, title="query, a point"):
    """A line per point, with a key per [column](commands/query.md)."""

    x: Coordinate = None
    y: Coordinate = None
    z: Coordinate = None
    distance: Annotated[float, "signed distance, negative inside"]
    gx: GradientAxis = None
    gy: GradientAxis = None
    gz: GradientAxis = None
    lower: Annotated[float | None, "lower bound of the exact distance; with `--bounds`; null if there is none"] = None
    upper: Annotated[float | None, "upper bound, alike"] = None
    nearest_x: NearestAxis = None
    nearest_y: NearestAxis = None
    nearest_z: NearestAxis = None
    triangle: Annotated[Count | None, "nearest triangle, from 0, in the mesh file's order; with `--nearest`"] = None
    outside: Annotated[
        Count | None, "1 outside the field's domain, where the distance is an upper bound, else 0; with `--outside`"
    ] = None
    nearest_triangles: Annotated[
        list[Count] | None, "with `-k`: nearest triangles, from 0; fewer than K if the mesh has fewer"
    ] = None
    nearest_distances: Annotated[list[Amount] | None, "with `-k`: their distances, unsigned"] = None


class PointWithin(Line, title="query --within, a point"):
    """A line per point."""

    x: Coordinate = None
    y: Coordinate = None
    z: Coordinate = None
    nearest_triangles: Annotated[list[Count], "all triangles within R, from 0, nearest first"]
    nearest_distances: Annotated[list[Amount], "their distances, unsigned"]


class Queried(Line, title="query", shared="input output bytes seconds"):
    """With `-o`."""

    count: Annotated[Count, "point count"]
    columns: Annotated[list[str], "column names"]
    pairs: Annotated[Count | None, "with `--within`: number of points' triangles, a row each"] = None


def query(
    file: Source,
    points: Points,
    output: Output = None,
    coordinates: Coordinates = False,
    outside: Outside = False,
    gradient: Gradient = False,
    bounds: Bounds = False,
    nearest: Nearest = False,
    k: Neighbours = None,
    approximate: Approximate = None,
    within: Within = None,
    sign: options.Sign = BuildParams.sign,
    holes: options.Holes = BuildParams.holes,
    frame: options.Frame = None,
    time: options.Time = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Print the signed distance at each point, negative inside, in the mesh's units.

    Text and .npy points are streamed: memory does not grow with their count.

    Example: sdfcli query bunny.h5 points.npy -o distances.npy
    """
    import numpy as np

    from sdfcli.field.store import is_field
    from sdfcli.query.point_files import named_points
    from sdfcli.runtime.files import check_ending, check_target

    check_choice(frame, time)
    _check_neighbours(nearest, k, approximate, within)
    if within is not None and (gradient or nearest or outside or bounds):
        raise UsageError("--within: not with --gradient, --nearest, --outside or --bounds")
    if output is not None:
        check_ending(output, *(OUTPUTS if within is None else OUTPUTS[:2]))
        check_target(output, force, file, *(0 if word == "-" else word for word in points))
    if is_field(file):
        if within is not None:
            raise UsageError("--within: fields store no triangles; query the mesh instead")
        if nearest:
            raise UsageError("--nearest: fields store no nearest points; query the mesh instead")
        if sign != BuildParams.sign:
            raise UsageError(f"--sign {sign}: a field has its signs already; query the mesh instead")
        if holes != BuildParams.holes:
            raise UsageError(f"--holes {holes}: a field has its holes already; query the mesh instead")
        domain, answer = _from_field(file, frame, time, gradient, bounds, device, threads)
    else:
        if frame is not None or time is not None:
            raise UsageError("--frame and --time are for a sequence, not for a mesh")
        if outside:
            raise UsageError("--outside: a mesh has no domain; query a field")
        if bounds:
            raise UsageError("--bounds: a mesh's distances are exact, to rounding; query a field")
        from sdfcli.query.mesh_distance import MeshDistance

        if within is not None:
            index = MeshDistance(file, "none", device, threads, holes=holes)
            _all_within(index, within, approximate, file, points, output, coordinates, force, json, quiet)
            return
        index = MeshDistance(file, sign, device, threads, holes=holes)
        domain, answer = None, _from_mesh(index, gradient, nearest, k, approximate)
    beside = NEAREST if k is None else [f"{name}_{j}" for j in range(1, k + 1) for name in ("triangle", "distance")]
    coordinates = coordinates or (output is not None and output.suffix.lower() == ".csv")
    coordinates &= output is None or output.suffix.lower() != ".ply"  # which has them anyway
    names = [*(COORDINATES if coordinates else []), "distance", *(GRADIENT if gradient else [])]
    names += [*(BOUNDS if bounds else []), *(["outside"] if outside else []), *(beside if nearest else [])]
    start, count, beyond = clock.perf_counter(), 0, 0

    def answered(chunks: Iterator[Floats]) -> Iterator[tuple[Floats, Floats]]:
        nonlocal count, beyond
        for chunk in chunks:
            columns = [*([chunk] if coordinates else []), answer(chunk)]
            if domain is not None:
                excluded = domain.excludes(chunk)
                beyond += int(excluded.sum())
                columns += [excluded.astype(np.float64)] if outside else []
            yield chunk, np.column_stack(columns)
            count += len(chunk)
            update(f"{count:,} points")

    title = f"{file}: {points[0]}" if len(points) == 1 else f"{file}: {len(points)} points"
    with named_points(points) as stream, progress(title, quiet or json or output is None) as update:
        if output is None:
            _print_answers(stream, names, answered(stream.chunks), json, k or 0)
        else:
            _write_answers(output, force, names, answered(stream.chunks))
        seconds = clock.perf_counter() - start
    if beyond and not quiet:
        are = "is" if beyond == 1 else "are"
        say(f"note: {beyond:,} of {count:,} points {are} outside the field's domain; distances there are upper bounds")
    if json and output is not None:
        print_written(Queried, file, [output], {"count": count, "columns": names}, [], seconds, json, quiet)


def _check_neighbours(nearest: bool, k: int | None, approximate: str | None, within: float | None) -> None:
    if k is None and within is None:
        if approximate is not None:
            raise UsageError(f"--approximate {approximate}: is for several nearest triangles; add -k or --within")
        return
    from sdfcli.query.nearest_triangles import check_form
    from sdfcli.query.within import check_radius
    from sdfcli.spatial.shifted_sort import check_neighbours

    if within is not None:
        check_radius(within, "--within")
        if k is not None:
            raise UsageError(f"--within: not with -k {k}")
    elif k is not None:
        check_neighbours(k, "-k")
        if not nearest:
            raise UsageError(f"-k {k}: is for --nearest; add it")
    if approximate is not None:
        check_form(approximate, "--approximate")


def _all_within(
    index: MeshDistance,
    radius: float,
    approximate: str | None,
    file: Path,
    points: list[str],
    output: Path | None,
    coordinates: bool,
    force: bool,
    json: bool,
    quiet: bool,
) -> None:
    """Prints or writes a row per point and triangle within the radius; with `json`, a line per point."""
    import numpy as np

    from sdfcli.query.point_files import named_points, write_json_rows, write_npy, write_text
    from sdfcli.runtime.files import written_whole

    coordinates |= output is not None and output.suffix.lower() == ".csv"
    names = [ROWS[0], *(COORDINATES if coordinates else []), *ROWS[1:]]
    start, count, rows = clock.perf_counter(), 0, 0

    def searched(chunks: Iterator[Floats]) -> Iterator[tuple[Floats, tuple[Ints, Ints, Floats]]]:
        nonlocal count, rows
        for chunk in chunks:
            found = index.triangles_within(chunk, radius, approximate)
            yield chunk, found
            count, rows = count + len(chunk), rows + len(found[1])
            update(f"{count:,} points")

    def tables(chunks: Iterator[Floats]) -> Iterator[Floats]:
        for chunk, (starts, triangles, distances) in searched(chunks):
            point = np.repeat(np.arange(len(chunk)), np.diff(starts))
            yield np.column_stack([count + point, *([chunk[point]] if coordinates else []), triangles, distances])

    title = f"{file}: {points[0]}" if len(points) == 1 else f"{file}: {len(points)} points"
    with named_points(points) as stream, progress(title, quiet or json or output is None) as update:
        if output is None:
            with standard_output():
                if json:
                    write_json_rows(sys.stdout, searched(stream.chunks), coordinates, SCHEMA_VERSION)
                else:
                    write_text(sys.stdout, names, tables(stream.chunks), stream.separator, stream.named)
        else:
            with written_whole(output, force) as temporary:
                if output.suffix.lower() == ".csv":
                    with open(temporary, "w") as text:
                        write_text(text, names, tables(stream.chunks), ",", named=True)
                else:
                    with open(temporary, "wb") as binary:
                        write_npy(binary, tables(stream.chunks), len(names))
        seconds = clock.perf_counter() - start
    if json and output is not None:
        facts = {"count": count, "columns": names, "pairs": rows}
        print_written(Queried, file, [output], facts, [], seconds, json, quiet)


def _print_answers(
    stream: PointStream, names: list[str], pairs: Iterator[tuple[Floats, Floats]], json: bool, neighbours: int
) -> None:
    from sdfcli.query.point_files import write_json, write_text

    answers = (columns for _, columns in pairs)
    with standard_output():
        if json:
            write_json(sys.stdout, names, answers, neighbours, SCHEMA_VERSION)
        else:
            write_text(sys.stdout, names, answers, stream.separator, stream.named)


def _write_answers(path: Path, force: bool, names: list[str], pairs: Iterator[tuple[Floats, Floats]]) -> None:
    """Writes points and answers in chunks, in the format given by the file's ending."""
    from sdfcli.query.point_files import write_npy, write_ply, write_text
    from sdfcli.runtime.files import written_whole

    ending, answers = path.suffix.lower(), (columns for _, columns in pairs)
    with written_whole(path, force) as temporary:
        if ending == ".csv":
            with open(temporary, "w") as text:
                write_text(text, names, answers, ",", named=True)
        else:
            with open(temporary, "wb") as binary:
                if ending == ".npy":
                    write_npy(binary, answers, len(names))
                else:
                    write_ply(binary, names, pairs)


def _from_field(
    file: Path, frame: int | None, time: float | None, gradient: bool, bounds: bool, device: str, threads: int | None
) -> tuple[Domain, Callable[[Floats], Floats]]:
    """The field's domain, and a function that returns distances, and gradients and bounds if requested, at points."""
    import numpy as np

    from sdfcli.backend import select_backend
    from sdfcli.field.proven import NO_BOUNDS

    chosen = None if device == "auto" and threads is None else select_backend(device, threads)
    field = open_field(file, frame, time)
    if bounds and field.leaf_bound is None:
        raise InputError(f"{file}: {NO_BOUNDS}")

    def answer(points: Floats) -> Floats:
        with nullcontext() if chosen is None else field._at(chosen):
            columns = [*field.sample_with_gradient(points)] if gradient else [field.sample(points)]
            if bounds:
                width = field.bound(points)
                columns += [columns[0] - width, columns[0] + width]
            return np.column_stack(columns)

    return field.domain, answer


def _from_mesh(
    index: MeshDistance, gradient: bool, nearest: bool, k: int | None, approximate: str | None
) -> Callable[[Floats], Floats]:
    import numpy as np

    def answer(points: Floats) -> Floats:
        distance = index.signed_distance(points)
        columns = [distance]
        if gradient or (nearest and k is None):
            closest, triangle = index.closest(points)
            away = points - closest
            length = np.linalg.norm(away, axis=1, keepdims=True)
            if gradient:
                columns.append(away / np.where(length > 0, length, 1.0) * np.where(distance < 0, -1.0, 1.0)[:, None])
            if nearest and k is None:
                columns += [closest, triangle.astype(np.float64)]
        if k is not None:
            distances, triangles = index.nearest_triangles(points, k, approximate)
            columns.append(np.stack([triangles, distances], axis=2).reshape(len(points), 2 * k))
        return np.column_stack(columns)

    return answer
