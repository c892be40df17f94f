"""Every option that several commands share, once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sdfcli.params import QUERIES, SIGNS


def words(*values: str, others: str = "") -> dict[str, Any]:
    """An option's values, for its help and for completion in the shell; `others` stands for those in no list."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return {"metavar": "|".join([*values, others]).rstrip("|"), "autocompletion": complete}


Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Device = Annotated[
    str, typer.Option("--device", **words("auto", "cpu", "cuda", others="cuda:N"), help="Where to compute.")
]
Devices = Annotated[
    str,
    typer.Option(
        "--device",
        **words("auto", "cpu", "cuda", others="cuda:0,1"),
        help="Where to compute; on several GPUs, too.",
    ),
]
Threads = Annotated[int | None, typer.Option("--threads", help="CPU threads; all by default.", show_default=False)]
Sign = Annotated[
    str,
    typer.Option("--sign", **words(*SIGNS), help="How inside and outside are told apart."),
]
Query = Annotated[
    str,
    typer.Option(
        "--query",
        **words(*QUERIES),
        help="How distances are found: three are for comparison.",
    ),
]
Points = Annotated[
    str,
    typer.Option(
        "--points",
        **words("octree", "levels", "bvh", "near", "rand", "grid"),
        help="Where distances are asked for.",
    ),
]
FieldFile = Annotated[Path, typer.Argument(metavar="FILE", help="A field that `sdfcli build` wrote.")]
Picture = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="A .png file; by default one of the field's name, in this folder."),
]
