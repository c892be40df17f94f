"""Command lines of child processes: they import this copy of the package, and nothing from the current folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def python(module: str) -> list[str]:
    """The start of a command line that runs the `main` of a module of this package.

    The child searches modules as this process does, but not in the current folder, which `python -m` and `python -c`
    search first; `python -P` needs Python 3.11.
    """
    options = {"-I": sys.flags.isolated, "-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site}
    start = Path(__file__).resolve().parents[1] / "start.py"
    return [sys.executable, *(option for option, given in options.items() if given), str(start), module]


def without_current_folder(path: str) -> str:
    """A `PATH` without empty and relative entries, which refer to the current folder."""
    kept = os.pathsep.join(filter(os.path.isabs, path.split(os.pathsep)))
    return kept or ("" if os.name == "nt" else os.defpath)  # that of Windows has the current folder
