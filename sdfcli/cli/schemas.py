"""JSON Schemas (draft 2020-12) of the core's `--json` output and of file attributes; apps have schemas of their own.

docs/reference/json.md shows them as tables, and `sdfcli schema NAME` prints them. They are open: later versions may add
keys. Names that end in `?` here mark optional keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from sdfcli.cli.output import SCHEMA_VERSION
from sdfcli.cli.registry import COMMANDS, SCHEMAS
from sdfcli.errors import EXIT_CODES
from sdfcli.field.schema import DIGEST, ERROR, INFO, as_json_schema
from sdfcli.field.store import FORMAT, FORMAT_VERSION, PARTS, SEQUENCE
from sdfcli.octree.causes import Cause
from sdfcli.params import SIGNS, VERDICTS
from sdfcli.sequence.file import FORMAT_VERSION as SEQUENCE_VERSION
from sdfcli.sequence.file import MOST_FRAMES
from sdfcli.spatial.morton import LATTICE_BITS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
LINK = re.compile(r"\[(.*?)\]\(.*?\)")
"""Markdown link."""

Json = dict[str, Any]
Keys = Mapping[str, Json]

TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "number"}
INTEGER: Json = {"type": "integer"}
COUNT: Json = {"type": "integer", "minimum": 0}
AMOUNT: Json = {"type": "number", "minimum": 0}
SHARE: Json = {"type": "number", "minimum": 0, "maximum": 1}
YES_OR_NO: Json = {"type": "boolean"}
SHA256 = DIGEST.schema


def one_of(*values: Any) -> Json:
    """Schema of a value from a fixed set."""
    return {"const": values[0]} if len(values) == 1 else {"enum": list(values)}


def or_null(kind: Json) -> Json:
    """Schema of a typed value or null."""
    return {**kind, "type": [kind["type"], "null"]}


def listed(kind: Json, count: int | None = None) -> Json:
    """Schema of a list. kind: its items' schema; count: its length, if fixed."""
    sizes = {} if count is None else {"minItems": count, "maxItems": count}
    return {"type": "array", "items": kind, **sizes}


def by_name(kind: Json) -> Json:
    """Schema of an object with arbitrary names. kind: its values' schema."""
    return {"type": "object", "additionalProperties": kind}


def keyed(keys: Keys) -> Json:
    """Schema of an object with these keys; names that end in `?` are optional."""
    return {
        "type": "object",
        "properties": {name.removesuffix("?"): kind for name, kind in keys.items()},
        "required": [name for name in keys if not name.endswith("?")],
    }


def described(kind: Json, words: str) -> Json:
    """A schema with a description."""
    return {**kind, "description": words}


def pick(keys: Keys, *names: str) -> dict[str, Json]:
    """Selects keys; a `?` at the end of a name makes a required key optional."""
    return {name: keys[name.removesuffix("?")] for name in names}


SHEETS = as_json_schema(INFO["sheets"])
THIN: Json = {
    **SHEETS,
    "properties": {name: kind for name, kind in SHEETS["properties"].items() if name not in ("kept_from", "leaves")},
    "required": [name for name in SHEETS["required"] if name not in ("kept_from", "leaves")],
}

COMMON: dict[str, Json] = {
    "input": described(TEXT, "first input file, as given"),
    "output": described(TEXT, "output file; the first of several"),
    "bytes": described(COUNT, "output size in bytes, header file included; for `info`, input size"),
    "seconds": described(
        {**by_name(AMOUNT), "properties": {"total": AMOUNT}, "required": ["total"]},
        "seconds: `total`, and per stage if there are stages",
    ),
    "device": described(TEXT, "`cpu` or `cuda:0`; several comma-separated"),
    "triangles": described(COUNT, "mesh triangles"),
    "vertices": described(COUNT, "mesh vertices"),
    "leaves": described(COUNT, "octree leaves"),
    "corners": described(COUNT, "distinct corners of octree leaves"),
    "verdict": described(one_of(*VERDICTS[:-1]), "certainty of the mesh's inside"),
    "sign": described(one_of(*(sign for sign in SIGNS if sign != "auto")), "sign [method](../concepts/sign.md)"),
    "sign_reason": described(TEXT, "reason for that method"),
    "sign_confidence": described(
        or_null(SHARE),
        "share of points near the surface with a certain sign; null without signs",
    ),
    "sheets": described(SHEETS, "wall thickness, and lost walls and gaps: [its keys](file.md#info)"),
    "tolerance": described(NUMBER, "maximum allowed error"),
    "max_error": described(ERROR.schema, "largest measured error"),
    "rms_error": described(ERROR.schema, "root mean square of the measured errors"),
    "content_sha256": described(SHA256, "[checksum](file.md#checksums) of the field's data"),
}
"""Keys shared by several outputs, with the same meaning everywhere."""

