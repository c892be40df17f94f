"""`sdfcli info`: the metadata of a field file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdfcli.cli import options
from sdfcli.cli.output import error_text, human_bytes, print_json, print_table
from sdfcli.cli.wording import health_text, kept_text, sheets_text, verdict_text

if TYPE_CHECKING:
    from sdfcli.field.field import Field

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
    "error_limit",
}
"""Entries that `_known` shows with words and units; others follow as they are."""


def info(file: options.FieldFile, json: options.Json = False, quiet: options.Quiet = False) -> None:
    """Print the metadata of a field file.

    Example: sdfcli info bunny.h5
    """
    from sdfcli.field.store import load

    field = load(file)
    if json:
        facts = {
            "input": str(file),
            "bytes": file.stat().st_size,
            "domain_origin": [float(x) for x in field.domain.origin],
            "domain_length": field.domain.length,
            "leaves": len(field.leaf_key),
            "corners": len(field.corner_key),
            "content_sha256": field.content_sha256,
        }
        print_json(facts | field.info | facts)  # computed facts win over stored ones
    elif not quiet:
        print_table(str(file), rows(file, field))


def rows(file: Path, field: Field) -> list[tuple[str, str]]:
    """The table: field, mesh, parameters, accuracy; then other entries, and the checksums."""
    from sdfcli.field.schema import is_complete

    low, length = field.domain.origin, field.domain.length
    found = [
        ("size", human_bytes(file.stat().st_size)),
        ("domain", f"a cube of {length:.9g} from ({low[0]:.9g}, {low[1]:.9g}, {low[2]:.9g}), in the mesh's units"),
        ("leaves", f"{len(field.leaf_key):,}, the finest of level {int(field.leaf_level.max())}"),
        ("corners", f"{len(field.corner_key):,}"),
    ]
    known = is_complete(field.info)
    if known:
        found += _known(field.info)
    found += [
        (name.replace("_", " "), _text(value)) for name, value in field.info.items() if not known or name not in SHOWN
    ]
    found += [("mesh sha256", field.info["mesh"]["sha256"])] if known else []
    return [*found, ("content sha256", field.content_sha256)]


def _known(told: dict[str, Any]) -> list[tuple[str, str]]:
    mesh, asked, thinnest = told["mesh"], told["parameters"], told["sheets"]["kept_from"]
    kept = (
        "the tolerance alone decides" if thinnest is None else f"a thickness of {error_text(thinnest)} of the diagonal"
    )
    return [
        ("mesh", f"{mesh['triangles']:,} triangles, {mesh['vertices']:,} vertices, {health_text(mesh)}"),
        ("diagonal", f"{mesh['diagonal']:.9g}, in the mesh's units"),
        ("octree", f"{asked['octree']}, depth {asked['depth']} at most, {told['depth']} reached"),
        ("tolerance", f"{error_text(asked['tolerance'])} of the diagonal, {kept_text(told['error_limit'])}"),
        ("band", f"{error_text(asked['band'])} of the diagonal; farther from the surface errors may grow"),
        ("sign", f"{told['sign']} ({told['sign_reason']}), asked for: {asked['sign']}"),
        ("verdict", verdict_text(told)),
        ("thin walls", sheets_text(told["sheets"], asked["tolerance"])),
        ("kept from", f"{kept}; {told['sheets']['leaves']:,} leaves for walls and gaps that are thin"),
        ("jump leaves", f"{told['jump_leaves']:,}"),
        ("max error", f"{error_text(told['max_error'])} of the diagonal"),
        ("rms error", f"{error_text(told['rms_error'])} of the diagonal"),
    ]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(entry)}" for key, entry in value.items())
    return error_text(value) if isinstance(value, float) else str(value)
