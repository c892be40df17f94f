"""Motions: how far vertices move, and what stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shapes
from sdfcli.apps.bench.motions import MOTIONS, Motion, breathing, inflation, turn, twist
from sdfcli.mesh.arrays import Floats

AMOUNTS = st.floats(-0.2, 0.2)
NUMBERS = st.integers(0, 2**32 - 1)


def cloud(number: int) -> Floats:
    """Vertices of a box of any place and size, and some in it."""
    rng = np.random.default_rng(number)
    size = rng.uniform(1, 3, 3)
    return np.concatenate([shapes.cube()[0] * size, rng.random((20, 3)) * size]) + rng.normal(scale=5, size=3)


def steps(before: Floats, after: Floats) -> Floats:
    """How far each vertex moves."""
    return np.asarray(np.linalg.norm(after - before, axis=1))


@settings(max_examples=50, deadline=None)
@given(number=NUMBERS, amount=AMOUNTS)
@pytest.mark.parametrize("motion", MOTIONS.values())
def test_the_amount_is_the_largest_displacement(motion: Motion, number: int, amount: float) -> None:
    rest = cloud(number)
    before = rest.copy()
    moved = motion(rest, amount)
    assert np.array_equal(rest, before)
    assert steps(rest, moved).max() == pytest.approx(abs(amount), abs=1e-12)
    assert np.array_equal(moved, motion(rest, amount))


@settings(max_examples=20, deadline=None)
@given(number=NUMBERS, amount=st.floats(1e-3, 0.2))
@pytest.mark.parametrize("motion", MOTIONS.values())
def test_the_sign_is_the_direction(motion: Motion, number: int, amount: float) -> None:
    rest = cloud(number)
    there, back = (motion(rest, way) - rest for way in (amount, -amount))
    far = np.argmax(np.linalg.norm(there, axis=1))
    assert there[far] @ back[far] < 0


@settings(max_examples=20, deadline=None)
@given(number=NUMBERS, amount=AMOUNTS)
@pytest.mark.parametrize("motion", MOTIONS.values())
def test_small_changes_of_the_amount_move_little(motion: Motion, number: int, amount: float) -> None:
    rest = cloud(number)
    assert steps(motion(rest, amount), motion(rest, amount + 1e-6)).max() < 1e-5


@settings(max_examples=20, deadline=None)
@given(number=NUMBERS, amount=AMOUNTS)
def test_a_turn_is_rigid(number: int, amount: float) -> None:
    rest = cloud(number)
    moved = turn(rest, amount)
    for one, other in zip(rest[:8], moved[:8], strict=True):
        assert np.allclose(np.linalg.norm(rest - one, axis=1), np.linalg.norm(moved - other, axis=1))


@settings(max_examples=20, deadline=None)
@given(number=NUMBERS, amount=st.floats(0.01, 0.2))
def test_a_twist_turns_the_ends_against_each_other(number: int, amount: float) -> None:
    rest = cloud(number)
    long = int(np.argmax(np.ptp(rest, axis=0)))
    moved = twist(rest, amount)
    assert np.allclose(moved[:, long], rest[:, long])
    middle = (rest.min(axis=0) + rest.max(axis=0)) / 2
    sense = np.cross(rest - middle, moved - middle)[:8, long]
    assert (np.sign(sense) == np.sign((rest - middle)[:8, long])).all()


@settings(max_examples=20, deadline=None)
@given(number=NUMBERS, amount=st.floats(0.01, 0.2))
def test_inflation_moves_all_alike_and_breathing_spares_the_ends(number: int, amount: float) -> None:
    rest = cloud(number)
    assert np.allclose(steps(rest, inflation(rest, amount)), amount)
    assert np.allclose(steps(rest, breathing(rest, amount))[:8], 0, atol=1e-12)


@pytest.mark.parametrize("motion", MOTIONS.values())
@pytest.mark.parametrize("vertices", [np.zeros((3, 3)), np.array([[0.0, 0, 0], [2, 0, 0], [1, 0, 0]])])
def test_points_and_lines_stay_finite(motion: Motion, vertices: Floats) -> None:
    assert np.isfinite(motion(vertices, 0.1)).all()
