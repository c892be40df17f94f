"""Distances as whole numbers of steps, against plain Python."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import sdfcli
import shapes
from field_files import quantised
from sdfcli.backend import Backend
from sdfcli.field.field import Field
from sdfcli.octree.corners import corner_keys, leaf_corners
from sdfcli.octree.quantise import restore, step_for

backend = backends.backend

Numbers = oracle.Numbers
FULL = 2**oracle.LATTICE_BITS


def coded(backend: Backend, field: Field, step: float, hanging: Numbers | None = None) -> tuple[Numbers, Numbers]:
    """By the reference that rounds; the package restores the same."""
    value, residual = quantised(field, step, hanging)
    key, steps = backend.from_host(field.corner_key), backend.from_host(residual, np.int32)
    again = restore(backend, key, steps, step)
    assert again.dtype == np.float32
    assert backend.to_host(again).tobytes() == value.tobytes()
    return value, residual


def decoded(field: Field, residual: Numbers, step: float) -> list[float]:
    """The distances, by a dictionary of all corners."""
    at = [tuple(point) for point in oracle.lattice(field.corner_key).tolist()]
    level_of = [next(k for k in range(21) if all(c % (FULL >> k) == 0 for c in point)) for point in at]
    value: dict[Any, float] = {}
    stored = iter(residual.tolist())
    for level in range(21):
        for point, own in zip(at, level_of, strict=True):
            if own != level:
                continue
            around = [point]
            for axis in range(3):
                if level and point[axis] // (FULL >> level) % 2:
                    around = [
                        (*p[:axis], p[axis] + way * (FULL >> level), *p[axis + 1 :]) for p in around for way in (-1, 1)
                    ]
            means = [value[p] for p in around] if level else [0.0]
            # `around` has the ends of the last axis side by side; the first one is the first to be averaged.
            while len(means) > 1:
                half = len(means) // 2
                means = [(a + b) / 2 for a, b in zip(means[:half], means[half:], strict=True)]
            value[point] = float(np.float32(means[0] + next(stored) * step))
    return [value[point] for point in at]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    splits=st.sampled_from([0, 1, 5, 40]),
    step=st.sampled_from([1e-6, 1e-3, 0.3, 7.0]),
    length=st.sampled_from([1.0, 1e-9, 1e9]),
)
def test_steps(backend: Backend, seed: int, splits: int, step: float, length: float) -> None:
    rng = np.random.default_rng(seed)
    field = oracle.random_field(rng, splits, length=length)
    distance = field.distance.copy()
    distance[rng.random(len(distance)) < 0.2] *= np.float32(0.1 * step)
    distance[rng.random(len(distance)) < 0.1] = 0
    field = dataclasses.replace(field, distance=distance)
    value, residual = coded(backend, field, step * length)
    assert value.tolist() == decoded(field, residual, step * length)
    assert np.array_equal(value < 0, field.distance < 0)
    moved = np.abs(value.astype(float) - field.distance) / length
    rounded = 1e-6 * (1 + np.abs(field.distance) / length)
    assert np.all(moved <= np.where(np.abs(field.distance) > 0.5 * step * length, 0.5, 1) * step + rounded)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), splits=st.sampled_from([1, 5, 40]))
def test_hanging_corners_take_the_mean(backend: Backend, seed: int, splits: int) -> None:
    rng = np.random.default_rng(seed)
    field = oracle.random_field(rng, splits)
    hanging = rng.random(len(field.corner_key)) < 0.5
    value, residual = coded(backend, field, 0.01, hanging)
    assert value.tolist() == decoded(field, residual, 0.01)
    at = oracle.lattice(field.corner_key)
    spacing = np.array(
        [next(FULL >> k for k in range(21) if all(c % (FULL >> k) == 0 for c in p)) for p in at.tolist()]
    )
    by_level = np.argsort(-spacing, kind="stable")
    assert np.all(residual[hanging[by_level]] == 0)
    free = ~hanging
    assert np.array_equal(value[free] < 0, field.distance[free] < 0)
    # What is coded again is the same, without knowing what hangs.
    again = Field(field.domain, field.leaf_key, field.leaf_level, field.corner_key, value)
    assert coded(backend, again, 0.01)[0].tobytes() == value.tobytes()


@pytest.mark.parametrize("kind", ["star", "holed torus", "sheet", "shells"])
def test_builds_stay_continuous(kind: str) -> None:
    field = sdfcli.build(shapes.ANY[kind](np.random.default_rng(5)), device="cpu", depth=6, tolerance=0.01)
    assert len(set(field.leaf_level.tolist())) > 1
    rng = np.random.default_rng(6)
    leaf = rng.integers(0, len(field.leaf_key), 20_000)
    edge = field.domain.length * 0.5 ** field.leaf_level[leaf].astype(float)
    low = field.domain.origin + field.domain.length * oracle.lattice(field.leaf_key[leaf]) / FULL
    axis = rng.integers(0, 3, len(leaf))
    points = low + edge[:, None] * rng.random((len(leaf), 3))
    points[np.arange(len(leaf)), axis] = low[np.arange(len(leaf)), axis]
    step = np.eye(3)[axis] * 1e-9 * field.domain.length
    jump = np.abs(field.sample(points - step) - field.sample(points + step))
    # Outside of the domain, distances grow; slopes of a field whose corners are rounded may be above 1.
    assert jump.max() <= 1e-6 * field.domain.length


@pytest.mark.parametrize("sign", ["winding", "pseudonormal", "none"])
def test_loads_what_was_built(tmp_path: Any, sign: str) -> None:
    field = sdfcli.build(shapes.torus(12, 7), device="cpu", depth=5, tolerance=0.01, sign=sign)
    assert field.step == pytest.approx(0.01 * field.info["mesh"]["diagonal"] / 8)
    found = sdfcli.load(field.save(tmp_path / "field.h5"))
    for name in ("leaf_key", "leaf_level", "corner_key", "distance"):
        assert getattr(found, name).tobytes() == getattr(field, name).tobytes()
    assert found.step == field.step
    again = found.save(tmp_path / "again.h5")
    assert again.read_bytes() == (tmp_path / "field.h5").read_bytes()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), splits=st.sampled_from([0, 1, 5, 60]))
def test_corners_follow_from_leaves(backend: Backend, seed: int, splits: int) -> None:
    field = oracle.random_field(np.random.default_rng(seed), splits)
    key, level = backend.from_host(field.leaf_key), backend.from_host(field.leaf_level)
    found = corner_keys(backend, key, level)
    assert backend.to_host(found).tobytes() == field.corner_key.tobytes()
    place = backend.to_host(leaf_corners(backend, key, level, found))
    size = 2 ** (oracle.LATTICE_BITS - field.leaf_level.astype(np.int64))
    for c in range(8):
        expected = oracle.lattice(field.leaf_key) + size[:, None] * [c & 1, c >> 1 & 1, c >> 2]
        assert np.array_equal(oracle.lattice(field.corner_key)[place[:, c]], expected)


def test_steps_of_builds() -> None:
    assert step_for(0.8, 1.0) == 0.1
    assert step_for(1e-12, 1.0) == 2.0**-24
    assert step_for(1e-22, 1e-21) is None
