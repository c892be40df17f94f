"""Output of builds and samplings: a table for one mesh, lines and a summary for several, or JSON Lines."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from sdfcli.cli.output import batch_progress, error_text, human_bytes, print_json, print_table, say, time_left
from sdfcli.cli.records import Count, Json, Line, Stated, Vector, one_of, stored
from sdfcli.cli.wording import (
    JUMPS,
    coarse_note,
    errors_text,
    health_text,
    holes_text,
    kept_text,
    leaves_text,
    length_text,
    lengths_of,
    proof_text,
    sheets_text,
    solid_text,
    tessellation_rows,
    tessellation_text,
    unit_name,
    units_text,
    verdict_text,
)
from sdfcli.errors import EXIT_CODES, CheckFailedError
from sdfcli.params import VERDICTS

if TYPE_CHECKING:
    from sdfcli.batch.messages import Outcome, Settings
    from sdfcli.batch.run import BuildRequest

SHARE_TIMED, MOST_TIMED, SHORT = 0.05, 30, 10.0
"""Share, and maximum count, of built meshes before the remaining time is shown: parallel builds end in groups. Seconds
below which it is not shown."""
MOST_LISTED = 10
"""Maximum count of names in a summary: each mesh had its line."""
BELOW = "below --require"
"""Word for a field or mesh that falls short of `--require`."""
WORDS = ("built", "sampled", "skipped", BELOW, "failed")
"""Words for outcomes in a summary, in its order."""


class Built(
    Stated,
    title="build",
    shared="input output bytes seconds? device? triangles vertices leaves corners watertight notes tolerance "
    "content_sha256 error?",
):
    """A line per field that was built or exists."""

    status: Annotated[Literal["ok", "skipped"], "`skipped` fields have no `seconds`, `device`, `previous_used`"]
    exit_code: Annotated[
        int, one_of(0, CheckFailedError.exit_code), "exit code of this mesh's build; 6, with `error`: see `--require`"
    ]
    health: Annotated[Json, stored("mesh"), "the mesh as read: [its keys](file.md#info)"]
    octree: Annotated[str, stored("parameters", "octree"), "`adaptive` or `bvh`"]
    unit: Annotated[
        float | None,
        "with `--unit` or `--max-error`: the length to which `tolerance` and errors are relative, in the mesh's units",
    ] = None
    page: Annotated[str | None, "with `--pages`: the field's page"] = None
    previous_used: Annotated[
        bool | None, "whether the field of `--previous` was used: its mesh has the same triangle count"
    ] = None


class FailedBuild(Line, title="build, failed", shared="input error"):
    """A line per mesh without a field; also with `--dry-run`."""

    output: Annotated[str | None, "output file, not written; null with `--dry-run`"]  # type: ignore[assignment]
    status: Annotated[Literal["failed"], "`failed`"]
    exit_code: Annotated[int, one_of(*list(EXIT_CODES)[1:]), "exit code of this mesh's build"]


class Sampled(
    Line,
    title="samples",
    shared="input output bytes seconds? device? triangles notes verdict sign sign_reason sign_confidence solid? error?",
):
    """A line per file that was written or exists."""

    status: Annotated[Literal["ok", "skipped"], "`skipped` samples have no `seconds`, `device`"]
    exit_code: Annotated[
        int, one_of(0, CheckFailedError.exit_code), "exit code of this mesh's samples; 6, with `error`: see `--require`"
    ]
    pos: Annotated[Count, "samples outside"]
    neg: Annotated[Count, "samples inside"]
    surface: Annotated[Count, "samples on the surface"]
    scale: Annotated[
        float,
        "1 / the enclosing sphere's radius, or another `--schema`'s scale: normalized points are (point + `offset`) x "
        "`scale`",
    ]
    offset: Annotated[Vector, "minus the centre of the mesh's bounding box"]
    schema: Annotated[str | None, "`--schema`, unless `deepsdf`"] = None
    label: Annotated[str | None, "its sign of distances: `positive inside` or `negative inside`"] = None
    sharp: Annotated[Count | None, "samples on sharp edges"] = None
    sharp_edges: Annotated[Count | None, "number of sharp edges that are seen from outside"] = None
    grid_edges: Annotated[Count | None, "with `--grid`: number of grid edges that cross the surface"] = None
    grid_cells: Annotated[Count | None, "and of the cells around them"] = None


class FailedSamples(Line, title="samples, failed", shared="input error"):
    """A line per mesh without samples."""

    output: Annotated[str, "output file, not written"]
    status: Annotated[Literal["failed"], "`failed`"]
    exit_code: Annotated[int, one_of(*list(EXIT_CODES)[1:]), "exit code of this mesh's samples"]


class Style(NamedTuple):
    """Output options."""

    json: bool
    quiet: bool
    verbose: bool


def show(
    outcomes: Iterable[Outcome], request: BuildRequest, style: Style, done: list[Outcome], paged: bool = False
) -> None:
    """Shows each outcome as it arrives: a table if there is one mesh, else a line each and a summary. Appends to
    `done`. paged: a report page is written afterwards."""
    start, total = time.perf_counter(), len(request.jobs)
    try:
        with batch_progress(total, style.quiet or request.here) as update:
            for outcome in outcomes:
                done.append(outcome)
                if not (style.quiet or request.here):  # in this process they were shown at once
                    say_notes(outcome)
                if not style.quiet and "tolerance" in outcome:  # a field
                    say_coarse(outcome, outcome["tolerance"])
                if style.json:
                    print_json(_record(outcome, request.settings))
                if request.here:
                    _show_alone(outcome, request.settings, style)
                else:
                    left = time_left_of(done, total, time.perf_counter() - start)
                    _show_line(outcome, _place(len(done), total, left), style)
                if not style.quiet:
                    say_advice(outcome)
                update(len(done))
    finally:
        if done and not (style.quiet or request.here):
            for line in _summary(done, total, time.perf_counter() - start, paged):
                say(line)
    if not style.quiet:
        _note_unused(done, request.settings.previous)


def _show_alone(outcome: Outcome, settings: Settings, style: Style) -> None:
    if outcome["status"] != "failed" and not (style.quiet or style.json):
        _print_table(outcome, style.verbose) if settings.samples is None else _print_samples(outcome)
    if "error" in outcome:
        say(f"sdfcli: {outcome['error']}")
        return
    if style.quiet or settings.samples is not None:
        return
    if outcome["error_limit"] not in (None, "triangles"):
        unit, name = unit_of(outcome), unit_name(outcome)
        cause = f" {JUMPS}" if outcome["error_limit"] == "jumps" else ""
        error, tolerance = (length_text(outcome[each], unit, name) for each in ("max_error", "tolerance"))
        say(f"sdfcli: warning: {outcome['input']}: the error {error} misses the tolerance {tolerance}{cause}")
    if outcome["sign"] == "none" and settings.params.sign != "none":
        say(f"sdfcli: warning: {outcome['input']}: distances without signs: {outcome['sign_reason']}")


def _show_line(outcome: Outcome, place: str, style: Style) -> None:
    if outcome["status"] == "failed":
        message = named_error(outcome)
        say(f"sdfcli: {message}" if style.quiet else f"{place} FAILED {message}", "FAILED")
        return
    if not style.quiet:
        say(f"{place} {_line(outcome)}", outcome["verdict"])
    if "error" in outcome:
        say(f"sdfcli: {named_error(outcome)}")


def named_error(outcome: Outcome) -> str:
    """An outcome's error, with its mesh's name."""
    mesh, error = " ".join(outcome["input"].split()), str(outcome["error"])
    return error if mesh in error else f"{mesh}: {error}"


def say_notes(outcome: Outcome) -> None:
    """Prints the notes of a mesh's reader."""
    for note in outcome.get("notes", []):
        say(f"note: {outcome['input']}: {note}")


