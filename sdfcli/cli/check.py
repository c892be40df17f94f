"""`sdfcli check`: mesh faults, before a build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.batch_options import FailFast, Jobs, Meshes, Recursive, Report, Timeout, listed_names
from sdfcli.cli.build_options import (
    Band,
    Depth,
    MaxError,
    MaxMemory,
    Require,
    Thin,
    Tolerance,
    Unit,
    check_require,
    memory_limit,
)
from sdfcli.cli.outcomes import counts, named_error, say_advice, say_coarse, say_notes, unit_of
from sdfcli.cli.output import batch_progress, print_json, print_lines, print_table, progress, say
from sdfcli.cli.records import Amount, Count, Json, Line, Rule, Vector, keyed, one_of, stored
from sdfcli.cli.wording import health_text, lengths_of, sheets_text, tessellation_rows, verdict_text
from sdfcli.errors import EXIT_CODES, CheckFailedError, InputError, worst_code
from sdfcli.params import VERDICTS, BuildParams

if TYPE_CHECKING:
    from sdfcli.batch.messages import Outcome


def _thin() -> Rule:
    """Schema of `sheets`, without the entries of a build."""
    sheets = stored("sheets")["properties"]
    keys = {name: sheets[name] for name in sheets if name not in ("kept_from", "leaves")}
    return Rule(type="object", properties=keys, required=list(keys))


class Checked(
    Line,
    title="check",
    shared="input triangles vertices verdict sign sign_reason sign_confidence lengths watertight notes advice? error?",
):
    """A line per usable mesh."""

    exit_code: Annotated[
        int, one_of(0, CheckFailedError.exit_code), "exit code for this mesh; 6, with `error`: see `--require`"
    ]
    measured: Annotated[
        bool, "whether `sheets` and the verdict are a build's, made as lost walls decide the verdict; else estimated"
    ]
    sheets: Annotated[
        Json, _thin(), "wall thickness, and walls and gaps that a build would lose: [its keys](file.md#info)"
    ]
    oriented: Annotated[bool, "whether all faces are consistently oriented"]
    shells: Annotated[Count, "shells"]
    inverted_shells: Annotated[Count, "inverted shells"]
    open_edges: Annotated[Count, "open edges"]
    non_manifold_edges: Annotated[Count, "non-manifold edges"]
    inconsistent_edges: Annotated[Count, "inconsistent edges"]
    degenerate_faces: Annotated[Count, "degenerate faces"]
    duplicate_faces: Annotated[Count, "duplicate faces"]
    crossing_faces: Annotated[Count, "crossing faces"]
    diagonal: Annotated[float, "diagonal of the bounding box"]
    size: Annotated[Vector, "edges of the bounding box"]
    lowest: Annotated[Vector, "lower corner of the bounding box"]
    units: Annotated[str | None, "unit of the lengths, as `mm`, given in the file; null if none"]
    deflection: Annotated[
        Amount | None,
        "maximum distance between the triangles and the curved surfaces of a STEP file; null for files of triangles",
    ]
    findings: Annotated[
        list[Annotated[Json, keyed(str, "what then")]],
        "faults (`what`), and their treatment in a build (`then`)",
    ]


class Unusable(Line, title="check, unusable", shared="input error"):
    """A line per mesh that is unusable, or could not be checked."""

    exit_code: Annotated[int, one_of(*list(EXIT_CODES)[1:]), "exit code for this mesh"]
    verdict: Annotated[  # type: ignore[assignment]
        str | None, one_of(VERDICTS[-1], None), f"`{VERDICTS[-1]}`; null if the check failed"
    ]


def check(
    meshes: Meshes,
    require: Require = None,
    tolerance: Tolerance = BuildParams.tolerance,
    max_error: MaxError = None,
    sign: options.Sign = BuildParams.sign,
    holes: options.Holes = BuildParams.holes,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    recursive: Recursive = False,
    jobs: Jobs = None,
    fail_fast: FailFast = False,
    timeout: Timeout = None,
    report: Report = None,
    depth: Depth = BuildParams.depth,
    thin: Thin = BuildParams.thin,
    band: Band = BuildParams.band,
    unit: Unit = None,
    device: options.Devices = "auto",
    threads: options.Threads = None,
    max_memory: MaxMemory = None,
) -> None:
    """Report mesh faults, their treatment in a build, and a verdict on the field.

    The verdict is good, usable, doubtful or unusable: that of a build with the same options. The exit code is 3 if any
    mesh is unusable, else 0; with --require, 6 if a mesh's verdict is worse and none is unusable.

    Example: sdfcli check scans/ -r --require usable
    """
    from sdfcli.batch.inputs import Job, find_meshes
    from sdfcli.batch.messages import Settings
    from sdfcli.batch.run import BuildRequest, run
    from sdfcli.cli.report import reported

    check_require(require)
    most = memory_limit(max_memory)
    params = BuildParams.of(
        depth=depth, tolerance=tolerance, band=band, thin=thin, sign=sign, holes=holes, unit=unit, max_error=max_error
    )
    found = find_meshes(meshes, listed_names(meshes), recursive)
    settings = Settings(device, threads, most, params=params, force=force, require=require, check=True)
    request = BuildRequest([Job(mesh, "") for mesh in found], settings, jobs, timeout, fail_fast)
    with reported(report, request) as done, batch_progress(len(found), quiet or json or request.here) as update:
        for outcome in run(request, lambda mesh: progress(mesh, quiet or json)):
            if outcome["status"] == "failed":
                outcome["verdict"] = VERDICTS[-1] if outcome["exit_code"] == InputError.exit_code else None
            done.append(outcome)
            _show(outcome, request.here, params, json, quiet)
            update(len(done))
    if not (request.here or json or quiet):
        print_lines(counts(done, len(found), check=True))
    worst = worst_code(int(outcome["exit_code"]) for outcome in done)
    if worst:
        raise typer.Exit(worst)


def _show(outcome: Outcome, alone: bool, params: BuildParams, json: bool, quiet: bool) -> None:
    failed = outcome["status"] == "failed"
    if "error" in outcome:
        say(f"sdfcli: {outcome['error'] if alone else named_error(outcome)}")
    if not alone and not quiet:  # alone, its reader has said them
        say_notes(outcome)
    if not (failed or quiet):
        say_coarse(outcome, params.tolerance)
        say_advice(outcome)
    if json:
        facts = {name: each for name, each in outcome.items() if name not in ("status", "output", "unit")}
        print_json(Unusable(**facts) if failed else Checked(**facts, lengths=lengths_of(outcome, unit_of(outcome))))
    elif not quiet and alone:
        _print_report(outcome, params)
    elif not quiet:
        print_lines(_line(outcome))


def _line(outcome: Outcome) -> str:
    name = " ".join(outcome["input"].split())
    if outcome["status"] == "failed":
        return f"{name}: {outcome['verdict'] or 'not checked'}"
    lost = outcome["sheets"]["lost"]
    walls = f", thin walls or gaps lost at {lost:.2%} of the surface" if lost else ""
    facts = f"{outcome['triangles']:,} triangles, {health_text(outcome)}{walls}"
    return f"{name}: {outcome['verdict']}, {facts}, sign {outcome['sign']}"


def _print_report(report: dict[str, Any], params: BuildParams) -> None:
    if report["status"] == "failed":
        rows = [("verdict", report["verdict"] or "none: the check failed")]
    else:
        size, units = " x ".join(f"{side:.6g}" for side in report["size"]), report["units"]
        unit, name = unit_of(report), "diagonal" if params.unit is None else "unit"
        lost = "lost in a build" if report["measured"] else "lost in a build, by estimate,"
        rows = [
            ("verdict", verdict_text(report)),
            (
                "triangles",
                f"{report['triangles']:,} in {report['shells']:,} shell{'' if report['shells'] == 1 else 's'}",
            ),
            ("surface", _surface(report)),
            ("size", f"{size} ({units or 'the file names no unit'})"),
            *tessellation_rows(report),
            ("sign", f"{report['sign']} ({report['sign_reason']})"),
        ]
        rows.append(
            ("thin walls", sheets_text(report["sheets"], params.tolerance, unit, name, report["diagonal"], lost))
        )
        rows += [(f"{finding['what']}", f"-> {finding['then']}") for finding in report["findings"]]
        rows += [("note", each) for each in report["notes"]]
    print_table(report["input"], rows, verdict=report["verdict"] or "")


def _surface(report: dict[str, Any]) -> str:
    if not report["watertight"]:
        return "open"
    flat = report["sign"] == "none" and report["verdict"] == "doubtful"  # `auto` found no inside
    return "no open edges, but nothing enclosed" if flat else "closed"