HEALTH = described(as_json_schema(INFO["mesh"]), "the mesh as read: [its keys](file.md#info)")
PARAMETERS = described(as_json_schema(INFO["parameters"]), "build options: [its keys](file.md#info)")
STATED: dict[str, Json] = {
    "verdict": described(as_json_schema(INFO["verdict"]), "`good`, `usable` or `doubtful`"),
    **pick(COMMON, "sign", "sign_reason", "sign_confidence", "sheets"),
    "depth": described(as_json_schema(INFO["depth"]), "finest level used"),
    "jump_leaves": described(COUNT, "leaves in which the sign jumps, at a closed hole"),
    **pick(COMMON, "max_error", "rms_error"),
    "error_limit": described(
        as_json_schema(INFO["error_limit"]),
        "why the tolerance is missed: `depth`, `samples` or `triangles`; null if it is kept",
    ),
}
WRITTEN = pick(COMMON, "input", "output", "bytes", "seconds")
CUBE: dict[str, Json] = {
    "domain_origin": described(listed(NUMBER, 3), "lower corner of the domain cube"),
    "domain_length": described(NUMBER, "edge of the domain cube"),
}
FRAME: dict[str, Json] = {
    "frame": described(COUNT, "frame index in the sequence, from 0"),
    "time": described(NUMBER, "the frame's time, in seconds"),
}
FRAMES = {"frames": described(COUNT, "frame count")}
KEPT = {"kept": described(COUNT, "frames stored by an interrupted run")}
FAULT = {"error": described(TEXT, "error message, one line")}
VECTOR = listed(NUMBER, 3)
SIGNS_VERDICTS: dict[str, Json] = {
    "signs": described(by_name(COUNT), "frame count by sign"),
    "verdicts": described(by_name(COUNT), "frame count by verdict"),
}

CONTACT: dict[str, Json] = {
    "contact": described(
        one_of("clear", "touching", "penetrating"), "contact verdict; `touching` if the bounds do not decide"
    ),
    "distance": described(NUMBER, "the mesh's minimum distance in the field"),
    "low": described(NUMBER, "lower bound of the true minimum distance"),
    "high": described(NUMBER, "upper bound of the true minimum distance"),
    "triangle": described(COUNT, "triangle at that distance, in the mesh file's order, from 0"),
    "point": described(VECTOR, "point at that distance, in the field's frame"),
    "normal": described(VECTOR, "unit normal, the direction out of the field's solid"),
}
NOTES = described(listed(TEXT), "parts of the file skipped or reinterpreted, and library warnings")

POSE: dict[str, Json] = {
    "pose?": described(COUNT, "pose index, from 0; replaced by `frame` for a mesh in frames"),
    "frame?": FRAME["frame"],
}
COLLIDE: dict[str, Json] = {
    **pick(COMMON, "input", "seconds"),
    "output?": COMMON["output"],
    "posed": described(TEXT, "the mesh, the folder, or the first of several meshes and the count of the others"),
    "signed": described(YES_OR_NO, "whether the field has signs; without them nothing is penetrating"),
    "posed_encloses": described(
        or_null(YES_OR_NO),
        "whether the mesh has an inside that may contain parts of the field's solid; null if no pose needed this",
    ),
    "stated_error": described(AMOUNT, "the field's stated error within `stated_band` of the surface, in its units"),
    "stated_band": described(AMOUNT, "distance from the surface up to which `stated_error` holds"),
    "poses": described(COUNT, "pose count"),
    "margin?": described(NUMBER, "maximum distance of contact triangles; with `--margin` or `--contacts`"),
    "contacts?": described(COUNT, "contact triangle count; with `margin`"),
}

