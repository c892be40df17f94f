"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sdfcli.params import HOLES, QUERIES, SIGNS

ADVANCED, DEVICE, SEQUENCES = "Advanced", "Device", "Sequences"
"""Help panels for shared options; options without one come first."""


def words(*values: str, others: str = "") -> dict[str, Any]:
    """An option's values, for its help and shell completion. others: placeholder for values that cannot be listed."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return {"metavar": "|".join([*values, others]).rstrip("|"), "autocompletion": complete}


Meshes = Annotated[list[str], typer.Argument(metavar="MESH...", help="Triangle meshes.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the frames stored by an interrupted run.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
Device = Annotated[
    str,
    typer.Option(
        "--device", **words("auto", "cpu", "cuda", others="cuda:N"), help="Compute device.", rich_help_panel=DEVICE
    ),
]
Devices = Annotated[
    str,
    typer.Option(
        "--device",
        **words("auto", "cpu", "cuda", others="cuda:0,1"),
        help="Compute device, or several GPUs.",
        rich_help_panel=DEVICE,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", help="CPU threads; all by default.", show_default=False, rich_help_panel=DEVICE),
]
Sign = Annotated[
    str,
    typer.Option("--sign", **words(*SIGNS), help="Sign method; auto chooses by the mesh's faults."),
]
Holes = Annotated[
    str,
    typer.Option(
        "--holes",
        **words(*HOLES),
        help="Holes of an open mesh: open to distances and closed for signs only, or closed by faces for both.",
    ),
]
Query = Annotated[
    str,
    typer.Option(
        "--query",
        **words(*QUERIES),
        help="Nearest-triangle algorithm: fast, or a thesis baseline.",
        rich_help_panel=ADVANCED,
    ),
]
Points = Annotated[
    str,
    typer.Option(
        "--points",
        **words("octree", "levels", "bvh", "near", "rand", "grid"),
        help="Set of query points.",
    ),
]
FieldFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Field file, from `sdfcli build`, or sequence, from `sdfcli sequence`.")
]
FieldFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="Field files, from `sdfcli build`, folders of them, quoted patterns; or a sequence.",
    ),
]
Faces = Annotated[
    str | None,
    typer.Option(metavar="MESH", help="Mesh with the faces for a .npy file's vertices.", show_default=False),
]
View = Annotated[
    str,
    typer.Option(
        **words("front", "back", "left", "right", "top", "bottom", "iso", others="AZIMUTH,ELEVATION"),
        help="View direction, a name or angles in degrees; azimuth 0 is the front, 90 the right side.",
    ),
]
Up = Annotated[
    str,
    typer.Option(**words("y", "z"), help="Up axis of the mesh; the front is +z (y up) or -y (z up)."),
]
Picture = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="PNG or JPEG file; by default named after the field, in the current folder. For several fields a folder, "
        "out/, or a name with {name} for the field's, 'out/{name}.png'. For --frames: .gif, .apng, or numbered files "
        "such as a_%04d.png; .gif by default.",
    ),
]
Frame = Annotated[
    int | None,
    typer.Option(
        "--frame",
        help="Frame of a sequence, from 0; negative numbers count from the end.",
        show_default=False,
        rich_help_panel=SEQUENCES,
    ),
]
Time = Annotated[
    float | None,
    typer.Option(
        "--time",
        metavar="SECONDS",
        help="Time in a sequence, in seconds; linearly interpolated between frames.",
        show_default=False,
        rich_help_panel=SEQUENCES,
    ),
]
Frames = Annotated[
    str | None,
    typer.Option(
        "--frames",
        metavar="A:B[:STEP]",
        help="Frames of a sequence, as a Python slice: from A up to, but not including, B; `:` for all.",
        show_default=False,
        rich_help_panel=SEQUENCES,
    ),
]
Fps = Annotated[
    float | None,
    typer.Option(
        "--fps",
        help="Frames per second of a .gif or .apng; the sequence's times by default.",
        show_default=False,
        rich_help_panel=SEQUENCES,
    ),
]
