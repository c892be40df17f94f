"""The command line, run as users run it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any


def run(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: exit codes, and nothing on the wrong stream."""
    command = [sys.executable, "-m", "sdfcli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def on_a_terminal(*words: object, cwd: Path | None = None, stdout: Any = None, columns: int | None = None) -> str:
    """What a command shows on a terminal, as it comes. stdout: a file in place of the terminal. columns: its width,
    whatever the environment says."""
    ours, its = pty.openpty()
    environment = dict(os.environ)
    if columns is not None:
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        environment = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "sdfcli", *map(str, words)]
    with subprocess.Popen(
        command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout or its, stderr=its, env=environment
    ):
        os.close(its)
        seen = b""
        try:
            while part := os.read(ours, 4096):
                seen += part
        except OSError:  # the end of a terminal
            pass
        os.close(ours)
    return seen.decode(errors="backslashreplace")
