"""Asset: the collision meshes of a mesh file, a field or a scene."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sdfcli.cook.part import Part, part_name
from sdfcli.cook.scene import Scene, read_scene
from sdfcli.errors import InputError, UsageError
from sdfcli.field.field import Field
from sdfcli.field.stated_error import StatedError
from sdfcli.field.store import is_field, load
from sdfcli.mesh.formats.units import in_metres
from sdfcli.mesh.load import load_mesh
from sdfcli.params import check_scale
from sdfcli.runtime.files import existing_file

SCENES = (".urdf", ".xml", ".usd", ".usda", ".usdc", ".usdz")
"""File name endings of scenes."""


@dataclass(frozen=True)
class Asset:
    """What is cooked.

    path    the file.
    parts   its collision meshes.
    faults  lines about collision meshes that cannot be used.
    notes   lines about assumptions.
    scene   the scene with these meshes; None for a mesh or a field.
    field   the field that is the only part's; None: it is built.
    """

    path: Path
    parts: list[Part]
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    scene: Scene | None = None
    field: Field | None = None


def read_asset(path: Path, scale: float | None = None, root: Path | None = None) -> Asset:
    """Reads an asset. scale: factor from a mesh file's coordinates to metres; None: by the unit that it names. root:
    folder that a scene's files must be in; None: see `read_scene`.

    Raises InputError for a file that cannot be read, or without a collision mesh; UsageError for a scale of a
    scene or a field, which are in metres.
    """
    path = existing_file(path)
    check_scale(scale, None)
    if path.suffix.lower() in SCENES:
        scene = read_scene(path, root)
        if scene.parts or scene.faults or scene.kind != "usd":
            _check_unscaled(path, "a scene", scale)
            if not scene.parts and not scene.faults:
                raise InputError(f"{path}: no collision mesh in it")
            return Asset(path, scene.parts, scene.faults, scene=scene)
    if is_field(path):
        _check_unscaled(path, "a field", scale)
        return _of_field(path)
    return _of_mesh(path, scale)


def _check_unscaled(path: Path, kind: str, scale: float | None) -> None:
    if scale is not None:
        raise UsageError(f"{path}: --scale is for mesh files; this is {kind}")


def _of_mesh(path: Path, scale: float | None) -> Asset:
    mesh, notes = load_mesh(path, scale=scale), list[str]()
    if mesh.units is None and scale is None:
        size = " x ".join(f"{each:.3g}" for each in np.ptp(mesh.vertices, axis=0))
        notes.append(f"the file names no unit: taken as metres, {size}; --scale 0.001 if these are millimetres")
    vertices = np.multiply(mesh.vertices, in_metres(mesh.units), dtype=np.float64)
    part = Part(part_name(path.stem), vertices, mesh.faces.astype(np.int64), str(path), str(path))
    return Asset(path, [part], notes=notes)


def _of_field(path: Path) -> Asset:
    from sdfcli.extract.isosurface import isosurface

    found = load(path)
    try:
        StatedError.of(found)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    surface = isosurface(found)
    part = Part(part_name(path.stem), surface.vertices, surface.faces.astype(np.int64), str(path), str(path))
    return Asset(path, [part], notes=["the field's unit is taken as a metre"], field=found)
