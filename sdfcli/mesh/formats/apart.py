"""Readers that are libraries in C++, each in a process of its own: a crash on a damaged file ends that alone."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli import errors
from sdfcli.errors import DeviceError, InputError, SdfError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.notes import note
from sdfcli.runtime import memory, processes

EXTRAS = {".step": "step", ".stp": "step", ".usd": "usd", ".usda": "usd", ".usdc": "usd", ".usdz": "usd"}
"""Endings of files: the extra of pyproject.toml that they need, and the module in this folder, of one name."""
LIBRARIES = {"step": "cascadio", "usd": "pxr", "draco": "DracoPy"}
"""The library that an extra installs."""
NEEDED_BY = {"draco": "KHR_draco_mesh_compression"}
"""What needs an extra, where it is not the ending of a file."""
ANSWER, PRINTED = "answer.json", "printed.txt"
MOST_SAID = 5
"""Maximum lines of a library that become notes."""
SECONDS, SECONDS_PER_BYTE = 120, 60e-6
"""Maximum processor time of a reader: seconds, plus seconds per byte of the file. Files of a few kB can ask for more
than any machine can do; those that can be read take a small part of it."""


def read_apart(path: Path, kind: str | None = None) -> tuple[Floats, Ints]:
    """Vertices (v, 3) and triangles (f, 3) of a file, by a module of this folder: the one for its ending in EXTRAS, or
    `kind`. Warns by a ReadingNote for each thing that was not read as it is.

    Raises DeviceError where the library is not installed, and InputError for a file that it cannot read.
    """
    with tempfile.TemporaryDirectory(prefix="sdfcli-") as folder:
        answer = _asked(path, folder, kind)
        for each in answer["notes"]:
            note(path, each)
        return np.load(Path(folder, "vertices.npy")), np.load(Path(folder, "faces.npy"))


def units_apart(path: Path) -> str:
    """The unit of a file's coordinates. Raises as `read_apart` does."""
    with tempfile.TemporaryDirectory(prefix="sdfcli-") as folder:
        return str(_asked(path, folder)["units"])


def _asked(path: Path, folder: str, kind: str | None = None) -> dict[str, Any]:
    """The answer of a process that has written arrays into a folder."""
    kind = kind or EXTRAS[path.suffix.lower()]
    if importlib.util.find_spec(LIBRARIES[kind]) is None:
        what = NEEDED_BY.get(kind, path.suffix)
        raise DeviceError(f"{what} is read with a library that is not installed: pip install 'sdfcli[{kind}]'")
    seconds = int(SECONDS + SECONDS_PER_BYTE * path.stat().st_size)
    command = [*processes.python(__name__), kind, str(path.absolute()), folder, str(seconds), str(os.getpid())]
    pipe = subprocess.PIPE  # it ends when this process does: then its input does
    with (
        open(Path(folder, PRINTED), "wb") as printed,
        subprocess.Popen(command, stdin=pipe, stdout=printed, stderr=printed) as process,
    ):
        try:
            code = process.wait()
        except BaseException:
            process.kill()
            raise
    try:
        answer: dict[str, Any] = json.loads(Path(folder, ANSWER).read_text())
    except FileNotFoundError:
        if sys.platform == "linux" and code == -signal.SIGXCPU:
            told = f"its reader took more than {seconds:,} s of processor time, far too much for its size"
            raise InputError(told) from None
        if code == -9:
            raise errors.OutOfMemoryError("its reader was killed, as systems do that run out of memory") from None
        if memory.is_shortage(Exception(" ".join(_said(Path(folder, PRINTED))))):
            raise errors.OutOfMemoryError("its reader ran out of memory") from None
        raise InputError(f"its reader, {LIBRARIES[kind]}, ended ({code}): the file is damaged") from None
    if "error" in answer:
        raise getattr(errors, answer["kind"])(answer["error"])
    answer["notes"] += [f"{LIBRARIES[kind]}: {line}" for line in _said(Path(folder, PRINTED))]
    return answer


def _said(printed: Path) -> list[str]:
    """The first lines, all different, that a library printed, without their frames and colours."""
    with printed.open(encoding="utf-8", errors="replace") as lines:
        told = (re.sub(r"\x1b\[[\d;]*m|^Warning: in .*? -- ", "", line).strip(" *\n") for line in lines)
        return list(islice(dict.fromkeys(line[:200] for line in islice(told, 1000) if line), MOST_SAID))


def main() -> None:
    """Reads a file in a process of its own: `MODULE kind path folder seconds parent`."""
    _, kind, path, folder, seconds, parent = sys.argv
    processes.die_with(int(parent))
    processes.bound_time(int(seconds))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    memory.bound()
    os.chdir(folder)  # names that are relative to the current folder lead nowhere
    answer: dict[str, Any]
    try:
        vertices, faces, units, notes = import_module(f"sdfcli.mesh.formats.{kind}").read(Path(path))
        np.save(Path(folder, "vertices.npy"), vertices)
        np.save(Path(folder, "faces.npy"), faces)
        answer = {"units": units, "notes": notes}
        if os.name == "posix":
            ctypes.CDLL(None).fflush(None)  # os._exit does not
    except Exception as error:
        known = memory.as_sdf_error(error)
        if type(known) is SdfError:  # of the library
            known = InputError(str(error).strip().split("\n")[0] or type(error).__name__)
        answer = {"error": str(known), "kind": type(known).__name__}
    whole = Path(folder, "part.json")
    whole.write_text(json.dumps(answer))
    whole.rename(Path(folder, ANSWER))
    os._exit(0)


def _end_with_parent() -> None:
    """Where the system does not do it (`die_with`); it cannot while a library holds Python's lock."""
    sys.stdin.read()
    os._exit(1)
