"""DracoPy-based reader for glTF files with KHR_draco_mesh_compression."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Faces, Floats, Ints
from sdfcli.mesh.formats.apart import LIBRARIES
from sdfcli.mesh.formats.gltf import UNIT, Scene, well_formed
from sdfcli.mesh.formats.gltf_extensions import DRACO
from sdfcli.mesh.formats.notes import Told


def read(path: Path) -> tuple[Floats, Ints | Faces, Told]:
    """Vertices (v, 3), triangles (f, 3), and facts about the file. Called by apart.py."""
    with well_formed():
        scene = Scene.of(path, _decoded)
        vertices, faces = scene.placed()
        return vertices, faces, Told(scene.notes(), UNIT)


def _decoded(packed: bytes, attributes: dict[str, int]) -> tuple[Ints, dict[str, Any]]:
    """See `Decode` in gltf_data.py."""
    library: Any = import_module(LIBRARIES["draco"])
    try:
        mesh = library.decode(packed)
        faces = np.asarray(mesh.faces, np.int64)
        tables = {name: mesh.get_attribute_by_unique_id(number)["data"] for name, number in attributes.items()}
    except Exception as error:  # DracoPy has several exception types
        raise InputError(f"{DRACO}: {error}") from error
    return faces, tables
