"""NVIDIA's Multi-Process Service (MPS): kernels of several processes run beside each other, not in time slices."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sdfcli.runtime.processes import without_current_folder

PROGRAM = "nvidia-cuda-mps-control"
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
CLIENTS = "SDFCLI_MPS_CLIENTS"
"""The variable that says how many processes share a service of our own."""
SYSTEM_PIPES = "/tmp/nvidia-mps"
"""Where processes look for a service without that variable."""
STARTING = 10.0
"""Seconds that a service has to start."""
ENDING = 'cat; echo quit -t 1 | "$0"; rm -rf -- "$CUDA_MPS_PIPE_DIRECTORY"'
"""Ends a service, and removes its folder, once nobody can write to the input any more, whatever ended them."""


def is_there() -> bool:
    """Whether processes can share GPUs by a service: one that runs, or one of our own."""
    return _runs() or _program() is not None


def clients() -> int | None:
    """How many processes may run kernels on a GPU at a time, this one among them; None: nobody knows."""
    if not _runs():
        return 1
    told = os.environ.get(CLIENTS, "")
    return int(told) if told.isdecimal() and int(told) else None


@contextmanager
def service(processes: int) -> Iterator[dict[str, str]]:
    """A service of our own for so many processes a GPU, until the context is left: the environment variables by which
    they find it. None where one runs already, which they find by themselves, or where none can be started; kernels then
    take turns."""
    program = None if _runs() else _program()
    if program is None:
        yield {}
        return
    folder = tempfile.mkdtemp(prefix="sdfcli-mps-")
    found = {PIPES: folder, CLIENTS: str(processes)}
    # The numbers of GPUs are the clients' to choose: a service that sees a part of them would number that anew.
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
