"""The command line, run as users run it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any


def run(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: exit codes, and nothing on the wrong stream."""
    command = [sys.executable, "-m", "sdfcli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def on_a_terminal(*words: object, cwd: Path | None = None, stdout: Any = None) -> str:
    """What a command shows on a terminal, as it comes. stdout: a file in place of the terminal."""
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "sdfcli", *map(str, words)]
    with subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout or its, stderr=its):
        os.close(its)
        seen = b""
        try:
            while part := os.read(ours, 4096):
                seen += part
        except OSError:  # the end of a terminal
            pass
        os.close(ours)
    return seen.decode(errors="backslashreplace")
