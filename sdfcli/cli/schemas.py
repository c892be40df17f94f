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


def told(kind: Json, words: str) -> Json:
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
    "input": told(TEXT, "the file that is named first, as it was named"),
    "output": told(TEXT, "the file that was written; the first one of several"),
    "bytes": told(COUNT, "size of the output, with that of a header beside it; for `info` that of the input"),
    "seconds": told(
        {**by_name(AMOUNT), "properties": {"total": AMOUNT}, "required": ["total"]},
        "seconds in `total`, and where there are stages those of each",
    ),
    "device": told(TEXT, "`cpu`, `cuda:0`; several with commas between"),
    "triangles": told(COUNT, "triangles of the mesh"),
    "vertices": told(COUNT, "vertices of the mesh"),
    "leaves": told(COUNT, "leaves of the octree"),
    "corners": told(COUNT, "corners of the octree's leaves, each once"),
    "verdict": told(one_of(*VERDICTS[:-1]), "how certain the mesh's inside is"),
    "sign": told(one_of(*(sign for sign in SIGNS if sign != "auto")), "the [method](../concepts/sign.md)"),
    "sign_reason": told(TEXT, "why that method was chosen"),
    "sign_confidence": told(
        or_null(SHARE),
        "share of points near the surface at which the sign of the mesh's inside is certain; null without signs",
    ),
    "sheets": told(SHEETS, "how thin walls are, and what is lost of them and of gaps: [its keys](file.md#info)"),
    "tolerance": told(NUMBER, "the largest error that was allowed"),
    "max_error": told(ERROR.schema, "the largest of the errors that were measured"),
    "rms_error": told(ERROR.schema, "the root of the mean square of these errors"),
    "content_sha256": told(SHA256, "[checksum](file.md#checksums) of the field's data"),
}
"""Keys shared by several outputs, with the same meaning everywhere."""

HEALTH = told(as_json_schema(INFO["mesh"]), "the mesh as it was read: [its keys](file.md#info)")
PARAMETERS = told(as_json_schema(INFO["parameters"]), "the options of the build: [its keys](file.md#info)")
STATED: dict[str, Json] = {
    "verdict": told(as_json_schema(INFO["verdict"]), "`good`, `usable` or `doubtful`"),
    **pick(COMMON, "sign", "sign_reason", "sign_confidence", "sheets"),
    "depth": told(as_json_schema(INFO["depth"]), "the finest level that was used"),
    "jump_leaves": told(COUNT, "leaves in which the sign jumps, where a hole was closed"),
    **pick(COMMON, "max_error", "rms_error"),
    "error_limit": told(
        as_json_schema(INFO["error_limit"]),
        "why the error misses the tolerance, `depth`, `samples` or `triangles`; null where it does not",
    ),
}
WRITTEN = pick(COMMON, "input", "output", "bytes", "seconds")
CUBE: dict[str, Json] = {
    "domain_origin": told(listed(NUMBER, 3), "lower corner of the field's cube"),
    "domain_length": told(NUMBER, "its edge"),
}
FRAME: dict[str, Json] = {
    "frame": told(COUNT, "which frame of the sequence"),
    "time": told(NUMBER, "when it is, in seconds"),
}
FRAMES = {"frames": told(COUNT, "how many frames there are")}
KEPT = {"kept": told(COUNT, "those of the frames that an interrupted run has kept")}
FAULT = {"error": told(TEXT, "what is wrong, in a line")}
VECTOR = listed(NUMBER, 3)
SIGNS_VERDICTS: dict[str, Json] = {
    "signs": told(by_name(COUNT), "how many frames have which sign"),
    "verdicts": told(by_name(COUNT), "how many frames have which verdict"),
}

CONTACT: dict[str, Json] = {
    "contact": told(
        one_of("clear", "touching", "penetrating"), "how the mesh lies; `touching` where the bounds do not tell"
    ),
    "distance": told(NUMBER, "the least distance of the mesh by the field"),
    "low": told(NUMBER, "lower bound of the true one"),
    "high": told(NUMBER, "upper bound of the true one"),
    "triangle": told(COUNT, "where that is: a triangle of the mesh's file, from 0"),
    "point": told(VECTOR, "where that is, in the field's frame"),
    "normal": told(VECTOR, "the way out, of length 1"),
}
NOTES = told(listed(TEXT), "what of the file was left out, or read as another thing, and warnings of libraries")

