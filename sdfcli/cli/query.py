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
from sdfcli.cli.output import SCHEMA_VERSION, print_written, progress, standard_output
from sdfcli.cli.records import Amount, Count, Line
from sdfcli.errors import UsageError
from sdfcli.params import FORMS, BuildParams

if TYPE_CHECKING:
    from sdfcli.mesh.arrays import Floats
    from sdfcli.query.mesh_distance import MeshDistance
    from sdfcli.query.point_files import PointStream

OUTPUTS = (".npy", ".csv", ".ply")
GRADIENT = ["gx", "gy", "gz"]
NEAREST = ["nearest_x", "nearest_y", "nearest_z", "triangle"]


Source = Annotated[Path, typer.Argument(metavar="FILE", help="Field, or mesh for exact distances.")]
PointFile = Annotated[
    str,
    typer.Argument(
        metavar="POINTS", help="Points: .npy (N, 3), .csv, .xyz, .ply, a mesh, or - for text on standard input."
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Output file: .npy, .csv or .ply; standard output by default.")
]
Gradient = Annotated[bool, typer.Option("--gradient", help="Add the gradient: columns gx, gy, gz.")]
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
        "--approximate", **options.words(*FORMS), help="With -k: search by a shifted sort of boxes; may miss some."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print a JSON object per point; with -o, one for the file.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")]

GradientAxis = Annotated[float | None, "gradient; with `--gradient`"]
NearestAxis = Annotated[float | None, "nearest point; with `--nearest`"]


class QueriedPoint(Line, title="query, a point"):
    """A line per point, with a key per [column](commands/query.md)."""

    distance: Annotated[float, "signed distance, negative inside"]
    gx: GradientAxis = None
    gy: GradientAxis = None
    gz: GradientAxis = None
    nearest_x: NearestAxis = None
    nearest_y: NearestAxis = None
    nearest_z: NearestAxis = None
    triangle: Annotated[Count | None, "nearest triangle, from 0, in the mesh file's order; with `--nearest`"] = None
    nearest_triangles: Annotated[
        list[Count] | None, "with `-k`: nearest triangles, from 0; fewer than K if the mesh has fewer"
    ] = None
    nearest_distances: Annotated[list[Amount] | None, "with `-k`: their distances, unsigned"] = None


class Queried(Line, title="query", shared="input output bytes seconds"):
    """With `-o`."""

    count: Annotated[Count, "point count"]
    columns: Annotated[list[str], "column names"]


def query(
    file: Source,
    points: PointFile,
    output: Output = None,
    gradient: Gradient = False,
    nearest: Nearest = False,
    k: Neighbours = None,
    approximate: Approximate = None,
    sign: options.Sign = BuildParams.sign,
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
    from sdfcli.field.store import is_field
    from sdfcli.query.point_files import open_points
    from sdfcli.runtime.files import check_ending, check_target

    check_choice(frame, time)
    _check_neighbours(nearest, k, approximate)
    if output is not None:
        check_ending(output, *OUTPUTS)
        check_target(output, force, file, 0 if points == "-" else points)
    if is_field(file):
        if nearest:
            raise UsageError("--nearest: fields store no nearest points; query the mesh instead")
        if sign != BuildParams.sign:
            raise UsageError(f"--sign {sign}: a field has its signs already; query the mesh instead")
        answer = _from_field(file, frame, time, gradient, device, threads)
    else:
        if frame is not None or time is not None:
            raise UsageError("--frame and --time are for a sequence, not for a mesh")
        from sdfcli.query.mesh_distance import MeshDistance

        answer = _from_mesh(MeshDistance(file, sign, device, threads), gradient, nearest, k, approximate)
    beside = NEAREST if k is None else [f"{name}_{j}" for j in range(1, k + 1) for name in ("triangle", "distance")]
    names = ["distance", *(GRADIENT if gradient else []), *(beside if nearest else [])]
    with open_points(points) as stream, progress(f"{file}: {points}", quiet or json or output is None) as update:
        start, count = clock.perf_counter(), 0

        def answered() -> Iterator[tuple[Floats, Floats]]:
            nonlocal count
            for chunk in stream.chunks:
                yield chunk, answer(chunk)
                count += len(chunk)
                update(f"{count:,} points")

        if output is None:
            _print_answers(stream, names, answered(), json, k or 0)
            return
        _write_answers(output, force, names, answered())
        seconds = clock.perf_counter() - start
    if json:
        print_written(Queried, file, [output], {"count": count, "columns": names}, [], seconds, json, quiet)


def _check_neighbours(nearest: bool, k: int | None, approximate: str | None) -> None:
    if k is None:
        if approximate is not None:
            raise UsageError(f"--approximate {approximate}: is for several nearest triangles; add -k")
        return
    from sdfcli.query.nearest_triangles import check_form
    from sdfcli.spatial.shifted_sort import check_neighbours

    check_neighbours(k, "-k")
    if not nearest:
        raise UsageError(f"-k {k}: is for --nearest; add it")
    if approximate is not None:
        check_form(approximate, "--approximate")


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
    file: Path, frame: int | None, time: float | None, gradient: bool, device: str, threads: int | None
) -> Callable[[Floats], Floats]:
    import numpy as np

    from sdfcli.backend import select_backend

    chosen = None if device == "auto" and threads is None else select_backend(device, threads)
    field = open_field(file, frame, time)

    def answer(points: Floats) -> Floats:
        with nullcontext() if chosen is None else field._at(chosen):
            return np.column_stack(field.sample_with_gradient(points) if gradient else [field.sample(points)])

    return answer


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
