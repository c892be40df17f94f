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
from sdfcli.quality import as_given
from sdfcli.quality.as_given import GivenMesh
from sdfcli.query.mesh_distance import MeshDistance

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


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_solids_that_share_walls(seed: int) -> None:
    solid = solids.welded_solid(np.random.default_rng(seed))
    assert np.array_equal(inside(solid.shape, solid.points), solid.inside)


@pytest.mark.parametrize("inverted", [False, True])
def test_cavities_overlap(inverted: bool) -> None:
    """The winding number is -1 in both of them; and there is a solid in one, which crosses neither."""
    shape = shapes.moved(CUBE, 2)
    for x, scale in ((-0.4, 1.0), (0.5, 1.0), (-0.9, -0.3)):
        ball = shapes.moved(BALL, abs(scale), [x, 0, 0])
        shape = shapes.joined(shape, ball if scale < 0 else shapes.inside_out(ball))
    points = np.random.default_rng(5).uniform(-2.2, 2.2, (600, 3))
    expected = oracle.winding(points, shapes.triangles(shape)) > 0.5
    assert (oracle.winding(points, shapes.triangles(shape)) < -0.5).any()
    given_shape = shapes.inside_out(shape) if inverted else shape
    assert np.array_equal(inside(given_shape, points), expected)
    assert np.array_equal(MeshDistance(given_shape, device="cpu").signed_distance(points) < 0, expected)


@pytest.mark.parametrize("turned", [False, True])
def test_a_dome_beside_a_solid_that_is_inside_out(turned: bool) -> None:
    """The dome is turned by its own orientation, whatever the solid's is."""
    vertices, faces = shapes.moved(BALL, 1.0, [5, 0, 0])
    dome = (vertices, faces[vertices[faces][..., 2].min(axis=1) >= -0.01])
    large = shapes.moved(CUBE, 2)
    shape = shapes.joined(shapes.inside_out(large), shapes.inside_out(dome) if turned else dome)
    points = np.random.default_rng(6).uniform([-2.2, -2.2, -2.2], [6.2, 2.2, 2.2], (600, 3))
    expected = oracle.winding(points, shapes.triangles(shapes.joined(large, dome))) > 0.5
    assert np.array_equal(inside(shape, points), expected)
    assert np.array_equal(MeshDistance(shape, device="cpu", sign="winding").signed_distance(points) < 0, expected)


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


@pytest.mark.parametrize(
    "others",
    [[], [shapes.moved(CUBE, 3), shapes.inside_out(shapes.moved(CUBE, 2))], [shapes.moved(CUBE, offset=[1, 1, 1])]],
    ids=["alone", "in a cavity", "overlapping"],
)
def test_a_solid_that_a_build_did_not_turn_shows(others: list[shapes.Shape], monkeypatch: pytest.MonkeyPatch) -> None:
    shape = shapes.joined(shapes.inside_out(CUBE), *others)
    points = np.random.default_rng(4).uniform(-1, 0, (100, 3))
    monkeypatch.setattr(as_given, "repair", lambda mesh, orient: orient(mesh))
    outside = oracle.winding(points, shapes.triangles(shape)) < 0.5
    assert np.any(inside(shape, points) & outside)
