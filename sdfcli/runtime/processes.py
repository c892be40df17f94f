"""Other processes: they run this very package, and nothing that lies in the current folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def python(module: str) -> list[str]:
    """The first words of a command line that runs the `main` of a module of this package.

    The new Python finds its modules as this one does, but for the current folder, which `python -m` and `python -c`
    look into first; `python -P`, which does not, is too new.
    """
    options = {"-I": sys.flags.isolated, "-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site}
    start = Path(__file__).resolve().parents[1] / "start.py"
    return [sys.executable, *(option for option, given in options.items() if given), str(start), module]


def without_current_folder(path: str) -> str:
    """A `PATH` without its empty and relative entries, which mean the current folder or lie below it."""
    return os.pathsep.join(filter(os.path.isabs, path.split(os.pathsep))) or os.defpath
