"""MuJoCo Warp: as for MuJoCo, except that geoms collide by their mesh's octree, into which the file is put."""

from __future__ import annotations

from pathlib import Path

from sdfcli.cook import mujoco
from sdfcli.cook.config import CookConfig
from sdfcli.cook.mujoco import SCENES, parameters, predicted_bytes
from sdfcli.cook.part import Cooked, Part
from sdfcli.field.field import Field

__all__ = ["SCENES", "parameters", "predicted_bytes", "write"]


def write(field: Field, part: Part, config: CookConfig, folder: Path) -> Cooked:
    """Writes the files of `cook.mujoco.write`; geoms name no plugin, which runs on the CPU alone. After `put_model`,
    `sdfcli.mujoco.put_warp` puts `NAME.oct` in place of the octree of the mesh `NAME_sdf`."""
    return mujoco.write(field, part, config, folder, octree=True)