def say_coarse(outcome: Outcome, tolerance: float) -> None:
    """Prints a note on a tolerance near the mesh's size."""
    note = coarse_note(tolerance * unit_of(outcome), outcome.get("health", outcome)["diagonal"])
    if note is not None:
        say(f"note: {outcome['input']}: {note}")


def say_advice(outcome: Outcome) -> None:
    """Prints advice for a mesh without certain signs."""
    if outcome.get("advice"):
        from sdfcli.solid.advice import advice_text

        say(f"note: {outcome['input']}: {advice_text(outcome['advice'])}")


def _note_unused(done: list[Outcome], previous: str | None) -> None:
    for outcome in done:
        if previous is not None and not outcome.get("previous_used", True):
            say(f"note: {outcome['input']}: --previous {previous} not used: a different triangle count")


def _record(outcome: Outcome, settings: Settings) -> Line:
    """An outcome for JSON: without the picture."""
    facts = {name: value for name, value in outcome.items() if name != "picture"}
    if settings.samples is not None:
        return FailedSamples(**facts) if outcome["status"] == "failed" else Sampled(**facts)
    if outcome["status"] == "failed":
        return FailedBuild(**facts)
    return Built(**facts, lengths=lengths_of(outcome, unit_of(outcome)))


def unit_of(outcome: Outcome) -> float:
    """Length by which an outcome's fractions are multiplied, in the mesh's units."""
    return float(outcome.get("unit") or outcome.get("health", outcome)["diagonal"])


