"""`sdfcli schema`: JSON Schemas of outputs and files."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Annotated, Any

import typer

from sdfcli.cli.output import SCHEMA_VERSION, print_document, print_table
from sdfcli.cli.records import OUTPUTS, Json, Line, Record, schema_of
from sdfcli.cli.registry import BUILT_IN, COMMANDS, NAMES
from sdfcli.errors import UsageError

DIALECT = "https://json-schema.org/draft/2020-12/schema"
LINK = re.compile(r"\[(.*?)\]\(.*?\)")
"""Markdown link."""
ERROR = "error"
"""Title shared by all commands."""
FILE = "file"
"""Schema name of file attributes."""
VERSION = {
    "const": SCHEMA_VERSION,
    "description": f"{SCHEMA_VERSION}: incremented if a key is removed or changes type or meaning; not if one is added",
}


def _names(incomplete: str) -> list[str]:
    return [name for name in names() if name.startswith(incomplete)]


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A command, for its --json lines; `file`, for HDF5 file attributes; by default all names are listed.",
            autocompletion=_names,
        ),
    ] = None,
) -> None:
    """Print the JSON Schema (draft 2020-12) of a command's --json lines, or of file attributes.

    Example: sdfcli schema build > build.schema.json
    """
    if name is None:
        print_table("JSON Schemas", [(each, _title(each)) for each in names()])
        return
    if name not in names():
        raise UsageError(f"{name}: no such schema; use {', '.join(names())}")
    print_document(document(name))


def names() -> list[str]:
    """Schema names: commands with `--json`, and FILE."""
    return [*(name for name in COMMANDS if name != "schema"), FILE]


def document(name: str) -> Json:
    """Schema of each line of a command's `--json` output, or of file attributes."""
    return {
        "$schema": DIALECT,
        "$id": f"urn:sdfcli:schema:{SCHEMA_VERSION}:{name}",
        "title": _title(name),
        "anyOf": [_plain(variant(*each)) for each in outputs(name).items()],
    }


def outputs(name: str | None = None) -> dict[str, type[Record]]:
    """Records by title, in command order: of all commands, of one with its sub-commands, or of files."""
    if name == FILE:
        from sdfcli.cli.attributes import FILES

        return FILES
    for entry in BUILT_IN.values():
        if name in (None, entry.name.split()[0]):
            import_module(entry.target.partition(":")[0])
    found = sorted(OUTPUTS, key=_place)
    return {title: OUTPUTS[title] for title in found if name is None or _first(title) in (name, ERROR)}


def _first(title: str) -> str:
    """An output's command, or ERROR."""
    return title.replace(",", "").split()[0]


def _place(title: str) -> tuple[int, int]:
    """An output's place: of its command, then of its sub-command; ERROR is last."""
    if title == ERROR:
        return len(COMMANDS), 0
    first, second, *_ = f"{title} ".replace(",", " ").split(" ")
    return COMMANDS.index(first), NAMES.index(f"{first} {second}") if f"{first} {second}" in NAMES else 0


def variant(title: str, record: type[Record]) -> Json:
    """Schema of an output or a file kind."""
    own = schema_of(record)
    if issubclass(record, Line):
        own["properties"] = {"schema_version": VERSION, **own["properties"]}
        own["required"] = ["schema_version", *own["required"]]
    return {"title": title, "description": record.__doc__, **own}


def _title(name: str) -> str:
    return "attributes of an HDF5 file of sdfcli" if name == FILE else f"a line of `sdfcli {name} --json`"


def _plain(value: Any) -> Any:
    """A schema with links in its descriptions replaced by their text."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return LINK.sub(r"\1", value) if isinstance(value, str) else value
