"""Command lines of child processes: they import this copy of the package, and nothing from the current folder."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

from sdfcli.runtime import driver

if sys.platform == "linux":
    import resource

PR_SET_PDEATHSIG = 1
"""Option of `prctl`, Linux: the signal that a process gets when its parent ends."""


def python(module: str) -> list[str]:
    """The start of a command line that runs the `main` of a module of this package.

    The child searches modules as this process does, but not in the current folder, which `python -m` and `python -c`
    search first; `python -P` needs Python 3.11.
    """
    options = {"-I": sys.flags.isolated, "-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site}
    start = Path(__file__).resolve().parents[1] / "start.py"
    return [sys.executable, *(option for option, given in options.items() if given), str(start), module]


def set_environment() -> None:
    """Sets what libraries of this process, and its children, read from the environment, before any thread may."""
    driver.without_cub()
    os.environ["PATH"] = without_current_folder(os.environ.get("PATH", ""))
    if os.name == "nt":
        os.environ["NODEFAULTCURRENTDIRECTORYINEXEPATH"] = "1"  # Windows looks for programs there first
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start as many as there are CPUs, for no work


def die_with(parent: int) -> None:
    """This process is killed when its parent ends, however that ends. On Linux alone. parent: its id.

    The system goes by the thread that started this process, so that thread must wait for it.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before
        os._exit(1)


def bound_time(seconds: int) -> None:
    """This process is ended by SIGXCPU after so many seconds of processor time. On Linux alone."""
    if sys.platform != "linux":
        return
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if hard == resource.RLIM_INFINITY or seconds < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))


def without_current_folder(path: str) -> str:
    """A `PATH` without empty and relative entries, which refer to the current folder."""
    kept = os.pathsep.join(filter(os.path.isabs, path.split(os.pathsep)))
    return kept or ("" if os.name == "nt" else os.defpath)  # that of Windows has the current folder
