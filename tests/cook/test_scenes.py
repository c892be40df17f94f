"""Scenes of tools/cook_bench with cooked fields, in each simulator that is installed.

Bounds are those of the scene: heights, clearances, a thread's pitch, a link's length, and the presets' tolerances.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from cook_bench import scenes

PACKAGES = {
    "mujoco": "mujoco",
    "mujoco_warp": "mujoco_warp",
    "newton": "newton",
    "bullet": "pybullet",
    "drake": "pydrake.all",
    "genesis": "genesis",
}
"""By the names of the bench's modules."""
TOUCH = {
    "mujoco": 1.5e-3,
    "mujoco_warp": 1.5e-3,
    "newton": 0.148 / 256,
    "bullet": 0.148 / 80,
    "drake": 0.148 / 48,
}
"""Depths and gaps, in metres, at which a ball touches the bunny, 0.148 m long. MuJoCo's contacts are critically damped
springs of T = 0.02 s: after a fall of 1 mm, with v = 0.14 m/s, it sinks by v T / e = 1.03 mm. The others: the preset's
tolerance."""
RIM = {
    "mujoco": 1e-4,
    "mujoco_warp": 1e-4,
    "newton": 0.2 / 256,
    "bullet": 0.2 / 256,
    "drake": 0.2 / 192,
    "genesis": 0.2 / 105,
}
"""The tolerance, in metres, of a plate of 0.2 m whose bore a peg enters; in MuJoCo the clearance."""
STEPS = {"mujoco_warp": 300, "newton": 300}
"""Fewer for simulators whose steps take some ten milliseconds on a CPU; the nut has all."""
GAINED = 1e-5
"""Joules; the lightest body, the ball of 4 g, gains 4e-5 in a fall of 1 mm."""


def on(*simulators: str, nightly: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """A test's simulators."""
    slow = [pytest.param(each, marks=pytest.mark.nightly) for each in nightly]
    return pytest.mark.parametrize("simulator", [*simulators, *slow])


def played(simulator: str, name: str, folder: Path, fields: str = "sdfcli") -> scenes.Result:
    """A scene's result, with finer fields where its clearance needs them; skips the test without the simulator."""
    pytest.importorskip(PACKAGES[simulator], reason=f"{simulator} is not installed: see tools/cook_bench")
    module = import_module(f"cook_bench.in_{simulator}")
    config = getattr(module, "FINER", {}).get(name, scenes.PRESET)
    steps = scenes.STEPS if name == "nut on bolt" else STEPS.get(simulator, scenes.STEPS)
    with mock.patch.object(scenes, "STEPS", steps):
        result: scenes.Result = module.played(scenes.scenes()[name], fields, folder, config)
    assert np.isfinite(result.poses).all()
    return result


@on("mujoco", "bullet", nightly=("mujoco_warp", "newton", "drake", "genesis"))
def test_peg_in_hole(simulator: str, tmp_path: Path) -> None:
    """A clearance of 0.1 mm in a plate of 0.2 m: it stands on the ground, in the bore."""
    peg = played(simulator, "peg in hole", tmp_path)
    x, y, z = peg.poses[1, :3, 3]
    assert abs(z) < 5e-4
    assert np.hypot(x, y) < 2 * scenes.CLEARANCE
    assert peg.penetration < RIM[simulator]
    assert peg.energy < GAINED


@on("bullet", nightly=("mujoco", "mujoco_warp", "newton", "drake"))
def test_nut_on_bolt(simulator: str, tmp_path: Path) -> None:
    """It turns down the thread by a pitch per turn, after its play, and less than the 1.9 turns without friction."""
    nut = played(simulator, "nut on bolt", tmp_path)
    x, y, z = nut.poses[1, :3, 3]
    assert 0.25 < -nut.turns < 1.9
    assert -z == pytest.approx(-scenes.PITCH * nut.turns, abs=3e-4)
    assert np.hypot(x, y) < 2e-4
    assert nut.penetration < 5e-4
    assert nut.energy < GAINED


@on("mujoco", "bullet", "drake", nightly=("mujoco_warp", "newton"))
def test_ball_on_bunny(simulator: str, tmp_path: Path) -> None:
    ball = played(simulator, "ball on bunny", tmp_path)
    assert abs(ball.penetration) < TOUCH[simulator]
    assert ball.energy < GAINED


@on("mujoco", "mujoco_warp", "bullet", "drake", nightly=("newton", "genesis"))
def test_box_at_rest(simulator: str, tmp_path: Path) -> None:
    """At its own half height: fields are exact beside flat faces, up to 0.1 mm."""
    box = played(simulator, "box at rest", tmp_path)
    x, y, z = box.poses[1, :3, 3]
    assert z == pytest.approx(0.01, abs=1e-4)
    assert np.hypot(x, y) < 1e-3
    assert box.penetration < 1e-3
    assert box.energy < GAINED


@on("mujoco", "newton", "bullet", "drake", nightly=("mujoco_warp",))
def test_chain_of_links(simulator: str, tmp_path: Path) -> None:
    """Each link hangs in the one above."""
    chain = played(simulator, "chain of links", tmp_path)
    falls = -np.diff(chain.poses[:, 2, 3])
    assert (np.abs(falls - scenes.HANG) < 5e-4).all()
    assert np.abs(chain.poses[:, :2, 3]).max() < 5e-4
    assert abs(chain.penetration) < 1e-3
    assert chain.energy < GAINED


@pytest.mark.parametrize(
    ("name", "fails"),
    [
        ("peg in hole", lambda own: own.poses[1, 2, 3] > 0.01),
        ("ball on bunny", lambda own: own.penetration > TOUCH["mujoco"]),
        pytest.param("nut on bolt", lambda own: abs(own.turns) < 0.1, marks=pytest.mark.nightly),
    ],
    ids=["peg", "ball", "nut"],
)
def test_mujoco_s_own(name: str, fails: Callable[[scenes.Result], bool], tmp_path: Path) -> None:
    """Octrees of the default depth."""
    assert fails(played("mujoco", name, tmp_path, "MuJoCo, depth 6"))
