"""Reader of 3MF files by trimesh, with checks against hostile files before."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.apart import EXTRAS, units_apart
from sdfcli.runtime.libraries import import_trimesh
from sdfcli.runtime.memory import require

MOST_PACKED = 200
"""Maximum ratio of packing of a scene; above it, a file is rejected without unpacking."""

UNPACKING = 15
"""Minimum working bytes per byte of a 3MF file's unpacked model."""

TRIANGLE = 100
"""Minimum working bytes per triangle of a 3MF file, counted once for each instance of its object."""


def read_scene(path: Path) -> tuple[Floats, Ints]:
    """Vertices (v, 3) and triangles (f, 3) of a 3MF file: each geometry with its transforms."""
    data = path.read_bytes()
    triangles = _check_3mf(data)
    trimesh = import_trimesh()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = trimesh.load_scene(io.BytesIO(data), file_type="3mf", process=False).to_mesh()
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
