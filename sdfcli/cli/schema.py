"""`sdfcli schema`: JSON Schemas of outputs and files."""

from __future__ import annotations

from typing import Annotated

import typer

from sdfcli.cli.output import print_document, print_table
from sdfcli.errors import UsageError


def _names(incomplete: str) -> list[str]:
    from sdfcli.cli.schemas import names

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
    from sdfcli.cli.schemas import names, schema_of

    if name is None:
        print_table("JSON Schemas", [(each, schema_of(each)["title"]) for each in names()])
        return
    if name not in names():
        raise UsageError(f"{name}: no such schema; use {', '.join(names())}")
    print_document(schema_of(name))
