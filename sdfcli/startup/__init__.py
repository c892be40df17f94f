"""Fast process start; `SDFCLI_PLAIN=1` turns it off, with the same bits (docs/internals/startup.md)."""

import gc
import os

PLAIN = os.environ.get("SDFCLI_PLAIN") == "1"
"""Plain CuPy: its own import, compilation cache, sorts and scans, and no threads that work ahead."""


def collect_less() -> None:
    """Runs Python's garbage collector seldom: imports create many objects, none of them garbage."""
    if not PLAIN:
        gc.set_threshold(100_000)
