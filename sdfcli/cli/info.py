"""`sdfcli info`: a field file's metadata."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.fields import check_choice, check_no_frame, open_field, open_sequence
from sdfcli.cli.output import error_text, human_bytes, print_json, print_table
from sdfcli.cli.records import ABSENT, Count, Json, Line, Rule, Stated, SummedSequence, Vector, keyed, stored
from sdfcli.cli.wording import (
    errors_text,
    frames_text,
    health_text,
    holes_text,
    kept_text,
    leaves_text,
    length_text,
    lengths_of,
    proof_text,
    sheets_text,
    tessellation_rows,
    unit_name,
    units_text,
    verdict_text,
)
from sdfcli.errors import InputError

if TYPE_CHECKING:
    from sdfcli.field.field import Field
    from sdfcli.mesh.arrays import Floats
    from sdfcli.sequence.field_sequence import FieldSequence

SHOWN = {
    "mesh",
    "parameters",
    "verdict",
    "sign",
    "sign_reason",
    "sign_confidence",
    "sheets",
    "depth",
    "jump_leaves",
    "max_error",
    "rms_error",
    "error_samples",
    "error_limit",
    "proven_error",
    "certificate",
    "holes",
    "advice",
}
"""Entries that `_known` words and gives units; others follow unchanged."""


def _by_cause() -> Rule:
    """Schema of leaf counts by cause."""
    from sdfcli.octree.causes import Cause

    return keyed(Count, " ".join([*(cause.name.lower() for cause in Cause), "jump"]))


class Cube(Line):
    """A domain."""

    domain_origin: Annotated[Vector, "lower corner of the domain cube"]
    domain_length: Annotated[float, "edge of the domain cube"]


class FieldInfo(
    Cube,
    Stated,
    title="info",
    shared="input bytes format_version? leaves corners content_sha256",
    optional=Stated,
    open=True,
):
    """A field. Other programs' fields may lack keys about their build, and have others."""

    mesh: Annotated[Json, stored("mesh"), "the mesh as read: [its keys](file.md#info)"] = ABSENT
    parameters: Annotated[Json, stored("parameters"), "build options: [its keys](file.md#info)"] = ABSENT
    causes: Annotated[
        Json,
        _by_cause(),
        "with `--why`: leaf counts by [cause](file.md#causes); `jump`: leaves among them left coarse at a sign jump",
    ] = ABSENT


class SequenceInfo(Cube, SummedSequence, title="info, sequence", shared="input bytes format_version frames", open=True):
    """A sequence."""

    times: Annotated[list[float], "frame times in seconds"]
    motions: Annotated[
        list[float | None],
        "largest distance of a vertex from its place in the frame before; null for the first frame, and where the "
        "faces are others",
    ]


