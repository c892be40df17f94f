"""`--sign inside`: the free space in a room is outside, all else is solid."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import backends
import oracle
import sdfcli
import shapes
from sdfcli.backend import Backend, select_backend
from sdfcli.cli.app import app
from sdfcli.errors import InputError, UsageError
from sdfcli.mesh.load import make_mesh
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.solid.solidify import GAP, Solid, solid_of
from shapes import Shape
from surfaces import CLOSED, topology

backend = backends.backend
RADIUS = 0.05
UNIT = RADIUS / GAP
Floats = npt.NDArray[np.float64]


def room(door: float, *furniture: Shape) -> Shape:
    """Walls of a room with edge 2, and a door of this width, from wall to wall, in its ceiling."""
    vertices, faces = shapes.cube()
    low, high = (
        np.array([[a, -1, 1], [b, -1, 1], [b, 1, 1], [a, 1, 1.0]]) for a, b in ((-1, -door / 2), (door / 2, 1))
    )
    halves = [(half, np.array([[0, 1, 2], [0, 2, 3]])) for half in (low, high)]
    return shapes.joined((vertices, faces[:-2]), *halves, *furniture)


def free_space(shape: Shape, gap: float | str = GAP, device: Backend | None = None) -> Solid:
    return solid_of(make_mesh(*shape), gap, UNIT, device or select_backend("cpu"), measured=False, inside=True)


def reached(shape: Shape, seed: Floats, cells: int = 64) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Points of a grid, their distances from the shape, and whether a ball at `seed` reaches them in it."""
    low, high = shape[0].min(axis=0) - 4 * RADIUS, shape[0].max(axis=0) + 4 * RADIUS
    axis = [np.linspace(a, b, cells) for a, b in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*axis, indexing="ij"), axis=-1).reshape(-1, 3)
    distance = oracle.distance(points, shapes.triangles(shape))
    free = np.pad((distance > RADIUS).reshape(cells, cells, cells), 1)
    start = np.abs(points - seed).sum(axis=1).argmin()
    now = np.zeros_like(free)
    now[tuple(np.array(np.unravel_index(start, (cells,) * 3)) + 1)] = True
    while True:
        grown = now.copy()
        for k in range(3):
            grown |= np.roll(now, 1, axis=k) | np.roll(now, -1, axis=k)
        grown &= free
        if np.array_equal(grown, now):
            return points, distance, now[1:-1, 1:-1, 1:-1].ravel()
        now = grown


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_outside_is_what_a_dense_flood_of_the_room_reaches(seed: int) -> None:
    """With furniture, open and closed, a second, smaller room, and any orientation of the walls."""
    rng = np.random.default_rng(seed)
    box = shapes.moved(shapes.cube(), 0.2, [-0.6, -0.6, rng.uniform(-0.9, 0.5)])
    bowl = shapes.moved(shapes.holed(rng, shapes.cube(), 0.2), 0.2, [0.6, rng.uniform(-0.5, 0.5), -0.5])
    annex = shapes.moved(shapes.cube(), 0.5, [1.6, 0, 0])
    walls = room(rng.uniform(0, 1.2) * RADIUS, box, bowl, annex)
    given = shapes.moved(shapes.inside_out(walls) if seed % 2 else walls, turn=shapes.turn(rng))
    rotation = given[0][:3] @ np.linalg.inv(walls[0][:3])
    points, distance, free = reached(given, rotation @ np.zeros(3))
    solid = free_space(given)
    found = topology(solid)  # type: ignore[arg-type]
    assert {name: getattr(found, name) for name in CLOSED} == CLOSED
    signed = -MeshDistance((solid.vertices, solid.faces), device="cpu").signed_distance(points)
    certain = distance > 1.3 * RADIUS
    assert 0.1 < free[certain].mean() < 0.9
    assert (certain & ((signed > 0) != free)).mean() < 1e-4


def test_a_leak_is_refused_with_a_gap_that_holds() -> None:
    shape = room(5 * RADIUS)
    with pytest.raises(UsageError, match="open to the outside") as refused:
        free_space(shape)
    (gap,) = re.findall(r"use --gap ([0-9.]+)", str(refused.value))
    for chosen in (float(gap), "auto"):
        solid = free_space(shape, chosen)
        assert 7 < solid.volume < 8
        assert 1.0 < solid.gap / (2.5 * RADIUS) < 2


