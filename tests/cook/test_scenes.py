"""Scenes of tools/cook_bench.py in MuJoCo, with cooked fields and with MuJoCo's own octrees at their default depth."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mujoco", reason="MuJoCo is not installed")

from conftest import tool

SOFT = 1.5e-3
"""Penetration in metres that MuJoCo's default contacts allow a ball that falls; measured with any field: 1.05e-3."""


def figures(text: str) -> list[float]:
    return [float(each) for each in re.findall(r"-?\d+\.?\d*", text)]


def played(name: str, folder: Path) -> tuple[Any, Any]:
    """Penetration, energy gained, steps per second and the end: with cooked fields, and with MuJoCo's own."""
    bench = tool("cook_bench")
    scene = bench.scenes()[name]
    cooked, own = bench.cook(scene, folder)[0], bench.own(scene, 6)[0]
    return bench.run(scene, cooked), bench.run(scene, own)


def test_peg_in_hole(tmp_path: Path) -> None:
    """0.1 mm of clearance in a plate of 0.2 m."""
    (deepest, energy, _, end), own = played("peg in hole", tmp_path)
    assert (end, own[3]) == ("in", "stuck")
    assert deepest < 1e-4
    assert energy < 1e-5


@pytest.mark.nightly
def test_nut_on_bolt(tmp_path: Path) -> None:
    """It turns down the thread: one pitch, 2 mm, per turn."""
    (deepest, energy, _, end), own = played("nut on bolt", tmp_path)
    down, turns = figures(end)
    assert turns > 1
    assert down == pytest.approx(2 * turns, abs=0.3)
    assert figures(own[3])[1] < 0.1
    assert deepest < 1e-3
    assert energy < 1e-5


def test_ball_on_bunny(tmp_path: Path) -> None:
    (deepest, energy, *_), own = played("ball on bunny", tmp_path)
    assert deepest < SOFT < own[0]
    assert energy < 1e-5


def test_box_at_rest(tmp_path: Path) -> None:
    (deepest, energy, _, end), _ = played("box at rest", tmp_path)
    assert figures(end)[0] == pytest.approx(10, abs=0.1)
    assert deepest < 1e-3
    assert energy < 1e-5


def test_chain_of_links(tmp_path: Path) -> None:
    """Three links hang from the first, each 31.8 mm below the one above, or where they touch, 0.2 mm lower."""
    (deepest, energy, _, end), _ = played("chain of links", tmp_path)
    assert -3 * 32 - 3 * 1e3 * deepest <= figures(end)[0] <= -3 * 31.8
    assert deepest < 1e-3
    assert energy < 1e-5
