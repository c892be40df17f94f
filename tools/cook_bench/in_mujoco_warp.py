"""Scenes in MuJoCo Warp on the CPU: with cooked octrees, and with MuJoCo's own of its default depth."""

from __future__ import annotations

import time
from pathlib import Path

import mujoco
import mujoco_warp as mjw
import warp as wp

import sdfcli
import sdfcli.mujoco
from cook_bench.in_mujoco import NODE, state, xml
from cook_bench.scenes import PRESET, Result, Scene, part_of, watched
from cook_bench.shapes import Floats
from sdfcli.cook import mujoco_warp as target
from sdfcli.cook.config import CookConfig
from sdfcli.cook.part import Cooked

FIELDS = ("sdfcli", "MuJoCo, depth 6")
CONTACTS = 512
"""Maximum contacts, and for each four constraints."""


def played(scene: Scene, fields: str, folder: Path, config: CookConfig = PRESET) -> Result:
    """Cooks, loads and runs a scene."""
    wp.config.log_level = wp.LOG_WARNING
    begun, size = time.perf_counter(), None
    with wp.ScopedDevice("cpu"):
        files = {name: _cooked(scene, name, config, folder) for name in scene.meshes} if fields == "sdfcli" else {}
        (folder / "scene.xml").write_text(xml(scene, files))
        model = mujoco.MjModel.from_xml_path(str(folder / "scene.xml"))
        warp_model = mjw.put_model(model)
        if files:
            sdfcli.mujoco.put_warp(warp_model, model, {f"{name}_sdf": folder / f"{name}.oct" for name in files})
            size = sum(each.stat().st_size for each in folder.glob("*.oct"))
        else:
            size = NODE * int(model.noct)
        seconds = time.perf_counter() - begun
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        warp_data = mjw.put_data(model, data, nconmax=CONTACTS, njmax=4 * CONTACTS)

        def now() -> tuple[Floats, Floats]:
            mjw.get_data_into(data, model, warp_data)
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_comVel(model, data)
            return state(model, data)

        return watched(scene, seconds, size, lambda: mjw.step(warp_model, warp_data), now)


def _cooked(scene: Scene, name: str, config: CookConfig, folder: Path) -> Cooked:
    part = part_of(scene, name)
    moved = target.placed(part)
    field = sdfcli.build((moved.vertices, moved.faces), **target.parameters(config, moved))
    return target.write(field, part, config, folder)
