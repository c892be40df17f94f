"""The command line, run as users run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: exit codes, and nothing on the wrong stream."""
    command = [sys.executable, "-m", "sdfcli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
