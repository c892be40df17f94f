"""The main loop of child processes."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

CHILD = """
import os, signal, sys
from sdfcli.runtime.serve import serve

def start(settings):
    try:
        if settings == "terminated":
            os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    except KeyboardInterrupt:
        raise ImportError("an import that was interrupted")

serve(start)
"""


@pytest.mark.parametrize("settings", ["terminated", "abandoned"])
def test_a_process_that_ends_while_it_starts_says_nothing(settings: str) -> None:
    """NumPy turns an interrupt of its import into an ImportError."""
    found = subprocess.run(
        [sys.executable, "-c", CHILD], check=False, input=f'"{settings}"\n', capture_output=True, text=True
    )
    assert (found.returncode, found.stdout, found.stderr) == (-signal.SIGTERM, "", "")