def info(
    file: options.FieldFile,
    frame: options.Frame = None,
    time: options.Time = None,
    why: Annotated[
        bool, typer.Option("--why", help="Count leaves by the cause of their parent's split; needs `build --why`.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Print the metadata of a field file, a sequence, or one of its frames.

    Example: sdfcli info bunny.h5
    """
    from sdfcli.sequence.file import is_sequence

    check_choice(frame, time)
    if why:
        check_no_frame(frame, time)
    if frame is None and time is None and is_sequence(file):
        sequence = open_sequence(file, "")
        if why:
            check_no_frame(":")
        _sequence(file, sequence, json, quiet)
        return
    from sdfcli.field.schema import is_complete

    field = open_field(file, frame, time)
    causes = _causes(file, field) if why else {}
    if json:
        facts: Json = {
            "input": str(file),
            "bytes": file.stat().st_size,
            **({} if field._version is None else {"format_version": field._version}),
            "domain_origin": [float(x) for x in field.domain.origin],
            "domain_length": field.domain.length,
            "leaves": field.leaves,
            "corners": field.corners,
            "content_sha256": field.content_sha256,
            **({"causes": causes} if why else {}),
        }
        if is_complete(field.info):
            facts["lengths"] = lengths_of(field.info | {"tolerance": field.info["parameters"]["tolerance"]}, field.unit)
        print_json(FieldInfo(**(facts | field.info | facts)))  # computed entries override stored ones
    elif not quiet:
        print_table(str(file), rows(file, field), verdict=str(field.info.get("verdict")))
        if why:
            print_table("leaves by cause", _cause_rows(causes), ("parent split by", "leaves", "share"), apart=True)


def _causes(file: Path, field: Field) -> dict[str, int]:
    """Leaf counts by cause. Raises InputError if the field stores none."""
    from sdfcli.octree.causes import counts, required

    try:
        return counts(required(field.leaf_cause))
    except InputError as error:
        raise InputError(f"{file}: {error}") from error


def _cause_rows(causes: dict[str, int]) -> list[tuple[str, ...]]:
    """Table rows: cause, leaf count, share of all leaves."""
    from sdfcli.octree.causes import JUMP_WORDS, WORDS

    leaves = sum(causes.values()) - causes["jump"]
    named = [(words, causes[cause.name.lower()]) for cause, words in WORDS.items()]
    named.append((f"of these {JUMP_WORDS}", causes["jump"]))
    return [(words, f"{count:,}", f"{count / leaves:.1%}") for words, count in named if count]


def _sequence(file: Path, sequence: FieldSequence, json: bool, quiet: bool) -> None:
    from sdfcli.sequence.file import earliest_version

    low, length, told = sequence.domain.origin, sequence.domain.length, sequence.info
    version = earliest_version(file)
    times, motion = sequence.times.tolist(), [None if step != step else step for step in sequence.motion.tolist()]
    if json:
        facts: Json = {
            "input": str(file),
            "bytes": file.stat().st_size,
            "format_version": version,
            "domain_origin": [float(x) for x in low],
            "domain_length": length,
            "frames": len(sequence),
            "times": times,
            "motions": motion,
            "content_sha256": sequence.content_sha256,
            "lengths": lengths_of(told | {"tolerance": told["parameters"]["tolerance"]}, told["parameters"]["unit"]),
        }
        print_json(SequenceInfo(**(facts | told | facts)))
        return
    moves = [step for step in motion if step is not None]
    asked, others = told["parameters"], len(motion) - 1 - len(moves)
    found = [
        ("size", human_bytes(file.stat().st_size)),
        ("format", f"fields of {version_text(file, version)}"),
        ("frames", f"{len(sequence):,}, from {times[0]:.9g} to {times[-1]:.9g} seconds"),
        ("domain", domain_text(low, length)),
        (
            "motion",
            f"a vertex moves {max(moves):.3g} at most between frames, in the mesh's units" if moves else "unknown",
        ),
        ("faces", f"change {others:,} times" if others > 1 else "change once" if others else "the same in all frames"),
        ("octree", f"{asked['octree']}, depth {asked['depth']} at most"),
        ("unit", f"{asked['unit']:.9g}, in the mesh's units, as are all lengths"),
        ("tolerance", length_text(asked["tolerance"], asked["unit"], "unit")),
        ("error", f"{length_text(told['max_error'], asked['unit'], 'unit')}, largest of all frames' samples"),
        ("sign", frames_text(told["signs"])),
        ("verdict", frames_text(told["verdicts"])),
    ]
    if not quiet:
        print_table(str(file), found)


def rows(file: Path, field: Field) -> list[tuple[str, str]]:
    """Table rows: field, mesh, parameters, accuracy; then other entries, and checksums."""
    from sdfcli.field.schema import is_complete

    low, length = field.domain.origin, field.domain.length
    found = [
        ("size", human_bytes(file.stat().st_size)),
        *([] if field._version is None else [("format", version_text(file, field._version))]),
        ("domain", domain_text(low, length)),
        ("leaves", f"{field.leaves:,}, the finest of level {int(field.leaf_level.max())}"),
        ("corners", f"{field.corners:,}"),
    ]
    known = is_complete(field.info)
    if known:
        found += _known(field.info)
    found += [
        (name.replace("_", " "), _entry(name, value, field.info))
        for name, value in field.info.items()
        if not known or name not in SHOWN
    ]
    found += [("mesh sha256", field.info["mesh"]["sha256"])] if known else []
    return [*found, ("content sha256", field.content_sha256)]


def _entry(name: str, value: Any, info: dict[str, Any]) -> str:
    """An entry's text; the error between two frames as a length, too."""
    unit = info.get("parameters", {}).get("unit")
    return length_text(value, unit, "unit") if name == "max_error" and unit else _text(value)


def version_text(file: Path, version: int) -> str:
    """Describes a format version; names the command that rewrites an earlier one."""
    from sdfcli.field.store import FORMAT_VERSION

    rewrite = f"; rewrite it in version {FORMAT_VERSION}: sdfcli export {file} -o NEW.h5"
    return f"version {version}{rewrite if version < FORMAT_VERSION else ''}"


def domain_text(low: Floats, length: float) -> str:
    """Describes a domain: edge and lower corner."""
    return f"a cube of {length:.9g} from ({low[0]:.9g}, {low[1]:.9g}, {low[2]:.9g}), in the mesh's units"


def _known(told: dict[str, Any]) -> list[tuple[str, str]]:
    mesh, asked, thinnest = told["mesh"], told["parameters"], told["sheets"]["kept_from"]
    name, unit = unit_name(asked), float(asked.get("unit") or mesh["diagonal"])
    wanted = "" if asked["sign"] == told["sign"] else f", asked for: {asked['sign']}"
    signed = told["sign"] != "none"
    kept = "the tolerance alone decides" if thinnest is None else f"a thickness of {length_text(thinnest, unit, name)}"
    units = [("unit", f"{asked['unit']:.9g}, in the mesh's units")] if "unit" in asked else []
    units += (
        [("scale", f"{asked['scale']:.9g}: the mesh's coordinates were multiplied by it")] if "scale" in asked else []
    )
    units += [("units", known)] if (known := mesh.get("units") or asked.get("units")) else []
    return [
        ("mesh", f"{mesh['triangles']:,} triangles, {mesh['vertices']:,} vertices, {health_text(mesh)}"),
        ("diagonal", f"{mesh['diagonal']:.9g}, {units_text(mesh)}"),
        *units,
        ("octree", f"{asked['octree']}, depth {asked['depth']} at most, {told['depth']} reached"),
        ("tolerance", f"{length_text(asked['tolerance'], unit, name)}, {kept_text(told['error_limit'])}"),
        ("error", errors_text(told, unit, name)),
        *([("proof", proof_text(told, unit, name))] if "certificate" in told else []),
        *tessellation_rows(mesh),
        ("band", f"{length_text(asked['band'], unit, name)}; farther from the surface errors may grow"),
        ("sign", f"{told['sign']} ({told['sign_reason']}){wanted}"),
        ("verdict", verdict_text(told)),
        (
            "thin walls",
            sheets_text(
                told["sheets"],
                asked["tolerance"],
                unit,
                name,
                mesh["diagonal"],
                signed=signed,
                octree=asked["octree"],
            ),
        ),
        ("kept from", f"{kept}; {leaves_text(told['sheets']['leaves'])} for walls and gaps that are thin"),
        *([("holes", holes_text(told["holes"]))] if "holes" in told else []),
        ("jump leaves", f"{told['jump_leaves']:,}"),
    ]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(entry)}" for key, entry in value.items())
    return error_text(value) if isinstance(value, float) else str(value)
