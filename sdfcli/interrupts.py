"""Interrupts that are not lost: libraries that catch every exception, while they are imported too, swallow Ctrl-C."""

from __future__ import annotations

import signal
from typing import Any

_seen: list[int] = []


def watch() -> None:
    """From now on an interrupt is remembered. One that is ignored, as of what runs in the background, stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def seen() -> bool:
    """Whether there was an interrupt."""
    return bool(_seen)


def check() -> None:
    """Raises KeyboardInterrupt if there was one, whoever swallowed it."""
    if _seen:
        raise KeyboardInterrupt


def _interrupt(number: int, frame: Any) -> None:
    _seen.append(number)
    raise KeyboardInterrupt
