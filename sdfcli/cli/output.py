"""What people and programs see: tables and JSON on standard output, progress on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import typer


@contextmanager
def standard_output() -> Iterator[None]:
    """What is printed here goes nowhere once whoever reads it has enough; the work goes on."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # the latter is what rich makes of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for Python's own flush at the end, too


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on one line."""
    with standard_output():
        typer.echo(json.dumps(value))


def print_table(title: str, rows: Iterable[tuple[str, ...]], header: tuple[str, ...] = ()) -> None:
    """A table for people under its title. The first column names things, the others are right-aligned."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=bool(header), box=None, pad_edge=False)
    rows = list(rows)
    for column in range(max(len(row) for row in rows)):
        name = header[column] if column < len(header) else ""
        table.add_column(name, justify="right" if header and column else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    console = Console(highlight=False)
    if not console.is_terminal:  # a file has no edge to fold lines at
        console.width = 10_000
    with standard_output():
        console.print(escape(title), soft_wrap=True)
        console.print(table)


@contextmanager
def progress(title: str, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Shows what is going on, on standard error, if that is a terminal; yields the function to tell it."""
    if quiet or not sys.stderr or not sys.stderr.isatty():
        yield lambda what: None
        return
    from rich.console import Console

    with Console(stderr=True).status(title) as status:
        yield lambda what: status.update(f"{title}: {what}")


def human_bytes(count: int) -> str:
    """1.5 MB and the like."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def error_text(value: float) -> str:
    """An error or a tolerance, a fraction of the diagonal."""
    return f"{value:.2g}"
