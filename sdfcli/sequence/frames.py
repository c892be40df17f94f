"""A moving mesh's frames and times from command-line arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli.errors import InputError, UsageError
from sdfcli.mesh.arrays import Faces, Floats, Ints
from sdfcli.mesh.formats.readers import FORMATS, read_file
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.query.point_files import is_number
from sdfcli.runtime.files import existing_file
from sdfcli.runtime.memory import unreadable
from sdfcli.sequence.file import MOST_FRAMES

ARRAY = ".npy"


@dataclass(frozen=True)
class FrameFiles:
    """Frames in files, one mesh each."""

    files: list[str]

    def __len__(self) -> int:
        """The number of frames."""
        return len(self.files)

    def __getitem__(self, index: int) -> str:
        """A frame's file, not loaded."""
        return self.files[index]

    def name(self, index: int) -> str:
        """A frame's name in messages."""
        return self.files[index]

    @property
    def inputs(self) -> list[str]:
        """The files that are read."""
        return self.files

    def as_json(self) -> dict[str, Any]:
        """The frames, for `of_json`."""
        return {"files": self.files}


@dataclass(frozen=True)
class FrameArray:
    """Frames as a vertex array (t, v, 3) in a .npy file, with a mesh's faces."""

    array: str
    mesh: str

    def __len__(self) -> int:
        """The number of frames."""
        return len(self._open())

    def __getitem__(self, index: int) -> Mesh:
        """A frame's mesh. Raises InputError for unusable vertices."""
        vertices = self._open()
        if vertices.shape[1] != self._faces[1]:
            raise InputError(
                f"{self.array}: {vertices.shape[1]} vertices a frame, but {self.mesh}, whose faces are used, "
                f"has {self._faces[1]}"
            )
        return make_mesh(np.array(vertices[index], np.float64), self._faces[0], self.array)

    def name(self, index: int) -> str:
        """A frame's name in messages."""
        return f"{self.array}: frame {index}"

    @property
    def inputs(self) -> list[str]:
        """The files that are read."""
        return [self.array, self.mesh]

    def as_json(self) -> dict[str, Any]:
        """The frames, for `of_json`."""
        return {"array": self.array, "mesh": self.mesh}

    def _open(self) -> Any:
        """The array, memory-mapped anew for each frame, as a mapping retains the pages read."""
        found = open_array(self.array)
        if found.ndim != 3 or found.shape[2] != 3 or found.dtype.kind not in "fiu" or 0 in found.shape:
            raise InputError(
                f"{self.array}: frames must be (t, v, 3) numbers, t frames of v vertices, not "
                f"{found.shape} {found.dtype}"
            )
        return found

    @cached_property
    def _faces(self) -> tuple[Ints | Faces, int]:
        """The mesh's faces (f, 3) and vertex count."""
        path = existing_file(self.mesh)
        try:
            vertices, faces = read_file(path)
        except Exception as error:  # each trimesh reader has its own exceptions
            raise unreadable(path, "cannot be read as a mesh", error) from error
        return faces, len(vertices)


Frames = FrameFiles | FrameArray


def of_json(frames: dict[str, Any]) -> Frames:
    """Frames from `as_json`."""
    return FrameFiles(**frames) if "files" in frames else FrameArray(**frames)


def find_frames(named: Sequence[str], faces: str | None) -> Frames:
    """Frames from files in the order named, from a folder in natural order, or from a .npy file.

    faces: mesh file with the faces for a .npy file's vertices.

    Raises UsageError for other combinations, and for a folder without meshes.
    """
    arrays = [name for name in named if name.lower().endswith(ARRAY)]
    if arrays and (len(named) > 1 or faces is None):
        raise UsageError(f"{arrays[0]}: vertices of all frames: name it alone, with --faces MESH")
    if faces is not None and not arrays:
        raise UsageError(f"--faces {faces}: needs one .npy file with the vertices of all frames")
    if faces is not None:
        return _checked(FrameArray(arrays[0], faces))
    return _checked(FrameFiles([file for name in named for file in _files(name)]))


def _checked(frames: Frames) -> Frames:
    if not 1 <= len(frames) <= MOST_FRAMES:
        raise UsageError(f"{len(frames)} frames: a sequence has 1 to {MOST_FRAMES:,}")
    return frames


def _files(named: str) -> list[str]:
    if not os.path.isdir(named):
        return [named]
    try:
        found = [name for name in os.listdir(named) if name.lower().endswith(FORMATS) and not name.startswith(".")]
    except OSError as error:
        raise InputError(f"{named}: cannot be read: {error.strerror}") from error
    if not found:
        raise UsageError(f"{named}: no meshes ({', '.join(FORMATS)}) in this folder")
    return [os.path.join(named, name) for name in sorted(found, key=natural)]


def natural(name: str) -> list[tuple[int, str]]:
    """Sort key for natural order: digits within names compare as numbers, frame9 before frame10."""
    parts = re.split(r"(\d+)", name)
    return [(int(part) if k % 2 else 0, part) for k, part in enumerate(parts)]


def frame_times(count: int, fps: float | None, file: str | None) -> Floats:
    """Frame times (count,) in seconds, from a file or at a constant rate from 0.

    file: a .npy array, a text file with one number per line, or a table with a header line and a column `time`.

    Raises UsageError for an invalid rate; InputError unless the file has `count` increasing finite numbers.
    """
    if file is None:
        if fps is None or not 0 < fps < np.inf:
            raise UsageError(f"--fps {fps}: use a positive number")
        return np.arange(count) / fps
    times = _read_times(file)
    if times.shape != (count,):
        raise InputError(f"{file}: {times.size:,} times for {count:,} frames")
    wrong = np.flatnonzero(~np.isfinite(times) | np.append(False, ~(times[1:] > times[:-1])))
    if len(wrong):
        raise InputError(f"{file}: time {wrong[0]} is {times[wrong[0]]:g}; times must be finite and increase")
    return times


def _read_times(file: str) -> Floats:
    if file.lower().endswith(ARRAY):
        found = open_array(file)
        if found.ndim != 1 or found.dtype.kind not in "fiu":
            raise InputError(f"{file}: times must be a list of numbers, not {found.shape} {found.dtype}")
        return np.array(found, np.float64)
    path = existing_file(file)
    try:
        lines = [line.partition("#")[0].replace(",", " ").replace(";", " ").split() for line in _lines(path)]
    except (OSError, ValueError) as error:
        raise unreadable(path, "cannot be read as a list of times", error) from error
    rows = [(number, words) for number, words in enumerate(lines, 1) if words]
    column = 0
    if rows and not is_number(rows[0][1][0]):
        names = [word.strip('"').lower() for word in rows.pop(0)[1]]
        if "time" not in names and len(names) > 1:
            raise InputError(f"{file}: a table needs a column named time, not {' '.join(names)[:40]!a}")
        column = names.index("time") if "time" in names else 0
    elif any(len(words) > 1 for _, words in rows):
        raise InputError(f"{file}: line {rows[0][0]}: one time a line is needed, or a first line of names, with time")
    for number, words in rows:
        if len(words) <= column or not is_number(words[column]):
            raise InputError(f"{file}: line {number}: a time is needed, not {' '.join(words)[:40]!a}")
    return np.array([float(words[column]) for _, words in rows])


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8-sig").splitlines()


def open_array(file: str) -> Any:
    """A .npy file's array, memory-mapped. Raises InputError."""
    path = existing_file(file)
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # NumPy's header reader has exceptions from several libraries
        raise unreadable(path, "cannot be read as an array", error) from error
