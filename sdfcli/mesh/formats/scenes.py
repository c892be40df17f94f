"""GLB, glTF and 3MF files, which trimesh reads, and what is looked at before it does.

Scenes name other files, claim sizes, and hold pictures: nothing beside a mesh's own folder is opened, nothing that
claims more than there is unpacked, and no picture decoded, whatever trimesh would do.
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
from sdfcli.mesh.formats.polygons import Floats, Ints
from sdfcli.runtime.memory import require

GLB = b"glTF"
"""How a binary glTF file begins."""

MOST_WITHOUT_DATA = 10_000
"""Entries of a glTF's accessors without a buffer, which are all zeros: no mesh needs many of those."""

MOST_PACKED = 200
"""No scene packs better than 1 to this: what claims to is not unpacked."""

UNPACKING = 15
"""Bytes of memory that a byte of a 3MF file's unpacked model takes while it is read, at least."""

TRIANGLE = 100
"""Bytes of memory that a triangle takes, once all places are filled in which a 3MF file puts an object, at least."""


def read_scene(path: Path) -> tuple[Floats, Ints]:
    """Vertices (v, 3) and triangles (f, 3) of a GLB, glTF or 3MF file: each geometry with its transforms.

    Of other files only the buffers beside a glTF are opened. Pictures are not decoded.
    """
    data = path.read_bytes()
    triangles = 0
    options: dict[str, Any] = {"skip_materials": True, "resolver": {}}
    if path.suffix.lower() == ".3mf":
        kind, triangles = "3mf", _check_3mf(data)
    else:
        kind = "glb" if data.startswith(GLB) else "gltf"
        options["resolver"] = _check_gltf(path, data)
    import trimesh

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
    """How many triangles a 3MF file has, by its own account: trimesh reads a part of them only where components are
    nested into many instances. Refuses what unpacks to too much, and entities that stand for other files."""
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
                    # What comes later or from other files is not counted.
                    triangles[element.get("id")] = own + sum(triangles.get(part, 0) for part in parts)
                    element.clear()
                elif kind == "item":
                    held += triangles.get(element.get("objectid"), 0)
    require(TRIANGLE * held, "reading it")  # objects in objects: a few lines may say billions
    return held


def _check_gltf(path: Path, data: bytes) -> dict[str, bytes]:
    """The buffers that a glTF names, by their names. Refuses what claims to be larger than it is: trimesh makes room
    for it first."""
    text = data
    if data.startswith(GLB):
        claimed, place = int.from_bytes(data[8:12], "little"), 12
        if claimed != len(data):
            raise InputError(f"the header says {claimed:,} bytes, the file has {len(data):,}")
        while place < len(data):
            end = place + 8 + int.from_bytes(data[place : place + 4], "little")
            if end > len(data):
                raise InputError(f"byte {place:,}: a chunk that ends {end - len(data):,} bytes after the file")
            if text is data:  # the first chunk, as trimesh has it
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
    """What is in a file that another one names. It must lie in the folder of that one, or below, whatever links say."""
    folder = path.parent.resolve()
    place = Path(folder, unquote(name)).resolve()
    if not place.is_relative_to(folder) or not place.is_file():
        raise InputError(f"names {name[:80]!a}, which is no file in its folder")
    require(place.stat().st_size, f"reading {place.name!a}")
    return place.read_bytes()


def units_of(path: Path) -> str | None:
    """The unit of a file's coordinates, where its format has one."""
    suffix = path.suffix.lower()
    if suffix in (".glb", ".gltf"):
        return "metre"
    if suffix != ".3mf":
        return None
    try:
        with zipfile.ZipFile(path) as archive, archive.open("3D/3dmodel.model") as model:
            head = model.read(4096)
    except (OSError, KeyError, zipfile.BadZipFile):
        return None
    found = re.search(rb"<model[^>]*\bunit=[\"'](\w+)", head)
    return found[1].decode() if found else "millimeter"
