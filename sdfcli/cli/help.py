"""Help in two columns, for any terminal width."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

WIDTH = 100
"""Maximum line width; narrower terminals get narrower lines."""

NAMES = 26
"""Maximum width for names; a longer one has its own line."""

VALUES = {str: "TEXT", Path: "FILE", int: "N", float: "X"}

RANGE = re.compile(r"\b(?:([\d.]+)<=x|x>=([\d.]+))(?:<=([\d.]+))?(?=[];])")
"""A range at the end in Click's help for an option."""


def value_name(hint: Any) -> str:
    """An option value's placeholder by type, in help and documentation; empty for a flag."""
    if hint in VALUES:
        return VALUES[hint]
    return next(filter(None, map(value_name, typing.get_args(hint))), "")


def usage(command: Any, ctx: Any) -> list[str]:
    """A command's usage after its name."""
    found = [str(command.options_metavar)]
    for each in _arguments(command, ctx):
        name = _name(each)
        found.append(name if each.required or name.startswith("[") else f"[{name}]")
    return found


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Writes arguments, options without a panel, then each panel's options as they appear."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for each in _arguments(command, ctx):
        sections["Arguments"].append((_name(each), each.help or ""))
    for each in command.get_params(ctx):
        record = each.get_help_record(ctx) if each.param_type_name == "option" else None
        if record is not None:
            panel = getattr(each, "rich_help_panel", None) or "Options"
            name, text = record
            text = text.replace(r"\[", "[")  # escaped by older versions of Typer
            sections.setdefault(panel, []).append((name, RANGE.sub(_range, text)))
    for title, rows in sections.items():
        write_section(formatter, title, rows)


def write_section(formatter: Any, title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Writes names and descriptions under a title; nothing without rows."""
    listed = [(name, " ".join(text.split())) for name, text in rows]
    if listed:
        with formatter.section(title):
            formatter.write_dl(listed, col_max=NAMES)


def _range(found: re.Match[str]) -> str:
    """A number's range in words, for Click's `x>=1` and `1<=x<=16`."""
    low, high = (f"{float(each):,.10g}" for each in (found[1] or found[2], found[3] or "inf"))
    return f"{low} to {high}" if found[3] else f"at least {low}"


def _arguments(command: Any, ctx: Any) -> list[Any]:
    return [each for each in command.get_params(ctx) if each.param_type_name == "argument" and not each.hidden]


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())
