"""Walls of fields: the density map, how particles are kept out, and the images that walls have of them."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

import sdfcli
import shapes
from mps_oracle import Tank
from sdfcli.apps.flow import cases
from sdfcli.apps.flow.fluid import REACH, Fluid, weight
from sdfcli.apps.flow.layout import Grid, ParticleStore
from sdfcli.apps.flow.run import FlowOptions, flow, prepare
from sdfcli.apps.flow.step import Stepper
from sdfcli.apps.flow.wall import CLEARANCE, FINE, SHARE, FieldWall, offsets_within_reach
from sdfcli.backend import C, select_backend
from sdfcli.errors import InputError, SdfError, UsageError
from sdfcli.field.field import Field

Arrays = np.typing.NDArray[Any]
SPACING = 0.05
DISTANCES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
FROM_PLANES = (6.05, 3.92, 2.39, 1.27, 0.60, 0.22)
"""The wall's share of the number density at so many spacings from a plane, from a sum in float64 over planes of any
direction (within 3 %). Three layers of wall particles give 6.14, 3.94, 2.38, 1.13, 0.37, 0.05."""


@cache
def wall_of_box() -> FieldWall:
    """A tank of 20 spacings, without a field."""
    return FieldWall(select_backend("cpu"), None, False, np.zeros(3), np.full(3, 1.0), np.zeros(3), SPACING)


def density_at(wall: FieldWall, points: Arrays) -> Arrays:
    """The wall's share of the number density (n,): the cube of roots that are trilinear on the coarse lattice, in
    float64."""
    known = wall.map.values
    node, roots = np.asarray(known["node"]), np.asarray(known["map"], np.float64)
    roots = np.append(roots, 0.0)
    node = np.where(node == C.NONE, len(roots) - 1, node)
    at = (points - wall.low) / (SPACING / 2)
    cell = np.clip(np.floor(at).astype(int), 0, np.array(node.shape[::-1]) - 2)
    t, found = at - cell, np.zeros(len(points))
    for corner in np.ndindex(2, 2, 2):
        x, y, z = (cell + corner).T
        found += np.prod(np.where(corner, t, 1 - t), axis=1) * roots[node[z, y, x]]
    return found**3


def test_number_density_beside_a_plane() -> None:
    """Within 3 %, also between the lattice's nodes."""
    points = np.array([[0.5 + 0.013 * k, 0.52, SPACING * d] for d in DISTANCES for k in range(4)])
    found = density_at(wall_of_box(), points).reshape(-1, 4)
    np.testing.assert_allclose(found, np.array(FROM_PLANES)[:, None] + 0 * found, rtol=0.03)


def plane_sum(normal: Arrays, distance: float) -> float:
    """Number density beside a plane, wall below, in float64."""
    offsets, share = offsets_within_reach(1.0)
    phi = distance + offsets @ normal / FINE
    return float(np.clip(0.5 - FINE * phi, 0, 1) @ share)


def test_number_density_beside_planes_of_any_direction() -> None:
    rng = np.random.default_rng(3)
    normals = rng.normal(size=(200, 3))
    normals = np.vstack([normals / np.linalg.norm(normals, axis=1)[:, None], np.eye(3)])
    for distance, expected in zip(DISTANCES, FROM_PLANES, strict=True):
        found = np.array([plane_sum(normal, distance) for normal in normals])
        np.testing.assert_allclose(found, expected, rtol=0.03, atol=0.005)  # the table has two decimals


def test_weights_of_the_map() -> None:
    offsets, share = offsets_within_reach(SPACING)
    assert len(offsets) == 2516
    for offset, found in zip(offsets[::50], share[::50], strict=True):
        r = offset * SPACING / FINE
        length = math.dist(r, (0, 0, 0))
        w = SHARE / FINE**3 * weight(length, REACH * SPACING)
        np.testing.assert_allclose(found, w, rtol=1e-12)


def test_the_map_at_sides_edges_and_corners() -> None:
    """At nodes of the lattice it is the sum in float64 over the box's walls."""
    wall = wall_of_box()
    near = np.array([0.0, 0.5, 1.0, 2.0, 10.0, 19.5, 20.0]) * SPACING
    points = np.stack(np.meshgrid(near, near, near), axis=-1).reshape(-1, 3)
    offsets, share = offsets_within_reach(SPACING)
    at = points[:, None] + offsets * SPACING / FINE
    inside = np.minimum(at, 1.0 - at).min(axis=2)
    expected = np.clip(0.5 - inside / (SPACING / FINE), 0, 1) @ share
    found = density_at(wall, points)
    assert (np.abs(found - expected) <= 1e-4 * expected.max()).all()
    corner = np.flatnonzero((points == 0.5 * SPACING).all(axis=1))[0]
    side = np.flatnonzero((points == np.array([0.5, 10, 10]) * SPACING).all(axis=1))[0]
    assert found[corner] > 2 * found[side]
    assert found[(points == 0.5).all(axis=1)].max() == 0


