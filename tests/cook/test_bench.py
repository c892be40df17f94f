"""What tools/cook_bench measures, on motions that are known."""

from __future__ import annotations

import numpy as np
import pytest
from cook_bench import scenes

import cook_parts


@pytest.mark.parametrize(("scene", "name"), [("nut on bolt", "nut"), ("chain of links", "link")])
def test_solids(scene: str, name: str) -> None:
    """Tetrahedra fill the mesh, without overlaps; pieces have all of its corners."""
    made = scenes.scenes()[scene]
    mesh, solid = made.meshes[name], made.solids[name]
    corner = solid.vertices[solid.cells]
    volume = np.linalg.det(corner[:, 1:] - corner[:, :1]) / 6
    assert volume.min() > 0
    assert volume.sum() == pytest.approx(mesh.volume, rel=1e-9)
    assert {*map(tuple, np.concatenate(made.pieces[name]))} == {*map(tuple, mesh.vertices)}


def test_a_known_motion() -> None:
    """A box turns around z at 0.7 turns per second, while it sinks into the floor by a known depth at a known speed."""
    rng, scene = cook_parts.random(), scenes.scenes()["box at rest"]
    speed, depth, steps = rng.uniform(0.1, 1), rng.uniform(1e-4, 5e-3), 0

    def step() -> None:
        nonlocal steps
        steps += 1

    def state() -> tuple[np.ndarray, np.ndarray]:
        share = steps / scenes.STEPS
        poses, velocities = np.tile(np.eye(4), (2, 1, 1)), np.zeros((2, 6))
        poses[0, 2, 3], poses[1, 2, 3] = -0.01, 0.01 - depth * share
        c, s = np.cos(2 * np.pi * 0.7 * share), np.sin(2 * np.pi * 0.7 * share)
        poses[1, :2, :2] = [[c, -s], [s, c]]
        velocities[1] = speed * share, 0, 0, 0, 0, speed * share
        return poses, velocities

    result = scenes.watched(scene, 1.0, None, step, state)
    x, y, z = 0.04, 0.03, 0.02
    mass = 1000 * x * y * z
    kinetic = mass * speed**2 / 2 + mass * (x**2 + y**2) / 12 * speed**2 / 2
    assert steps == 1000
    assert result.turns == pytest.approx(0.7)
    assert result.penetration == pytest.approx(depth, abs=2e-8)  # float32
    assert result.energy == pytest.approx(max(kinetic - mass * 9.81 * depth, 0), rel=1e-6, abs=1e-12)