SURFACE: dict[str, Json] = {
    **pick(COMMON, "input", "output", "bytes", "seconds", "device"),
    "iso": described(NUMBER, "iso value: a distance, or a volume's value"),
    "cells": described(listed(COUNT, 3), "grid cells along x, y, z"),
    "triangles": described(COUNT, "surface triangles"),
    "vertices": described(COUNT, "surface vertices"),
    "closed": described(YES_OR_NO, "whether the surface is closed; false if it reaches the grid's border"),
}
PICTURE: dict[str, Json] = {
    **WRITTEN,
    "width": described(COUNT, "picture width in pixels"),
    "height": described(COUNT, "picture height in pixels"),
}
VIEW: dict[str, Json] = {"view": described(TEXT, "view direction, as given"), "up": described(TEXT, "up axis")}
PLANE: dict[str, Json] = {
    "axis": described(one_of("x", "y", "z"), "the plane's normal"),
    "at": described(NUMBER, "its position"),
}
GUEST: dict[str, Json] = {
    "posed": described(TEXT, "the mesh of `--mesh`"),
    "margin": described(NUMBER, "maximum distance of contact triangles; with `--margin`"),
    "contacts": described(COUNT, "contact triangle count; with `--margin`"),
}
MOVING: dict[str, Json] = {**FRAMES, "lasts": described(NUMBER, "duration of one loop, in seconds")}


def rows(keys: Keys, words: str) -> dict[str, Json]:
    """Schema entry `rows`: a list of objects with these keys."""
    return {"rows": described(listed(keyed(keys)), words)}


