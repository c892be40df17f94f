"""Records: objects printed with --json. A record's JSON Schema (draft 2020-12) comes from its declaration."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module
from operator import getitem
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from sdfcli.errors import EXIT_CODES
from sdfcli.params import SIGNS, VERDICTS

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        """For type checkers: subclasses are constructed from their annotated names."""
        return lambda base: base


Json = dict[str, Any]


class Rule(Json):
    """Part of a schema, hashable."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def size(count: int) -> Rule:
    """Schema of a list's length."""
    return Rule(minItems=count, maxItems=count)


def one_of(*values: Any) -> Rule:
    """Schema of a value from a fixed set."""
    return Rule(const=values[0]) if len(values) == 1 else Rule(enum=list(values))


def keyed(kind: Any, names: str) -> Rule:
    """Schema of an object with values of one type. names: its keys."""
    keys = {name: schema_of(kind) for name in names.split()}
    return Rule(type="object", properties=keys, required=list(keys))


def stored(*names: str) -> Json:
    """Schema of an entry in a field's info."""
    from sdfcli.field.schema import INFO, as_json_schema

    return as_json_schema(reduce(getitem, names, INFO))  # type: ignore[arg-type]


def items(target: str, **others: Any) -> Rule:
    """Schema of a list of dataclasses, in which numbers are at least 0. target: `module:class`, imported here. others:
    types of names that have another one in JSON."""
    module, _, name = target.partition(":")
    hints = get_type_hints(getattr(import_module(module), name), include_extras=True) | others
    keys = {name: _at_least_0(schema_of(hint)) for name, hint in hints.items()}
    return Rule(items={"type": "object", "properties": keys, "required": list(keys)})


def _at_least_0(schema: Json) -> Json:
    if "additionalProperties" in schema:
        return {**schema, "additionalProperties": _at_least_0(schema["additionalProperties"])}
    return {**schema, "minimum": 0} if re.search("number|integer", str(schema["type"])) else schema


Count = Annotated[int, Rule(minimum=0)]
Amount = Annotated[float, Rule(minimum=0)]
Vector = Annotated[list[float], size(3)]
Seconds = Annotated[dict[str, Amount], Rule(properties={"total": {"type": "number", "minimum": 0}}, required=["total"])]
TYPES = {str: "string", float: "number", int: "integer", bool: "boolean"}

OctreeDepth = Annotated[Count, "octree depth: `--depth` or its default"]

