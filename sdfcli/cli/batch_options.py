"""Options and steps shared by commands for many meshes: `sdfcli build`, `samples` and `check`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sdfcli.cli.outcomes import Style, show
from sdfcli.cli.output import progress
from sdfcli.errors import UsageError, worst_code

if TYPE_CHECKING:
    from sdfcli.batch.inputs import Job
    from sdfcli.batch.run import BuildRequest

MANY = "Many meshes"
"""Help panel."""

Meshes = Annotated[
    list[str],
    typer.Argument(
        metavar="MESH...",
        help="Triangle meshes (PLY, OBJ, STL ...), folders of meshes, quoted patterns, URLs, or - for a list on "
        "standard input.",
    ),
]
Recursive = Annotated[
    bool,
    typer.Option(
        "--recursive", "-r", help="Search subfolders, too; outputs keep their structure.", rich_help_panel=MANY
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        metavar="N",
        help="Number of processes; by default one per core, or two to twelve per GPU.",
        show_default=False,
        rich_help_panel=MANY,
    ),
]
FailFast = Annotated[
    bool,
    typer.Option("--fail-fast/--keep-going", help="Start no further meshes after a failure.", rich_help_panel=MANY),
]
SkipExisting = Annotated[
    bool,
    typer.Option(
        "--skip-existing", help="Skip meshes whose output exists with the same parameters.", rich_help_panel=MANY
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(min=0.001, metavar="SECONDS", help="Time limit per mesh.", show_default=False, rich_help_panel=MANY),
]
Report = Annotated[
    Path | None,
    typer.Option(metavar="PAGE.html", help="HTML page with a row per mesh.", show_default=False, rich_help_panel=MANY),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="tcp://HOST:PORT|local",
        help="Dask scheduler that distributes the meshes.",
        show_default=False,
        rich_help_panel=MANY,
    ),
]


def listed_names(meshes: list[str]) -> list[str]:
    """Names on standard input, one a line or separated by null characters, if `-` is among the meshes; else none."""
    text = os.fsdecode(sys.stdin.buffer.read()) if "-" in meshes else ""
    names = text.split("\0") if "\0" in text else [line.removesuffix("\r") for line in text.split("\n")]
    return [name for name in names if name.strip()]


def jobs_of(meshes: list[str], output: str | None, recursive: bool, endings: tuple[str, ...]) -> list[Job]:
    """Jobs for the named meshes: each with its output, whose name ends with one of `endings`, by default the first."""
    from sdfcli.batch.inputs import find_jobs

    return find_jobs(meshes, listed_names(meshes), output, recursive, endings)


def check_jobs(jobs: int | None, scheduler: str | None) -> None:
    """Raises UsageError for --jobs with a scheduler elsewhere."""
    if jobs is not None and scheduler not in (None, "local"):
        raise UsageError(
            f"--jobs {jobs}: not with --scheduler {scheduler}, whose workers set the number of parallel builds"
        )


def run_all(request: BuildRequest, style: Style, report: Path | None) -> int:
    """Runs a request, shows the outcomes, and writes the report page if requested; returns the exit code."""
    from sdfcli.batch.run import run
    from sdfcli.cli.report import reported

    with reported(report, request) as done:
        show(run(request, lambda mesh: progress(mesh, style.quiet)), request, style, done, report is not None)
    return worst_code(int(outcome["exit_code"]) for outcome in done)
