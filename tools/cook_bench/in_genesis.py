"""Scenes in Genesis on the CPU, with cooked fields and with its own, which it computes from the meshes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any
from unittest import mock

import genesis as gs
import numpy as np
import trimesh

from cook_bench.scenes import DENSITY, GRAVITY, PRESET, STEP, Result, Scene, cooked, part_of, watched
from cook_bench.shapes import Floats
from sdfcli.cook.config import CookConfig

FIELDS = ("sdfcli", "Genesis, default", "Genesis, 128")
"""The last: nodes along every axis, the maximum; by default they depend on wall thickness."""


def played(scene: Scene, fields: str, folder: Path, config: CookConfig = PRESET) -> Result:
    """Cooks, loads and runs a scene. Without a cooked field in its cache, Genesis computes one there."""
    if not gs._initialized:
        gs.init(backend=gs.cpu, precision="32", logging_level="error")
    begun = time.perf_counter()
    with mock.patch.dict(os.environ, GS_CACHE_FILE_PATH=str(folder)):
        grids = {name: _grid(scene, name, fields, folder, config) for name in scene.meshes}
        before = set(folder.glob("gsd/*"))
        world = gs.Scene(
            sim_options=gs.options.SimOptions(dt=STEP, gravity=(0, 0, -GRAVITY)),
            profiling_options=gs.options.ProfilingOptions(show_FPS=False),
            show_viewer=False,
        )
        if scene.ground is not None:
            world.add_entity(gs.morphs.Plane(pos=(0, 0, scene.ground)))
        bodies = []
        for body in scene.bodies:
            place = {"pos": body.position, "quat": body.turn, "fixed": not body.free}
            grid = grids[body.mesh] if body.mesh else {}
            material = gs.materials.Rigid(rho=DENSITY, friction=max(scene.friction, 0.01), **grid)
            if body.mesh is None:
                morph = gs.morphs.Sphere(radius=body.radius, **place)
            else:
                file = str(folder / f"{body.mesh}.obj")
                morph = gs.morphs.Mesh(file=file, convexify=False, watertighten=None, **place)
            bodies.append(world.add_entity(morph, material=material))
        world.build()
    made = set(folder.glob("gsd/*"))
    primitives = (scene.ground is not None) + sum(body.mesh is None for body in scene.bodies)
    if fields == "sdfcli" and len(made - before) > primitives:
        raise RuntimeError("Genesis did not find a cooked field, and wrote its own")
    seconds, size = time.perf_counter() - begun, sum(each.stat().st_size for each in made)
    return watched(scene, seconds, size, world.step, lambda: _state(bodies))


def _grid(scene: Scene, name: str, fields: str, folder: Path, config: CookConfig) -> dict[str, int]:
    """Writes a mesh, and its field if it is cooked; the material's arguments that fix the grid."""
    part = part_of(scene, name)
    if fields == "sdfcli":
        cooked("genesis", part, config, folder)
        found: dict[str, int] = json.loads((folder / f"{name}.json").read_text())
        return found
    (folder / f"{name}.obj").write_bytes(part.obj)
    return {"sdf_min_res": 128, "sdf_max_res": 128} if fields == FIELDS[2] else {}


def _state(bodies: list[Any]) -> tuple[Floats, Floats]:
    poses, velocities = np.tile(np.eye(4), (len(bodies), 1, 1)), np.zeros((len(bodies), 6))
    for body, pose, velocity in zip(bodies, poses, velocities, strict=True):
        pose[:] = trimesh.transformations.quaternion_matrix(body.get_quat().numpy())
        pose[:3, 3] = body.get_pos().numpy()
        velocity[:3], velocity[3:] = body.get_vel().numpy(), body.get_ang().numpy()
    return poses, velocities
