"""Volumes of metaballs, against a sum over all balls in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
from sdfcli.backend import Backend
from sdfcli.extract import metaballs
from sdfcli.extract.marching_cubes import extract
from sdfcli.extract.metaballs import BULK, density
from sdfcli.extract.sources import VolumeSource
from surfaces import check_closed

backend = backends.backend


def balls_at(at: Any, centre: Any, radius: float) -> Any:
    """Density (..., n) by ball."""
    r = np.linalg.norm(at[..., None, :] - centre, axis=-1) / radius
    return np.select([r <= 1 / 3, r < 1], [1 - 3 * r**2, 1.5 * (1 - r) ** 2], 0.0)


def all_balls(centre: Any, radius: float, spacing: float, nodes: tuple[int, int, int], least: float) -> Any:
    weight = np.maximum(1, least / balls_at(centre, centre, radius).sum(axis=-1))
    return -(weight * balls_at(spacing * np.stack(np.indices(nodes), axis=-1), centre, radius)).sum(axis=-1)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    nodes=st.tuples(*[st.integers(2, 12)] * 3),
    balls=st.integers(0, 30),
    radius=st.floats(0.3, 20),
    scale=st.sampled_from([1e-3, 1.0, 70.0]),
    least=st.sampled_from([0.0, 0.5, 3.0]),
)
def test_all_balls(
    backend: Backend, seed: int, nodes: tuple[int, int, int], balls: int, radius: float, scale: float, least: float
) -> None:
    rng = np.random.default_rng(seed)
    centre = scale * rng.uniform(0, np.array(nodes) - 1, (balls, 3))
    if balls > 3:
        centre[:3] = scale * np.array([(0, 0, 0), np.array(nodes) - 1, np.array(nodes) // 2])  # borders, and a node
    found = backend.to_host(density(backend, centre, scale * radius, scale, nodes, least))
    expected = all_balls(centre, scale * radius, scale, nodes, least)
    assert np.allclose(found, expected, rtol=0, atol=1e-5 * max(1, least) * max(1, balls))


def test_bands_and_order(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    centre = np.random.default_rng(3).uniform(0, 9, (50, 3))
    whole = backend.to_host(density(backend, centre, 2.0, 0.5, (19, 20, 21)))
    monkeypatch.setattr(metaballs, "BAND", 1000)
    assert whole.tobytes() == backend.to_host(density(backend, centre, 2.0, 0.5, (19, 20, 21))).tobytes()


@pytest.mark.gpu
def test_same_bits(cpu: Backend, gpu: Backend) -> None:
    centre = np.random.default_rng(4).uniform(0, 9, (500, 3))
    one, other = (device.to_host(density(device, centre, 1.3, 0.2, (45, 46, 47), 2.0)) for device in (cpu, gpu))
    assert one.tobytes() == other.tobytes()


def test_the_ball_at_two_thirds_has_a_third_of_the_radius(backend: Backend) -> None:
    surface = extract(
        VolumeSource(density(backend, np.full((1, 3), 2.0), 3.0, 0.1, (41, 41, 41)), -2 / 3, 0.1), [backend]
    )
    assert check_closed(surface).euler == 2
    assert np.abs(np.linalg.norm(surface.vertices - 2.0, axis=1) - 1.0).max() < 0.002


def test_bulk(backend: Backend) -> None:
    """A lattice of balls one apart: the mean density is the integral of one."""
    values = -backend.to_host(density(backend, np.full((1, 3), 5.0), 4.0, 0.1, (101, 101, 101)))
    assert values.sum() * 0.1**3 / 4.0**3 == pytest.approx(BULK, rel=1e-4)