POSE: dict[str, Json] = {
    "pose?": told(COUNT, "which pose, from 0; of a mesh in frames `frame` is in its place"),
    "frame?": FRAME["frame"],
}
COLLIDE: dict[str, Json] = {
    **pick(COMMON, "input", "seconds"),
    "output?": COMMON["output"],
    "posed": told(TEXT, "the mesh, the folder, or the first of several meshes and how many more"),
    "signed": told(YES_OR_NO, "whether the field has signs; without them nothing is penetrating"),
    "posed_encloses": told(
        or_null(YES_OR_NO),
        "whether the mesh has an inside, in which a solid of the field may lie; null where no pose had one there",
    ),
    "stated_error": told(AMOUNT, "the field's error up to `stated_band` from the surface, in its units"),
    "stated_band": told(AMOUNT, "the distance up to which `stated_error` holds"),
    "poses": told(COUNT, "how many poses there are"),
    "margin?": told(NUMBER, "distance up to which triangles are contacts; with `--margin` or `--contacts`"),
    "contacts?": told(COUNT, "how many triangles are contacts; with `margin`"),
}

SURFACE: dict[str, Json] = {
    **pick(COMMON, "input", "output", "bytes", "seconds", "device"),
    "iso": told(NUMBER, "the distance, or the volume's value"),
    "cells": told(listed(COUNT, 3), "cells of the grid, along x, y, z"),
    "triangles": told(COUNT, "triangles of the surface"),
    "vertices": told(COUNT, "vertices of the surface"),
    "closed": told(YES_OR_NO, "whether the surface is closed; not so where it reaches the border of the grid"),
}
PICTURE: dict[str, Json] = {
    **WRITTEN,
    "width": told(COUNT, "pixels"),
    "height": told(COUNT, "pixels"),
}
VIEW: dict[str, Json] = {"view": told(TEXT, "as it was given"), "up": told(TEXT, "as it was given")}
PLANE: dict[str, Json] = {"axis": told(one_of("x", "y", "z"), "the plane's normal"), "at": told(NUMBER, "its place")}
GUEST: dict[str, Json] = {
    "posed": told(TEXT, "the mesh of `--mesh`"),
    "margin": told(NUMBER, "distance up to which triangles are contacts; with `--margin`"),
    "contacts": told(COUNT, "how many triangles are contacts; with `--margin`"),
}
MOVING: dict[str, Json] = {**FRAMES, "lasts": told(NUMBER, "seconds until it repeats")}


def rows(keys: Keys, words: str) -> dict[str, Json]:
    """Schema entry `rows`: a list of objects with these keys."""
    return {"rows": told(listed(keyed(keys)), words)}


