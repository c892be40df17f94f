"""Record of interrupts: a Ctrl-C that a library swallows, as it catches every exception, is not lost."""

from __future__ import annotations

import signal
import sys

TYPE_CHECKING = False  # `typing` takes longer to import than all that is here
if TYPE_CHECKING:
    from typing import Any

_seen: list[int] = []

CALLBACKS = {"sdfcli.runtime.streamed"}
"""Modules of functions that libraries call, and whose exceptions they print; `check` follows them."""


def watch(number: int = signal.SIGINT) -> None:
    """Makes a signal raise KeyboardInterrupt, and records it. One that is ignored, as in background jobs, stays so."""
    if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
        signal.signal(number, _interrupt)
        sys.unraisablehook = _unraisable


def seen() -> bool:
    """Whether there was an interrupt."""
    return bool(_seen)


def check() -> None:
    """Raises KeyboardInterrupt if there was an interrupt."""
    if _seen:
        raise KeyboardInterrupt


def _interrupt(number: int, frame: Any) -> None:
    _seen.append(number)
    if frame is None or frame.f_globals.get("__name__") not in CALLBACKS:
        raise KeyboardInterrupt


def _unraisable(what: sys.UnraisableHookArgs) -> None:
    # Raised in a destructor or callback: recorded, so no message is needed.
    if not issubclass(what.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(what)