def _place(number: int, total: int, left: str) -> str:
    return f"[{number:>{len(f'{total:,}')},}/{total:,}{left and f', {left}'}]"


def time_left_of(done: list[Outcome], total: int, seconds: float) -> str:
    """The remaining time, at the pace of the meshes that were not skipped; empty while unknown, or if short."""
    built = sum(outcome["status"] != "skipped" for outcome in done)
    remaining = (total - len(done)) * seconds / max(1, built)
    known = built > 1 + min(SHARE_TIMED * total, MOST_TIMED)
    return time_left(remaining) if known and remaining >= SHORT else ""


def _line(outcome: Outcome) -> str:
    facts = f"{outcome['verdict']}, {_sides(outcome)}" if "pos" in outcome else _field_facts(outcome)
    name = " ".join(outcome["input"].split())
    if outcome["status"] == "skipped":
        return f"{name}: skipped, {outcome['output']} is there ({facts})"
    if outcome["sign"] == "none":
        facts += ", no sign"
    return f"{name}: {facts}, {outcome['seconds']['total']:.2f} s on {outcome['device']}"


def _sides(outcome: Outcome) -> str:
    """Sample counts as text."""
    on = f", {outcome['surface']:,} on the surface" if outcome["surface"] else ""
    if "sharp" in outcome:
        on += f", {outcome['sharp']:,} on {outcome['sharp_edges']:,} sharp edges"
    if "grid_edges" in outcome:
        on += f", {outcome['grid_edges']:,} crossings in {outcome['grid_cells']:,} grid cells"
    return f"{outcome['pos']:,} samples outside, {outcome['neg']:,} inside{on}"


def _print_samples(report: Outcome) -> None:
    skipped = report["status"] == "skipped"
    rows = [
        ("verdict", verdict_text({**report, "sheets": {"lost": None}})),
        ("samples", _sides(report)),
        ("file", f"{report['output']}, {human_bytes(report['bytes'])}"),
        ("time", "skipped" if skipped else f"{report['seconds']['total']:.2f} s on {report['device']}"),
        ("mesh", f"{report['triangles']:,} triangles"),
        ("sign", f"{report['sign']} ({report['sign_reason']})"),
    ]
    print_table(report["input"], rows)


def _field_facts(outcome: Outcome) -> str:
    unit, measure = unit_of(outcome), unit_name(outcome)
    missed = f" misses the tolerance {error_text(outcome['tolerance'] * unit)}" if outcome["error_limit"] else ""
    error = f"error {length_text(outcome['max_error'], unit, measure)}{missed}"
    error += tessellation_text(outcome["health"])
    return f"{outcome['verdict']}, {leaves_text(outcome['leaves'])}, {error}"


