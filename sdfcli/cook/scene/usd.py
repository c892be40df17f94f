"""USD: meshes with PhysicsCollisionAPI. The written scene is a layer over the original."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli.cook.part import Cooked
from sdfcli.cook.scene.base import Arrays, Meshes, Scene, scaled
from sdfcli.cook.scene.paths import relative
from sdfcli.errors import InputError
from sdfcli.mesh.formats.apart import asked
from sdfcli.mesh.formats.notes import note
from sdfcli.runtime.files import written_whole

TEXT = (".usd", ".usda")
"""Endings for text."""


class Usd(Scene):
    """A stage, in metres whatever its unit."""

    kind = "usd"

    def __init__(self, path: Path, root: Path) -> None:
        """Reads a stage. root: see `root_of`. Raises InputError as `usd_reader.read` does, DeviceError without
        usd-core."""
        super().__init__(path)
        if path.suffix.lower() not in TEXT:
            self.name = f"{path.stem}.usda"
        with tempfile.TemporaryDirectory(prefix="sdfcli-") as folder:
            told = asked(path.resolve(), folder, "usd", "sdfcli.cook.scene.usd_reader", str(root))
            vertices, faces = (np.load(Path(folder, f"{name}.npy")) for name in ("vertices", "faces"))
        for each in told["notes"]:
            note(path, each)
        self._head: dict[str, str | float] = told["head"]
        self._colliders: list[dict[str, Any]] = told["colliders"]
        ends = np.cumsum([(0, 0), *told["sizes"]], axis=0)[1:-1].T
        geometries = list(zip(np.split(vertices, ends[0]), np.split(faces, ends[1]), strict=True))
        meshes = Meshes(self)
        self._names = [self._part(meshes, collider, geometries) for collider in self._colliders]

    def _part(self, meshes: Meshes, collider: dict[str, Any], geometries: list[Arrays]) -> str:
        path, fault = collider["path"], collider["fault"]

        def read() -> tuple[Arrays, str]:
            if fault is not None:
                raise InputError(fault)
            return scaled(geometries[collider["geometry"]], collider["scale"]), str(self.path)

        key = path if fault is not None else (collider["geometry"], *collider["scale"])
        return meshes.add(key, path.rpartition("/")[2], f"{self.path.name}: {path}", read, tuple(collider["scale"]))

    def write(self, folder: Path, cooked: Mapping[str, Cooked], home: Path | None = None) -> list[str]:
        overs = _Over()
        for collider, part in zip(self._colliders, self._names, strict=True):
            if part in cooked and (cooked[part].usd or cooked[part].usd_schemas):
                for instance in collider["instances"]:
                    overs.at(instance).metadata.append("instanceable = false")
                overs.at(collider["path"]).change(cooked[part])
        below = _asset(relative(self.path.resolve(), home or folder))
        head = [
            f"{key} = {_value('token' if isinstance(each, str) else 'double', each)}"
            for key, each in self._head.items()
        ]
        lines = ["#usda 1.0", "(", *(f"    {line}" for line in [*head, f"subLayers = [{below}]"]), ")", ""]
        with written_whole(folder / self.name, force=False) as temporary:
            temporary.write_text("\n".join([*lines, *overs.lines(0), ""]), encoding="utf-8", newline="\n")
        return [self.name]


class _Over:
    """Changes to a prim and its descendants."""

    def __init__(self) -> None:
        self.metadata: list[str] = []
        self._attributes: list[str] = []
        self._below: dict[str, _Over] = {}

    def at(self, path: str) -> _Over:
        """The prim with an absolute path, from the root."""
        found = self
        for name in path.strip("/").split("/"):
            found = found._below.setdefault(name, _Over())
        return found

    def change(self, cooked: Cooked) -> None:
        """Adds a target's changes."""
        if cooked.usd_schemas:
            schemas = ", ".join(_value("token", name) for name in cooked.usd_schemas)
            self.metadata.append(f"prepend apiSchemas = [{schemas}]")
        self._attributes += [f"{kind} {name} = {_value(kind, value)}" for name, (kind, value) in cooked.usd.items()]

    def lines(self, depth: int) -> list[str]:
        """The descendants' text."""
        found, space = [], "    " * depth
        for name, prim in self._below.items():
            metadata = [f"{space}    {line}" for line in dict.fromkeys(prim.metadata)]
            found += [
                f'{space}over "{name}"{" (" if metadata else ""}',
                *metadata,
                *([f"{space})"] if metadata else []),
            ]
            found += [f"{space}{{", *(f"{space}    {line}" for line in prim._attributes)]
            found += [*prim.lines(depth + 1), f"{space}}}"]
        return found


def _value(kind: str, value: Any) -> str:
    """A value as a layer's text, by its type."""
    kind = kind.removeprefix("uniform ")
    if kind.endswith("[]"):
        return f"[{', '.join(_value(kind[:-2], each) for each in value)}]"
    if kind == "asset":
        return _asset(str(value))
    if kind in ("token", "string"):
        return _quoted(str(value))
    if isinstance(value, list | tuple | np.ndarray):
        return f"({', '.join(_value(kind, each) for each in value)})"
    return str(int(value)) if kind.startswith(("bool", "int", "uint", "uchar")) else repr(float(value))


def _quoted(text: str) -> str:
    escaped = re.sub(r'(["\\])', r"\\\1", text)
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\x{ord(found[0]):02x}", escaped) + '"'


def _asset(name: str) -> str:
    """A path; a relative one leads from the layer's folder, not from search paths."""
    if re.search(r"[\x00-\x1f\x7f]|@@@", name):
        raise InputError(f"{name[:80]!a}: a path with characters that USD cannot name")
    anchored = name if re.match(r"\.{0,2}/|\w+:", name) else f"./{name}"
    return f"@@@{anchored}@@@" if "@" in anchored else f"@{anchored}@"
