"""Surfaces for Drake, through its URDF parser: distances, and a box at rest by hydroelastic contact."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import cook_parts
import shapes
from sdfcli.cook import drake as target
from sdfcli.cook.config import CookConfig
from sdfcli.cook.part import Part
from sdfcli.cook.scene import read_scene
from sdfcli.errors import InputError

drake = pytest.importorskip("pydrake.all", reason="needs `pip install drake`")
POINTS = 20_000


@pytest.fixture
def rng() -> np.random.Generator:
    return cook_parts.random()


def world(part: Part, config: CookConfig, folder: Path) -> tuple[Any, Any]:
    """A builder, and a plant with the part, fixed, through URDF."""
    written = target.write(cook_parts.field_of(target, part, config), part, config, folder)
    assert written.urdf is not None
    robot = ElementTree.Element("robot", {"name": "part", "xmlns:drake": "http://drake.mit.edu"})
    collision = ElementTree.SubElement(ElementTree.SubElement(robot, "link", name="part"), "collision")
    ElementTree.SubElement(collision, "geometry").append(written.urdf)
    collision.extend(written.urdf_collision)
    ElementTree.ElementTree(robot).write(folder / "part.urdf")
    builder = drake.DiagramBuilder()
    plant, scene = drake.AddMultibodyPlantSceneGraph(builder, 1e-3)
    drake.Parser(plant).AddModels(str(folder / "part.urdf"))
    plant.WeldFrames(plant.world_frame(), plant.GetFrameByName("part"))
    (shape,) = plant.GetCollisionGeometriesForBody(plant.GetBodyByName("part"))
    assert scene.model_inspector().GetProximityProperties(shape).HasProperty("hydroelastic", "compliance_type")
    return builder, plant


def test_distances(rng: np.random.Generator, tmp_path: Path) -> None:
    """Drake's signed distance to the surface is the exact one, within the tolerance."""
    part = cook_parts.some_part(rng)
    config = CookConfig(tolerance=cook_parts.longest(part) / rng.uniform(20, 40))
    assert config.tolerance is not None
    builder, plant = world(part, config, tmp_path)
    plant.Finalize()
    diagram = builder.Build()
    context = plant.GetMyContextFromRoot(diagram.CreateDefaultContext())
    query = plant.get_geometry_query_input_port().Eval(context)
    points = cook_parts.near_points(part, 2 * config.tolerance, POINTS, rng)
    answer = np.array([query.ComputeSignedDistanceToPoint(at)[0].distance for at in points])
    assert np.abs(answer - cook_parts.exact(part, points)).max() <= config.tolerance


@pytest.mark.parametrize(("ending", "scale"), [("gltf", 1.0), ("gltf", 2.5), ("obj", 1.0)])
def test_axes(ending: str, scale: float, rng: np.random.Generator, tmp_path: Path) -> None:
    """A part is placed as Drake places the mesh file in a URDF: glTF files are turned."""
    trimesh = pytest.importorskip("trimesh")
    shape = trimesh.Trimesh(*shapes.box((0, 0, 0), tuple(rng.uniform(0.1, 1, 3))), process=False)
    files = shape.scene().export(file_type="gltf") if ending == "gltf" else {"model.obj": shape.export(file_type="obj")}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    mesh = f'<mesh filename="model.{ending}" scale="{scale} {scale} {scale}"/>'
    text = f'<robot name="r"><link name="l"><collision><geometry>{mesh}</geometry></collision></link></robot>'
    (tmp_path / "r.urdf").write_text(text)
    builder = drake.DiagramBuilder()
    plant, scene = drake.AddMultibodyPlantSceneGraph(builder, 1e-3)
    drake.Parser(plant).AddModels(str(tmp_path / "r.urdf"))
    (collision,) = plant.GetCollisionGeometriesForBody(plant.GetBodyByName("l"))
    hull = scene.model_inspector().GetConvexHull(collision)
    corners = np.array([hull.vertex(each) for each in range(hull.num_vertices())])
    (part,) = read_scene(tmp_path / "r.urdf").parts
    found = target.placed(part).vertices
    np.testing.assert_allclose(
        [found.min(axis=0), found.max(axis=0)], [corners.min(axis=0), corners.max(axis=0)], atol=1e-6
    )


def test_rest(rng: np.random.Generator, tmp_path: Path) -> None:
    """A compliant box comes to rest on a plate, at its height less its own small deformation."""
    scale, top = rng.uniform(0.5, 2), rng.uniform(0.1, 0.4)
    part = cook_parts.part_of(shapes.box((-scale, -scale, 0), (scale, scale, top)))
    config = CookConfig(cells=32)
    builder, plant = world(part, config, tmp_path)
    half, modulus = 0.2 * scale, 1e7
    model = plant.AddModelInstance("box")
    body = plant.AddRigidBody("box", model, drake.SpatialInertia.SolidBoxWithMass(1, 2 * half, 2 * half, 2 * half))
    properties = drake.ProximityProperties()
    drake.AddCompliantHydroelasticProperties(half, modulus, properties)
    drake.AddContactMaterial(10.0, None, drake.CoulombFriction(0.5, 0.5), properties)
    shape = drake.Box(2 * half, 2 * half, 2 * half)
    plant.RegisterCollisionGeometry(body, drake.RigidTransform(), shape, "box", properties)
    plant.set_contact_model(drake.ContactModel.kHydroelastic)
    plant.Finalize()
    diagram = builder.Build()
    simulator = drake.Simulator(diagram)
    context = plant.GetMyContextFromRoot(simulator.get_mutable_context())
    plant.SetFreeBodyPose(context, body, drake.RigidTransform([0, 0, top + 1.01 * half]))
    simulator.AdvanceTo(0.5)
    height = plant.EvalBodyPoseInWorld(context, body).translation()[2]
    velocity = plant.EvalBodySpatialVelocityInWorld(context, body)
    assert np.linalg.norm(velocity.translational()) < 1e-3
    assert abs(height - top - half) < cook_parts.longest(part) / 32 / target.RATIO / 8  # flat sides: the field's share
    results = plant.get_contact_results_output_port().Eval(context)
    assert results.num_hydroelastic_contacts() == 1


def test_size(rng: np.random.Generator, tmp_path: Path) -> None:
    """The prediction is within a factor of 2; a limit coarsens the preset."""
    part, config = cook_parts.some_part(rng), CookConfig(cells=40)
    written = target.write(cook_parts.field_of(target, part, config), part, config, tmp_path)
    size = cook_parts.size_of(written.files, tmp_path)
    assert size / 2 <= target.predicted_bytes(config, part) <= 2 * size
    assert target.predicted_bytes(CookConfig(max_bytes=size), part) <= size < target.predicted_bytes(CookConfig(), part)
    with pytest.raises(InputError, match="use a larger --max-bytes"):
        target.parameters(CookConfig(max_bytes=100), part)
