"""Scenes in Bullet, by PyBullet: with cooked fields, with triangles, and with V-HACD's convex parts.

Neither two fields nor two meshes of triangles collide: every other body has a field, the others are convex pieces.
Triangles are for fixed bodies only.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pybullet as bullet

from cook_bench.scenes import GRAVITY, PRESET, STEP, Result, Scene, cooked, inertia, part_of, watched
from cook_bench.shapes import Floats
from sdfcli.cook.config import CookConfig

FIELDS = ("sdfcli", "Bullet, triangles", "Bullet, V-HACD")
FINER = {"peg in hole": CookConfig(cells=128, margin=0.001), "nut on bolt": CookConfig(cells=64)}
"""Scenes with a clearance below the preset's tolerance, by name."""
VOXELS = 1_000_000


def played(scene: Scene, fields: str, folder: Path, config: CookConfig = PRESET) -> Result:
    """Cooks, loads and runs a scene."""
    client = bullet.connect(bullet.DIRECT)
    try:
        bullet.setAdditionalSearchPath(str(folder))
        bullet.setGravity(0, 0, -GRAVITY)
        bullet.setTimeStep(STEP)
        begun = time.perf_counter()
        files = [_file(scene, number, fields, folder, config) for number in range(len(scene.bodies))]
        bodies = [_loaded(scene, number, name, folder) for number, name in enumerate(files)]
        seconds = time.perf_counter() - begun
        if scene.ground is not None:
            plane = bullet.createCollisionShape(bullet.GEOM_PLANE)
            bullet.createMultiBody(0, plane, basePosition=(0, 0, scene.ground))
        made = {name for name in files if name.endswith((".cdf", "_parts.obj"))}
        size = sum((folder / name).stat().st_size for name in made) or None
        return watched(scene, seconds, size, bullet.stepSimulation, lambda: _state(bodies))
    finally:
        bullet.disconnect(client)


def _file(scene: Scene, number: int, fields: str, folder: Path, config: CookConfig) -> str:
    """The name of a body's file, which is written unless another body did; empty for a ball."""
    body = scene.bodies[number]
    if body.mesh is None:
        return ""
    if fields == "sdfcli" and number % 2 == 0:
        name = f"{body.mesh}.cdf"
        if not (folder / name).exists():
            cooked("bullet", part_of(scene, body.mesh), config, folder)
    elif fields == "Bullet, V-HACD":
        name = f"{body.mesh}_parts.obj"
        if not (folder / name).exists():
            scene.meshes[body.mesh].export(folder / f"{body.mesh}.obj")
            words = (str(folder / each) for each in (f"{body.mesh}.obj", name, "log.txt"))
            bullet.vhacd(*words, resolution=VOXELS)
    elif body.free:
        name = f"{body.mesh}_pieces.obj"
        _write_pieces(scene.pieces.get(body.mesh) or [np.asarray(scene.meshes[body.mesh].vertices)], folder / name)
    else:
        name = f"{body.mesh}.obj"
        scene.meshes[body.mesh].export(folder / name)
    return name


def _write_pieces(pieces: list[Floats], path: Path) -> None:
    """Writes convex pieces as groups of an OBJ file. Bullet makes their hulls: triangles only have to name all
    corners."""
    lines, first = list[str](), 1
    for number, corners in enumerate(pieces):
        lines.append(f"o {number}")
        lines += [f"v {x!r} {y!r} {z!r}" for x, y, z in corners.tolist()]
        lines += [f"f {k} {k + 1} {k + 2}" for k in range(first, first + len(corners) - 2)]
        first += len(corners)
    path.write_text("\n".join(lines) + "\n")


def _loaded(scene: Scene, number: int, name: str, folder: Path) -> int:
    """Loads a body through URDF, and returns Bullet's number for it."""
    body = scene.bodies[number]
    mass, moments = inertia(scene, body) if body.free else (0.0, np.zeros((3, 3)))
    x, y, z = np.diag(moments).tolist()
    shape = f'<sphere radius="{body.radius}"/>'
    if name:
        shape = f'<{"cdf" if name.endswith(".cdf") else "mesh"} filename="{name}"/>'
    concave = ' concave="yes"' if name == f"{body.mesh}.obj" else ""
    path = folder / f"{number}.urdf"
    path.write_text(
        f'<robot name="body"><link name="body"{concave}><inertial><mass value="{mass}"/>'
        f'<inertia ixx="{x}" ixy="0" ixz="0" iyy="{y}" iyz="0" izz="{z}"/></inertial>'
        f"<collision{concave}><geometry>{shape}</geometry></collision></link></robot>"
    )
    made = bullet.loadURDF(
        str(path),
        body.position,
        (*body.turn[1:], body.turn[0]),
        useFixedBase=not body.free,
        flags=bullet.URDF_USE_INERTIA_FROM_FILE,  # Bullet takes a field's for 0
    )
    # Bullet multiplies two bodies' friction. Its margin for meshes is a millimetre.
    bullet.changeDynamics(
        made, -1, lateralFriction=scene.friction**0.5, linearDamping=0, angularDamping=0, collisionMargin=0
    )
    return int(made)


def _state(bodies: list[int]) -> tuple[Floats, Floats]:
    poses, velocities = np.tile(np.eye(4), (len(bodies), 1, 1)), np.zeros((len(bodies), 6))
    for pose, velocity, body in zip(poses, velocities, bodies, strict=True):
        pose[:3, 3], turn = bullet.getBasePositionAndOrientation(body)
        pose[:3, :3] = np.reshape(bullet.getMatrixFromQuaternion(turn), (3, 3))
        velocity[:3], velocity[3:] = bullet.getBaseVelocity(body)
    return poses, velocities