ABSENT: Any = object()
"""Value of an optional key that is omitted."""
OUTPUTS: dict[str, type[Record]] = {}
"""Records by title, in imported modules."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Record:
    """An object printed with --json, with its keys in the order in which the constructor gets them.

    Keys are annotations: `leaves: Annotated[Count, "octree leaves"]`. Texts describe a key, objects are merged into its
    schema, and an object with a type replaces it. A key with a default is optional: omitted while it has its default.

    title: the output's, if the record is one; its first word is the command, or `error` for all commands. The docstring
    says when it is printed. shared: keys of `Line`, optional with a `?`. optional: base class whose keys are optional
    here. open: it may lack keys, and have others.
    """

    keys_: ClassVar[dict[str, bool]] = {}
    """Keys, each with whether it is required. The `_` keeps such names apart from keys."""
    shared_: ClassVar[dict[str, bool]] = {}
    """Keys of `Line`."""
    open_: ClassVar[bool] = False

    def __init_subclass__(
        cls, title: str = "", shared: str = "", optional: type[Record] | None = None, open: bool = False
    ) -> None:
        cls.keys_, cls.open_ = {name.removesuffix("?"): not name.endswith("?") for name in shared.split()}, open
        for base in (base for base in cls.__bases__ if issubclass(base, Record) and base.keys_ is not cls.shared_):
            cls.keys_ |= {name: base.keys_[name] and base is not optional for name in base.keys_}
        cls.keys_ |= {name: name not in vars(cls) for name in cls.__annotations__}
        if title:
            OUTPUTS[title] = cls

    def __init__(self, /, **values: Any) -> None:
        """Raises TypeError for a missing key, or an undeclared one."""
        required = {name for name, needed in self.keys_.items() if needed}
        wrong = set() if self.open_ else required - values.keys() | values.keys() - self.keys_.keys()
        if wrong:
            raise TypeError(f"{type(self).__name__}: missing or undeclared: {', '.join(sorted(wrong))}")
        vars(self).update(values)


class Line(Record):
    """A line of output. Its keys have the same meaning in all subclasses, whose `shared` selects from them."""

    input: Annotated[str, "first input file, as given"] = ABSENT
    output: Annotated[str, "output file; the first of several"] = ABSENT
    bytes: Annotated[Count, "output size in bytes, header file included; for `info`, input size"] = ABSENT
    seconds: Annotated[Seconds, "seconds: `total`, and per stage if there are stages"] = ABSENT
    device: Annotated[str, "`cpu` or `cuda:0`; several comma-separated"] = ABSENT
    triangles: Annotated[Count, "mesh triangles"] = ABSENT
    vertices: Annotated[Count, "mesh vertices"] = ABSENT
    leaves: Annotated[Count, "octree leaves"] = ABSENT
    corners: Annotated[Count, "distinct corners of octree leaves"] = ABSENT
    verdict: Annotated[str, one_of(*VERDICTS[:-1]), "certainty of the mesh's inside"] = ABSENT
    sign: Annotated[str, one_of(*SIGNS[1:]), "sign [method](../concepts/sign.md)"] = ABSENT
    sign_reason: Annotated[str, "reason for that method"] = ABSENT
    sign_confidence: Annotated[
        Amount | None, Rule(maximum=1), "share of points near the surface with a certain sign; null without signs"
    ] = ABSENT
    sheets: Annotated[Json, stored("sheets"), "wall thickness, lost walls and gaps: [its keys](file.md#info)"] = ABSENT
    tolerance: Annotated[float, "maximum allowed error"] = ABSENT
    max_error: Annotated[float, stored("max_error"), "largest error at random points: a measurement, not a bound"] = (
        ABSENT
    )
    rms_error: Annotated[float, stored("rms_error"), "root mean square of the errors at these points"] = ABSENT
    error_samples: Annotated[Count, stored("error_samples"), "number of these points"] = ABSENT
    proven_error: Annotated[
        float | None,
        stored("proven_error"),
        "with `build --prove`: largest possible error, jumps and open holes apart; null if unknown",
    ] = ABSENT
    certificate: Annotated[
        Json, stored("certificate"), "with `build --prove`: leaves not certified: [its keys](file.md#info)"
    ] = ABSENT
    solid: Annotated[
        Json, stored("solid"), "with `--sign flood` or `inside`: facts about the solid: [its keys](file.md#info)"
    ] = ABSENT
    holes: Annotated[Json, stored("holes"), "with `--holes cap`: the holes closed: [its keys](file.md#info)"] = ABSENT
    advice: Annotated[
        Json,
        stored("advice"),
        "if `auto` finds no certain signs: `sign` and `gap` of a build that makes a solid; a null gap is `auto`",
    ] = ABSENT
    lengths: Annotated[
        dict[str, Amount | None],
        "lengths in the mesh's units for the fractions among `tolerance`, `max_error`, `rms_error`, `proven_error`, "
        "`thinnest` and `needed_thin`; null where they are null",
    ] = ABSENT
    content_sha256: Annotated[str, stored("mesh", "sha256"), "the field's [checksum](file.md#checksums)"] = ABSENT
    format_version: Annotated[Count, "the file's [version](file.md#versions); of a sequence's fields, the earliest"] = (
        ABSENT
    )
    watertight: Annotated[bool, "whether the mesh has no open edges"] = ABSENT
    notes: Annotated[list[str], "parts of the file skipped or reinterpreted, and library warnings"] = ABSENT
    frames: Annotated[Count, "frame count"] = ABSENT
    frame: Annotated[Count, "frame index in the sequence, from 0"] = ABSENT
    time: Annotated[float, "the frame's time, in seconds"] = ABSENT
    kept: Annotated[Count, "frames stored by an interrupted run"] = ABSENT
    error: Annotated[str, "error message, one line"] = ABSENT


Line.shared_ = Line.keys_


class Failed(Line, title="error", shared="input? error"):
    """The last line of a failed command, unless its results tell the failure: a mesh's `error`, or `passed`; and a line
    per field of several that failed, with its `input`."""

    exit_code: Annotated[int, one_of(*list(EXIT_CODES)[1:]), "exit code of the command, or for this field"]


class Stated(
    Line,
    shared="sign sign_reason sign_confidence sheets max_error rms_error error_samples? proven_error? certificate? "
    "solid? holes? advice? lengths",
):
    """A build's results, as in the field's info."""

    verdict: Annotated[str, stored("verdict"), "`good`, `usable` or `doubtful`"]
    depth: Annotated[int, stored("depth"), "finest level used"]
    jump_leaves: Annotated[Count, "leaves in which the sign jumps, at a closed hole"]
    error_limit: Annotated[
        str | None,
        stored("error_limit"),
        "why the tolerance is missed: `depth`, `jumps`, `samples` or `triangles`; null if it is kept",
    ]


class SequenceFacts(Line):
    """A sequence's parameters and results, as in its file."""

    parameters: Annotated[
        Json, stored("parameters"), "build options, with all frames' `domain` and `unit`: [its keys](file.md#info)"
    ]
    max_error: Annotated[float, "largest error of all frames, as a fraction of the unit"]
    signs: Annotated[dict[str, Count], "frame count by sign"]
    verdicts: Annotated[dict[str, Count], "frame count by verdict"]


