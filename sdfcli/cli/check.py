"""`sdfcli check`: mesh faults, before a build."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.output import print_error, print_json, print_table
from sdfcli.cli.records import Count, Json, Line, Rule, Vector, keyed, one_of, stored
from sdfcli.cli.wording import sheets_text, verdict_text
from sdfcli.errors import CheckFailedError, InputError, UsageError
from sdfcli.params import VERDICTS, BuildParams

BARS = VERDICTS[:-1]


def _thin() -> Rule:
    """Schema of `sheets`, without the entries of a build."""
    sheets = stored("sheets")["properties"]
    keys = {name: sheets[name] for name in sheets if name not in ("kept_from", "leaves")}
    return Rule(type="object", properties=keys, required=list(keys))


class Checked(
    Line,
    title="check",
    shared="input triangles vertices verdict sign sign_reason sign_confidence watertight notes",
):
    """A line per usable mesh."""

    sheets: Annotated[
        Json, _thin(), "wall thickness, and walls and gaps that a build would lose: [its keys](file.md#info)"
    ]
    oriented: Annotated[bool, "whether all faces are consistently oriented"]
    shells: Annotated[Count, "shells"]
    inverted_shells: Annotated[Count, "inverted shells"]
    open_edges: Annotated[Count, "open edges"]
    non_manifold_edges: Annotated[Count, "non manifold edges"]
    inconsistent_edges: Annotated[Count, "inconsistent edges"]
    degenerate_faces: Annotated[Count, "degenerate faces"]
    duplicate_faces: Annotated[Count, "duplicate faces"]
    crossing_faces: Annotated[Count, "crossing faces"]
    diagonal: Annotated[float, "diagonal of the bounding box"]
    size: Annotated[Vector, "edges of the bounding box"]
    lowest: Annotated[Vector, "lower corner of the bounding box"]
    units: Annotated[str | None, "length unit given in the file; null if none"]
    findings: Annotated[
        list[Annotated[Json, keyed(str, "what then")]],
        "faults (`what`), and their treatment in a build (`then`)",
    ]


class Unusable(Line, title="check, unusable", shared="input error"):
    """A line per unusable mesh."""

    verdict: Annotated[str, one_of(VERDICTS[-1]), f"`{VERDICTS[-1]}`"]


def check(
    meshes: options.Meshes,
    require: Annotated[
        str | None,
        typer.Option(**options.words(*BARS), help="Exit code 6 if any mesh's verdict is worse.", show_default=False),
    ] = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Report mesh faults, their treatment in a build, and a verdict on the field.

    The verdict is good, usable, doubtful or unusable. The exit code is 3 if any mesh is unusable,
    else 0; with --require, 6 if any other mesh's verdict is worse.

    Example: sdfcli check scans/*.ply --require usable
    """
    if require is not None and require not in BARS:
        raise UsageError(f"--require {require}: use {', '.join(BARS)}")
    from sdfcli.runtime.remote import local_input, shown
    from sdfcli.verify.check import check as check_mesh

    worst = 0
    for mesh in meshes:
        try:
            with local_input(mesh) as source:
                report = check_mesh(source, device, threads)
        except InputError as error:
            worst = max(worst, print_error(error))
            report = {"verdict": "unusable", "error": str(error)}
        if require is not None and "error" not in report and BARS.index(report["verdict"]) > BARS.index(require):
            fault = CheckFailedError(f"{mesh}: worse than {require}: {verdict_text(report)}")
            worst = max(worst, print_error(fault))
        if json:
            print_json((Unusable if "error" in report else Checked)(input=shown(mesh), **report))
        elif not quiet:
            _print_report(mesh, report)
    if worst:
        raise typer.Exit(worst)


def _print_report(mesh: str, report: dict[str, Any]) -> None:
    rows = [("verdict", report["verdict"])]
    if "error" not in report:
        size, unit = " x ".join(f"{side:.6g}" for side in report["size"]), report["units"]
        rows += [
            (
                "triangles",
                f"{report['triangles']:,} in {report['shells']:,} shell{'' if report['shells'] == 1 else 's'}",
            ),
            ("surface", _surface(report)),
            ("size", f"{size} ({unit or 'the file names no unit'})"),
            ("sign", f"{report['sign']} ({report['sign_reason']})"),
        ]
        if report["sign_confidence"] is not None:
            rows.append(
                ("certainty", f"inside certain at {report['sign_confidence']:.1%} of the points near the surface")
            )
        rows.append(("thin walls", sheets_text(report["sheets"], BuildParams.tolerance, "would be lost")))
        rows += [(f"{finding['what']}", f"-> {finding['then']}") for finding in report["findings"]]
        rows += [("note", each) for each in report["notes"]]
    print_table(mesh, rows, verdict=report["verdict"])


def _surface(report: dict[str, Any]) -> str:
    if not report["watertight"]:
        return "open"
    return "closed" if report["sign"] != "none" else "no open edges, but nothing enclosed"
