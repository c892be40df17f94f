"""Files for Bullet, asked through PyBullet: a ball's contact distance is the field's distance less its radius."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import cook_parts
import shapes
from sdfcli.cook import bullet as target
from sdfcli.cook.config import BAND, CookConfig
from sdfcli.cook.part import Part
from sdfcli.errors import InputError
from sdfcli.field.field import Field

bullet = pytest.importorskip("pybullet", reason="needs `pip install pybullet`")
POINTS, BALLS = 100_000, 100


@pytest.fixture
def rng() -> np.random.Generator:
    return cook_parts.random()


@pytest.fixture(autouse=True)
def world() -> Iterator[None]:
    client = bullet.connect(bullet.DIRECT)
    yield
    bullet.disconnect(client)


def loaded(part: Part, config: CookConfig, folder: Path) -> tuple[int, Field]:
    """The part as a fixed body, through URDF, and its field."""
    field = cook_parts.field_of(target, part, config)
    written = target.write(field, part, config, folder)
    assert written.urdf is not None
    robot = ElementTree.Element("robot", name="part")
    link = ElementTree.SubElement(robot, "link", name="part")
    ElementTree.SubElement(ElementTree.SubElement(link, "collision"), "geometry").append(written.urdf)
    ElementTree.ElementTree(robot).write(folder / "part.urdf")
    bullet.setAdditionalSearchPath(str(folder))
    return bullet.loadURDF(str(folder / "part.urdf"), useFixedBase=1), field


def test_distances(rng: np.random.Generator, tmp_path: Path) -> None:
    """At 10^5 points within the band, Bullet's distance is the exact one, within the tolerance, and at cells' corners
    the field's."""
    part = cook_parts.some_part(rng)
    config = CookConfig(tolerance=cook_parts.longest(part) / rng.uniform(40, 60))
    assert config.tolerance is not None
    body, field = loaded(part, config, tmp_path)
    radius = 20 * config.tolerance
    shape = bullet.createCollisionShape(bullet.GEOM_SPHERE, radius=radius)
    balls = [bullet.createMultiBody(1, shape) for _ in range(BALLS)]
    bullet.setCollisionFilterGroupMask(body, -1, 1, 2)
    for ball in balls:
        bullet.setCollisionFilterGroupMask(ball, -1, 2, 1)  # not each other
    origin, cell = np.frombuffer((tmp_path / "part.cdf").read_bytes()[:24]), 2 * config.tolerance
    nodes = cook_parts.near_nodes(part, origin, cell, config.tolerance, POINTS // 10, rng)
    points = cook_parts.near_points(part, BAND * config.tolerance, POINTS - len(nodes), rng)
    points = np.concatenate((nodes, points))
    answer = np.full(POINTS, np.nan)
    for first in range(0, POINTS, BALLS):
        for ball, at in zip(balls, points[first:], strict=False):
            bullet.resetBasePositionAndOrientation(ball, at, (0, 0, 0, 1))
        bullet.performCollisionDetection()
        for contact in bullet.getContactPoints(body):
            answer[first + contact[2] - balls[0]] = contact[8] + radius
    assert np.abs(answer - cook_parts.exact(part, points)).max() <= config.tolerance
    np.testing.assert_allclose(answer[: len(nodes)], field.sample(nodes), rtol=0, atol=1e-9 * radius)


@pytest.mark.parametrize("kind", ["box", "ball", "cylinder", "capsule"])
def test_rest(kind: str, rng: np.random.Generator, tmp_path: Path) -> None:
    """A box and a ball come to rest on a plate, at its height; shapes for which Bullet tests no point fall through."""
    scale, top = rng.uniform(0.5, 2), rng.uniform(0.1, 0.4)
    part = cook_parts.part_of(shapes.box((-scale, -scale, 0), (scale, scale, top)))
    config = CookConfig()
    loaded(part, config, tmp_path)
    half = 0.2 * scale
    shape = bullet.createCollisionShape(
        {
            "box": bullet.GEOM_BOX,
            "ball": bullet.GEOM_SPHERE,
            "cylinder": bullet.GEOM_CYLINDER,
            "capsule": bullet.GEOM_CAPSULE,
        }[kind],
        radius=half,
        height=2 * half,
        halfExtents=[half] * 3,
    )
    body = bullet.createMultiBody(1, shape, basePosition=(0, 0, top + 1.2 * half))
    bullet.setGravity(0, 0, -9.81)
    bullet.setTimeStep(1 / 1000)
    for _ in range(1500):
        bullet.stepSimulation()
    position, _ = bullet.getBasePositionAndOrientation(body)
    velocity, _ = bullet.getBaseVelocity(body)
    if kind in ("cylinder", "capsule"):
        assert position[2] < 0
        return
    assert abs(velocity[2]) < 1e-3  # a ball may roll
    assert abs(position[2] - top - half) < cook_parts.longest(part) / 80  # the preset's tolerance


def test_size(rng: np.random.Generator, tmp_path: Path) -> None:
    """The prediction is within a factor of 2; a limit coarsens the preset, and refuses less than 16 cells."""
    part, config = cook_parts.some_part(rng), CookConfig(cells=30)
    written = target.write(cook_parts.field_of(target, part, config), part, config, tmp_path)
    size = cook_parts.size_of(written.files, tmp_path)
    assert size / 2 <= target.predicted_bytes(config, part) <= 2 * size
    assert target.predicted_bytes(CookConfig(max_bytes=size), part) <= size < target.predicted_bytes(CookConfig(), part)
    with pytest.raises(InputError, match="use a larger --max-bytes"):
        target.parameters(CookConfig(max_bytes=1000), part)


def test_one_point(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="all vertices are one point"):
        target.parameters(CookConfig(), cook_parts.part_of((np.ones((3, 3)), np.array([[0, 1, 2]]))))
