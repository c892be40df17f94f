"""The machine that the process runs on."""

from __future__ import annotations

import os


def available_threads() -> int:
    """The number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
