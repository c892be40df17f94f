"""Reader of GLB and glTF files by trimesh, with checks against hostile files before.

Scenes refer to other files, state sizes, and embed pictures: only files in the mesh's own folder are opened, sizes are
compared with the data, and pictures are not decoded.
"""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.apart import EXTRAS, units_apart
from sdfcli.mesh.formats.threemf import unit_of
from sdfcli.runtime.libraries import import_trimesh
from sdfcli.runtime.memory import require

GLB = b"glTF"
"""Magic bytes of a binary glTF file."""

MOST_WITHOUT_DATA = 10_000
"""Maximum entries of a glTF's accessors without a buffer, which are all zeros."""


def read_scene(path: Path) -> tuple[Floats, Ints]:
    """Vertices (v, 3) and triangles (f, 3) of a GLB or glTF file: each geometry with its transforms.

    Other files are opened only for the buffers of a glTF, in its folder. Pictures are not decoded.
    """
    data = path.read_bytes()
    kind = "glb" if data.startswith(GLB) else "gltf"
    options: dict[str, Any] = {"skip_materials": True, "resolver": _check_gltf(path, data)}
    trimesh = import_trimesh()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = trimesh.load_scene(io.BytesIO(data), file_type=kind, process=False, **options).to_mesh()
    if not hasattr(loaded, "faces"):
        return np.empty((0, 3)), np.empty((0, 3), np.int64)
    return np.asarray(loaded.vertices, np.float64), np.asarray(loaded.faces, np.int64)


def _check_gltf(path: Path, data: bytes) -> dict[str, bytes]:
    """The external buffers of a glTF, by name. Raises InputError for stated sizes beyond the data, as trimesh would
    allocate them."""
    text = data
    if data.startswith(GLB):
        claimed, place = int.from_bytes(data[8:12], "little"), 12
        if claimed != len(data):
            raise InputError(f"the header says {claimed:,} bytes, the file has {len(data):,}")
        while place < len(data):
            end = place + 8 + int.from_bytes(data[place : place + 4], "little")
            if end > len(data):
                raise InputError(f"byte {place:,}: a chunk that ends {end - len(data):,} bytes after the file")
            if text is data:  # the first chunk, as in trimesh
                text = data[place + 8 : end]
            place = end
    elif path.suffix.lower() == ".glb":
        raise InputError("no header of a GLB file" if data else "the file is empty")
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise InputError(f"not the JSON of a glTF file: {error}" if text else "the file is empty") from error
    missing = sum(accessor["count"] for accessor in tree.get("accessors", []) if "bufferView" not in accessor)
    if missing > MOST_WITHOUT_DATA:
        raise InputError(f"accessors of {missing:,} entries, but no data for them")
    names = [buffer["uri"] for buffer in tree.get("buffers", []) if "uri" in buffer]
    return {name: _beside(path, name) for name in names if "base64," not in name}


def _beside(path: Path, name: str) -> bytes:
    """The content of a file that `path` refers to. Raises InputError unless it lies, links resolved, in the folder of
    `path` or below."""
    folder = path.parent.resolve()
    place = Path(folder, unquote(name)).resolve()
    if not place.is_relative_to(folder) or not place.is_file():
        raise InputError(f"names {name[:80]!a}, which is no file in its folder")
    require(place.stat().st_size, f"reading {place.name!a}")
    return place.read_bytes()


def units_of(path: Path) -> str | None:
    """The unit of a file's coordinates; None where the format has none."""
    suffix = path.suffix.lower()
    if suffix in (".glb", ".gltf"):
        return "metre"
    if suffix in EXTRAS:
        return units_apart(path)
    return unit_of(path) if suffix == ".3mf" else None
