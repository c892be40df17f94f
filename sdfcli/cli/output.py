"""Command output: tables and JSON on standard output, progress and errors on standard error."""

from __future__ import annotations

import errno
import json
import os
import re
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
from typing import TYPE_CHECKING, Any, TextIO

import typer

from sdfcli.errors import UNREAD, SdfError, UsageError
from sdfcli.runtime.memory import unwritable
from sdfcli.runtime.remote import shown

if TYPE_CHECKING:
    from sdfcli.cli.records import Line, Record

SCHEMA_VERSION = 1
"""Version of the `--json` output, incremented when a key is removed or changes type or meaning."""

PERIOD = 10.0
"""Seconds between progress lines if standard error is not a terminal."""

COLOURS = {
    **dict.fromkeys(("good", "passed", "clear", "works"), "green"),
    **dict.fromkeys(("usable", "doubtful", "touching"), "yellow"),
    **dict.fromkeys(("unusable", "FAILED", "penetrating"), "red"),
}
"""Colours of verdicts on a terminal."""

_lost: list[OSError] = []
"""Errors for which results were discarded."""

_printed = [0]
"""Record count."""


class StandardOutputError(UsageError):
    """Standard output cannot be written: the command's fault, not that of one of its inputs."""


def printed() -> int:
    """Number of records this process has printed."""
    return _printed[0]


@contextmanager
def standard_output() -> Iterator[None]:
    """Context for printing. On a broken pipe or a closed stream, output is discarded and the work continues; the
    process then exits with the code from `lost_output`.

    Raises StandardOutputError if standard output fails for another reason, such as a full disk.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for Python's own flush at the end, too
        if not _unread(error) and error.errno != errno.EBADF:
            raise StandardOutputError(str(unwritable("standard output", error))) from error
        _lost.append(error)


def _unread(error: OSError) -> bool:
    return isinstance(error, BrokenPipeError) or (os.name == "nt" and error.errno == errno.EINVAL)


def lost_output() -> int:
    """Exit code of a finished command: 0 unless results were discarded. Prints an error if standard output was closed
    from the start."""
    if not _lost:
        return 0
    error = _lost[0]
    _lost.clear()
    return UNREAD if _unread(error) else print_error(unwritable("standard output", error))


def plain(text: str) -> str:
    """Escapes control characters, as file names and metadata may hold terminal escape codes, and removes URL
    credentials."""
    text = shown(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _echo(line: str, verdict: str = "", *, err: bool = False) -> None:
    """Prints a line for humans, with its verdict in colour on a terminal."""
    stream = sys.stderr if err else sys.stdout
    if verdict in COLOURS and in_colour(stream):
        painted = typer.style(verdict, fg=COLOURS[verdict])
        line = re.sub(rf"(?<=[:\] ] ){re.escape(verdict)}\b", lambda _: painted, line, count=1)
        typer.echo(line, err=err, color=True)
    else:
        typer.echo(line, err=err)


def in_colour(stream: TextIO) -> bool:
    """Whether to print colours: on a terminal that has them, unless NO_COLOR is set (no-color.org); anywhere if
    FORCE_COLOR is."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def say(line: str, verdict: str = "") -> None:
    """Prints a line for humans on standard error. verdict: a word in it to colour, after `: `, `] ` or two
    spaces."""
    _echo(plain(line), verdict, err=True)


def print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints a traceback on standard error without URL credentials. For sys.excepthook."""
    for line in "".join(traceback.format_exception(kind, error, trace)).splitlines():
        say(line)


def print_error(error: SdfError) -> int:
    """Prints an error as one line on standard error; returns its exit code."""
    with suppress(OSError):  # a closed stream: the exit code is enough
        say(f"sdfcli: {error_line(error)}")
    return error.exit_code


def error_line(error: SdfError) -> str:
    """An error's message on one line."""
    return " ".join(str(error).split())


def show(line: str, verdict: str = "") -> None:
    """Prints a line for humans on standard output. verdict: as for `say`. Raises `standard_output`'s error."""
    with standard_output():
        _echo(plain(line), verdict)


def print_json(record: Record) -> None:
    """Prints a record on one line, with its schema version."""
    from sdfcli.cli.records import as_json

    text = json.dumps({"schema_version": SCHEMA_VERSION, **as_json(record)}, default=as_json)
    if ":/" in text:  # possibly a URL
        text = json.dumps(_shown(json.loads(text)))
    _printed[0] += 1
    with standard_output():
        typer.echo(text)


def _shown(value: Any) -> Any:
    """A JSON value without URL credentials."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {name: _shown(each) for name, each in value.items()}
    return [_shown(each) for each in value] if isinstance(value, list) else value


def print_document(value: dict[str, Any]) -> None:
    """Prints an indented JSON document."""
    with standard_output():
        typer.echo(json.dumps(value, indent=2))


def line_width() -> int:
    """Line width of standard output in characters: the terminal's; practically unlimited for files."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000


