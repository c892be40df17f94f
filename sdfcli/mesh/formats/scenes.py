"""Reader of GLB, glTF and 3MF files by trimesh, with checks against hostile files before.

Scenes refer to other files, state sizes, and embed pictures: only files in the mesh's own folder are opened, sizes are
compared with the data, and pictures are not decoded.
"""

from __future__ import annotations

import io
import json
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.apart import EXTRAS, units_apart
from sdfcli.runtime.libraries import import_trimesh
from sdfcli.runtime.memory import require

GLB = b"glTF"
"""Magic bytes of a binary glTF file."""

MOST_WITHOUT_DATA = 10_000
"""Maximum entries of a glTF's accessors without a buffer, which are all zeros."""

MOST_PACKED = 200
"""Maximum ratio of packing of a scene; above it, a file is rejected without unpacking."""

UNPACKING = 15
"""Minimum working bytes per byte of a 3MF file's unpacked model."""

TRIANGLE = 100
"""Minimum working bytes per triangle of a 3MF file, counted once for each instance of its object."""


def read_scene(path: Path) -> tuple[Floats, Ints]:
    """Vertices (v, 3) and triangles (f, 3) of a GLB, glTF or 3MF file: each geometry with its transforms.

    Other files are opened only for the buffers of a glTF, in its folder. Pictures are not decoded.
    """
    data = path.read_bytes()
    triangles = 0
    options: dict[str, Any] = {"skip_materials": True, "resolver": {}}
    if path.suffix.lower() == ".3mf":
        kind, triangles = "3mf", _check_3mf(data)
    else:
        kind = "glb" if data.startswith(GLB) else "gltf"
        options["resolver"] = _check_gltf(path, data)
    trimesh = import_trimesh()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = trimesh.load_scene(io.BytesIO(data), file_type=kind, process=False, **options).to_mesh()
    if not hasattr(loaded, "faces"):
        return np.empty((0, 3)), np.empty((0, 3), np.int64)
    if len(loaded.faces) < triangles:
        raise InputError(
            f"{triangles:,} triangles, of which trimesh reads {len(loaded.faces):,}: merge the file's nested components"
        )
    return np.asarray(loaded.vertices, np.float64), np.asarray(loaded.faces, np.int64)


def _check_3mf(data: bytes) -> int:
    """The number of triangles that a 3MF file states, to compare with trimesh, which misses some of deeply nested
    components. Raises InputError for a file that unpacks to too much, or has external XML entities."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        packed, size = sum(entry.compress_size for entry in entries), len(data)
        if packed > size:
            raise InputError(f"holds {packed:,} packed bytes by its own account, but has {size:,}")
        unpacked = sum(entry.file_size for entry in entries)
        if unpacked > MOST_PACKED * size:
            raise InputError(f"unpacks to {unpacked:,} bytes, more than {MOST_PACKED} times its size")
        models = sum(entry.file_size for entry in entries if entry.filename.lower().endswith(".model"))
        require(UNPACKING * models + (unpacked - models), "reading it")
        name = next((name for name in archive.namelist() if "3d/3dmodel.model" in name.lower()), None)
        if name is None:
            raise InputError("no 3D/3dmodel.model in this 3MF file")
        triangles: dict[str | None, int] = {}
        held = 0
        with archive.open(name) as model:
            for _, element in ElementTree.iterparse(model):
                kind = element.tag.rpartition("}")[2]
                if kind == "object":
                    parts = [part.get("objectid") for part in element.iterfind("{*}components/{*}component")]
                    own = len(element.findall("{*}mesh/{*}triangles/{*}triangle"))
                    # Objects defined later or in other files are not counted.
                    triangles[element.get("id")] = own + sum(triangles.get(part, 0) for part in parts)
                    element.clear()
                elif kind == "item":
                    held += triangles.get(element.get("objectid"), 0)
    require(TRIANGLE * held, "reading it")  # nested objects: a few lines may state billions
    return held


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
    if suffix != ".3mf":
        return None
    try:
        with zipfile.ZipFile(path) as archive, archive.open("3D/3dmodel.model") as model:
            head = model.read(4096)
    except (OSError, KeyError, zipfile.BadZipFile):
        return None
    found = re.search(rb"<model[^>]*\bunit=[\"'](\w+)", head)
    return found[1].decode() if found else "millimeter"
