"""MuJoCo Warp: an `.oct` file and a mesh each, for octrees of compiled models; and an example for a mesh without a
scene."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from sdfcli.cook.config import CookConfig
from sdfcli.cook.mesh_file import write_part
from sdfcli.cook.mujoco import SCENES, parameters, predicted_bytes, write_example
from sdfcli.cook.part import Cooked, Part
from sdfcli.errors import DeviceError, InputError
from sdfcli.field.field import Field
from sdfcli.mujoco.oct_file import write_oct
from sdfcli.mujoco.octree import Octree

__all__ = ["SCENES", "parameters", "placed", "predicted_bytes", "write"]


def placed(part: Part) -> Part:
    """A part as MuJoCo moves and turns it, to its principal axes, and octrees with it. Raises DeviceError without
    MuJoCo, InputError for a mesh that it refuses."""
    try:
        import mujoco

        from sdfcli.mujoco.compiled import mesh_of
    except ImportError as error:
        raise DeviceError(f"MuJoCo is not installed: {error}; use `pip install mujoco`") from error
    spec = mujoco.MjSpec()
    spec.add_mesh(name=part.name, uservert=part.vertices.reshape(-1), userface=part.faces.astype(np.int32).reshape(-1))
    # Geoms that collide would need the mesh's convex hull.
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname=part.name, contype=0, conaffinity=0)
    try:
        vertices, faces = mesh_of(spec.compile(), part.name)
    except ValueError as error:
        raise InputError(f"MuJoCo refuses the mesh: {' '.join(str(error).split())}") from error
    return replace(part, vertices=vertices, faces=faces)


def write(field: Field, part: Part, config: CookConfig, folder: Path) -> Cooked:
    """Writes `NAME.obj`, `NAME.oct`, and for a mesh without a scene `NAME.xml`; the geom takes this mesh as type `sdf`.
    `sdfcli.mujoco.put` or `put_warp` replaces the octree of the mesh `NAME_sdf` by the field."""
    mesh, name = f"{part.name}_sdf", f"{part.name}.oct"
    write_oct(folder / name, Octree.of(field))
    cooked = Cooked(
        [name],
        mjcf={"type": "sdf", "mesh": mesh},
        mjcf_asset=[Element("mesh", name=mesh, file=f"{part.name}.obj")],
    )
    if part.place == part.source:
        cooked.files.extend(write_example(part, cooked, folder))
    else:
        cooked.files.append(write_part(part, folder))
    return cooked
