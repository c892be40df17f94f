"""`sdfcli build`: meshes become fields."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli import driver, memory
from sdfcli.cli import options
from sdfcli.cli.batch import follow, without_picture
from sdfcli.cli.output import error_text, human_bytes, print_json, print_table, progress, say
from sdfcli.errors import OutOfMemoryError, SdfError, UsageError
from sdfcli.params import FEW_LOST, MAX_DEPTH, WIDEST_SHEET

if TYPE_CHECKING:
    from sdfcli.batch.inputs import Job
    from sdfcli.batch.terms import Outcome, Settings


FAULTS = (
    "open_edges",
    "non_manifold_edges",
    "inconsistent_edges",
    "degenerate_faces",
    "duplicate_faces",
    "inverted_shells",
    "crossing_faces",
)

ERROR_LIMITS = {
    "depth": "missed: the finest leaves are too large; try a larger --depth",
    "samples": "missed between the points at which a leaf is judged; try a smaller one",
    "triangles": "which this octree does not strive for",
}


def build(
    meshes: Annotated[
        list[str],
        typer.Argument(
            metavar="MESH...", help="Triangle meshes (PLY, OBJ, STL, OFF, GLB ...), folders of them, - for a list."
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="The file to write; a folder for several meshes. NAME.h5 by default."),
    ] = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Look into the folders of folders, too, and keep their names.")
    ] = False,
    octree: Annotated[
        str,
        typer.Option(
            **options.words("adaptive", "bvh"), help="Split where the field errs, or where triangles are dense."
        ),
    ] = "adaptive",
    depth: Annotated[
        int | None,
        typer.Option(
            help="The finest level of the octree: 10, or more if a tolerance below 6e-4 needs it.", show_default=False
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="Largest error, as a fraction of the bounding box's diagonal.")
    ] = 1e-3,
    band: Annotated[
        float, typer.Option(help="Distance, as such a fraction, beyond which the tolerance grows with the distance.")
    ] = 0.02,
    thin: Annotated[
        float | None,
        typer.Option(
            metavar="FRACTION",
            help="Thickness, as such a fraction, down to which walls and gaps keep both sides: 0.75 tolerances by "
            "default; 0: the tolerance alone decides.",
            show_default=False,
        ),
    ] = None,
    sign: options.Sign = "auto",
    query: options.Query = "fast",
    nearest: Annotated[
        bool, typer.Option("--nearest", help="Store the triangle nearest to every corner, for --previous.")
    ] = False,
    previous: Annotated[
        Path | None,
        typer.Option(help="An earlier frame's field, built with --nearest: where queries start. Implies --nearest."),
    ] = None,
    device: options.Devices = "auto",
    threads: options.Threads = None,
    max_memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory to use at most, as 800M or 4G: 90 % of what is free by default."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            metavar="N",
            help="Meshes to build at the same time: one a core, or two to six a GPU, by default.",
            show_default=False,
        ),
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast/--keep-going", help="Begin no other mesh after one that fails.")
    ] = False,
    skip_existing: Annotated[
        bool,
        typer.Option("--skip-existing", help="Leave fields alone that are there, of the same mesh and parameters."),
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="SECONDS", help="The longest that a mesh may take.", show_default=False),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="PAGE.html", help="Write a page with a row a mesh.", show_default=False)
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="tcp://HOST:PORT|local", help="Hand the meshes to Dask's scheduler there.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how large the field will be and what it takes; write nothing.")
    ] = False,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the seconds of every stage.")] = False,
) -> None:
    """Turn meshes into adaptive signed distance fields (HDF5).

    Example: sdfcli build scans/*.ply parts/ -o fields/ --skip-existing
    """
    if len(meshes) == 1 and os.path.isfile(meshes[0]) and timeout is None and scheduler is None:
        driver.start(device)
    from sdfcli.backend.select import device_names
    from sdfcli.params import BuildParams

    most = None
    if max_memory is not None:
        from sdfcli.estimate import parse_size

        most = parse_size(max_memory)
        memory.bound(most)
    parameters = {"octree": octree, "depth": depth, "tolerance": tolerance, "band": band}
    parameters |= {"thin": thin, "sign": sign, "query": query}
    BuildParams(**parameters)  # type: ignore[arg-type]
    if jobs is not None and scheduler not in (None, "local"):
        raise UsageError(f"--jobs {jobs}: at --scheduler {scheduler} the number of its workers counts")
    found = _jobs(meshes, output, recursive)
    first = device_names(device)[0] if "," in device else device
    if dry_run:
        settings = {**parameters, "device": first, "threads": threads, "max_memory": most}
        raise typer.Exit(max(_estimate_one(job.mesh, settings, json, raises=len(found) == 1) for job in found))

    from sdfcli.batch.terms import Settings

    alike = Settings(
        parameters=parameters,
        device=device,
        threads=threads,
        max_memory=most,
        nearest=nearest,
        previous=None if previous is None else str(previous),
        force=force,
        skip_existing=skip_existing,
        picture=report is not None,
    )
    inputs = [job.mesh for job in found] + ([] if previous is None else [str(previous)])
    if report is not None:
        from sdfcli.cli.report import write_page
        from sdfcli.outputs import check_target

        check_target(report, force, *inputs)
        if any(os.path.realpath(job.output) == os.path.realpath(report) for job in found):
            raise UsageError(f"--report {report}: a field is written there")
    if len(found) == 1 and timeout is None and scheduler is None:
        _make_room(found, output, inputs, force, skip_existing)
        outcomes = [_build_one(found[0], replace(alike, device=first), quiet, raises=not json and report is None)]
        if json:
            print_json(without_picture(outcomes[0]))
        elif not quiet and outcomes[0]["status"] != "failed":
            _print_report(outcomes[0], verbose)
        if outcomes[0].get("sign") == "none" and sign != "none" and not quiet:
            reason = outcomes[0]["sign_reason"]
            say(f"sdfcli: warning: {found[0].mesh}: distances without signs: {reason}")
    else:
        of_all = _outcomes(found, alike, jobs, timeout, fail_fast, scheduler)
        _make_room(found, output, inputs, force, skip_existing)
        outcomes = []
        try:
            follow(of_all, len(found), json, quiet, outcomes)
        except KeyboardInterrupt:
            if report is not None and outcomes:
                write_page(report, outcomes, len(found), force)
            raise
    for outcome in outcomes:
        if previous is not None and not outcome.get("previous_used", True) and not quiet:
            say(f"note: {outcome['input']} has another number of triangles than {previous}, which was not used")
    if report is not None:
        write_page(report, outcomes, len(found), force)
    if worst := max(outcome["exit_code"] for outcome in outcomes):
        raise typer.Exit(worst)


def _outcomes(
    found: list[Job],
    settings: Settings,
    jobs: int | None,
    timeout: float | None,
    fail_fast: bool,
    scheduler: str | None,
) -> Iterator[Outcome]:
    """What comes of many meshes. Nothing is begun before the first outcome is asked for."""
    from sdfcli.backend.select import device_names
    from sdfcli.batch import cluster, pool
    from sdfcli.store import load

    if settings.threads is not None and settings.threads < 1:
        raise UsageError(f"--threads {settings.threads}: use a number from 1 on")
    if settings.previous is not None:
        load(settings.previous)
    if scheduler not in (None, "local"):
        return cluster.build_all(found, pool.Plan([settings], 1), str(scheduler), timeout, fail_fast)
    plan = pool.plan(settings, device_names(settings.device), len(found), jobs)
    if scheduler is not None:
        return cluster.build_all(found, plan, scheduler, timeout, fail_fast)
    return pool.build_all(found, plan, timeout, fail_fast)


def _jobs(meshes: list[str], output: str | None, recursive: bool) -> list[Job]:
    """The meshes that are named, with the files to write."""
    from sdfcli.batch.inputs import find_jobs

    text = os.fsdecode(sys.stdin.buffer.read()) if "-" in meshes else ""
    names = text.split("\0") if "\0" in text else [line.removesuffix("\r") for line in text.split("\n")]
    return find_jobs(meshes, [name for name in names if name.strip()], output, recursive)


def _make_room(jobs: list[Job], output: str | None, inputs: list[str], force: bool, skip_existing: bool) -> None:
    """Makes the folders of the outputs; that of a single file must be there. Raises UsageError where a file may not be
    written."""
    from sdfcli.outputs import identities, refuse_existing, refuse_input

    taken = identities(inputs)
    for job in jobs:
        refuse_input(Path(job.output), taken)
        if not (skip_existing and os.path.isfile(job.output)):  # such a file is looked into first
            refuse_existing(Path(job.output), force)
    for folder in {Path(job.output).parent: None for job in jobs}:
        try:
            if [job.output for job in jobs] != [output]:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be made a folder: {error.strerror}") from error
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder")


def _build_one(job: Job, settings: Settings, quiet: bool, raises: bool) -> Outcome:
    """Builds a field here: another process would take longer to start than many a build."""
    from sdfcli.batch.job import build_into
    from sdfcli.batch.terms import failure

    try:
        with progress(job.mesh, quiet) as tell:
            return build_into(job.mesh, job.output, settings, tell)
    except SdfError as error:
        if raises:
            raise
        say(f"sdfcli: {error}")
        return failure(*job, str(error), error.exit_code)


def _estimate_one(mesh: str, settings: dict[str, Any], json: bool, raises: bool) -> int:
    """Prints what a build would take; returns the exit code with which it would end."""
    from sdfcli.batch.terms import failure
    from sdfcli.estimate import estimate

    try:
        found = estimate(mesh, **settings)
    except SdfError as error:
        if raises and not json:
            raise
        say(f"sdfcli: {error}")
        if json:
            print_json(failure(mesh, None, str(error), error.exit_code))
        return error.exit_code
    if json:
        print_json(
            {"input": mesh, "status": "ok" if found.fits else "too large", **found.as_dict()}
            | {"seconds": {"total": found.seconds}}
        )
    else:
        rows = [
            ("leaves", f"about {found.leaves:,}"),
            ("time", f"about {found.seconds:.0f} s on {found.device}"),
            ("memory", f"about {human_bytes(found.memory_bytes)} of {human_bytes(found.limit_bytes)}"),
            ("file", f"about {human_bytes(found.file_bytes)}"),
        ]
        print_table(mesh, rows)
    if found.fits:
        return 0
    say(
        f"sdfcli: {mesh}: needs about {human_bytes(found.memory_bytes)}, and {human_bytes(found.limit_bytes)} may be "
        "used; try a larger --tolerance, a smaller --depth, or more --max-memory"
    )
    return OutOfMemoryError.exit_code


def kept_text(limit: str | None) -> str:
    """Whether a tolerance was kept, and if not why."""
    return "kept" if limit is None else ERROR_LIMITS.get(limit, "missed")


def health_text(health: dict[str, Any]) -> str:
    """The state of a mesh in a few words."""
    faults = [f"{health[key]:,} {key.replace('_', ' ')}" for key in FAULTS if health.get(key)]
    return ", ".join(["watertight" if health["watertight"] else "not watertight", *faults])


VERDICTS = {
    "good": "the mesh is closed, oriented, and without faults",
    "usable": "the mesh has faults, but an inside",
    "doubtful": "the mesh has no inside that is certain",
}


def verdict_text(report: dict[str, Any]) -> str:
    """The verdict on a mesh, in words, and how certain its inside is, where there are signs."""
    verdict, confidence, lost = report["verdict"], report["sign_confidence"], report["sheets"]["lost"] or 0.0
    words = f"{verdict}: {VERDICTS[verdict]}" if verdict in VERDICTS else str(verdict)
    if lost > FEW_LOST:
        words = f"{verdict}: thin walls or gaps are lost"
    if confidence is None:
        return words
    return f"{words} (the mesh's inside is certain at {confidence:.1%} of the points near the surface)"


def sheets_text(sheets: dict[str, Any], tolerance: float, lost: str = "lost") -> str:
    """How thin the walls of a mesh are, whether they and the gaps are kept, and what would keep them."""
    if sheets["lost"] is None:
        return "without signs there are none to keep"
    if sheets["thinnest"] is None:
        words = f"none below {error_text(WIDEST_SHEET * tolerance)} of the diagonal"
    else:
        words = f"{error_text(sheets['thinnest'])} of the diagonal at the thinnest"
    if not sheets["lost"]:
        return words
    share, needed, depth = sheets["lost"], sheets["needed_thin"], sheets["needed_depth"]
    remedy = (
        f"--thin {needed:.2g} --depth {depth} keeps them" if depth <= MAX_DEPTH else "no octree here is fine enough"
    )
    return f"{words}; walls or gaps {lost} at {share:.2%} of the surface: {remedy}"


def _print_report(report: Outcome, verbose: bool) -> None:
    skipped = report["status"] == "skipped"
    errors = f"at most {error_text(report['max_error'])}, rms {error_text(report['rms_error'])} of the diagonal"
    shape = f"{report['leaves']:,} leaves, {report['corners']:,} corners, depth {report['depth']}"
    rows = [
        ("verdict", verdict_text(report)),
        ("error", f"{errors} (tolerance {error_text(report['tolerance'])}, {kept_text(report['error_limit'])})"),
        ("file", f"{report['output']}, {human_bytes(report['bytes'])}"),
        ("time", "skipped" if skipped else f"{report['seconds']['total']:.2f} s on {report['device']}"),
        ("thin walls", sheets_text(report["sheets"], report["tolerance"])),
        ("mesh", f"{report['triangles']:,} triangles, {health_text(report['health'])}"),
        ("diagonal", f"{report['health']['diagonal']:.9g}, in the mesh's units"),
        ("sign", f"{report['sign']} ({report['sign_reason']})"),
        ("octree", f"{report['octree']}, {shape}"),
    ]
    if report["sheets"]["leaves"]:
        rows.append(("", f"{report['sheets']['leaves']:,} of the leaves for thin walls and gaps"))
    if report["jump_leaves"]:
        rows.append(("holes", f"closed across {report['jump_leaves']:,} leaves in which the sign jumps"))
    print_table(report["input"], rows)
    if verbose and not skipped:
        print_table("", [(name, f"{value:.3f}") for name, value in report["seconds"].items()], ("stage", "seconds"))
