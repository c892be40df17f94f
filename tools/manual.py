"""Generates manual pages from the command line's help, like the documentation's option tables.

`python tools/manual.py` writes sdfcli.1 and one page per command, for `man sdfcli` and `man sdfcli-build`, into
sdfcli/man; the wheel installs them to share/man/man1. Pages have no date or version: they change only with the help.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "sdfcli" / "man"


def pages() -> dict[str, str]:
    """Pages by file name."""
    import typer

    from sdfcli.cli.app import app, command_of
    from sdfcli.cli.registry import BUILT_IN

    group: Any = typer.main.get_command(app)
    made = {name: command_of(entry) for name, entry in BUILT_IN.items()}
    whole = [
        *_head("sdfcli", _text(group.help)),
        ".SH SYNOPSIS",
        ".B sdfcli",
        ".RI [ OPTIONS ]",
        ".I COMMAND",
        ".RI [ ARGUMENTS ]",
        *_options(group),
        ".SH COMMANDS",
    ]
    for name, command in made.items():
        whole += [".TP", f".BR {_escaped(_page(name))} (1)", _escaped(_summary(command))]
    whole += [".SH EXIT STATUS", _escaped(_text(group.epilog).removeprefix("Exit codes: "))]
    found = {"sdfcli.1": whole}
    for name, command in made.items():
        found[f"{_page(name)}.1"] = [*_command(name, command), ".SH SEE ALSO", ".BR sdfcli (1)"]
    return {name: "\n".join(lines) + "\n" for name, lines in found.items()}


def _page(name: str) -> str:
    """A command's page name, as in sdfcli-bench-scan."""
    return f"sdfcli-{name.replace(' ', '-')}"


def _command(name: str, command: Any) -> list[str]:
    arguments = [each for each in command.params if not each.opts[0].startswith("-")]
    paragraphs = [_text(each) for each in (command.help or "").split("\n\n")]
    lines = [*_head(_page(name), _summary(command)), ".SH SYNOPSIS", f".B sdfcli {name}", ".RI [ OPTIONS ]"]
    lines += [
        f".I {_escaped(each.metavar)}" if each.required else f".RI [ {_escaped(each.metavar)} ]" for each in arguments
    ]
    lines += [".SH DESCRIPTION"]
    for each in paragraphs:
        lines += [_escaped(each), ".PP"]
    lines.pop()
    if arguments:
        lines.append(".SH ARGUMENTS")
        for each in arguments:
            lines += [".TP", f".I {_escaped(each.metavar)}", _escaped(_text(each.help))]
    lines += _options(command)
    if command.epilog:
        lines += [".SH EXAMPLE", ".nf", _escaped(_text(command.epilog).removeprefix("Example: ")), ".fi"]
    return lines


def _head(name: str, summary: str) -> list[str]:
    return [
        f'.TH {_escaped(name.upper())} 1 "" "sdfcli" "User Commands"',
        ".SH NAME",
        f"{_escaped(name)} \\- {_escaped(summary[:1].lower() + summary[1:].rstrip('.'))}",
    ]


def _options(command: Any) -> list[str]:
    """Options with values and defaults."""
    lines = [".SH OPTIONS"]
    for each in command.params:
        if each.hidden or not each.opts[0].startswith("-"):
            continue
        names = ", ".join(rf"\fB{_escaped(name)}\fR" for name in [*each.opts, *each.secondary_opts])
        value = each.metavar
        shown = value and each.show_default and each.default is not None
        default = f" Default: {each.default}." if shown else ""
        lines += [
            ".TP",
            names + (rf" \fI{_escaped(value)}\fR" if value else ""),
            _escaped(_text(each.help or "") + default),
        ]
    return [*lines, ".TP", r"\fB\-\-help\fR, \fB\-h\fR", "Show help and exit."]


def _summary(command: Any) -> str:
    """First sentence of a command's help."""
    return re.split(r"(?<=[.;:])\s", _text(command.help or ""))[0].rstrip(";:.") + "."


def _text(text: str) -> str:
    return " ".join(text.split())


def _escaped(text: str) -> str:
    """Text escaped for roff: hyphens remain copyable, and no line starts like a request."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text[:1] in (".", "'") else text


def main() -> None:
    """Writes the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, page in pages().items():
        (FOLDER / name).write_text(page)


if __name__ == "__main__":
    main()