OUTPUTS: dict[str, tuple[str, dict[str, Json]]] = {
    "build": (
        "A line per field that was built or exists.",
        {
            **pick(COMMON, "input", "output", "bytes", "seconds?", "device?"),
            "status": described(
                one_of("ok", "skipped"), "`skipped` fields have no `seconds`, `device`, `previous_used`"
            ),
            "exit_code": described(one_of(0), "exit code of this mesh's build"),
            "triangles": COMMON["triangles"],
            "vertices": COMMON["vertices"],
            "watertight": described(YES_OR_NO, "whether the mesh has no open edges"),
            "health": HEALTH,
            "octree": described(as_json_schema(INFO["parameters"])["properties"]["octree"], "`adaptive` or `bvh`"),
            "tolerance": COMMON["tolerance"],
            "unit?": described(
                NUMBER,
                "with `--unit` or `--max-error`: the length to which `tolerance` and errors are relative, in the "
                "mesh's units",
            ),
            **STATED,
            **pick(COMMON, "leaves", "corners", "content_sha256"),
            "notes": NOTES,
            "previous_used?": described(
                YES_OR_NO, "whether the field of `--previous` was used: its mesh has the same triangle count"
            ),
        },
    ),
    "build, failed": (
        "A line per mesh without a field; also with `--dry-run`.",
        {
            "input": COMMON["input"],
            "output": described(or_null(TEXT), "output file, not written; null with `--dry-run`"),
            "status": described(one_of("failed"), "`failed`"),
            "exit_code": described(one_of(*list(EXIT_CODES)[1:]), "exit code of this mesh's build"),
            **FAULT,
        },
    ),
    "build --dry-run": (
        "A line per mesh; all values are estimates.",
        {
            **pick(COMMON, "input", "leaves", "seconds", "device"),
            "status": described(one_of("ok", "too large"), "`ok` if `fits`, else `too large`"),
            "memory_bytes": described(INTEGER, "the build's memory"),
            "file_bytes": described(INTEGER, "field file size"),
            "limit_bytes": described(INTEGER, "memory limit"),
            "free_bytes": described(INTEGER, "free memory"),
            "scratch_bytes": described(
                INTEGER, "free space for scratch files, or free host memory for a GPU; 0: not used"
            ),
            "fits": described(YES_OR_NO, "whether `memory_bytes` is within `limit_bytes` or `scratch_bytes`"),
        },
    ),
    "sequence, a frame": (
        "A line per frame, as soon as it is stored.",
        {
            "index": described(COUNT, "frame index, from 0"),
            "time": FRAME["time"],
            "input": described(TEXT, "the frame's file; for an array, its name and the frame index"),
            "coherent": described(
                or_null(YES_OR_NO),
                "whether the build reused the previous frame; null for a frame stored by an interrupted run",
            ),
            "motion": described(
                or_null(NUMBER),
                "largest distance of a vertex from its place in the frame before; null for the first frame, and where "
                "the faces are others",
            ),
            **pick(COMMON, "sign", "sign_reason", "verdict", "max_error", "leaves", "corners", "content_sha256"),
            "bytes": described(COUNT, "the frame's size in the file"),
            "device": described(or_null(TEXT), "as above; null for a frame stored by an interrupted run"),
            "seconds": described(or_null(COMMON["seconds"]), "as above; null for a frame stored by an interrupted run"),
        },
    ),
    "sequence": (
        "The last line, for all frames.",
        {
            **WRITTEN,
            **FRAMES,
            **KEPT,
            "coherent_frames": described(COUNT, "frames whose build reused the previous frame"),
            "motion": described(
                or_null(NUMBER),
                "largest of all frames' motions; null if one is unknown, or for a single frame",
            ),
            "parameters": PARAMETERS,
            "max_error": described(NUMBER, "largest error of all frames, as a fraction of the unit"),
            **SIGNS_VERDICTS,
            "content_sha256": described(
                SHA256, "[checksum](file.md#sequences) of times, motions and the frames' fields"
            ),
            "leaves": described(COUNT, "of all frames together"),
            "frames_per_second": described(NUMBER, "built frames per second of the whole run"),
        },
    ),
    "check": (
        "A line per usable mesh.",
        {
            **pick(COMMON, "input", "triangles", "vertices", "verdict", "sign", "sign_reason", "sign_confidence"),
            "sheets": described(
                THIN, "wall thickness, and walls and gaps that a build would lose: [its keys](file.md#info)"
            ),
            "watertight": described(YES_OR_NO, "whether the mesh has no open edges"),
            "oriented": described(YES_OR_NO, "whether all faces are consistently oriented"),
            **{
                name: described(COUNT, name.replace("_", " "))
                for name in (
                    "shells",
                    "inverted_shells",
                    "open_edges",
                    "non_manifold_edges",
                    "inconsistent_edges",
                    "degenerate_faces",
                    "duplicate_faces",
                    "crossing_faces",
                )
            },
            "diagonal": described(NUMBER, "diagonal of the bounding box"),
            "size": described(VECTOR, "edges of the bounding box"),
            "lowest": described(VECTOR, "lower corner of the bounding box"),
            "units": described(or_null(TEXT), "length unit given in the file; null if none"),
            "notes": NOTES,
            "findings": described(
                listed(keyed({"what": TEXT, "then": TEXT})), "faults (`what`), and their treatment in a build (`then`)"
            ),
        },
    ),
    "check, unusable": (
        "A line per unusable mesh.",
        {
            "input": COMMON["input"],
            "verdict": described(one_of(VERDICTS[-1]), f"`{VERDICTS[-1]}`"),
            **FAULT,
        },
    ),
    "info": (
        "A field. Other programs' fields may lack keys about their build, and have others.",
        {
            **pick(COMMON, "input", "bytes"),
            **CUBE,
            **pick(COMMON, "leaves", "corners", "content_sha256"),
            "mesh?": HEALTH,
            "parameters?": PARAMETERS,
            **{f"{name}?": kind for name, kind in STATED.items()},
            "causes?": described(
                keyed(dict.fromkeys((*(cause.name.lower() for cause in Cause), "jump"), COUNT)),
                "with `--why`: leaf counts by [cause](file.md#causes); `jump`: leaves among them left coarse at a sign "
                "jump",
            ),
        },
    ),
    "info, sequence": (
        "A sequence.",
        {
            **pick(COMMON, "input", "bytes"),
            **CUBE,
            **FRAMES,
            "times": described(listed(NUMBER), "frame times in seconds"),
            "motions": described(
                listed(or_null(NUMBER)),
                "largest distance of a vertex from its place in the frame before; null for the first frame, and where "
                "the faces are others",
            ),
            "parameters": described(PARAMETERS, "build options, with all frames' `domain` and `unit`"),
            "max_error": described(NUMBER, "largest error of all frames, as a fraction of that unit"),
            **SIGNS_VERDICTS,
            "content_sha256": described(
                SHA256, "[checksum](file.md#sequences) of times, motions and the frames' fields"
            ),
        },
    ),
    "query, a point": (
        "A line per point, with a key per [column](commands/query.md).",
        {
            "distance": described(NUMBER, "signed distance, negative inside"),
            **{f"g{axis}?": described(NUMBER, "gradient; with `--gradient`") for axis in "xyz"},
            **{f"nearest_{axis}?": described(NUMBER, "nearest point; with `--nearest`") for axis in "xyz"},
            "triangle?": described(COUNT, "nearest triangle, from 0, in the mesh file's order; with `--nearest`"),
            "nearest_triangles?": described(
                listed(COUNT), "with `-k`: nearest triangles, from 0; fewer than K if the mesh has fewer"
            ),
            "nearest_distances?": described(listed(AMOUNT), "with `-k`: their distances, unsigned"),
        },
    ),
    "query": (
        "With `-o`.",
        {**WRITTEN, "count": described(COUNT, "point count"), "columns": described(listed(TEXT), "column names")},
    ),
    "collide, a pose": ("A line per pose.", {**POSE, **CONTACT}),
    "collide": (
        "The last line, for all poses.",
        {
            **COLLIDE,
            "clear": described(COUNT, "clear poses"),
            "touching": described(COUNT, "touching poses"),
            "penetrating": described(COUNT, "penetrating poses"),
            "least": described(keyed({**POSE, **CONTACT}), "the line with the smallest lower bound"),
            "poses_per_second": described(NUMBER, "poses per second of the whole run"),
        },
    ),
    "collide --path": (
        "One line.",
        {
            **COLLIDE,
            "first_contact": described(or_null(NUMBER), "time of first contact, in poses; null if the path is clear"),
            "steps": described(COUNT, "number of poses tested, up to that time"),
            "matrix?": described(
                listed(listed(NUMBER, 4), 4), "pose matrix at first contact; only with a contact, like the keys below"
            ),
            **{f"{name}?": kind for name, kind in CONTACT.items()},
        },
    ),
    "extract": ("One line.", SURFACE),
    "extract --frames": ("A line per file.", {**SURFACE, **FRAME}),
    "render": ("One picture.", {**PICTURE, **VIEW}),
    "render --mesh": ("One picture, with a mesh.", {**PICTURE, **VIEW, **pick(GUEST, "posed", "margin?", "contacts?")}),
    "render --frames": (
        "A line per numbered file; `seconds` are those since the start.",
        {**PICTURE, **VIEW, **pick(GUEST, "posed?", "margin?"), **FRAME},
    ),
    "render --frames, moving": (
        "One moving picture.",
        {**PICTURE, **VIEW, **pick(GUEST, "posed?", "margin?"), **MOVING},
    ),
    "slice": ("One picture.", {**PICTURE, **PLANE}),
    "slice --frames": (
        "A line per numbered file; `seconds` are those since the start.",
        {**PICTURE, **PLANE, **FRAME},
    ),
    "slice --frames, moving": ("One moving picture.", {**PICTURE, **PLANE, **MOVING}),
    "export": (
        "To a regular grid.",
        {
            **WRITTEN,
            "shape": described(listed(COUNT, 3), "grid points along x, y, z"),
            "origin": described(VECTOR, "position of the first grid point"),
            "spacing": described(NUMBER, "distance between grid points"),
        },
    ),
    "export to .vtkhdf": ("A field.", {**WRITTEN, **pick(COMMON, "leaves", "corners")}),
    "export to .vtkhdf, sequence": (
        "All frames of a sequence.",
        {
            **WRITTEN,
            **FRAMES,
            "leaves": described(COUNT, "of all frames together"),
            "corners": described(COUNT, "of all frames together"),
        },
    ),
    "export --samples": (
        "For DeepSDF.",
        {**WRITTEN, "pos": described(COUNT, "samples outside"), "neg": described(COUNT, "samples inside")},
    ),
    "verify": (
        "One line.",
        {
            **pick(COMMON, "input", "tolerance", "max_error"),
            "reference": described(TEXT, "the mesh of `--mesh`"),
            "same_mesh": described(YES_OR_NO, "whether the field was built from this mesh"),
            "passed": described(YES_OR_NO, "whether the error is within the tolerance"),
            "notes": NOTES,
            "regions": described(
                by_name(
                    keyed(
                        {
                            "samples": COUNT,
                            "max_error": AMOUNT,
                            "rms_error": AMOUNT,
                            "jumps": described(COUNT, "points left out"),
                            "cell": described(AMOUNT, "the largest leaf"),
                        }
                    )
                ),
                "by `near`, `band` and `everywhere`: `samples`, `max_error`, `rms_error`, `jumps` (points left out) "
                "and `cell` (the largest leaf)",
            ),
            "turned": described(
                listed(keyed({"faces": COUNT, "at": listed(NUMBER, 3), "winding": NUMBER, "confirmed": YES_OR_NO})),
                "shells that the build turned: `faces` (count), a point `at` one face, the smallest `winding` number "
                "in front of it in the mesh as given, and `confirmed`: whether that is negative",
            ),
        },
    ),
}
"""Core outputs: when each is printed, and its keys. The first word of a name is the command."""

