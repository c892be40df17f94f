"""Records: what is printed is what is declared."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from jsonschema import Draft202012Validator

from sdfcli.cli.output import print_json
from sdfcli.cli.records import ABSENT, Count, Line, Record, items, schema_of, size


@dataclass
class Row:
    share: float
    by_name: dict[str, int]


class Part(Record):
    """A nested record."""

    at: Annotated[list[float], size(3), "position"]


class Made(Line, shared="input leaves?"):
    """A line."""

    part: Annotated[Part, "a part"]
    rows: Annotated[list[Any], items(f"{__name__}:Row"), "rows"]
    name: Annotated[str | None, "null if unknown"]
    unit: Annotated[float | None, "omitted if None"] = None
    other: Annotated[Count | None, "omitted, or null"] = ABSENT


class Grown(Made, Part, optional=Made):
    """Made, where its keys are optional."""


def made(**more: Any) -> Made:
    return Made(name=None, part=Part(at=[1, 2, 3]), rows=[Row(0.5, {"a": 1})], **more)


PRINTED = {"name": None, "part": {"at": [1, 2, 3]}, "rows": [{"share": 0.5, "by_name": {"a": 1}}], "input": "a.ply"}


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ({}, {}),
        ({"unit": None}, {}),
        ({"unit": 2.0, "other": None}, {"unit": 2.0, "other": None}),
        ({"leaves": 8},) * 2,
    ],
)
def test_what_is_printed_fits_the_schema(
    given: dict[str, Any], printed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    print_json(made(input="a.ply", **given))
    line = json.loads(capsys.readouterr().out)
    assert line == {"schema_version": 1, **PRINTED, **printed}
    assert list(line)[1:] == [*PRINTED, *printed]  # in the order of the call
    Draft202012Validator(schema_of(Made)).validate(line)


@pytest.mark.parametrize("given", [{}, {"input": "a.ply", "outputs": "b.h5"}, {"input": "a.ply", "output": "b.h5"}])
def test_undeclared_and_missing_keys_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"missing or undeclared: (input|outputs|output)$"):
        made(**given)


@pytest.mark.parametrize(
    "wrong",
    [
        {"part": {"at": [1, 2]}},
        {"rows": [{"share": -0.5, "by_name": {}}]},
        {"rows": [{"share": 0.5, "by_name": {"a": -1}}]},
        {"rows": [{"share": 0.5}]},
        {"name": 1},
        {"unit": None},
        {"leaves": -1},
    ],
)
def test_the_schema_refuses(wrong: dict[str, Any]) -> None:
    assert not Draft202012Validator(schema_of(Made)).is_valid({**PRINTED, **wrong})


def test_keys_may_be_optional_in_another_record() -> None:
    assert schema_of(Grown)["required"] == ["at"]
    assert schema_of(Made)["required"] == ["input", "part", "rows", "name"]
    assert Grown(at=[1, 2, 3]).at == [1, 2, 3]