def print_table(
    title: str, rows: Iterable[tuple[str, ...]], header: tuple[str, ...] = (), *, apart: bool = False, verdict: str = ""
) -> None:
    """Prints a table for humans under its title. The first column holds names; with a header, the others are
    right-aligned. apart: print an empty line first. verdict: word to colour, in the title and the row `verdict`."""
    lines = [tuple(map(plain, row)) for row in ([header] if header else []) + list(rows)]
    first, *widths = [max(map(len, column)) for column in zip_longest(*lines, fillvalue="")]
    edge = line_width()
    with standard_output():
        if apart:
            show("")
        show(title, verdict)
        for name, *cells in lines:
            aligned = [f"{cell:>{width}}" if header else cell for cell, width in zip(cells, widths, strict=False)]
            line = "  ".join([f"{name:{first}}", *aligned])
            indent = " " * (first + 2)
            line = textwrap.fill(line, max(edge, 2 * first), subsequent_indent=indent, break_on_hyphens=False)
            _echo(line, verdict if name == "verdict" else "")


def print_written(
    record: type[Line],
    source: Path | str,
    targets: list[Path],
    facts: dict[str, Any],
    rows: list[tuple[str, str]],
    seconds: float,
    json: bool,
    quiet: bool,
    place: str | None = None,
) -> None:
    """Reports a written file with time and size: a record with `facts` as JSON, or `rows` as a table. Of several
    targets, only the first is named. place: the source's place among several sources, which get a line each."""
    size = sum(target.stat().st_size for target in targets)
    if json:
        from sdfcli.cli.records import took

        written: dict[str, Any] = {"input": str(source), "output": str(targets[0])}
        print_json(record(**written, **facts, seconds=took(seconds), bytes=size))
    elif place is not None and not quiet:
        say(f"{place} {source}: {targets[0]}, {human_bytes(size)}, {seconds:.2f} s")
    elif not quiet:
        below = [("time", f"{seconds:.2f} s"), ("file", f"{targets[0]}, {human_bytes(size)}")]
        print_table(str(source), [*rows, *below])


def print_lines(*sentences: str) -> None:
    """Prints sentences for humans, wrapped at the terminal's width."""
    with standard_output():
        for sentence in sentences:
            typer.echo(textwrap.fill(plain(sentence), line_width(), subsequent_indent="  ", break_on_hyphens=False))


@contextmanager
def progress(title: str, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Shows progress on standard error; yields a function to call with each stage. If that is not a terminal, as in CI
    logs, a line is printed every PERIOD seconds."""
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

    spinner = Spinner("dots", Text(plain(title)))  # a str would be parsed as Rich markup
    # Otherwise Rich redirects standard output to standard error.
    with Live(spinner, console=Console(stderr=True), refresh_per_second=12.5, transient=True, redirect_stdout=False):
        yield lambda what: spinner.update(text=Text(plain(f"{title}: {what}")))


@contextmanager
def batch_progress(total: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the number of meshes done so far, after each one's own line. If standard error is
    not a terminal, a line is printed after PERIOD seconds without a call."""
    if quiet or sys.stderr.isatty():
        yield lambda done: None
        return
    with _lines(f"0 of {total:,} done", alone=False) as update:
        yield lambda done: update(f"{done:,} of {total:,} done")


@contextmanager
def _lines(title: str, alone: bool = True) -> Iterator[Callable[[str], None]]:
    """Prints the latest words every PERIOD seconds; yields a function that sets them. alone: the words follow the
    title; otherwise they replace it, and restart the period."""
    start, latest, over, restart = time.monotonic(), [title], False, threading.Event()

    def repeat() -> None:
        while not over:
            if restart.wait(PERIOD):
                restart.clear()
                continue
            with suppress(OSError):  # a closed stream
                say(f"{latest[0]}, {time.monotonic() - start:.0f} s")

    def update(what: str) -> None:
        latest[0] = f"{title}: {what}" if alone else what
        if not alone:
            restart.set()

    speaker = threading.Thread(target=repeat, daemon=True)
    speaker.start()
    try:
        yield update
    finally:
        over = True
        restart.set()
        speaker.join()


def human_bytes(count: int) -> str:
    """Formats a size with its unit, as 1.5 MB."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def pace(done: int, total: int, seconds: float, items: str = "frames") -> str:
    """Formats progress, as 12 of 240 frames, 3.1 frames/s, 1 min 14 s left. items: their plural."""
    words = f"{done:,} of {total:,} {items}"
    if not done or not seconds:
        return words
    rate = done / seconds
    left = time_left((total - done) * seconds / done)
    return f"{words}, {rate:{'.2g' if rate < 99.5 else ',.0f'}} {items}/s, {left}"


def time_left(seconds: float) -> str:
    """Formats a remaining time, as 1 min 14 s left, or 2 h 5 min left."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60:,} h {minutes % 60} min left"
    return f"{minutes} min {rest} s left" if minutes else f"{rest} s left"


def error_text(value: float) -> str:
    """Formats an error or a tolerance with two significant digits."""
    return f"{value:.2g}"
