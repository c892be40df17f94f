"""Interrupts that are not lost: libraries that catch every exception, while they are imported too, swallow Ctrl-C."""

from __future__ import annotations

import signal
import sys

TYPE_CHECKING = False  # `typing` takes longer to import than all that is here
if TYPE_CHECKING:
    from typing import Any

_seen: list[int] = []


def watch(number: int = signal.SIGINT) -> None:
    """From now on an interrupt is remembered. One that is ignored, as of what runs in the background, stays so.

    Another signal may be taken for an interrupt.
    """
    if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
        signal.signal(number, _interrupt)
        sys.unraisablehook = _unraisable


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


def _unraisable(what: sys.UnraisableHookArgs) -> None:
    # Raised in a destructor or a callback of the interpreter's own: it is remembered, and nothing to be told of.
    if not issubclass(what.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(what)
