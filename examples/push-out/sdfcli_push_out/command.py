"""The command `sdfcli push-out`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sdfcli.cli import options
from sdfcli.errors import InputError, UsageError

FieldFile = Annotated[Path, typer.Argument(metavar="FIELD", help="Field file, from `sdfcli build`.")]
Points = Annotated[Path, typer.Argument(metavar="POINTS", help="Text file: x y z on each line.")]
Clearance = Annotated[float, typer.Option(metavar="D", help="Least distance from the surface afterwards.")]


def push_out(field: FieldFile, points: Points, clearance: Clearance = 0.0, device: options.Device = "auto") -> None:
    """Move points out of a solid, to a distance from its surface, and print them.

    Example: sdfcli push-out bunny.h5 points.txt --clearance 0.01
    """
    import numpy as np  # here: `sdfcli push-out --help` does without

    import sdfcli
    from sdfcli_push_out import kernel

    if clearance < 0:
        raise UsageError(f"--clearance {clearance:g}: use 0 or more")
    solid = sdfcli.load(field)
    try:
        given = np.loadtxt(points, ndmin=2).reshape(-1, 3)
    except (OSError, ValueError) as error:
        raise InputError(f"{points}: not points: {error}") from error
    for point in kernel.push_out(solid, given, clearance, device):
        typer.echo(" ".join(f"{x:.6g}" for x in point))
