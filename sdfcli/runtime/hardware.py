"""The machine that the process runs on."""

from __future__ import annotations

import os


def available_threads() -> int:
    """The number of CPUs that this process may use: at most SDFCLI_THREADS, where that is a number above 0."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("SDFCLI_THREADS", "")
    return min(cpus, int(asked)) if asked.isdecimal() and int(asked) > 0 else cpus
