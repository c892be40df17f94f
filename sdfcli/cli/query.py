"""`sdfcli query`: distances at points, from a field or exactly from a mesh."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.errors import InputError, UsageError

if TYPE_CHECKING:
    from sdfcli.mesh import Floats


def query(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A field, or a mesh: then distances are exact.")],
    points: Annotated[
        str, typer.Argument(metavar="POINTS", help=".npy (N, 3), .csv, .xyz, a mesh or point file, or - for stdin.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .npy or .csv file; standard output by default.")
    ] = None,
    gradient: Annotated[bool, typer.Option("--gradient", help="The gradient too: distance, gx, gy, gz.")] = False,
    sign: options.Sign = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
) -> None:
    """Print the signed distance at each point, negative inside, in the mesh's units.

    Example: sdfcli query bunny.h5 points.npy -o distances.npy
    """
    import numpy as np

    from sdfcli.store import is_field, refuse_existing

    if output is not None:
        if output.suffix not in (".npy", ".csv"):
            raise UsageError(f"{output}: use a name that ends in .npy or .csv")
        refuse_existing(output, force)
    where = read_points(points)
    answer = (
        _from_field(file, where, gradient)
        if is_field(file)
        else _from_mesh(file, where, gradient, sign, device, threads)
    )
    if output is None:
        np.savetxt(sys.stdout, answer, fmt="%.9g")
    else:
        _write(output, answer)


def _from_field(file: Path, points: Floats, gradient: bool) -> Any:
    import numpy as np

    from sdfcli.store import load

    field = load(file)
    distance = field.sample(points)
    return np.column_stack([distance, field.gradient(points)]) if gradient else distance


def _from_mesh(file: Path, points: Floats, gradient: bool, sign: str, device: str, threads: int | None) -> Any:
    import numpy as np

    from sdfcli.index import MeshDistance

    index = MeshDistance(file, sign, device, threads)
    distance = index.signed_distance(points)
    if not gradient:
        return distance
    away = points - index.closest(points)[0]
    length = np.linalg.norm(away, axis=1, keepdims=True)
    slope = away / np.where(length > 0, length, 1.0) * np.where(distance < 0, -1.0, 1.0)[:, None]
    return np.column_stack([distance, slope])


def read_points(source: str) -> Floats:
    """Points (n, 3) float64 from a file or `-`. Raises InputError for what is not a list of finite points."""
    import numpy as np

    path = Path(source)
    if source != "-" and not path.is_file():
        raise InputError(f"{source}: {'is a folder' if path.is_dir() else 'no such file'}")
    try:
        if source == "-":
            points = _parse(sys.stdin.read())
        elif path.suffix == ".npy":
            points = np.load(path, allow_pickle=False)
        elif path.suffix in (".csv", ".xyz", ".txt"):
            points = _parse(path.read_text())
        else:
            import trimesh

            points = np.asarray(trimesh.load(path, process=False).vertices)
        points = np.ascontiguousarray(points, dtype=np.float64)
    except Exception as error:  # NumPy's and each of trimesh's readers have exceptions of their own
        raise InputError(f"{source}: cannot be read as points: {error}") from error
    if points.ndim != 2 or points.shape[1] != 3:
        raise InputError(f"{source}: points must be (n, 3), not {points.shape}")
    finite = np.isfinite(points).all(axis=1)
    if not finite.all():
        raise InputError(f"{source}: point {int(np.flatnonzero(~finite)[0])} is not finite")
    return points


def _parse(text: str) -> Floats:
    """Lines `x y z` or `x,y,z`; a first line of names, empty lines and lines of comments are skipped."""
    import numpy as np

    lines = [line.replace(",", " ").split() for line in text.splitlines()]
    lines = [line for line in lines if line and not line[0].startswith("#")]
    if lines and not _is_number(lines[0][0]):
        lines = lines[1:]
    for number, line in enumerate(lines):
        if len(line) != 3:
            raise ValueError(f"point {number} has {len(line)} numbers, not 3")
    return np.array(lines, dtype=np.float64).reshape(-1, 3)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _write(path: Path, answer: Any) -> None:
    import numpy as np

    from sdfcli.store import written_whole

    with written_whole(path, force=True) as temporary, open(temporary, "wb") as file:
        if path.suffix == ".npy":
            np.save(file, answer)
        else:
            names = "distance,gx,gy,gz" if answer.ndim == 2 else "distance"
            np.savetxt(file, answer, fmt="%.9g", delimiter=",", header=names, comments="")