def stored(places: Arrays, velocity: Arrays, kind: Arrays) -> ParticleStore:
    """Particles in the order given."""
    grid = Grid.over(np.full(3, -0.1), np.full(3, 1.1), REACH * SPACING)
    number = np.arange(len(kind), dtype=np.uint32)
    store = ParticleStore(select_backend("cpu"), "index", grid, places.astype(np.float32), velocity, kind, number)
    store.sort()
    return store


def test_push_and_bounce() -> None:
    wall = wall_of_box()
    backend = wall.backend
    position = np.array([[0.5, 0.5, 0.01], [0.5, 0.5, -0.02], [0.99, 0.01, 0.5], [0.5, 0.5, 0.5], [0.5, 0.5, 0.01]])
    velocity = np.array([[1, 0, -2], [0, 0, 3], [1, -1, 0], [9, 9, 9], [0, 0, -1]], np.float32)
    kind = np.array([C.FLUID, C.FLUID, C.FLUID, C.FLUID, C.GONE], np.uint8)
    store, behind, nearest = stored(position, velocity, kind), np.zeros(1, np.uint32), np.full((5, 4), 7, np.float32)
    wall.push(store, store.position, store.velocity, behind, nearest)
    d = CLEARANCE * SPACING
    expected = [[0.5, 0.5, d], [0.5, 0.5, d], [1 - d, d, 0.5], [0.5, 0.5, 0.5], [0.5, 0.5, 0.01]]
    np.testing.assert_allclose(store.position, expected, atol=1e-6)
    assert backend.to_host(wall.clearance(store.position))[:3].min() >= d - 1e-6
    bounced = [[1, 0, 0.4], [0, 0, 3], [-0.2, 0.2, 0], [9, 9, 9], [0, 0, -1]]
    np.testing.assert_allclose(store.velocity, bounced, atol=1e-6)
    assert behind[0] == 0
    known = [[0, 0, 1, d], [0, 0, 1, d], [1, 0, 0, 0.5], [7, 7, 7, 7]]
    np.testing.assert_allclose(nearest[[0, 1, 3, 4]], known, atol=1e-6)
    assert nearest[2].tolist() in ([-1, 0, 0, nearest[2, 3]], [0, 1, 0, nearest[2, 3]])
    np.testing.assert_allclose(nearest[2, 3], d, atol=1e-6)


def test_a_particle_that_is_not_a_number_is_left_alone() -> None:
    places = np.full((3, 3), np.nan)
    places[1], places[2] = np.inf, (0.5, np.nan, 0.5)
    store = stored(places, np.zeros((3, 3), np.float32), np.zeros(3, np.uint8))
    wall_of_field().push(store, store.position, store.velocity, np.zeros(1, np.uint32))


class Walled(Tank):
    """The tank of `wall_of_box`, with its density map."""

    def share(self, x: Arrays) -> Arrays:
        return density_at(wall_of_box(), x)


def test_steps_between_walls_in_float64() -> None:
    """Water thrown into a corner of a tank, 40 steps, beside tests/mps_oracle.py with images in the walls. Seeds 2 to 5
    are all within 1e-4 spacings."""
    rng = np.random.default_rng(2)
    wall = wall_of_box()
    n, dt = (6, 5, 5), 5e-4 * SPACING / 0.02
    x = (SPACING * (cases.lattice(n) + 0.5)).astype(np.float32)
    u = rng.uniform(-0.5, 0.2, x.shape).astype(np.float32)
    fluid = Fluid(SPACING, 22.0, dt, (0.0, 0.0, -9.8))
    kind, number = np.full(len(x), C.FLUID, np.uint8), np.arange(len(x), dtype=np.uint32)
    grid = Grid.over(np.full(3, -SPACING), np.full(3, 1 + SPACING), fluid.reach)
    store = ParticleStore(wall.backend, "compact", grid, x, u, kind, number)
    stepper = Stepper(store, fluid, wall)
    low, high = np.zeros(3), np.ones(3)
    water = Tank(
        x.astype(float), u.astype(float), np.zeros(len(x), bool), low, high, SPACING, 22.0, dt, np.array(fluid.gravity)
    )
    water.share = lambda points: density_at(wall, points)
    for _ in range(40):
        stepper.step()
        water.step()
    place, velocity = store.by_number(store.position, store.velocity)
    assert np.abs(place - x).max() > SPACING / 4
    np.testing.assert_allclose(place, water.x, rtol=0, atol=1e-3 * SPACING)
    np.testing.assert_allclose(velocity, water.u, rtol=0, atol=1e-2)


