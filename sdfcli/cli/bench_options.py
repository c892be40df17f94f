"""Benchmark options, and checks of their values."""

from __future__ import annotations

from typing import Annotated

import typer

from sdfcli.errors import UsageError

Repeat = Annotated[int, typer.Option("--repeat", min=1, help="Timed runs after one warm-up run; medians are shown.")]
Runs = Annotated[int, typer.Option("--repeat", min=1, help="Timed runs; medians are shown.")]

MOST_THREADS = 1024
"""Maximum threads per GPU block."""


def numbers(text: str, name: str) -> list[float]:
    """Parses comma-separated numbers. Raises UsageError for anything else."""
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise UsageError(f"{name} {text}: use comma-separated numbers, as in 1,10") from None


def check_block(threads: int | None) -> None:
    """Raises UsageError for an impossible block size."""
    from sdfcli.backend import WARP

    if threads is not None and (threads % WARP or not WARP <= threads <= MOST_THREADS):
        raise UsageError(f"--block {threads}: use a multiple of {WARP} up to {MOST_THREADS}")
