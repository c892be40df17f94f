"""The generated parts of the documentation. MkDocs calls `on_page_markdown` for each page (`hooks` in mkdocs.yml).

In a page, `<!-- options: build -->` stands for the table of that command's arguments and options, as Typer knows them.
"""

from __future__ import annotations

import inspect
import re
import typing
from pathlib import Path
from typing import Any

MARK = re.compile(r"^<!-- (\w+): (\S+) -->$", re.MULTILINE)

TYPES = {str: "TEXT", Path: "PATH", int: "INTEGER", float: "NUMBER"}


def command(name: str) -> Any:
    """A command of sdfcli, as Typer makes it."""
    import typer

    from sdfcli.cli.app import app

    group: Any = typer.main.get_command(app)
    return group.get_command(None, name)


def options(name: str) -> str:
    """The arguments and options of a command: a Markdown table."""
    made = command(name)
    hints = typing.get_type_hints(inspect.unwrap(made.callback), include_extras=False)
    rows = []
    for each in made.params:
        if each.hidden:
            continue
        is_argument = not each.opts[0].startswith("-")
        names = [each.metavar] if is_argument else [*each.opts, *each.secondary_opts]
        value = "" if is_argument else each.metavar or _type(hints[each.name])
        default = "required" if each.required else _code(_default(each))
        rows.append([_code(*names), _code(value), default, _cell(each.help)])
    rows.append([_code("--help", "-h"), "", "", "Show this message and exit."])
    return markdown([["", "value", "default", ""], *rows])


def _type(hint: Any) -> str:
    """What a value is called; nothing for a flag."""
    held = [each for each in (hint, *typing.get_args(hint)) if each in TYPES]
    return TYPES[held[0]] if held else ""


def _default(parameter: Any) -> str:
    if parameter.default is False:
        return "".join(parameter.secondary_opts)
    if not parameter.show_default or parameter.default is None:
        return ""
    return str(parameter.default)


def _code(*words: str) -> str:
    return ", ".join(f"`{_cell(word)}`" for word in words if word)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def markdown(rows: list[list[str]]) -> str:
    """A Markdown table; the first row is its head."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


MAKERS = {"options": options}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A page with its generated parts. Raises KeyError for a mark that none of them has."""
    return MARK.sub(lambda found: MAKERS[found[1]](found[2]), markdown)
