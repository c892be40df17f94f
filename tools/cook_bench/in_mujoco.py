"""Scenes in MuJoCo: with the plugin's fields, and with MuJoCo's own octrees."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np

import sdfcli.mujoco
from cook_bench.scenes import GRAVITY, PRESET, STEP, Result, Scene, cooked, part_of, watched
from cook_bench.shapes import Floats
from sdfcli.cook.config import CookConfig
from sdfcli.cook.part import Cooked
from sdfcli.cook.scene.mjcf import change_geom

FIELDS = ("sdfcli", "MuJoCo, depth 6", "MuJoCo, depth 8")
"""The last two: MuJoCo's default depth, and one that many scenes need."""
NODE = 148
"""Bytes of a node in MuJoCo's octrees."""


def played(scene: Scene, fields: str, folder: Path, config: CookConfig = PRESET) -> Result:
    """Cooks, loads and runs a scene."""
    begun = time.perf_counter()
    if fields == "sdfcli":
        files = {name: cooked("mujoco", part_of(scene, name), config, folder) for name in scene.meshes}
        (folder / "scene.xml").write_text(xml(scene, files))
        model = sdfcli.mujoco.load(folder / "scene.xml")
        size = sum(each.stat().st_size for each in folder.glob("*.oct"))
    else:
        spec = mujoco.MjSpec.from_string(xml(scene, {}))
        for mesh in spec.meshes:
            mesh.octree_maxdepth = int(fields[-1])
        model = spec.compile()
        size = NODE * int(model.noct)
    seconds = time.perf_counter() - begun
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return watched(scene, seconds, size, lambda: mujoco.mj_step(model, data), lambda: state(model, data))


def state(model: Any, data: Any) -> tuple[Floats, Floats]:
    """Poses and velocities of all bodies but the world."""
    poses, velocities = np.tile(np.eye(4), (model.nbody - 1, 1, 1)), np.zeros((model.nbody - 1, 6))
    poses[:, :3, :3], poses[:, :3, 3] = data.xmat[1:].reshape(-1, 3, 3), data.xpos[1:]
    spin_first = np.zeros(6)
    for number, velocity in enumerate(velocities):
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, number + 1, spin_first, 0)
        velocity[:] = np.roll(spin_first, 3)
    return poses, velocities


def xml(scene: Scene, files: dict[str, Cooked]) -> str:
    """The scene in MJCF, with cooked geoms, or geoms of type `sdf` with the meshes."""
    root = ElementTree.fromstring(
        f'<mujoco><option timestep="{STEP}" gravity="0 0 {-GRAVITY}"/>'
        f'<default><geom friction="{scene.friction}"/></default>'
        "<extension/><asset/><worldbody/></mujoco>"
    )
    extension, asset, world = root[2:]
    for name, mesh in scene.meshes.items():
        numbers = {"vertex": mesh.vertices, "face": mesh.faces}
        words = {key: " ".join(map(repr, rows.reshape(-1).tolist())) for key, rows in numbers.items()}
        ElementTree.SubElement(asset, "mesh", words, name=name)
        if name in files:
            extension.extend(files[name].mjcf_extension)
            asset.extend(files[name].mjcf_asset)
    if scene.ground is not None:
        ElementTree.SubElement(world, "geom", type="plane", size="0 0 1", pos=f"0 0 {scene.ground}")
    for each in scene.bodies:
        place = {"pos": words_of(each.position), "quat": words_of(each.turn)}
        body = ElementTree.SubElement(world, "body", place)
        if each.free:
            ElementTree.SubElement(body, "freejoint")
        if each.mesh is None:
            ElementTree.SubElement(body, "geom", type="sphere", size=f"{each.radius}")
            continue
        kind = "mesh" if each.mesh in files else "sdf"
        geom = ElementTree.SubElement(body, "geom", type=kind, mesh=each.mesh)
        if each.mesh in files:
            change_geom(geom, body, files[each.mesh], {})
    return ElementTree.tostring(root, "unicode")


def words_of(numbers: tuple[float, ...]) -> str:
    """Numbers as MJCF has them."""
    return " ".join(repr(float(each)) for each in numbers)
