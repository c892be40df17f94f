"""The reference of `sdfcli verify` takes the mesh as it is, whatever a build makes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import shapes
import solids
from sdfcli.backend.cpu import CpuBackend
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.repair import Repaired, repair
from sdfcli.verify import as_given
from sdfcli.verify.as_given import GivenMesh

CUBE, BALL = shapes.cube(), shapes.icosphere(2)
HOLLOW = shapes.joined(CUBE, shapes.inside_out(shapes.moved(BALL, 0.3)))


def inside(shape: shapes.Shape, points: oracle.Numbers) -> oracle.Numbers:
    return GivenMesh(make_mesh(*shape), True, CpuBackend(1)).signed_distance(points) < 0


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), closed=st.booleans())
def test_signs_are_those_of_the_voxels(seed: int, closed: bool) -> None:
    rng = np.random.default_rng(seed)
    voxels = solids.filled(rng)
    shape = solids.surface(rng, voxels)
    if not closed:
        shape = solids.damaged(rng, shape, ("cracked",))
    full = np.pad(voxels, 1)
    points = np.argwhere(np.ones_like(full)) - 0.5
    assert np.array_equal(inside(shape, points), full.reshape(-1))
    assert np.array_equal(inside(shapes.inside_out(shape), points), full.reshape(-1))


def test_turned_shells_are_named() -> None:
    away = shapes.moved(shapes.inside_out(HOLLOW), offset=[5, 0, 0])
    found = GivenMesh(make_mesh(*shapes.joined(CUBE, away)), True, CpuBackend(1)).turned
    assert [shell.faces for shell in found] == [12, len(BALL[1])]
    assert all(shell.confirmed and round(shell.winding) == -1 and shell.at[0] > 3 for shell in found)


def test_overlapping_solids_of_which_one_is_inside_out_are_united() -> None:
    other = shapes.moved(CUBE, offset=[1, 1, 1])
    points = np.random.default_rng(1).uniform(-2, 3, (200, 3))
    united = oracle.winding(points, shapes.triangles(shapes.joined(CUBE, other))) > 0.5
    assert np.array_equal(inside(shapes.joined(CUBE, shapes.inside_out(other)), points), united)


@pytest.mark.parametrize("shape", [HOLLOW, shapes.inside_out(HOLLOW)])
def test_a_wrong_decision_is_not_followed(shape: shapes.Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cavity that is turned, an outer shell that is not."""

    def wrong(mesh: object, orient: object) -> Repaired:
        found = repair(make_mesh(*shape))
        turned = np.arange(len(shape[1])) >= len(CUBE[1])
        return replace(found, mesh=found.mesh.with_faces(np.where(turned[:, None], faces[:, ::-1], faces)))

    faces = make_mesh(*shape).faces
    points = np.random.default_rng(2).uniform(-1.3, 1.3, (300, 3))
    points = points[np.abs(np.linalg.norm(points, axis=1) - 0.3) > 0.01]
    expected = (np.abs(points) < 1).all(axis=1) & (np.linalg.norm(points, axis=1) > 0.3)
    monkeypatch.setattr(as_given, "repair", wrong)
    reference = GivenMesh(make_mesh(*shape), True, CpuBackend(1))
    assert [shell.confirmed for shell in reference.turned] == [shape is not HOLLOW]
    if shape is HOLLOW:
        assert np.array_equal(reference.signed_distance(points) < 0, expected)