OUTPUTS: dict[str, tuple[str, dict[str, Json]]] = {
    "build": (
        "A line for each field that was built, or is there.",
        {
            **pick(COMMON, "input", "output", "bytes", "seconds?", "device?"),
            "status": told(one_of("ok", "skipped"), "`skipped` fields have no `seconds`, `device`, `previous_used`"),
            "exit_code": told(one_of(0), "that of the build of this mesh alone"),
            "triangles": COMMON["triangles"],
            "vertices": COMMON["vertices"],
            "watertight": told(YES_OR_NO, "whether the mesh has no open edges"),
            "health": HEALTH,
            "octree": told(as_json_schema(INFO["parameters"])["properties"]["octree"], "`adaptive` or `bvh`"),
            "tolerance": COMMON["tolerance"],
            "unit?": told(
                NUMBER,
                "with `--unit` or `--max-error`: the length that `tolerance` and the errors are fractions of, in the "
                "mesh's units",
            ),
            **STATED,
            **pick(COMMON, "leaves", "corners", "content_sha256"),
            "notes": NOTES,
            "previous_used?": told(YES_OR_NO, "whether the field of `--previous` fits: its mesh has as many triangles"),
        },
    ),
    "build, failed": (
        "A line for each mesh without a field; of `--dry-run`, too.",
        {
            "input": COMMON["input"],
            "output": told(or_null(TEXT), "the file that was not written; null for `--dry-run`"),
            "status": told(one_of("failed"), "`failed`"),
            "exit_code": told(one_of(*list(EXIT_CODES)[1:]), "that of the build of this mesh alone"),
            **FAULT,
        },
    ),
    "build --dry-run": (
        "A line for each mesh; all is estimated.",
        {
            **pick(COMMON, "input", "leaves", "seconds", "device"),
            "status": told(one_of("ok", "too large"), "whether it fits, in words"),
            "memory_bytes": told(INTEGER, "what the build takes"),
            "file_bytes": told(INTEGER, "size of the field's file"),
            "limit_bytes": told(INTEGER, "what may be used"),
            "free_bytes": told(INTEGER, "what is free"),
            "scratch_bytes": told(
                INTEGER, "what is free for scratch files, or for a GPU in the host's memory; 0: no use of them"
            ),
            "fits": told(YES_OR_NO, "whether `memory_bytes` is within `limit_bytes`, or else within `scratch_bytes`"),
        },
    ),
    "sequence, a frame": (
        "A line for each frame, as soon as it is in the file.",
        {
            "index": told(COUNT, "the frame, from 0"),
            "time": FRAME["time"],
            "input": told(TEXT, "the frame's file; of an array its name and the frame"),
            "coherent": told(
                or_null(YES_OR_NO),
                "whether the build rests on the frame before; null where an interrupted run has kept the frame",
            ),
            "motion": told(
                or_null(NUMBER),
                "largest distance of a vertex from its place in the frame before; null for the first frame, and where "
                "the faces are others",
            ),
            **pick(COMMON, "sign", "sign_reason", "verdict", "max_error", "leaves", "corners", "content_sha256"),
            "bytes": told(COUNT, "size of the frame in the file"),
            "device": told(or_null(TEXT), "as above; null where an interrupted run has kept the frame"),
            "seconds": told(or_null(COMMON["seconds"]), "as above; null where an interrupted run has kept the frame"),
        },
    ),
    "sequence": (
        "The last line, for all frames.",
        {
            **WRITTEN,
            **FRAMES,
            **KEPT,
            "coherent_frames": told(COUNT, "those whose build rests on the frame before"),
            "motion": told(
                or_null(NUMBER),
                "the largest of all frames; null where one is not known, and for a single frame",
            ),
            "parameters": PARAMETERS,
            "max_error": told(NUMBER, "the largest of all frames, a fraction of the unit"),
            **SIGNS_VERDICTS,
            "content_sha256": told(SHA256, "[checksum](file.md#sequences) of times, motions and the frames' fields"),
            "leaves": told(COUNT, "of all frames together"),
            "frames_per_second": told(NUMBER, "those that were built, by the seconds of the whole"),
        },
    ),
    "check": (
        "A line for each mesh that can be used.",
        {
            **pick(COMMON, "input", "triangles", "vertices", "verdict", "sign", "sign_reason", "sign_confidence"),
            "sheets": told(THIN, "how thin walls are, and what a build would lose: [its keys](file.md#info)"),
            "watertight": told(YES_OR_NO, "whether it has no open edges"),
            "oriented": told(YES_OR_NO, "whether its faces agree on the outside"),
            **{
                name: told(COUNT, name.replace("_", " "))
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
            "diagonal": told(NUMBER, "of the bounding box"),
            "size": told(VECTOR, "edges of the bounding box"),
            "lowest": told(VECTOR, "lower corner of the bounding box"),
            "units": told(or_null(TEXT), "what the file says; null where it says nothing"),
            "notes": NOTES,
            "findings": told(
                listed(keyed({"what": TEXT, "then": TEXT})), "what is wrong, and what a build does about it"
            ),
        },
    ),
    "check, unusable": (
        "A line for each mesh that cannot be used.",
        {
            "input": COMMON["input"],
            "verdict": told(one_of(VERDICTS[-1]), f"`{VERDICTS[-1]}`"),
            **FAULT,
        },
    ),
    "info": (
        "A field. Those of other programs may lack the keys of their builds, and have others.",
        {
            **pick(COMMON, "input", "bytes"),
            **CUBE,
            **pick(COMMON, "leaves", "corners", "content_sha256"),
            "mesh?": HEALTH,
            "parameters?": PARAMETERS,
            **{f"{name}?": kind for name, kind in STATED.items()},
            "causes?": told(
                keyed(dict.fromkeys((*(cause.name.lower() for cause in Cause), "jump"), COUNT)),
                "with `--why`: the number of leaves by [cause](file.md#causes), and of these in `jump` those left "
                "coarse at a jump of the sign",
            ),
        },
    ),
    "info, sequence": (
        "A sequence.",
        {
            **pick(COMMON, "input", "bytes"),
            **CUBE,
            **FRAMES,
            "times": told(listed(NUMBER), "in seconds"),
            "motions": told(
                listed(or_null(NUMBER)),
                "largest distance of a vertex from its place in the frame before; null for the first frame, and where "
                "the faces are others",
            ),
            "parameters": told(PARAMETERS, "the options of the build, with the `domain` and the `unit` of all frames"),
            "max_error": told(NUMBER, "the largest of all frames, a fraction of that unit"),
            **SIGNS_VERDICTS,
            "content_sha256": told(SHA256, "[checksum](file.md#sequences) of times, motions and the frames' fields"),
        },
    ),
    "query, a point": (
        "A line for each point, with a key for each [column](commands/query.md).",
        {
            "distance": told(NUMBER, "signed, negative inside"),
            **{f"g{axis}?": told(NUMBER, "the gradient; with `--gradient`") for axis in "xyz"},
            **{f"nearest_{axis}?": told(NUMBER, "the nearest point; with `--nearest`") for axis in "xyz"},
            "triangle?": told(COUNT, "the nearest triangle, from 0, in the order of the mesh's file; with `--nearest`"),
            "nearest_triangles?": told(
                listed(COUNT), "with `-k`: the nearest triangles, from 0; fewer than K where the mesh has fewer"
            ),
            "nearest_distances?": told(listed(AMOUNT), "with `-k`: their distances, unsigned"),
        },
    ),
    "query": (
        "With `-o`.",
        {**WRITTEN, "count": told(COUNT, "points"), "columns": told(listed(TEXT), "their names")},
    ),
    "collide, a pose": ("A line for each pose.", {**POSE, **CONTACT}),
    "collide": (
        "The last line, for all poses.",
        {
            **COLLIDE,
            "clear": told(COUNT, "poses of this kind"),
            "touching": told(COUNT, "poses of this kind"),
            "penetrating": told(COUNT, "poses of this kind"),
            "least": told(keyed({**POSE, **CONTACT}), "the line with the smallest lower bound"),
            "poses_per_second": told(NUMBER, "how fast it was"),
        },
    ),
    "collide --path": (
        "One line.",
        {
            **COLLIDE,
            "first_contact": told(or_null(NUMBER), "the time, counted in poses; null where the path is clear"),
            "steps": told(COUNT, "how many poses were looked at, up to that time"),
            "matrix?": told(listed(listed(NUMBER, 4), 4), "the pose there; only with a contact, as the next"),
            **{f"{name}?": kind for name, kind in CONTACT.items()},
        },
    ),
    "extract": ("One line.", SURFACE),
    "extract --frames": ("A line for each file.", {**SURFACE, **FRAME}),
    "render": ("One picture.", {**PICTURE, **VIEW}),
    "render --mesh": ("One picture, with a mesh.", {**PICTURE, **VIEW, **pick(GUEST, "posed", "margin?", "contacts?")}),
    "render --frames": (
        "A line for each numbered file; `seconds` are those since the start.",
        {**PICTURE, **VIEW, **pick(GUEST, "posed?", "margin?"), **FRAME},
    ),
    "render --frames, moving": (
        "One moving picture.",
        {**PICTURE, **VIEW, **pick(GUEST, "posed?", "margin?"), **MOVING},
    ),
    "slice": ("One picture.", {**PICTURE, **PLANE}),
    "slice --frames": (
        "A line for each numbered file; `seconds` are those since the start.",
        {**PICTURE, **PLANE, **FRAME},
    ),
    "slice --frames, moving": ("One moving picture.", {**PICTURE, **PLANE, **MOVING}),
    "export": (
        "To a regular grid.",
        {
            **WRITTEN,
            "shape": told(listed(COUNT, 3), "values along x, y, z"),
            "origin": told(VECTOR, "place of the first value"),
            "spacing": told(NUMBER, "between values"),
        },
    ),
    "export to .vtkhdf": ("A field.", {**WRITTEN, **pick(COMMON, "leaves", "corners")}),
    "export to .vtkhdf, sequence": (
        "All frames of a sequence.",
        {
            **WRITTEN,
            **FRAMES,
            "leaves": told(COUNT, "of all frames together"),
            "corners": told(COUNT, "of all frames together"),
        },
    ),
    "export --samples": (
        "For DeepSDF.",
        {**WRITTEN, "pos": told(COUNT, "samples outside"), "neg": told(COUNT, "samples inside")},
    ),
    "verify": (
        "One line.",
        {
            **pick(COMMON, "input", "tolerance", "max_error"),
            "reference": told(TEXT, "the mesh of `--mesh`"),
            "same_mesh": told(YES_OR_NO, "whether the field was built from it"),
            "passed": told(YES_OR_NO, "whether the error is within the tolerance"),
            "notes": NOTES,
            "regions": told(
                by_name(
                    keyed(
                        {
                            "samples": COUNT,
                            "max_error": AMOUNT,
                            "rms_error": AMOUNT,
                            "jumps": told(COUNT, "points left out"),
                            "cell": told(AMOUNT, "the largest leaf"),
                        }
                    )
                ),
                "by `near`, `band` and `everywhere`: `samples`, `max_error`, `rms_error`, `jumps` (points left out) "
                "and `cell` (the largest leaf)",
            ),
            "turned": told(
                listed(keyed({"faces": COUNT, "at": listed(NUMBER, 3), "winding": NUMBER, "confirmed": YES_OR_NO})),
                "the shells that the build turned: `faces`, a point `at` one of them, the least `winding` number in "
                "front of it of the mesh as it is given, and whether that, being negative, has `confirmed` it",
            ),
        },
    ),
}
"""Core outputs: when each is printed, and its keys. The first word of a name is the command."""

VERSION = {
    "schema_version": told(
        {"const": SCHEMA_VERSION},
        f"{SCHEMA_VERSION}: it grows where a key goes, or changes its type or meaning; not where one is added",
    )
}
ATTRIBUTES: dict[str, Json] = {
    "tool_version": told(TEXT, "version of the sdfcli that wrote the file"),
    "domain_origin": told(VECTOR, "lower corner x, y, z of the domain, in the mesh's units"),
    "domain_length": told({"type": "number", "exclusiveMinimum": 0}, "edge of the domain, in the mesh's units"),
    "content_sha256": told(SHA256, "of the data"),
    "attributes_sha256": told(SHA256, "of the other attributes"),
}


def _in_text(keys: Json) -> Json:
    return {"type": "string", "contentMediaType": "application/json", "contentSchema": keys}


FILES: dict[str, tuple[str, dict[str, Json]]] = {
    "field": (
        "Attributes of the root of a field's file, and of the group of a sequence's frame.",
        {
            "format": told(one_of(FORMAT), "which kind of file it is"),
            "format_version": told(one_of(FORMAT_VERSION), "see [versions](file.md#versions)"),
            **ATTRIBUTES,
            "lattice_bits": told(one_of(LATTICE_BITS), "the domain's edge is 2^20 lattice steps"),
            "units": told(one_of("those of the mesh"), "nothing was scaled"),
            "sign_convention": told(one_of("negative inside"), "of distances"),
            "nearest_sha256?": told(SHA256, "of the dataset `nearest`, where there is one"),
            "leaf_cause_sha256?": told(SHA256, "of the dataset `leaf_cause`, where there is one"),
            "distance_step?": told({"type": "number", "exclusiveMinimum": 0}, "with the dataset `residual`"),
            "distance_parts?": told(one_of(*PARTS), "with the dataset `residual_part`"),
            "info": told(_in_text(as_json_schema(INFO)), "JSON: how the field was made, see [info](file.md#info)"),
        },
    ),
    "sequence": (
        "Attributes of the root of a sequence's file.",
        {
            "format": told(one_of(SEQUENCE), "which kind of file it is"),
            "format_version": told(one_of(SEQUENCE_VERSION), "see [sequences](file.md#sequences)"),
            **ATTRIBUTES,
            "frames": told({"type": "integer", "minimum": 1, "maximum": MOST_FRAMES}, "how many there are"),
            "units": told(one_of("those of the mesh; seconds"), "nothing was scaled"),
            "info": told(
                _in_text(keyed({"parameters": PARAMETERS, "max_error": NUMBER, **SIGNS_VERDICTS})),
                "JSON: how the fields were made",
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
