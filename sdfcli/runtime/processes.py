"""Command lines of child processes, which import this copy of the package and nothing from the current folder."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

from sdfcli.startup import driver

if sys.platform == "linux":
    import resource

PR_SET_PDEATHSIG = 1
"""Linux `prctl` option: the signal sent to a process when its parent ends."""


def python(module: str) -> list[str]:
    """Start of a command line that runs the `main` of a module of this package.

    The child searches for modules as this process does, but not in the current folder, which `python -m` and
    `python -c` search first; `python -P` needs Python 3.11.
    """
    options = {"-I": sys.flags.isolated, "-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site}
    start = Path(__file__).resolve().parents[1] / "start.py"
    return [sys.executable, *(option for option, given in options.items() if given), str(start), module]


def set_environment() -> None:
    """Sets environment variables for libraries in this process and its children, before any thread may read them."""
    driver.without_cub()
    os.environ["PATH"] = without_current_folder(os.environ.get("PATH", ""))
    if os.name == "nt":
        os.environ["NODEFAULTCURRENTDIRECTORYINEXEPATH"] = "1"  # Windows looks for programs there first
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start an idle thread per CPU


def die_with(parent: int) -> None:
    """Makes the system kill this process when its parent ends, for whatever reason. Linux only. parent: process id.

    The system watches the thread that started this process, so that thread must wait for it.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # already ended
        os._exit(1)


def bound_time(seconds: int) -> None:
    """Makes SIGXCPU end this process after `seconds` of CPU time. Linux only."""
    if sys.platform != "linux":
        return
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if hard == resource.RLIM_INFINITY or seconds < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))


def without_current_folder(path: str) -> str:
    """`PATH` without empty and relative entries, which refer to the current folder."""
    kept = os.pathsep.join(filter(os.path.isabs, path.split(os.pathsep)))
    return kept or ("" if os.name == "nt" else os.defpath)  # Windows' default has the current folder