VERSION = {
    "schema_version": described(
        {"const": SCHEMA_VERSION},
        f"{SCHEMA_VERSION}: incremented if a key is removed or changes type or meaning; not if one is added",
    )
}
ATTRIBUTES: dict[str, Json] = {
    "tool_version": described(TEXT, "sdfcli version that wrote the file"),
    "domain_origin": described(VECTOR, "lower corner x, y, z of the domain, in the mesh's units"),
    "domain_length": described({"type": "number", "exclusiveMinimum": 0}, "domain edge, in the mesh's units"),
    "content_sha256": described(SHA256, "checksum of the data"),
    "attributes_sha256": described(SHA256, "checksum of the other attributes"),
}


def _in_text(keys: Json) -> Json:
    return {"type": "string", "contentMediaType": "application/json", "contentSchema": keys}


FILES: dict[str, tuple[str, dict[str, Json]]] = {
    "field": (
        "Attributes of a field file's root, and of a sequence frame's group.",
        {
            "format": described(one_of(FORMAT), "file kind"),
            "format_version": described(one_of(FORMAT_VERSION), "see [versions](file.md#versions)"),
            **ATTRIBUTES,
            "lattice_bits": described(one_of(LATTICE_BITS), "the domain's edge is 2^20 lattice steps"),
            "units": described(one_of("those of the mesh"), "the mesh's units, not scaled"),
            "sign_convention": described(one_of("negative inside"), "sign of distances"),
            "nearest_sha256?": described(SHA256, "checksum of the dataset `nearest`, if present"),
            "leaf_cause_sha256?": described(SHA256, "checksum of the dataset `leaf_cause`, if present"),
            "distance_step?": described(
                {"type": "number", "exclusiveMinimum": 0}, "quantisation step; with the dataset `residual`"
            ),
            "distance_parts?": described(one_of(*PARTS), "with the dataset `residual_part`"),
            "info": described(
                _in_text(as_json_schema(INFO)), "JSON: the build's parameters and results, see [info](file.md#info)"
            ),
        },
    ),
    "sequence": (
        "Attributes of a sequence file's root.",
        {
            "format": described(one_of(SEQUENCE), "file kind"),
            "format_version": described(one_of(SEQUENCE_VERSION), "see [sequences](file.md#sequences)"),
            **ATTRIBUTES,
            "frames": described({"type": "integer", "minimum": 1, "maximum": MOST_FRAMES}, "frame count"),
            "units": described(one_of("those of the mesh; seconds"), "the mesh's units, not scaled, and seconds"),
            "info": described(
                _in_text(keyed({"parameters": PARAMETERS, "max_error": NUMBER, **SIGNS_VERDICTS})),
                "JSON: the build's parameters and results",
            ),
        },
    ),
}
FILE = "file"
"""Schema name of file attributes."""


