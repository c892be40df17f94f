"""Scenes in Newton on the CPU, with cooked fields and with Newton's own; contacts by SolverXPBD."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import newton
import numpy as np
import trimesh
import warp as wp

from cook_bench.scenes import GRAVITY, PRESET, STEP, Result, Scene, cooked, part_of, watched
from cook_bench.shapes import Floats
from sdfcli.cook.config import CookConfig

FIELDS = ("sdfcli", "Newton, 64", "Newton, 256")
"""The last two: cells along the longest side; 64 is Newton's default."""
GAP = 0.0005
"""Distance in metres from which Newton looks for contacts."""


@contextmanager
def without_cuda() -> Iterator[None]:
    """Passes over Newton's refusals of fields on the CPU, one in `build_sdf` and one in `finalize`; both then work."""

    def is_cuda(device: Any) -> bool:
        return device.ordinal >= 0 or sys._getframe(1).f_code.co_name == "_finalize_impl"

    with (
        mock.patch.object(wp, "is_cuda_available", return_value=True),
        mock.patch.object(wp.Device, "is_cuda", property(is_cuda)),
    ):
        yield


def played(scene: Scene, fields: str, folder: Path, config: CookConfig = PRESET) -> Result:
    """Cooks, loads and runs a scene. Balls are meshes: Newton's own spheres meet a mesh's triangles, not its field."""
    wp.config.log_level = wp.LOG_WARNING
    scene, begun = _with_meshes(scene), time.perf_counter()
    with wp.ScopedDevice("cpu"):
        meshes = {name: _mesh(scene, name, fields, folder, config) for name in scene.meshes}
        seconds = time.perf_counter() - begun
        model = _model(scene, meshes)
        pipeline, solver = newton.CollisionPipeline(model), newton.solvers.SolverXPBD(model, iterations=10)
        contacts, states, control = pipeline.contacts(), [model.state(), model.state()], model.control()

        def step() -> None:
            states[0].clear_forces()
            pipeline.collide(states[0], contacts)
            solver.step(*states, control, contacts, STEP)
            states.reverse()

        size = sum(each.stat().st_size for each in folder.glob("*.sdf.npz"))
        return watched(scene, seconds, size, step, lambda: state(scene, states[0]))


def state(scene: Scene, now: Any) -> tuple[Floats, Floats]:
    """Poses and velocities of all bodies; Newton has the free ones."""
    poses, velocities = np.tile(np.eye(4), (len(scene.bodies), 1, 1)), np.zeros((len(scene.bodies), 6))
    free = [body.free for body in scene.bodies]
    places = np.array([_transform(body.position, body.turn) for body in scene.bodies])
    places[free], velocities[free] = now.body_q.numpy(), now.body_qd.numpy()
    for pose, place in zip(poses, places, strict=True):
        pose[:3, :3] = np.reshape(wp.quat_to_matrix(wp.normalize(wp.quat(*place[3:]))), (3, 3))
        pose[:3, 3] = place[:3]
    return poses, velocities


def _with_meshes(scene: Scene) -> Scene:
    """A scene with meshes for balls."""
    balls = {
        f"ball_{k}": trimesh.creation.icosphere(4, body.radius)
        for k, body in enumerate(scene.bodies)
        if body.mesh is None
    }
    bodies = [replace(body, mesh=body.mesh or f"ball_{k}", radius=0.0) for k, body in enumerate(scene.bodies)]
    return replace(scene, meshes=scene.meshes | balls, bodies=bodies)


def _mesh(scene: Scene, name: str, fields: str, folder: Path, config: CookConfig) -> Any:
    """A mesh with its field."""
    part = part_of(scene, name)
    options: dict[str, int] = {}
    if fields == "sdfcli":
        loaded = trimesh.load(folder / cooked("newton", part, config, folder).files[1], force="mesh")
        mesh = newton.Mesh(loaded.vertices, loaded.faces.ravel())
    else:
        mesh = newton.Mesh(part.vertices, part.faces.ravel())
        options = {"max_resolution": int(fields.rsplit(maxsplit=1)[-1])}
    before = set(folder.iterdir())
    with without_cuda():
        mesh.build_sdf(cache_dir=folder, **options)
    if not options and set(folder.iterdir()) != before:
        raise RuntimeError(f"{name}: Newton did not find the cooked field, and wrote its own")
    return mesh


def _model(scene: Scene, meshes: dict[str, Any]) -> Any:
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -GRAVITY))
    touch = newton.ModelBuilder.ShapeConfig(mu=scene.friction, mu_torsional=0.0, mu_rolling=0.0, gap=GAP)
    for body in scene.bodies:
        place = wp.transform(*_transform(body.position, body.turn))
        if body.free:
            builder.add_shape_mesh(builder.add_body(xform=place), mesh=meshes[body.mesh or ""], cfg=touch)
        else:
            builder.add_shape_mesh(-1, xform=place, mesh=meshes[body.mesh or ""], cfg=touch)
    if scene.ground is not None:
        builder.add_ground_plane(height=scene.ground, cfg=touch)
    with without_cuda():
        return builder.finalize()


def _transform(position: tuple[float, ...], turn: tuple[float, ...]) -> tuple[float, ...]:
    """As Newton has it: its quaternions end in w."""
    return (*position, *turn[1:], turn[0])
