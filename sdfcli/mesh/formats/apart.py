"""Readers based on C++ libraries, each in a separate process: a crash on a damaged file ends only that process."""

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
from dataclasses import asdict
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli import errors
from sdfcli.errors import DeviceError, InputError, SdfError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.notes import Told, keep_units, note
from sdfcli.runtime import memory, processes

EXTRAS = {".step": "step", ".stp": "step", ".usd": "usd", ".usda": "usd", ".usdc": "usd", ".usdz": "usd"}
"""File name endings, and the pyproject.toml extra they need, which is also the name of a module in this folder."""
LIBRARIES = {"step": "cascadio", "usd": "pxr", "draco": "DracoPy"}
"""Library installed by each extra."""
NEEDED_BY = {"draco": "KHR_draco_mesh_compression"}
"""Feature that needs an extra, if not a file name ending."""
ANSWER, PRINTED = "answer.json", "printed.txt"
MOST_SAID = 5
"""Maximum library output lines kept as notes."""
SECONDS, SECONDS_PER_BYTE = 120, 60e-6
"""Maximum processor time of a reader: seconds, plus seconds per file byte. Files of a few kB can request more than any
machine can do; readable files take a small part of the limit."""


def read_apart(path: Path, kind: str | None = None) -> tuple[Floats, Ints]:
    """Vertices (v, 3) and triangles (f, 3) from a file, by a module in this folder: the one for its ending in EXTRAS,
    or `kind`. Warns with a ReadingNote per skipped or converted item.

    Raises DeviceError if the library is not installed, and InputError for an unreadable file.
    """
    with tempfile.TemporaryDirectory(prefix="sdfcli-") as folder:
        kind = kind or EXTRAS[path.suffix.lower()]
        told = Told(**asked(path, folder, kind, f"sdfcli.mesh.formats.{kind}"))
        for each in told.notes:
            note(path, each)
        if told.units is not None:
            keep_units(told.units, told.deflection)
        return np.load(Path(folder, "vertices.npy")), np.load(Path(folder, "faces.npy"))


def asked(path: Path, folder: str, kind: str, module: str, *more: str) -> dict[str, Any]:
    """Runs a reader process, which writes arrays into a folder: `vertices.npy` and `faces.npy`. kind: the extra that it
    needs. module: has the function `read(path, *more)`, which returns the arrays and a dataclass with `notes`.

    Returns the dataclass's fields. Raises as `read_apart` does.
    """
    if importlib.util.find_spec(LIBRARIES[kind]) is None:
        what = NEEDED_BY.get(kind, path.suffix)
        raise DeviceError(f"{what} is read with a library that is not installed: pip install 'sdfcli[{kind}]'")
    seconds = int(SECONDS + SECONDS_PER_BYTE * path.stat().st_size)
    command = [*processes.python(__name__), module, str(path.absolute()), folder, str(seconds), str(os.getpid()), *more]
    pipe = subprocess.PIPE  # closed when this process ends, which ends the reader
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
    """First distinct lines printed by a library, without source locations and colours."""
    with printed.open(encoding="utf-8", errors="replace") as lines:
        told = (re.sub(r"\x1b\[[\d;]*m|^Warning: in .*? -- ", "", line).strip(" *\n") for line in lines)
        return list(islice(dict.fromkeys(line[:200] for line in islice(told, 1000) if line), MOST_SAID))


def main() -> None:
    """Reads a file in a separate process: `MODULE module path folder seconds parent ...`."""
    _, module, path, folder, seconds, parent, *more = sys.argv
    processes.die_with(int(parent))
    processes.bound_time(int(seconds))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    memory.bound()
    os.chdir(folder)  # relative file names lead nowhere
    answer: dict[str, Any]
    try:
        vertices, faces, told = import_module(module).read(Path(path), *more)
        np.save(Path(folder, "vertices.npy"), vertices)
        np.save(Path(folder, "faces.npy"), faces)
        answer = asdict(told)
        if os.name == "posix":
            ctypes.CDLL(None).fflush(None)  # os._exit does not
    except Exception as error:
        known = memory.as_sdf_error(error)
        if type(known) is SdfError:  # from the library
            known = InputError(str(error).strip().split("\n")[0] or type(error).__name__)
        answer = {"error": str(known), "kind": type(known).__name__}
    whole = Path(folder, "part.json")
    whole.write_text(json.dumps(answer))
    whole.rename(Path(folder, ANSWER))
    os._exit(0)


def _end_with_parent() -> None:
    """Ends with the parent where the system does not do it (`die_with`); impossible while a library holds the GIL."""
    sys.stdin.read()
    os._exit(1)
