"""Signs of random solids of voxels, whatever their surfaces are told like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import oracle
import shapes
import solids
from sdfcli.query.mesh_distance import MeshDistance


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), damage=st.sampled_from([None, *solids.DAMAGES]))
def test_the_surfaces_are_those_of_the_voxels(seed: int, damage: str | None) -> None:
    rng = np.random.default_rng(seed)
    shape = solids.surface(rng, voxels := solids.filled(rng))
    if damage:
        shape = solids.damaged(rng, shape, (damage,))
    full = np.pad(voxels, 1)
    winding = oracle.winding(np.argwhere(np.ones_like(full)) - 0.5, shapes.triangles(shape))
    assert np.allclose(winding * (-1 if damage == "inward" else 1), full.reshape(-1))


@pytest.mark.parametrize("make", [solids.lattice_solid, solids.turned_solid, solids.welded_solid, solids.bent_solid])
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=15915)
@example(seed=24096)
def test_signs_are_those_of_the_voxels(make: solids.Maker, seed: int) -> None:
    shape, points, inside = make(np.random.default_rng(seed))
    distance = MeshDistance(shape, device="cpu").signed_distance(points)
    assert np.array_equal(distance < 0, inside)
