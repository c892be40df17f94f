"""Solids of a field within a posed mesh, against winding numbers in float64."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import sdfcli
import shapes
from sdfcli.backend import Backend
from sdfcli.field.field import Field, lattice_position
from sdfcli.query.contacts import VERDICTS, contacts
from sdfcli.query.first_contact import first_contact
from sdfcli.query.sphere_tree import SphereTree
from sdfcli.query.swallowed import pieces_of

backend = backends.backend

BALL, CUBE = shapes.icosphere(2), shapes.cube()
PARTS = [shapes.moved(BALL, 0.5, [-3, 0, 0]), shapes.moved(CUBE, 0.4, [3, 0, 0]), shapes.moved(BALL, 0.3, [0, 3, 0])]
TOOLS = {
    "box": shapes.moved(CUBE, 1.5),
    "ball": shapes.moved(shapes.icosphere(3), 2.0),
    "inside out": shapes.inside_out(shapes.moved(CUBE, 1.5)),
    "torus": shapes.moved(shapes.torus(24, 16), 3.0),
    "housing": shapes.joined(shapes.moved(CUBE, 3), shapes.inside_out(shapes.moved(CUBE, 1.5))),
    "two": shapes.joined(shapes.moved(CUBE, 1.2), shapes.moved(CUBE, 0.2, [9, 0, 0])),
}


@cache
def field() -> Field:
    """Three solids, apart."""
    return sdfcli.build(shapes.joined(*PARTS), device="cpu", tolerance=2e-3)


def at(offset: Any, turn: Any = None) -> oracle.Numbers:
    pose = np.eye(4)
    pose[:3, 3] = offset
    if turn is not None:
        pose[:3, :3] = turn
    return pose


def test_pieces(backend: Backend) -> None:
    found = pieces_of(field(), backend)
    order = np.argsort(found.depth)
    middles, depths = [[0, 3, 0], [3, 0, 0], [-3, 0, 0]], [0.3, 0.4, 0.5]
    assert np.allclose(found.point[order], middles, atol=0.1)
    assert np.allclose(found.depth[order], depths, atol=0.1)


@settings(max_examples=25, deadline=None)
@given(tool=st.sampled_from(sorted(TOOLS)), seed=st.integers(0, 2**32 - 1))
def test_verdicts(backend: Backend, tool: str, seed: int) -> None:
    """A solid within the tool is penetrated, by as much as its middle lies within, and its own depth."""
    rng, count = np.random.default_rng(seed), 40
    shape = TOOLS[tool]
    outwards = shapes.inside_out(shape) if tool == "inside out" else shape
    middles = np.array([[-3, 0, 0], [3, 0, 0], [0, 3, 0]])
    poses = np.stack([at(middles[k % 3] + rng.normal(size=3), shapes.turn(rng)) for k in range(count)])
    scale = rng.uniform(0.5, 2.0)
    poses[:, :3, :3] *= scale
    found = contacts(field(), SphereTree(shape, backend.name), poses)
    pieces = pieces_of(field(), backend)
    for k, pose in enumerate(poses):
        triangles = shapes.triangles(outwards) @ pose[:3, :3].T + pose[:3, 3]
        surface = np.abs(field().sample(triangles.reshape(-1, 3))).min()  # of corners alone: an upper bound
        within = oracle.winding(pieces.point, triangles) > 0.5
        deep = np.where(within, oracle.distance(pieces.point, triangles), -np.inf)
        if within.any():
            assert VERDICTS[found.verdict[k]] == "penetrating"
            assert found.distance[k] < 0
        if VERDICTS[found.verdict[k]] == "clear":
            assert not within.any()
            assert found.low[k] <= surface + 1e-9
        apart = (found.distance[k] < -1e-3) and np.isclose(found.distance[k], -(deep + pieces.depth).max(), rtol=1e-5)
        if apart:
            assert found.low[k] < found.distance[k] < found.high[k] < 0
            on = oracle.distance(found.point[k][None], triangles)[0]
            assert on < 1e-5 * scale
            assert abs(np.linalg.norm(found.normal[k]) - 1) < 1e-9


def test_the_way_out(backend: Backend) -> None:
    """The mesh must move by the depth along the normal, and is clear then."""
    tree = SphereTree(TOOLS["box"], backend.name)
    pose = at([-3.3, 0.1, 0])
    first = contacts(field(), tree, pose)
    assert VERDICTS[first.verdict[0]] == "penetrating"
    assert np.allclose(first.normal[0], [-1, 0, 0], atol=1e-6)
    assert first.distance[0] == pytest.approx(-(1.2 + 0.5), abs=0.05)
    after = contacts(field(), tree, at(pose[:3, 3] + first.normal[0] * (0.1 - first.low[0])))
    assert VERDICTS[after.verdict[0]] == "clear"


def test_a_mesh_without_an_inside_holds_nothing(backend: Backend) -> None:
    vertices, faces = TOOLS["box"]
    tree = SphereTree((vertices, faces[2:]), backend.name)
    assert tree._encloses is None
    assert VERDICTS[contacts(field(), tree, at([50, 0, 0])).verdict[0]] == "clear"
    assert tree._encloses is None  # nobody asked
    sheet = SphereTree(shapes.moved(shapes.sheet(np.random.default_rng(1), 4), 3, [-3, 0, -2]), backend.name)
    contacts(field(), sheet, np.eye(4))
    assert sheet._encloses in (None, False)


def test_a_part_in_a_cavity_is_clear(backend: Backend) -> None:
    found = contacts(field(), SphereTree(TOOLS["housing"], backend.name), at([-3.6, 0, 0]))
    assert VERDICTS[found.verdict[0]] == "clear"
    assert 0 < found.low[0] <= found.distance[0] < 0.5


def test_a_path_that_begins_around_a_solid(backend: Backend) -> None:
    tree = SphereTree(TOOLS["box"], backend.name)
    found = first_contact(field(), tree, np.stack([at([-3, 0, 0]), at([-9, 0, 0])]))
    assert found.time == 0
    assert found.contacts is not None
    assert VERDICTS[found.contacts.verdict[0]] == "penetrating"


def test_an_unsigned_field_has_no_pieces(backend: Backend) -> None:
    unsigned = sdfcli.build(PARTS[0], device="cpu", tolerance=5e-3, sign="none")
    found = contacts(unsigned, SphereTree(TOOLS["box"], backend.name), at([-3, 0, 0]))
    assert found.distance[0] > 0


def test_points_are_those_of_the_lattice() -> None:
    """The deepest corner of each piece, among all corners inside."""
    found = pieces_of(field(), backends.select_backend("cpu"))
    whole = field()
    place = whole.domain.origin + lattice_position(whole.corner_key) * whole.domain.length
    for point, depth in zip(found.point, found.depth, strict=True):
        near = np.linalg.norm(place - point, axis=1) < 1.0
        assert -whole.distance[near].min() == pytest.approx(depth)
