"""Options of several sub-commands of `sdfcli bench`, and the reader of numbers between commas."""

from __future__ import annotations

from typing import Annotated

import typer

from sdfcli.errors import UsageError

Repeat = Annotated[int, typer.Option("--repeat", min=1, help="Timed runs after one warm-up run; medians are shown.")]
Runs = Annotated[int, typer.Option("--repeat", min=1, help="Timed runs; medians are shown.")]


def numbers(text: str, name: str) -> list[float]:
    """Numbers between commas. Raises UsageError for anything else."""
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise UsageError(f"{name} {text}: use numbers between commas, as in 1,10") from None