class SummedSequence(SequenceFacts, shared="lengths"):
    """The same, with the checksum."""

    content_sha256: Annotated[
        str, stored("mesh", "sha256"), "[checksum](file.md#sequences) of times, motions and the frames' fields"
    ]


def as_json(record: Record) -> Json:
    """A record as a JSON object. For json.dumps: its `default`, too, for records and dataclasses."""
    return {name: each for name, each in vars(record).items() if each is not getattr(type(record), name, ABSENT)}


def took(seconds: float) -> dict[str, float]:
    """The key `seconds` of an output without stages."""
    return {"total": round(seconds, 4)}


def schema_of(kind: Any) -> Json:
    """JSON Schema of a record, or of a key's type."""
    origin, (first, *others) = get_origin(kind), get_args(kind) or (None,)
    if origin is Annotated:
        schema = schema_of(first)
        for each in others:
            note = {"description": each} if isinstance(each, str) else each
            schema = note if note.keys() & {"type", "enum", "const"} else schema | note
        return schema
    if origin is Literal:
        return one_of(first, *others)
    if origin in (Union, UnionType):
        schema = schema_of(first)
        return {**schema, "type": [schema["type"], "null"]} if NoneType in others else schema
    if origin is list:
        return {"type": "array", "items": schema_of(first)}
    if origin is dict:
        return {"type": "object"} | ({} if others == [Any] else {"additionalProperties": schema_of(others[0])})
    if kind in TYPES or kind is Any:
        return {"type": TYPES[kind]} if kind in TYPES else {}
    hints, keys = get_type_hints(kind, include_extras=True), {}
    for name in sorted(kind.keys_, key=lambda name: [*kind.shared_, name].index(name)):
        keys[name] = schema_of(hints[name])
        if getattr(kind, name, ABSENT) is None and isinstance(keys[name].get("type"), list):
            keys[name] = {**keys[name], "type": keys[name]["type"][0]}
    return {"type": "object", "properties": keys, "required": [name for name in keys if kind.keys_[name]]}
