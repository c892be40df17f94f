"""Output of commands: tables and JSON on standard output, progress and errors on standard error."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Any

import typer

from sdfcli.errors import UNREAD, SdfError
from sdfcli.runtime.memory import unwritable
from sdfcli.runtime.remote import shown

SCHEMA_VERSION = 1
"""Version of what `--json` prints: it grows where a key goes, or changes its type or meaning."""

PERIOD = 10.0
"""Seconds between two lines of progress where standard error is no terminal."""


_lost: list[OSError] = []
"""Why results were discarded."""


@contextmanager
def standard_output() -> Iterator[None]:
    """Prints within it; where nobody reads, or the stream was closed, the output is discarded and the work goes on, to
    end with the code of `lost_output`.

    Raises what `unwritable` gives where standard output cannot be written for another reason, as on a full disk.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for Python's own flush at the end, too
        if not _unread(error) and error.errno != errno.EBADF:
            raise unwritable("standard output", error) from error
        _lost.append(error)


def _unread(error: OSError) -> bool:
    return isinstance(error, BrokenPipeError) or (os.name == "nt" and error.errno == errno.EINVAL)


def lost_output() -> int:
    """The exit code of a command that has done its work: 0 but where results were discarded. Prints an error where
    standard output was closed from the start."""
    if not _lost:
        return 0
    error = _lost[0]
    _lost.clear()
    return UNREAD if _unread(error) else print_error(unwritable("standard output", error))


def plain(text: str) -> str:
    """A line without control characters, as names and metadata of files may hold escape codes of a terminal, and
    without credentials of URLs."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown(text))


def say(line: str) -> None:
    """A line for people on standard error."""
    typer.echo(plain(line), err=True)


def print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A traceback on standard error, by lines without credentials of URLs. For sys.excepthook."""
    for line in "".join(traceback.format_exception(kind, error, trace)).splitlines():
        say(line)


def print_error(error: SdfError) -> int:
    """Prints an error as one line on standard error; returns its exit code."""
    with suppress(OSError):  # a closed stream: the exit code is enough
        say("sdfcli: " + " ".join(str(error).split()))
    return error.exit_code


def show(line: str) -> None:
    """A line for people on standard output."""
    typer.echo(plain(line))


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on one line, with the version of its schema (schemas.py)."""
    text = json.dumps({"schema_version": SCHEMA_VERSION, **value})
    if ":/" in text:  # the start of a URL, perhaps
        text = json.dumps(_shown({"schema_version": SCHEMA_VERSION, **value}))
    with standard_output():
        typer.echo(text)


def _shown(value: Any) -> Any:
    """A value of JSON without credentials of URLs."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {name: _shown(each) for name, each in value.items()}
    return [_shown(each) for each in value] if isinstance(value, list | tuple) else value


def print_document(value: dict[str, Any]) -> None:
    """A JSON document, on lines for people."""
    with standard_output():
        typer.echo(json.dumps(value, indent=2))


def line_width() -> int:
    """Characters in a line of standard output: those of the terminal; a file's lines have no end."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000


def print_table(
    title: str, rows: Iterable[tuple[str, ...]], header: tuple[str, ...] = (), *, apart: bool = False
) -> None:
    """A table for people under its title. The first column names things; those under a header are right-aligned. apart:
    whether an empty line comes before."""
    lines = [tuple(map(plain, row)) for row in ([header] if header else []) + list(rows)]
    first, *widths = [max(map(len, column)) for column in zip_longest(*lines, fillvalue="")]
    edge = line_width()
    with standard_output():
        if apart:
            show("")
        show(title)
        for name, *cells in lines:
            aligned = [f"{cell:>{width}}" if header else cell for cell, width in zip(cells, widths, strict=False)]
            line = "  ".join([f"{name:{first}}", *aligned])
            indent = " " * (first + 2)
            typer.echo(textwrap.fill(line, max(edge, 2 * first), subsequent_indent=indent, break_on_hyphens=False))


def print_written(
    source: Path,
    targets: list[Path],
    facts: dict[str, Any],
    rows: list[tuple[str, str]],
    seconds: float,
    json: bool,
    quiet: bool,
) -> None:
    """The report of a written file: `facts` as JSON, or `rows` as a table, with time and size. Of several targets the
    first one is named."""
    size = sum(target.stat().st_size for target in targets)
    if json:
        written = {"input": str(source), "output": str(targets[0])}
        print_json({**written, **facts, "seconds": {"total": round(seconds, 4)}, "bytes": size})
    elif not quiet:
        took = [("time", f"{seconds:.2f} s"), ("file", f"{targets[0]}, {human_bytes(size)}")]
        print_table(str(source), [*rows, *took])


def print_lines(*sentences: str) -> None:
    """Sentences for people, broken at the width of the terminal."""
    with standard_output():
        for sentence in sentences:
            typer.echo(textwrap.fill(plain(sentence), line_width(), subsequent_indent="  ", break_on_hyphens=False))


@contextmanager
def progress(title: str, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Progress on standard error; yields the function to call with each stage. Where that is no terminal, as in the log
    of a CI, a line is printed every PERIOD seconds."""
    if quiet:
        yield lambda what: None
        return
    if not sys.stderr.isatty():
        with _lines(title) as update:
            yield update
        return
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    spinner = Spinner("dots", Text(plain(title)))  # a str would be taken for Rich's markup
    # Rich would send what is printed on standard output to standard error, too.
    with Live(spinner, console=Console(stderr=True), refresh_per_second=12.5, transient=True, redirect_stdout=False):
        yield lambda what: spinner.update(text=Text(plain(f"{title}: {what}")))


@contextmanager
def _lines(title: str) -> Iterator[Callable[[str], None]]:
    start, latest, over = time.monotonic(), [title], threading.Event()

    def repeat() -> None:
        while not over.wait(PERIOD):
            with suppress(OSError):  # a closed stream
                say(f"{latest[0]}, {time.monotonic() - start:.0f} s")

    speaker = threading.Thread(target=repeat, daemon=True)
    speaker.start()
    try:
        yield lambda what: latest.__setitem__(0, f"{title}: {what}")
    finally:
        over.set()
        speaker.join()


def human_bytes(count: int) -> str:
    """A size with its unit, as 1.5 MB."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def pace(done: int, total: int, seconds: float, what: str = "frames") -> str:
    """How far the work on frames is, as 12 of 240 frames, 3.1 frames/s, 1 min 14 s left; or on poses and so on."""
    words = f"{done} of {total} {what}"
    if not done or not seconds:
        return words
    left = round((total - done) * seconds / done)
    minutes, rate = f"{left // 60} min " if left >= 60 else "", done / seconds
    return f"{words}, {rate:{'.2g' if rate < 99.5 else ',.0f'}} {what}/s, {minutes}{left % 60} s left"


def error_text(value: float) -> str:
    """An error or a tolerance, a fraction of the diagonal."""
    return f"{value:.2g}"
