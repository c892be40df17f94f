"""Schema for a field's metadata, `info`: names, types and ranges, as in docs/reference/file.md. Also as JSON Schema."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sdfcli.errors import InputError
from sdfcli.params import AUTO, BUILD_SIGNS, CAP, FLOOD, GAPS, LENGTHS, MAX_DEPTH, OCTREES, PLACES, SIGNS, UNITS

MOST_NESTED = 8
"""Maximum nesting of lists and objects in entries without a schema."""


@dataclass(frozen=True)
class Kind:
    """An entry's allowed values, in words, as a predicate, and as JSON Schema."""

    words: str
    fits: Callable[[Any], bool]
    schema: dict[str, Any] = field(default_factory=dict)


Schema = Mapping[str, "Kind | Schema"]


def one_of(*allowed: str) -> Kind:
    """One of these texts."""
    return Kind(
        f"one of {', '.join(allowed)}", lambda value: isinstance(value, str) and value in allowed, {"enum": [*allowed]}
    )


def whole(low: int, high: int) -> Kind:
    """An integer from low to high."""
    return Kind(
        f"a whole number from {low:,} to {high:,}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high,
        {"type": "integer", "minimum": low, "maximum": high},
    )


def number(low: float, high: float) -> Kind:
    """A number from low to high."""
    return Kind(
        f"a number from {low:g} to {high:g}",
        lambda value: _is_number(value) and low <= value <= high,
        {"type": "number", "minimum": low, "maximum": high},
    )


def between(low: float, high: float) -> Kind:
    """A number above low and below high."""
    return Kind(
        f"a number between {low:g} and {high:g}",
        lambda value: _is_number(value) and low < value < high,
        {"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": high},
    )


def or_null(kind: Kind) -> Kind:
    """A kind's values, or null."""
    schema = {**kind.schema, "type": [kind.schema["type"], "null"]}
    return Kind(f"{kind.words}, or null", lambda value: value is None or kind.fits(value), schema)


def matching(pattern: str, words: str) -> Kind:
    """A text that fully matches a pattern."""
    return Kind(
        words,
        lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None,
        {"type": "string", "pattern": f"^{pattern}$"},
    )


TEXT = Kind("a text", lambda value: isinstance(value, str), {"type": "string"})
WORD = matching("[a-z_]{1,40}", "a word in small letters")
DIGEST = matching("[0-9a-f]{64}", "64 hexadecimal digits")
YES_OR_NO = Kind("true or false", lambda value: isinstance(value, bool), {"type": "boolean"})
COUNT = whole(0, 2**63 - 1)
FRACTION = between(0, 1)
MAY_LACK = (
    *PLACES,
    "deflection",
    "error_samples",
    "proven_error",
    "certificate",
    "solid",
    "holes",
    "advice",
    "overview",
)
"""Entries stored only if given, or lacking in files of earlier versions."""
ERROR = LENGTH = number(0, 1e30)
"""Fractions of the field's unit, which may be smaller than all lengths in the mesh."""

UNIT = f"(?:{'|'.join(UNITS)}|[0-9.e+-]+ m)"
"""Pattern of a coordinate unit: see mesh/formats/units.py."""

