"""Scenes in Drake, by hydroelastic contact: with surfaces of cooked fields, and with the meshes themselves.

One of two bodies in contact must be compliant. Every other body is rigid, and has a surface; the others are compliant:
a ball, a convex mesh, or tetrahedra.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pydrake.all as drake

from cook_bench.scenes import GRAVITY, PRESET, STEP, Result, Scene, cooked, inertia, part_of, watched
from cook_bench.shapes import Floats, Tetrahedra
from sdfcli.cook.config import CookConfig

FIELDS = ("sdfcli", "Drake, the mesh")
FINER = {"peg in hole": CookConfig(cells=256), "nut on bolt": CookConfig(cells=128)}
"""Scenes with a clearance below the preset's tolerance, by name."""
MODULUS, DISSIPATION, HINT = 1e7, 10.0, 0.002
"""Of compliant bodies: in Pa; in s/m; edges of a ball's tetrahedra in metres."""


def played(scene: Scene, fields: str, folder: Path, config: CookConfig = PRESET) -> Result:
    """Cooks, loads and runs a scene."""
    begun = time.perf_counter()
    builder = drake.DiagramBuilder()
    plant, _ = drake.AddMultibodyPlantSceneGraph(builder, STEP)
    plant.mutable_gravity_field().set_gravity_vector([0, 0, -GRAVITY])
    bodies = [_added(plant, scene, number, fields, folder, config) for number in range(len(scene.bodies))]
    if scene.ground is not None:
        place = drake.RigidTransform([0, 0, scene.ground])
        properties = drake.ProximityProperties()
        drake.AddRigidHydroelasticProperties(properties)
        drake.AddContactMaterial(DISSIPATION, None, _friction(scene), properties)
        plant.RegisterCollisionGeometry(plant.world_body(), place, drake.HalfSpace(), "ground", properties)
    plant.Finalize()
    diagram = builder.Build()
    simulator = drake.Simulator(diagram)
    context = plant.GetMyContextFromRoot(simulator.get_mutable_context())
    for body, each in zip(bodies, scene.bodies, strict=True):
        if each.free:
            plant.SetFreeBodyPose(context, body, drake.RigidTransform(drake.Quaternion(each.turn), each.position))
    simulator.Initialize()
    seconds = time.perf_counter() - begun
    made = [*folder.glob("*.obj")] if fields == "sdfcli" else []
    size = sum(each.stat().st_size for each in made) or None

    def step() -> None:
        simulator.AdvanceTo(simulator.get_context().get_time() + STEP)

    return watched(scene, seconds, size, step, lambda: _state(scene, plant, context, bodies))


def _added(plant: Any, scene: Scene, number: int, fields: str, folder: Path, config: CookConfig) -> Any:
    """A body of the plant with its shape, rigid or compliant."""
    each = scene.bodies[number]
    if number % 2 == 0:
        assert each.mesh is not None
        shape = drake.Mesh(str(_surface(scene, each.mesh, fields, folder, config)))
    elif each.mesh is None:
        shape = drake.Sphere(each.radius)
    elif each.mesh in scene.solids:
        shape = drake.Mesh(str(_write_vtk(scene.solids[each.mesh], folder / f"{each.mesh}.vtk")))
    else:
        path = folder / "compliant" / f"{each.mesh}.obj"
        path.parent.mkdir(exist_ok=True)
        scene.meshes[each.mesh].export(path)
        shape = drake.Convex(str(path))
    properties = drake.ProximityProperties()
    if number % 2 == 0:
        drake.AddRigidHydroelasticProperties(properties)
    else:
        drake.AddCompliantHydroelasticProperties(HINT, MODULUS, properties)
    drake.AddContactMaterial(DISSIPATION, None, _friction(scene), properties)
    name, place = f"body {number}", drake.RigidTransform()
    if not each.free:
        turn = drake.RigidTransform(drake.Quaternion(each.turn), each.position)
        plant.RegisterCollisionGeometry(plant.world_body(), turn, shape, name, properties)
        return plant.world_body()
    mass, moments = inertia(scene, each)
    x, y, z = (np.diag(moments) / mass).tolist()
    spatial = drake.SpatialInertia(mass, np.zeros(3), drake.UnitInertia(x, y, z))
    body = plant.AddRigidBody(name, plant.AddModelInstance(name), spatial)
    plant.RegisterCollisionGeometry(body, place, shape, name, properties)
    return body


def _friction(scene: Scene) -> Any:
    return drake.CoulombFriction(scene.friction, scene.friction)


def _surface(scene: Scene, mesh: str, fields: str, folder: Path, config: CookConfig) -> Path:
    """A file with a mesh's surface, from its field or as it is."""
    path = folder / f"{mesh}.obj"
    if not path.exists():
        if fields == "sdfcli":
            cooked("drake", part_of(scene, mesh), config, folder)
        else:
            scene.meshes[mesh].export(path)
    return path


def _write_vtk(solid: Tetrahedra, path: Path) -> Path:
    """Writes a legacy VTK file."""
    lines = ["# vtk DataFile Version 3.0", "solid", "ASCII", "DATASET UNSTRUCTURED_GRID"]
    lines.append(f"POINTS {len(solid.vertices)} double")
    lines += [f"{x!r} {y!r} {z!r}" for x, y, z in solid.vertices.tolist()]
    lines.append(f"CELLS {len(solid.cells)} {5 * len(solid.cells)}")
    lines += [f"4 {a} {b} {c} {d}" for a, b, c, d in solid.cells.tolist()]
    lines.append(f"CELL_TYPES {len(solid.cells)}")
    path.write_text("\n".join([*lines, *["10"] * len(solid.cells)]) + "\n")
    return path


def _state(scene: Scene, plant: Any, context: Any, bodies: list[Any]) -> tuple[Floats, Floats]:
    poses, velocities = np.tile(np.eye(4), (len(bodies), 1, 1)), np.zeros((len(bodies), 6))
    for each, pose, velocity, body in zip(scene.bodies, poses, velocities, bodies, strict=True):
        if each.free:
            pose[:] = plant.EvalBodyPoseInWorld(context, body).GetAsMatrix4()
            twist = plant.EvalBodySpatialVelocityInWorld(context, body)
            velocity[:3], velocity[3:] = twist.translational(), twist.rotational()
        else:
            pose[:] = drake.RigidTransform(drake.Quaternion(each.turn), each.position).GetAsMatrix4()
    return poses, velocities
