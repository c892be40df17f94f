"""MuJoCo Warp: an `.oct` file and a mesh each, for octrees of compiled models; and an example for a mesh without a
scene."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from sdfcli.cook.config import CookConfig
from sdfcli.cook.mujoco import SCENES, parameters, predicted_bytes, write_example
from sdfcli.cook.part import Cooked, Part
from sdfcli.errors import DeviceError, InputError
from sdfcli.extract.marching_cubes import Surface
from sdfcli.extract.mesh_file import write_obj
from sdfcli.field.field import Field
from sdfcli.mujoco.oct_file import write_oct
from sdfcli.mujoco.octree import Octree
from sdfcli.pipeline import build

__all__ = ["SCENES", "parameters", "predicted_bytes", "write"]


def write(field: Field, part: Part, config: CookConfig, folder: Path) -> Cooked:
    """Writes `NAME.obj`, `NAME.oct`, and for a mesh without a scene `NAME.xml`; the geom takes this mesh as type `sdf`.

    MuJoCo moves and turns meshes to their principal axes, and octrees with them: the field is built again for the mesh
    as MuJoCo has it. `sdfcli.mujoco.put` or `put_warp` puts it in place of the octree of the mesh `NAME_sdf`.

    Raises DeviceError without MuJoCo, InputError for a mesh that it refuses.
    """
    mesh, name = f"{part.name}_sdf", f"{part.name}.oct"
    write_obj(folder / f"{part.name}.obj", Surface(part.vertices, part.faces.astype(np.uint32), cut=False))
    sign = field.info["parameters"]["sign"]
    moved = build(_moved(part, folder / f"{part.name}.obj"), **{**parameters(config, part), "sign": sign})
    write_oct(folder / name, Octree.of(moved))
    cooked = Cooked(
        [f"{part.name}.obj", name],
        mjcf={"type": "sdf", "mesh": mesh},
        mjcf_asset=[Element("mesh", name=mesh, file=f"{part.name}.obj")],
    )
    if part.place == part.source:
        cooked.files.append(write_example(part, cooked, folder))
    return cooked


def _moved(part: Part, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and faces of a mesh file in the frame that MuJoCo gives them."""
    try:
        import mujoco

        from sdfcli.mujoco.put import mesh_of
    except ImportError as error:
        raise DeviceError(f"MuJoCo is not installed: {error}; use `pip install mujoco`") from error
    spec = mujoco.MjSpec()
    spec.add_mesh(name=part.name, file=str(path.resolve()))
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname=part.name)
    try:
        return mesh_of(spec.compile(), part.name)
    except ValueError as error:
        raise InputError(f"MuJoCo refuses the mesh: {' '.join(str(error).split())}") from error
