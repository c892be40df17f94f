"""Every option that several commands share, once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Device = Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda|cuda:N", help="Where to compute.")]
Devices = Annotated[
    str, typer.Option("--device", metavar="auto|cpu|cuda|cuda:0,1", help="Where to compute; on several GPUs, too.")
]
Threads = Annotated[int | None, typer.Option("--threads", help="CPU threads; all by default.", show_default=False)]
Sign = Annotated[
    str,
    typer.Option("--sign", metavar="auto|pseudonormal|winding|none", help="How inside and outside are told apart."),
]
Query = Annotated[
    str,
    typer.Option("--query", metavar="fast|baseline|soa|cct", help="How distances are found: three are for comparison."),
]
Points = Annotated[
    str, typer.Option("--points", metavar="octree|levels|bvh|near|rand|grid", help="Where distances are asked for.")
]
FieldFile = Annotated[Path, typer.Argument(metavar="FILE", help="A field that `sdfcli build` wrote.")]
Picture = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="A .png file; by default one of the field's name, in this folder."),
]
