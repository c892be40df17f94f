"""Record of interrupts: a Ctrl-C is not lost in a library that catches every exception."""

from __future__ import annotations

import signal
import sys

TYPE_CHECKING = False  # importing `typing` takes longer than this whole module
if TYPE_CHECKING:
    from typing import Any

_seen: list[int] = []

CALLBACKS = {"sdfcli.runtime.streamed"}
"""Modules with callbacks of libraries that only print exceptions: `check` raises the interrupt afterwards."""


def watch(number: int = signal.SIGINT) -> None:
    """Makes a signal raise KeyboardInterrupt, and records it. A signal ignored so far, as in background jobs, stays
    ignored."""
    if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
        signal.signal(number, _interrupt)
        sys.unraisablehook = _unraisable


def seen() -> bool:
    """Whether an interrupt was recorded."""
    return bool(_seen)


def check() -> None:
    """Raises KeyboardInterrupt if an interrupt was recorded."""
    if _seen:
        raise KeyboardInterrupt


def _interrupt(number: int, frame: Any) -> None:
    _seen.append(number)
    if frame is None or frame.f_globals.get("__name__") not in CALLBACKS:
        raise KeyboardInterrupt


def _unraisable(what: sys.UnraisableHookArgs) -> None:
    # Raised in a destructor or callback: already recorded, no message needed.
    if not issubclass(what.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(what)
