"""Meshes beside cooked files, and a check for all targets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from sdfcli.cook.part import Part
from sdfcli.errors import InputError
from sdfcli.field.field import Field
from sdfcli.field.stated_error import is_unsigned
from sdfcli.runtime.libraries import import_trimesh


def welded(part: Part) -> Part:
    """The part as trimesh loads it from a file, with equal vertices welded, so that loading it changes nothing:
    simulators compute keys from the loaded mesh."""
    mesh = import_trimesh().Trimesh(part.vertices, part.faces, process=True)
    if np.array_equal(mesh.vertices, part.vertices) and np.array_equal(mesh.faces, part.faces):
        return part
    return replace(part, vertices=np.array(mesh.vertices, np.float64), faces=np.array(mesh.faces, np.int64))


def predicted_mesh_bytes(part: Part) -> int:
    """Estimated size of the file that `write_part` writes."""
    return 60 * len(part.vertices) + 20 * len(part.faces)


def write_part(part: Part, folder: Path) -> str:
    """Writes `NAME.obj`. Returns its name."""
    name = f"{part.name}.obj"
    (folder / name).write_bytes(part.obj)
    return name


def check_signed(field: Field, part: Part) -> None:
    """Raises InputError for a field without an inside."""
    if is_unsigned(field):
        raise InputError(f"{part.place}: the mesh has no inside, and simulators need one; use --solid")