def test_no_room() -> None:
    """Nor is a small closed box one."""
    vertices, faces = shapes.cube()
    for parts in ([], [shapes.moved(shapes.cube(), 0.15)]):
        with pytest.raises(InputError, match="no room"):
            free_space(shapes.joined((vertices, faces[:-2]), *parts))


def test_any_device_gives_the_same_bits(backend: Backend) -> None:
    shape = room(5 * RADIUS, shapes.moved(shapes.octahedron(), 0.3))
    one, two = free_space(shape, 3 * GAP, select_backend("cpu", 1)), free_space(shape, 3 * GAP, backend)
    assert one.vertices.tobytes() == two.vertices.tobytes()
    assert one.faces.tobytes() == two.faces.tobytes()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A room from -0.5 to 0.5, with a box from -0.15 to 0.15; and its field."""
    folder = tmp_path_factory.mktemp("room")
    mesh, field = folder / "room.ply", folder / "room.h5"
    shape = shapes.moved(room(0.01, shapes.moved(shapes.cube(), 0.3)), 0.5)
    trimesh.Trimesh(*shape, process=False).export(mesh)
    words = ["build", mesh, "--sign", "inside", "--tolerance", "1e-2", "--prove", "--device", "cpu", "-o", field]
    assert invoke(*words) == 0
    assert invoke(*words, "--skip-existing") == 0
    return mesh, field


def distance_from(points: Floats, half: float) -> Floats:
    """Signed distances to the cube from -half to half."""
    away = np.abs(points) - half
    return np.asarray(np.linalg.norm(np.maximum(away, 0), axis=1) + np.minimum(away.max(axis=1), 0))


def test_signs_and_proven_distances(built: tuple[Path, Path]) -> None:
    """In the domain, and bounds beyond it; the solid is up to 0.01 thicker than the walls."""
    field, rng = sdfcli.load(built[1]), np.random.default_rng()
    points = field.domain.origin + rng.uniform(-0.5, 1.5, (20_000, 3)) * field.domain.length
    exact = np.minimum(-distance_from(points, 0.5), distance_from(points, 0.15))
    value, bound = field.sample(points), field.bound(points)
    assert (np.abs(value - exact) <= bound + 0.01).all()
    within = ~field.domain.excludes(points)
    assert np.array_equal((value > 0)[within & (np.abs(exact) > 0.03)], (exact > 0)[within & (np.abs(exact) > 0.03)])
    assert np.isfinite(bound[within]).all()


def test_the_field_is_verified(built: tuple[Path, Path]) -> None:
    mesh, field = built
    assert invoke("verify", field, "--mesh", mesh, "--samples", "3000") == 0


def test_the_surface_is_near_the_room(built: tuple[Path, Path], tmp_path: Path) -> None:
    mesh, field = built
    surface = tmp_path / "surface.ply"
    result = CliRunner().invoke(
        app,
        ["extract", str(field), "--mesh", str(mesh), "--iso", "0.1", "--cells", "40", "-o", str(surface), "--json"],
    )
    assert json.loads(result.stdout)["deviation"]["max"] < 0.03
    assert trimesh.load(surface).volume == pytest.approx(-(0.8**3) + 0.5**3, abs=0.06)


def invoke(*words: object) -> int:
    return CliRunner().invoke(app, [str(word) for word in words]).exit_code


def test_refusals() -> None:
    shape = shapes.cube()
    for call in (sdfcli.check, sdfcli.estimate):
        with pytest.raises(UsageError, match="--sign inside: not for"):
            call(shape, sign="inside")
    with pytest.raises(UsageError, match="--sign inside"):
        sdfcli.build(shape, sign="inside", nearest=True)
    with pytest.raises(UsageError, match="--holes cap: not with --sign inside"):
        sdfcli.build(shape, sign="inside", holes="cap")


def test_contacts_refuse_rooms() -> None:
    field = sdfcli.build(room(0.0), sign="inside", tolerance=2e-2, device="cpu")
    with pytest.raises(InputError, match="not for fields with --sign inside"):
        sdfcli.contacts(field, shapes.cube(), np.eye(4))
    with pytest.raises(InputError, match="not for fields with --sign inside"):
        sdfcli.first_contact(field, shapes.cube(), np.stack((np.eye(4), np.eye(4))))
