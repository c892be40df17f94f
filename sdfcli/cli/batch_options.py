"""Options and steps shared by commands for many meshes, `sdfcli build` and `sdfcli samples`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sdfcli.cli.outcomes import Style, show
from sdfcli.cli.output import progress
from sdfcli.errors import UsageError

if TYPE_CHECKING:
    from sdfcli.batch.inputs import Job
    from sdfcli.batch.messages import Outcome
    from sdfcli.batch.run import BuildRequest

Meshes = Annotated[
    list[str],
    typer.Argument(
        metavar="MESH...",
        help="Triangle meshes (PLY, OBJ, STL ...), folders of meshes, URLs, or - for a list on standard input.",
    ),
]
Recursive = Annotated[
    bool, typer.Option("--recursive", "-r", help="Search subfolders; the output keeps their structure.")
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        metavar="N",
        help="Number of meshes processed in parallel; by default one per core, or two to six per GPU.",
        show_default=False,
    ),
]
FailFast = Annotated[bool, typer.Option("--fail-fast/--keep-going", help="Start no further meshes after a failure.")]
SkipExisting = Annotated[
    bool, typer.Option("--skip-existing", help="Skip meshes whose output exists with the same parameters.")
]
Timeout = Annotated[
    float | None,
    typer.Option(min=0.001, metavar="SECONDS", help="Time limit per mesh.", show_default=False),
]
Report = Annotated[
    Path | None, typer.Option(metavar="PAGE.html", help="HTML page with a row per mesh.", show_default=False)
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="tcp://HOST:PORT|local", help="Dask scheduler that distributes the meshes.", show_default=False
    ),
]


def jobs_of(meshes: list[str], output: str | None, recursive: bool, endings: tuple[str, ...]) -> list[Job]:
    """Jobs for the named meshes: each with its output, whose name ends with one of `endings`, by default the first."""
    from sdfcli.batch.inputs import find_jobs

    text = os.fsdecode(sys.stdin.buffer.read()) if "-" in meshes else ""
    names = text.split("\0") if "\0" in text else [line.removesuffix("\r") for line in text.split("\n")]
    return find_jobs(meshes, [name for name in names if name.strip()], output, recursive, endings)


def check_jobs(jobs: int | None, scheduler: str | None) -> None:
    """Raises UsageError for --jobs with a scheduler elsewhere."""
    if jobs is not None and scheduler not in (None, "local"):
        raise UsageError(
            f"--jobs {jobs}: not with --scheduler {scheduler}, whose workers set the number of parallel builds"
        )


def run_all(request: BuildRequest, style: Style, report: Path | None) -> int:
    """Runs a request, shows the outcomes, and writes the report page if requested; returns the exit code."""
    from sdfcli.batch.run import run

    if report is not None:
        _check_page(report, request)
    done: list[Outcome] = []
    try:
        show(run(request, lambda mesh: progress(mesh, style.quiet)), request, style, done)
    except KeyboardInterrupt:
        _write_page(report, request, done)
        raise
    _write_page(report, request, done)
    return max(int(outcome["exit_code"]) for outcome in done)


def _check_page(report: Path, request: BuildRequest) -> None:
    """Raises UsageError if the page may not be written."""
    from sdfcli.runtime.files import check_ending, check_target

    check_ending(report, "", ".html", ".htm")
    check_target(report, request.settings.force, *request.inputs)
    if any(os.path.realpath(job.output) == os.path.realpath(report) for job in request.jobs):
        raise UsageError(f"--report {report}: that is the output of a mesh; use another name")


def _write_page(report: Path | None, request: BuildRequest, done: list[Outcome]) -> None:
    if report is not None and done:
        from sdfcli.cli.report import write_page

        write_page(report, done, len(request.jobs), request.settings)
