"""Scene, the formats' base, and Meshes, which collects a scene's parts."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from sdfcli.cook.part import Cooked, Part, part_name
from sdfcli.errors import InputError, SdfError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.load import load_mesh, make_mesh
from sdfcli.params import UNITS

Arrays = tuple[Floats, Ints]
"""Vertices (v, 3) and faces (f, 3)."""


class Scene(ABC):
    """A robot or a world.

    kind    `urdf`, `mjcf` or `usd`.
    path    its file.
    name    name of the file that is written.
    parts   its collision meshes, each once, however often it occurs.
    faults  one line per collision mesh that cannot be used, with its place; it stays as it is.
    """

    kind: ClassVar[str]

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name
        self.parts: list[Part] = []
        self.faults: list[str] = []

    @abstractmethod
    def write(self, folder: Path, cooked: Mapping[str, Cooked], home: Path | None = None) -> list[str]:
        """Writes the scene into an existing folder, with the parts in `cooked`, by name, replacing their meshes.
        Returns the written files' names. home: the folder that they are moved to; None: they stay.

        All other files that the scene names are named by paths relative to `home`; by absolute ones on another drive.
        """


class Meshes:
    """Collects a scene's parts and faults; each file is read once."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._names: dict[Hashable, str] = {}
        self._taken: set[str] = set()
        self._files: dict[Path, Arrays | InputError] = {}

    def add(
        self,
        key: Hashable,
        name: str,
        place: str,
        read: Callable[[], tuple[Arrays, str]],
        scale: tuple[float, float, float] | None = None,
    ) -> str:
        """Name for the part with a key; empty for an unusable mesh. The key's first occurrence is read. place: where
        it is, for messages. read: returns its arrays, and its file. scale: see Part."""
        if key not in self._names:
            try:
                (vertices, faces), source = read()
                checked = make_mesh(vertices, faces, "the mesh")
            except (SdfError, OSError, ValueError) as error:
                self._scene.faults.append(_printable(f"{place}: {error}"))
                self._names[key] = ""
            else:
                own = part_name(name, self._taken)
                self._taken.add(own.lower())
                faces = checked.faces.astype(np.int64)
                self._scene.parts.append(Part(own, checked.vertices, faces, place, source, scale))
                self._names[key] = own
        return self._names[key]

    def of_file(self, path: Path) -> Arrays:
        """A mesh file in metres: as the file's unit says, if it names one. Raises as `load_mesh` does."""
        if path not in self._files:
            try:
                mesh = load_mesh(path)
                self._files[path] = mesh.vertices * _metres(mesh.units), mesh.faces.astype(np.int64)
            except InputError as error:
                self._files[path] = error
        found = self._files[path]
        if isinstance(found, InputError):
            raise found
        return found


def _metres(unit: str | None) -> float:
    """A mesh file's unit in metres: a name in UNITS, or a length such as `0.5 m`; None: metres."""
    return 1.0 if unit is None else UNITS[unit] / UNITS["m"] if unit in UNITS else float(unit.split()[0])


def scaled(arrays: Arrays, scale: Iterable[float]) -> Arrays:
    """A mesh scaled per axis; faces are turned round if the scale mirrors it. Raises InputError for a zero scale."""
    factors = np.array(list(scale), np.float64)
    if not (np.isfinite(factors).all() and factors.all()):
        raise InputError(f"a scale of {' '.join(f'{each:g}' for each in factors)}; it must be finite and not 0")
    vertices, faces = arrays
    with np.errstate(over="ignore", under="ignore"):
        return vertices * factors, faces[:, ::-1] if np.prod(np.sign(factors)) < 0 else faces


def numbers(text: str, count: int, name: str) -> list[float]:
    """An attribute's numbers. Raises InputError unless it has `count` finite ones."""
    words = text.split()
    if len(words) == count and all(re.fullmatch(r"[-+.0-9eE]+", word) for word in words):
        try:
            found = [float(word) for word in words]
        except ValueError:
            found = []
        if found and np.isfinite(found).all():
            return found
    raise InputError(f"{name} {text[:60]!a}: use {count} finite numbers")


def _printable(text: str) -> str:
    """A text with escapes for line feeds and control characters, as file names may have them."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def shown(name: str) -> str:
    """A name for messages: short, and quoted with escapes if it has odd characters."""
    return name if re.fullmatch(r"[\w./:+@-]([\w ./:+@-]{0,98}[\w./:+@-])?", name, re.ASCII) else f"{name[:80]!a}"
