"""NVIDIA's Multi-Process Service (MPS): kernels of several processes run concurrently, not in time slices."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sdfcli.errors import DeviceError, SdfError
from sdfcli.runtime.processes import without_current_folder

PROGRAM = "nvidia-cuda-mps-control"
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
CLIENTS = "SDFCLI_MPS_CLIENTS"
"""Environment variable with the process count per GPU of a service started here."""
SYSTEM_PIPES = "/tmp/nvidia-mps"
"""Folder in which processes look for a service if PIPES is not set."""
OF_SERVICE = SdfError.exit_code, DeviceError.exit_code
"""Exit codes of faults that a service, or other processes sharing it, may have caused."""
STARTING = 10.0
"""Timeout for starting a service, in seconds."""
ENDING = 'cat; echo quit -t 1 | "$0"; rm -rf -- "$CUDA_MPS_PIPE_DIRECTORY"'
"""Ends a service and removes its folder once all writers of its standard input have ended, for whatever reason."""


def is_there() -> bool:
    """Whether processes can share GPUs through a service: one is running or can be started."""
    return _runs() or _program() is not None


def clients() -> int | None:
    """Maximum number of processes that run kernels on a GPU concurrently, including this one; None if unknown."""
    if not _runs():
        return 1
    told = os.environ.get(CLIENTS, "")
    return int(told) if told.isdecimal() and int(told) else None


@contextmanager
def service(processes: int) -> Iterator[dict[str, str]]:
    """Runs a service for `processes` processes per GPU until the context exits. Yields the environment variables by
    which they find it: none for a single process; if a service already runs, which needs no variables; or if none can
    be started: kernels then run in time slices."""
    program = _program() if processes > 1 and not _runs() else None
    if program is None:
        yield {}
        return
    folder = tempfile.mkdtemp(prefix="sdfcli-mps-")
    found = {PIPES: folder, CLIENTS: str(processes)}
    # Clients choose GPUs by number; a service restricted to some GPUs would renumber them.
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    environment.update(found, CUDA_MPS_LOG_DIRECTORY=folder)
    ending = subprocess.Popen(
        ["/bin/sh", "-c", ENDING, program],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    try:
        subprocess.run(
            [program, "-d"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            check=True,
            timeout=STARTING,
        )
    except (OSError, subprocess.SubprocessError):
        found = {}
    try:
        yield found
    finally:
        assert ending.stdin
        ending.stdin.close()
        threading.Thread(target=ending.wait, daemon=True).start()


def _runs() -> bool:
    return PIPES in os.environ or os.path.exists(os.path.join(SYSTEM_PIPES, "control"))


def _program() -> str | None:
    return shutil.which(PROGRAM, path=without_current_folder(os.environ.get("PATH", os.defpath)))