@cache
def outputs() -> dict[str, tuple[str, dict[str, Json]]]:
    """OUTPUTS of the core and apps, in command order."""
    found: dict[str, tuple[str, dict[str, Json]]] = {}
    for module in SCHEMAS:
        found |= import_module(module).OUTPUTS
    return dict(sorted(found.items(), key=lambda output: COMMANDS.index(_command(output[0]))))


def names() -> list[str]:
    """Schema names: commands with `--json`, and FILE."""
    return [*dict.fromkeys(map(_command, outputs())), FILE]


def schema_of(name: str) -> Json:
    """Schema of each line of a command's `--json` output, or of file attributes."""
    if name == FILE:
        title, variants = "attributes of an HDF5 file of sdfcli", FILES
    else:
        title = f"a line of `sdfcli {name} --json`"
        variants = {each: output for each, output in outputs().items() if _command(each) == name}
    return {
        "$schema": DIALECT,
        "$id": f"urn:sdfcli:schema:{SCHEMA_VERSION}:{name}",
        "title": title,
        "anyOf": [variant(each, *output, version=name != FILE) for each, output in variants.items()],
    }


def variant(title: str, words: str, keys: Keys, version: bool = True) -> Json:
    """Schema of an output or a file kind."""
    own = keyed({**(VERSION if version else {}), **keys})
    schema: Json = _plain({"title": title, "description": words, **own})
    return schema


def _plain(value: Any) -> Any:
    """A schema with links in its descriptions replaced by their text."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return LINK.sub(r"\1", value) if isinstance(value, str) else value


def _command(output: str) -> str:
    return output.replace(",", " ").split()[0]
