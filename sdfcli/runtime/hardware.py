"""The machine this process runs on."""

from __future__ import annotations

import os


def available_threads() -> int:
    """CPU count available to this process; at most SDFCLI_THREADS, if that is a number above 0."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("SDFCLI_THREADS", "")
    return min(cpus, int(asked)) if asked.isdecimal() and int(asked) > 0 else cpus
