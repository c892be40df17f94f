"""A field's file for another program, in the format that its name's ending selects."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy.typing as npt

from sdfcli.errors import UsageError
from sdfcli.export import BANDS, FORMATS, TYPED, Format, load
from sdfcli.export.lattice import Distances, check_half, make_lattice
from sdfcli.export.raw import header_path
from sdfcli.field.field import Field
from sdfcli.runtime.files import check_ending, written_whole


def export(
    field: Field,
    path: Path,
    resolution: int | None,
    window: npt.ArrayLike | None,
    dtype: str | None,
    half_width: float | None,
    force: bool,
) -> Path:
    """`Field.export`."""
    form = format_of(path)
    check_grid_options(form, resolution, window, dtype, half_width)
    with ExitStack() as stack:
        temporary = [stack.enter_context(written_whole(target, force)) for target in targets_of(path)]
        write(form, temporary, path.name, field, resolution, window, dtype, half_width)
    return path


def format_of(path: Path) -> Format:
    """The format for a file name. Raises UsageError for an unknown ending."""
    check_ending(path, *FORMATS)
    return FORMATS.get("".join(path.suffixes[-2:]).lower()) or FORMATS[path.suffix.lower()]


def targets_of(path: Path) -> list[Path]:
    """The files to write: the output, and its header if the format has one."""
    return [path, header_path(path)] if format_of(path).header else [path]


def check_grid_options(
    form: Format, resolution: int | None, window: object, dtype: str | None, half_width: float | None
) -> None:
    """Raises UsageError for options of grids that do not apply to the format."""
    if not form.grid and (resolution is not None or window is not None):
        raise UsageError("--resolution and --window are for grids")
    if dtype is not None and (dtype not in ("float16", "float32") or not form.dtypes):
        raise UsageError(f"--dtype {dtype}: use float32 or float16, for a grid in a file {', '.join(TYPED)}")
    if half_width is not None and not form.band:
        raise UsageError(f"--half-width: is for narrow bands, in a {' or '.join(BANDS)} file")


def write(
    form: Format,
    paths: list[Path],
    name: str,
    field: Distances,
    resolution: int | None,
    window: npt.ArrayLike | None,
    dtype: str | None,
    half_width: float | None,
) -> dict[str, Any]:
    """Writes a field, or a grid of a mesh's exact distances, to temporary files for `targets_of`.

    name: the output's name, for its header. Returns facts by name: leaves and corners, or the grid's shape, origin and
    spacing,
    and what its writer returns.
    """
    if not form.grid:
        assert isinstance(field, Field)
        more = load(form.writer)(paths[0], field) or {}
        return {"leaves": field.leaves, "corners": field.corners, **more}
    lattice = make_lattice(field, form.resolution if resolution is None else resolution, window)
    if dtype == "float16":
        check_half(lattice)
    given: dict[str, Any] = {"dtype": dtype or "float32"} if form.dtypes else {}
    if form.band:
        given["half_width"] = half_width
    if form.header:
        given |= {"header": paths[1], "name": name}
    more = load(form.writer)(paths[0], field=field, lattice=lattice, **given) or {}
    placed = {"origin": [float(x) for x in lattice.origin], "spacing": lattice.spacing}
    return {"shape": list(lattice.shape), **placed, **more}