@cache
def box_field() -> Field:
    """A box of 13 x 10 x 16 spacings inside."""
    return sdfcli.build(shapes.box((0, 0, 0), (0.65, 0.5, 0.8)), device="cpu", tolerance=1e-3)


@cache
def wall_of_field() -> FieldWall:
    domain = box_field().domain
    size = np.full(3, domain.length)
    return FieldWall(select_backend("cpu"), box_field(), True, np.zeros(3), size, domain.origin, SPACING)


def test_a_box_is_filled_to_its_walls() -> None:
    """Particles half a spacing from a wall are there, whatever rounding and the field's error say."""
    box = (0, 0, 0, 0.65, 0.5, 0.8)
    flow = prepare(box_field(), box, SPACING, FlowOptions(inside=True, time=0.01, frames=1, device="cpu"))
    assert len(flow.first()) == 13 * 10 * 16


def test_a_tank_is_filled_to_its_walls() -> None:
    """The domain's own faces are walls, too."""
    field = sdfcli.build(shapes.moved(shapes.octahedron(), 0.1), device="cpu", domain=(-0.3, -0.3, -0.3, 0.6))
    options = FlowOptions(time=0.01, frames=1, device="cpu")
    flow = prepare(field, (-0.3, -0.3, -0.3, 0.3, -0.2, 0.3), 0.02, options)
    assert len(flow.first()) == 30 * 5 * 30


GOOD: dict[str, Any] = {"fill": (0.1, 0.1, 0.1, 0.6, 0.4, 0.7), "spacing": SPACING, "inside": True}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"fill": (-3, 0.1, 0.1, 0.6, 0.4, 0.7)}, "leaves the field's domain"),
        ({"fill": (0.1, 0.1, 0.1, 0.6, 9, 0.7)}, "leaves the field's domain"),
        ({"fill": (0.6, 0.1, 0.1, 0.1, 0.4, 0.7)}, "lower one"),
        ({"fill": (0.1, 0.1, 0.1, 0.1, 0.4, 0.7)}, "lower one"),
        ({"fill": (math.nan, 0.1, 0.1, 0.6, 0.4, 0.7)}, "finite"),
        ({"fill": (0.1, 0.1, 0.1, 0.6, 0.4)}, "six numbers"),
        ({"spacing": 1e-6}, "stated errors"),
        ({"spacing": -1.0}, "above 0"),
        ({"spacing": math.inf}, "finite"),
        ({"step": 1.0}, "at most"),
        ({"step": 0.0}, "at most"),
        ({"step": -1e-5}, "at most"),
        ({"viscosity": -1e-6}, "--viscosity -1e-06: use 0 to"),
        ({"viscosity": math.nan}, "--viscosity nan: use 0 to"),
        ({"viscosity": 1.0}, "--viscosity 1.0: use 0 to"),
        ({"step": 1e-320}, "steps"),
        ({"time": 0.0}, "above 0"),
        ({"time": 1e308}, "steps"),
        ({"frames": 0}, "above 0"),
        ({"gravity": (0, math.inf, 0)}, "finite"),
        ({"gravity": (0, 1e200, 0)}, "gravity"),
        ({"layout": "heap"}, "--layout heap"),
    ],
)
def test_refusals(change: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        flow(box_field(), **{"time": 0.1, "frames": 1, "device": "cpu", **GOOD, **change})
    assert "\n" not in str(caught.value)


def test_refused_fields() -> None:
    def refused(shape: shapes.Shape, says: str, **more: Any) -> None:
        field = sdfcli.build(shape, device="cpu", tolerance=2e-3, **more)
        low, high = field.domain.origin, field.domain.origin + field.domain.length
        with pytest.raises(InputError, match=says):
            prepare(field, (*low, *high), 0.2, FlowOptions(time=0.1, frames=1, device="cpu"))

    vertices, faces = shapes.box((-1, -1, -1), (1, 1, 1))
    refused((vertices, faces), "no signs", sign="none")
    refused((vertices, faces[:-2]), "jumps in")


def test_no_room() -> None:
    options = FlowOptions(time=0.1, frames=1, device="cpu")
    with pytest.raises(InputError, match="no particle has room"):
        prepare(box_field(), (0.1, 0.1, 0.1, 0.6, 0.4, 0.7), SPACING, options).first()


def test_too_many_particles_or_nodes() -> None:
    """Numbers whose product leaves 64 bits."""
    from sdfcli.apps.flow import cases

    for spacing in (1e-7, 1e-300):
        with pytest.raises(SdfError, match="too many"):
            cases.fill(np.array([[0, 0, 0], [1, 1, 1]]), np.zeros(3), np.ones(3), spacing)
    with pytest.raises(SdfError, match="too many"):
        FieldWall(select_backend("cpu"), None, False, np.zeros(3), np.full(3, 1.0), np.zeros(3), 1e-7)
