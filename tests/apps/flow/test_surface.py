"""Surfaces of water: volumes and shapes known by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backends
from sdfcli.apps.flow.run import Flow, FlowOptions, State, prepare_dam_break
from sdfcli.apps.flow.surface import CELL, water_surface
from sdfcli.backend import Backend, C
from sdfcli.extract.mesh_file import write_mesh
from surfaces import check_closed, volume

backend = backends.backend

SPACING = 0.02


@pytest.fixture
def flow(backend: Backend) -> Flow:
    return prepare_dam_break(FlowOptions(time=5e-4, frames=1, device=backend.name))


def state_of(place: Any, kind: Any = None) -> State:
    n = len(place)
    kind = np.full(n, C.FLUID, np.uint8) if kind is None else kind
    number, velocity, pressure = np.arange(n, dtype=np.uint32), np.zeros((n, 3), np.float32), np.zeros(n, np.float32)
    origin = np.array([-0.3, 0.1, 7.0])
    return State(0, 0.0, 0, number, kind, np.asarray(place, np.float32), velocity, pressure, origin, 0, 0, 0, None, 0.0)


def box(*counts: int) -> Any:
    return SPACING * (np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), axis=-1).reshape(-1, 3) + 0.5)


def test_a_drop_is_a_sphere_of_its_volume(flow: Flow) -> None:
    surface = water_surface(flow, state_of([[0.5, 0.31, 0.2], [0.9, 0.31, 0.2]]))
    assert check_closed(surface).euler == 4
    assert 0.5 < volume(surface) / (2 * SPACING**3) < 1  # of few cells, between the sphere and an octahedron
    one = surface.vertices[surface.vertices[:, 0] < 0.4]
    radius = np.linalg.norm(one - [0.2, 0.41, 7.2], axis=1)
    assert np.abs(radius / SPACING - (3 / (4 * np.pi)) ** (1 / 3)).max() < 0.06  # linear along edges of half a spacing


def test_still_water_has_flat_sides(flow: Flow) -> None:
    counts = 20, 16, 18
    rng = np.random.default_rng(1)
    place = box(*counts) + SPACING * rng.uniform(-0.1, 0.1, (np.prod(counts), 3))
    surface = water_surface(flow, state_of(place))
    assert check_closed(surface).euler == 2
    assert volume(surface) == pytest.approx(len(place) * SPACING**3, rel=0.03)
    at = (surface.vertices - [-0.3, 0.1, 7.0]) / SPACING
    for axis in range(3):
        inner = np.all([(at[:, k] > 4) & (at[:, k] < counts[k] - 4) for k in range(3) if k != axis], axis=0)
        for side in (0, counts[axis]):
            face = at[inner & (np.abs(at[:, axis] - side) < 3), axis]
            assert len(face) > 100
            assert np.abs(face - side).max() < 0.15  # in spacings; the particles' own places vary by 0.1
            assert face.std() < 0.04


def test_states_share_a_lattice(flow: Flow) -> None:
    """So that still water is still: where nothing moves, vertices do not."""
    still = box(10, 8, 8)
    other = np.concatenate([still, [[0.771, 0.123, 0.456]], [[0.0013, 0.771, 0.2]]])
    one, two = (
        {tuple(np.round(vertex, 9)) for vertex in water_surface(flow, state_of(place)).vertices.tolist()}
        for place in (still, other)
    )
    assert len(one) > 500
    assert one < two


def test_walls_are_no_water(flow: Flow) -> None:
    place = np.concatenate([box(5, 5, 5), box(9, 9, 9)])
    kind = np.repeat(np.array([C.FLUID, C.WALL], np.uint8), [125, 729])
    surface = water_surface(flow, state_of(place, kind))
    assert surface.vertices.tobytes() == water_surface(flow, state_of(box(5, 5, 5))).vertices.tobytes()


def test_no_water(flow: Flow, tmp_path: Path) -> None:
    surface = water_surface(flow, state_of(box(2, 2, 2), np.full(8, C.WALL, np.uint8)))
    assert (len(surface.vertices), len(surface.faces)) == (0, 0)
    for ending in (".ply", ".obj", ".stl", ".glb"):
        write_mesh(tmp_path / f"none{ending}", ending, surface, CELL * SPACING)
    assert b"element vertex 0" in (tmp_path / "none.ply").read_bytes()


@pytest.mark.gpu
def test_same_bits(cpu: Backend, gpu: Backend) -> None:
    options = FlowOptions(time=0.01, frames=1, device="cpu")
    state = list(prepare_dam_break(options).states())[-1]
    one, other = (
        water_surface(prepare_dam_break(dataclasses.replace(options, device=device.name)), state)
        for device in (cpu, gpu)
    )
    assert one.vertices.tobytes() == other.vertices.tobytes()
    assert one.faces.tobytes() == other.faces.tobytes()