def counts(done: list[Outcome], total: int, check: bool = False) -> str:
    """Mesh counts as text: built or sampled, skipped, below --require, failed, not done. check: by verdict instead."""
    words = (*VERDICTS, "failed") if check else WORDS
    count = Counter(outcome.get("verdict") or "failed" if check else _word(outcome) for outcome in done)
    parts = [f"{count[word]:,} {word}" for word in words if count[word]]
    if len(done) < total:
        parts.append(f"{total - len(done):,} not done")
    return f"{total:,} mesh{'es' if total > 1 else ''}: {', '.join(parts)}"


def _word(outcome: Outcome) -> str:
    """An outcome's word in a summary."""
    if outcome["status"] == "failed":
        return "failed"
    if outcome["exit_code"]:
        return BELOW
    if outcome["status"] == "skipped":
        return "skipped"
    return "sampled" if "pos" in outcome else "built"


def _summary(done: list[Outcome], total: int, seconds: float, paged: bool) -> list[str]:
    lines = [f"{counts(done, total)}, in {seconds:.1f} s"]
    listed = [f"  {_word(each)} ({each['exit_code']}): {each['input']}" for each in done if each["exit_code"]]
    lines += listed if len(listed) <= MOST_LISTED else [*listed[:MOST_LISTED], _others(len(listed) - MOST_LISTED)]
    if len(done) < total:
        page = " and another --report" if paged else ""
        lines.append(f"  to continue, repeat the command with --skip-existing{page}")
    return lines


def _others(count: int) -> str:
    """Line for the names that a summary omits."""
    return f"  and {count:,} other{'s' if count > 1 else ''}, named above"


def _print_table(report: Outcome, verbose: bool) -> None:
    skipped = report["status"] == "skipped"
    unit, name = unit_of(report), unit_name(report)
    shape = f"{leaves_text(report['leaves'])}, {report['corners']:,} corners, depth {report['depth']}"
    diagonal, octree = report["health"]["diagonal"], report["octree"]
    walls = sheets_text(report["sheets"], report["tolerance"], unit, name, diagonal, octree=octree)
    rows = [
        ("verdict", verdict_text(report)),
        ("error", errors_text(report, unit, name)),
        *([("proof", proof_text(report, unit, name))] if "certificate" in report else []),
        *tessellation_rows(report["health"]),
        ("tolerance", f"{length_text(report['tolerance'], unit, name)}, {kept_text(report['error_limit'])}"),
        ("file", f"{report['output']}, {human_bytes(report['bytes'])}"),
        ("time", "skipped" if skipped else f"{report['seconds']['total']:.2f} s on {report['device']}"),
        ("thin walls", walls),
        ("mesh", f"{report['triangles']:,} triangles, {health_text(report['health'])}"),
        ("diagonal", f"{report['health']['diagonal']:.9g}, {units_text(report['health'])}"),
        ("sign", f"{report['sign']} ({report['sign_reason']})"),
        *([("solid", solid_text(report["solid"], unit, name))] if "solid" in report else []),
        *([("holes", holes_text(report["holes"]))] if "holes" in report else []),
        ("octree", f"{report['octree']}, {shape}"),
    ]
    if "unit" in report:
        rows.append(("unit", f"{report['unit']:.9g}, in the mesh's units"))
    if report["sheets"]["leaves"]:
        rows.append(("", f"{report['sheets']['leaves']:,} of the leaves for thin walls and gaps"))
    if report["jump_leaves"]:
        rows.append(("holes", f"closed across {leaves_text(report['jump_leaves'])} in which the sign jumps"))
    print_table(report["input"], rows, verdict=report["verdict"])
    if verbose and not skipped:
        print_table("", [(name, f"{value:.3f}") for name, value in report["seconds"].items()], ("stage", "seconds"))
