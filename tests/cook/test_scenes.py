"""Scenes of tools/cook_bench with cooked fields, in each simulator; where the simulator's own fail, with its own, too.

Bounds are those of the scene: heights, a thread's pitch, a link's length.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from cook_bench import scenes

PACKAGES = {"mujoco": "mujoco", "mujoco_warp": "mujoco_warp", "newton": "newton"}
"""By the names of the bench's modules."""
SOFT = {"mujoco": 1.5e-3, "mujoco_warp": 1.5e-3, "newton": 6e-4}
"""Penetration in metres that default contacts allow a ball that falls, with any field: in MuJoCo 1.05e-3; in Newton the
preset's tolerance."""
SHORT = {"mujoco_warp": 300, "newton": 300}
"""Steps in simulators that take some ten milliseconds each on a CPU; the nut has all."""
FACET = 1e-4
"""Links are polygons, up to 0.07 mm within their circles."""
GAINED = 1e-5
"""Joules: a hundredth of the energy that the smallest fall sets free."""


def on(*simulators: str, nightly: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Parameters of a test."""
    slow = [pytest.param(each, marks=pytest.mark.nightly) for each in nightly]
    return pytest.mark.parametrize("simulator", [*simulators, *slow])


def played(simulator: str, name: str, folder: Path, fields: str = "sdfcli", **options: Any) -> scenes.Result:
    """A scene's result; skips the test without the simulator."""
    pytest.importorskip(PACKAGES[simulator], reason=f"needs `pip install {PACKAGES[simulator]}`")
    module = import_module(f"cook_bench.in_{simulator}")
    assert module.FIELDS[0] == "sdfcli"
    steps = scenes.STEPS if name == "nut on bolt" else SHORT.get(simulator, scenes.STEPS)
    with mock.patch.object(scenes, "STEPS", steps):
        result = module.played(scenes.scenes()[name], fields, folder, **options)
    assert np.isfinite(result.poses).all()
    return result


@on("mujoco", nightly=("mujoco_warp", "newton"))
def test_peg_in_hole(simulator: str, tmp_path: Path) -> None:
    """0.1 mm of clearance in a plate of 0.2 m."""
    cooked = played(simulator, "peg in hole", tmp_path)
    assert cooked.poses[1, 2, 3] < 0.01
    assert cooked.penetration < 1e-4
    assert cooked.energy < GAINED


@on(nightly=("mujoco", "newton"))
def test_nut_on_bolt(simulator: str, tmp_path: Path) -> None:
    """It turns down the thread: one pitch per turn, after the play in the thread."""
    cooked = played(simulator, "nut on bolt", tmp_path)
    assert abs(cooked.turns) > 1
    assert -cooked.poses[1, 2, 3] == pytest.approx(scenes.PITCH * abs(cooked.turns), abs=3e-4)
    assert cooked.penetration < 1e-3
    assert cooked.energy < GAINED


@on("mujoco", nightly=("mujoco_warp", "newton"))
def test_ball_on_bunny(simulator: str, tmp_path: Path) -> None:
    cooked = played(simulator, "ball on bunny", tmp_path)
    assert cooked.penetration < SOFT[simulator]
    assert cooked.energy < GAINED


@on("mujoco", "mujoco_warp", nightly=("newton",))
def test_box_at_rest(simulator: str, tmp_path: Path) -> None:
    cooked = played(simulator, "box at rest", tmp_path)
    assert cooked.poses[1, 2, 3] == pytest.approx(0.01, abs=1e-4)
    assert cooked.penetration < 1e-3
    assert cooked.energy < GAINED


@on("mujoco", "newton", nightly=("mujoco_warp",))
def test_chain_of_links(simulator: str, tmp_path: Path) -> None:
    """Each link hangs in the one above."""
    cooked = played(simulator, "chain of links", tmp_path)
    falls = -np.diff(cooked.poses[:, 2, 3])
    assert (falls > scenes.HANG - 2e-4).all()
    assert (falls < scenes.HANG + cooked.penetration + FACET).all()
    assert cooked.penetration < 1e-3
    assert cooked.energy < GAINED


@pytest.mark.parametrize(
    "name", ["peg in hole", "ball on bunny", pytest.param("nut on bolt", marks=pytest.mark.nightly)]
)
def test_mujoco_s_own(name: str, tmp_path: Path) -> None:
    """Its octrees of depth 6 fail."""
    own = played("mujoco", name, tmp_path, "MuJoCo, depth 6")
    if name == "peg in hole":
        assert own.poses[1, 2, 3] > 0.01
    elif name == "nut on bolt":
        assert abs(own.turns) < 0.1
    else:
        assert own.penetration > SOFT["mujoco"]