INFO: Schema = {
    "mesh": {
        "sha256": DIGEST,
        "diagonal": between(0, 1e31),
        "triangles": COUNT,
        "vertices": COUNT,
        "watertight": YES_OR_NO,
        "oriented": YES_OR_NO,
        "shells": COUNT,
        "open_edges": COUNT,
        "non_manifold_edges": COUNT,
        "inconsistent_edges": COUNT,
        "degenerate_faces": COUNT,
        "duplicate_faces": COUNT,
        "inverted_shells": COUNT,
        "crossing_faces": COUNT,
        "units": matching(UNIT, "a unit, as mm or 0.5 m"),
        "deflection": LENGTH,
    },
    "parameters": {
        "octree": one_of(*OCTREES),
        "depth": whole(1, MAX_DEPTH),
        "tolerance": FRACTION,
        "band": FRACTION,
        "thin": number(0, 1),
        "thin_depth": whole(1, MAX_DEPTH),
        "sign": one_of(*BUILD_SIGNS),
        "domain": Kind(
            "four finite numbers",
            lambda value: _is_list(value, 4),
            {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4},
        ),
        "unit": between(*LENGTHS),
        "scale": between(*LENGTHS),
        "units": one_of(*UNITS),
        "gap": Kind(
            f"a number from {GAPS[0]} to {GAPS[1]}, or auto",
            lambda value: value == AUTO or (_is_number(value) and GAPS[0] <= value <= GAPS[1]),
            {"type": ["number", "string"], "minimum": GAPS[0], "maximum": GAPS[1], "pattern": f"^{AUTO}$"},
        ),
        "holes": one_of(CAP),
    },
    "solid": {
        "gap": LENGTH,
        "thickness": LENGTH,
        "volume": number(0, 1e93),
        "leak": or_null(LENGTH),
    },
    "holes": {
        "count": COUNT,
        "faces": COUNT,
        "widest": LENGTH,
        "area": number(0, 1e62),
    },
    "advice": {
        "sign": one_of(FLOOD),
        "gap": or_null(number(*GAPS)),
    },
    "verdict": WORD,
    "sign": one_of(*(sign for sign in SIGNS if sign != "auto")),
    "sign_reason": TEXT,
    "sign_confidence": or_null(number(0, 1)),
    "sheets": {
        "kept_from": or_null(LENGTH),
        "leaves": COUNT,
        "thinnest": or_null(LENGTH),
        "lost": or_null(number(0, 1)),
        "needed_thin": or_null(LENGTH),
        "needed_depth": or_null(COUNT),
    },
    "depth": whole(0, MAX_DEPTH),
    "jump_leaves": COUNT,
    "max_error": ERROR,
    "rms_error": ERROR,
    "error_samples": COUNT,
    "error_limit": or_null(WORD),
    "proven_error": or_null(ERROR),
    "certificate": {
        "closed": YES_OR_NO,
        "most_leaves": number(0, 10),
        "more_leaves": COUNT,
        "limit": or_null(WORD),
        "above_tolerance": COUNT,
        "not_certified": COUNT,
        "jump": COUNT,
        "open_hole": COUNT,
    },
    "overview": {"leaves": COUNT},
}
"""In display order. A file's other entries are preserved."""


def check_info(info: Any) -> None:
    """Raises InputError, with the entry and its allowed values, if a value in `info` has another type or range.

    Entries may be missing. Entries not named in INFO may be texts, numbers, true, false, null, and lists and objects
    of these.
    """
    _check(info, INFO, "info")


def is_complete(info: Mapping[str, Any], schema: Schema = INFO) -> bool:
    """Whether `info` has all entries written by this version."""
    return all(
        name in info and (isinstance(kind, Kind) or is_complete(info[name], kind))
        for name, kind in schema.items()
        if name not in MAY_LACK
    )


def as_json_schema(kind: Kind | Schema) -> dict[str, Any]:
    """Converts a schema to JSON Schema; entries in MAY_LACK may be missing."""
    if isinstance(kind, Kind):
        return kind.schema
    return {
        "type": "object",
        "properties": {name: as_json_schema(entry) for name, entry in kind.items()},
        "required": [name for name in kind if name not in MAY_LACK],
    }


def _check(value: Any, kind: Kind | Schema, name: str) -> None:
    if isinstance(kind, Kind):
        if not kind.fits(value):
            raise InputError(f"{name} must be {kind.words}, not {_shown(value)}")
        return
    if not isinstance(value, dict):
        raise InputError(f"{name} must be a JSON object, not {_shown(value)}")
    for key, entry in value.items():
        _check(entry, kind.get(key, PLAIN), f"{name}: {key}")


def _is_list(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length and all(map(_is_number, value))


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_plain(value: Any, nested: int = MOST_NESTED) -> bool:
    if isinstance(value, dict):
        return nested > 0 and all(isinstance(key, str) and _is_plain(entry, nested - 1) for key, entry in value.items())
    if isinstance(value, list | tuple):
        return nested > 0 and all(_is_plain(entry, nested - 1) for entry in value)
    return value is None or isinstance(value, str | bool) or _is_number(value)


PLAIN = Kind("texts, finite numbers, true, false, null, or a few lists and objects of these", _is_plain)


def _shown(value: Any) -> str:
    """A value's beginning, for a message."""
    words = ascii(value)
    return words if len(words) <= 40 else words[:37] + "..."
