"""`sdfcli build`: fields from meshes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sdfcli.cli import options
from sdfcli.cli.batch_options import (
    MANY,
    FailFast,
    Jobs,
    Meshes,
    Recursive,
    Report,
    Scheduler,
    SkipExisting,
    Timeout,
    check_jobs,
    jobs_of,
    run_all,
)
from sdfcli.cli.build_options import (
    ACCURACY,
    Band,
    Depth,
    Domain,
    Gap,
    MaxError,
    MaxMemory,
    Octree,
    Require,
    Scale,
    Sign,
    Thin,
    Tolerance,
    Unit,
    Units,
    check_require,
    memory_limit,
)
from sdfcli.cli.outcomes import FailedBuild, Style
from sdfcli.cli.output import human_bytes, print_error, print_json, print_table
from sdfcli.cli.records import Line
from sdfcli.errors import OutOfMemoryError, SdfError, UsageError, worst_code
from sdfcli.params import ENDINGS, PROVE_LEAVES, BuildParams, check_why, parse_share
from sdfcli.startup import driver

if TYPE_CHECKING:
    from sdfcli.batch.inputs import Job
    from sdfcli.batch.messages import Settings
    from sdfcli.quality.estimate import Estimate

Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Output file, folder for several meshes, or s3:// URL; NAME.h5 by default. {name} stands for the mesh's "
        "name, as in 'out/{name}.h5'.",
    ),
]
Nearest = Annotated[
    bool,
    typer.Option(
        "--nearest", help="Store each corner's nearest triangle, for --previous.", rich_help_panel=options.ADVANCED
    ),
]
Why = Annotated[
    bool,
    typer.Option(
        "--why",
        help="Store why each leaf's parent was split, for `info --why` and `slice --why`.",
        rich_help_panel=options.ADVANCED,
    ),
]
Prove = Annotated[
    bool,
    typer.Option(
        "--prove",
        help="Bound the error everywhere in the domain, and store the bounds, for `query --bounds`.",
        rich_help_panel=ACCURACY,
    ),
]
ProveLeaves = Annotated[
    str | None,
    typer.Option(
        "--prove-leaves",
        metavar="SHARE",
        help=f"With --prove: maximum share of more leaves, split where the error is not proven to be within the "
        f"tolerance; {PROVE_LEAVES:.0%} by default, 0 for none.",
        show_default=False,
        rich_help_panel=ACCURACY,
    ),
]
Previous = Annotated[
    Path | None,
    typer.Option(
        help="Previous frame's field, built with --nearest, for a warm start. Implies --nearest.",
        rich_help_panel=options.ADVANCED,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Estimate leaves, time, memory and file size; write nothing.")]
Pages = Annotated[
    bool,
    typer.Option(
        "--pages",
        help="Write an HTML page beside each field, as `sdfcli view` does; the report links to them.",
        rich_help_panel=MANY,
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print seconds per stage.")]


class EstimatedBuild(Line, title="build --dry-run", shared="input triangles leaves seconds device"):
    """A line per mesh; all values are estimates."""

    status: Annotated[Literal["ok", "too large"], "`ok` if `fits`, else `too large`"]
    memory_bytes: Annotated[int, "the build's memory"]
    file_bytes: Annotated[int, "field file size"]
    limit_bytes: Annotated[int, "memory limit"]
    least_bytes: Annotated[int, "minimum memory limit for this build: beyond, the octree goes to scratch files"]
    free_bytes: Annotated[int, "free memory"]
    scratch_bytes: Annotated[int, "free space for scratch files, or free host memory for a GPU; 0: not used"]
    fits: Annotated[bool, "whether `least_bytes` is within `limit_bytes`"]


def build(
    meshes: Meshes,
    output: Output = None,
    tolerance: Tolerance = BuildParams.tolerance,
    max_error: MaxError = None,
    sign: Sign = BuildParams.sign,
    gap: Gap = None,
    holes: options.Holes = BuildParams.holes,
    require: Require = None,
    scale: Scale = None,
    units: Units = None,
    dry_run: DryRun = False,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: Verbose = False,
    recursive: Recursive = False,
    jobs: Jobs = None,
    skip_existing: SkipExisting = False,
    fail_fast: FailFast = False,
    timeout: Timeout = None,
    report: Report = None,
    pages: Pages = False,
    scheduler: Scheduler = None,
    depth: Depth = BuildParams.depth,
    thin: Thin = BuildParams.thin,
    band: Band = BuildParams.band,
    unit: Unit = None,
    device: options.Devices = "auto",
    threads: options.Threads = None,
    max_memory: MaxMemory = None,
    domain: Domain = None,
    octree: Octree = BuildParams.octree,
    query: options.Query = BuildParams.query,
    prove: Prove = False,
    prove_leaves: ProveLeaves = None,
    why: Why = False,
    nearest: Nearest = False,
    previous: Previous = None,
) -> None:
    """Build adaptive signed distance fields (HDF5) from meshes.

    Example: sdfcli build scans/*.ply parts/ -o fields/ --skip-existing
    """
    if len(meshes) == 1 and os.path.isfile(meshes[0]) and timeout is None and scheduler is None:
        driver.start(device)
    from sdfcli.batch.messages import Settings
    from sdfcli.batch.run import BuildRequest

    check_require(require)
    most = memory_limit(max_memory)
    params = BuildParams.of(
        octree=octree,
        depth=depth,
        tolerance=tolerance,
        band=band,
        thin=thin,
        sign=sign,
        query=query,
        domain=domain,
        unit=unit,
        max_error=max_error,
        scale=scale,
        units=units,
        gap=gap,
        holes=holes,
    )
    if why:
        check_why(octree)
    if prove_leaves is not None and not prove:
        raise UsageError(f"--prove-leaves {prove_leaves}: is for --prove; add it")
    check_jobs(jobs, scheduler)
    found = jobs_of(meshes, output, recursive, ENDINGS)
    if pages and not dry_run:
        _check_pages(found, force or skip_existing)
    earlier = None if previous is None else str(previous)
    settings = Settings(
        device,
        threads,
        most,
        keep_nearest=nearest or previous is not None,
        why=why,
        prove=prove,
        prove_leaves=parse_share(prove_leaves),
        params=params,
        previous=earlier,
        force=force,
        skip_existing=skip_existing,
        picture=report is not None,
        pages=pages,
        require=require,
    )
    if dry_run:
        code = _estimate_all(found, settings, json, quiet)
    else:
        raises = not json and report is None
        request = BuildRequest(found, settings, jobs, timeout, fail_fast, scheduler, raises)
        code = run_all(request, Style(json, quiet, verbose), report)
    if code:
        raise typer.Exit(code)


def _check_pages(jobs: list[Job], may_exist: bool) -> None:
    """Raises UsageError for pages that may not be written, before any work."""
    from sdfcli.batch.field_page import page_of
    from sdfcli.runtime.files import check_target
    from sdfcli.runtime.remote import is_remote

    for job in jobs:
        if is_remote(job.output):
            raise UsageError("--pages: needs fields in a local folder")
        check_target(page_of(job.output), may_exist, *(each.mesh for each in jobs if not is_remote(each.mesh)))


def _estimate_all(jobs: list[Job], settings: Settings, json: bool, quiet: bool) -> int:
    """Prints estimates, and without `json` their totals; returns the builds' expected exit code."""
    from sdfcli.backend.overflow import overflow
    from sdfcli.backend.select import first_device

    alike, codes = replace(settings, device=first_device(settings.device)), []
    sizes: list[Estimate] = []
    for job in jobs:
        with overflow(Path(job.output).absolute().parent):
            codes.append(_estimate_one(job.mesh, alike, json, quiet, len(jobs) == 1 and not json, sizes))
    if len(jobs) > 1 and sizes and not (json or quiet):
        _print_totals(len(jobs), sizes)
    return worst_code(codes)


def _print_totals(count: int, sizes: list[Estimate]) -> None:
    unknown = f", {count - len(sizes):,} of them without an estimate" if len(sizes) < count else ""
    rows = [
        ("triangles", f"{sum(each.triangles for each in sizes):,}"),
        ("leaves", f"about {sum(each.leaves for each in sizes):,}"),
        ("time", f"about {sum(each.seconds for each in sizes):.0f} s, one after the other"),
        ("memory", f"about {human_bytes(max((each.memory_bytes for each in sizes), default=0))} for the largest"),
        ("files", f"about {human_bytes(sum(each.file_bytes for each in sizes))}"),
    ]
    print_table(f"{count:,} meshes{unknown}", rows, apart=True)


def _estimate_one(mesh: str, settings: Settings, json: bool, quiet: bool, raises: bool, sizes: list[Estimate]) -> int:
    """Prints a mesh's estimate, and appends it to `sizes`; returns the build's expected exit code."""
    from sdfcli.batch.messages import failure
    from sdfcli.octree.budget import limit_text
    from sdfcli.quality.estimate import estimate_of
    from sdfcli.runtime.remote import local_input, shown

    try:
        with local_input(mesh) as source:
            found = estimate_of(source, settings.params, settings)
    except SdfError as error:
        if raises:
            raise
        if json:
            print_json(FailedBuild(**failure(mesh, None, error)))
        return print_error(error)
    sizes.append(found)
    if json or not quiet:
        _show_estimate(shown(mesh), found, json)
    if found.fits:
        return 0
    return print_error(
        OutOfMemoryError(
            f"{mesh}: needs a limit of about {human_bytes(found.least_bytes)}, above that of "
            f"{human_bytes(found.limit_bytes)}; try a larger --tolerance, a smaller --depth, or "
            f"{limit_text(found.least_bytes)} or more"
        )
    )


def _show_estimate(mesh: str, found: Estimate, json: bool) -> None:
    if json:
        facts = found.as_dict() | {"seconds": {"total": found.seconds}}
        print_json(EstimatedBuild(input=mesh, status="ok" if found.fits else "too large", **facts))
        return
    beyond = ", the rest in scratch files" if found.fits and found.memory_bytes > found.limit_bytes else ""
    rows = [
        ("triangles", f"{found.triangles:,}"),
        ("leaves", f"about {found.leaves:,}"),
        ("time", f"about {found.seconds:.0f} s on {found.device}"),
        ("memory", f"about {human_bytes(found.memory_bytes)} of {human_bytes(found.limit_bytes)}{beyond}"),
        ("file", f"about {human_bytes(found.file_bytes)}"),
    ]
    print_table(mesh, rows)
