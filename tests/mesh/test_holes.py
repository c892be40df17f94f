"""Holes closed by faces: a closed mesh, and distances and fields of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, astuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import sdfcli
import shapes
from sdfcli.backend import Backend, select_backend
from sdfcli.field.field import Field
from sdfcli.mesh.holes import Holes, capped, loops_of
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.repair import repair
from shapes import Shape

backend = backends.backend
SEEDS = st.integers(0, 2**32 - 1)


def scan(rng: np.random.Generator, rounds: int = 3) -> Shape:
    """A sphere without the faces around a few random points."""
    vertices, faces = shapes.icosphere(rounds)
    centre = vertices[faces].mean(axis=1)
    for _ in range(rng.integers(1, 5)):
        way = rng.normal(size=3)
        kept = centre @ way < np.cos(rng.uniform(0.2, 0.7)) * np.linalg.norm(way)
        faces, centre = faces[kept], centre[kept]
    return shapes.moved((vertices, faces), rng.uniform(0.1, 10), rng.normal(size=3), shapes.turn(rng))


def closed(shape: Shape) -> tuple[Shape, Holes]:
    mesh, holes = capped(make_mesh(*shape))
    return (mesh.vertices, mesh.faces.astype(np.int64)), holes


def half_edges(faces: npt.NDArray[np.uint32]) -> Counter[tuple[int, int]]:
    return Counter(map(tuple, faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2).tolist()))


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.booleans())
def test_scans_become_closed(seed: int, inverted: bool) -> None:
    """Faces are added, none is changed, and they follow the orientation around them."""
    rng = np.random.default_rng(seed)
    given = scan(rng)
    given = shapes.shuffled(rng, shapes.inside_out(given) if inverted else given)
    mesh = make_mesh(*given)
    made, holes = capped(mesh)
    assert np.array_equal(made.faces[: len(mesh.faces)], mesh.faces)
    assert np.array_equal(made.vertices, mesh.vertices)
    assert len(made.faces) - len(mesh.faces) == holes.faces
    sides, own = half_edges(made.faces), half_edges(mesh.faces)
    assert all(sides[b, a] == many for (a, b), many in sides.items())
    if (
        max(Counter(a for a, b in own if (b, a) not in own).values()) == 1
    ):  # no vertex has two holes, whose faces could share an edge
        assert max(sides.values()) == 1
    volume = np.linalg.det(made.vertices[made.faces] - made.vertices.mean(axis=0)).sum() / 6
    assert (volume < 0) == inverted


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from(["holed star", "holed torus", "overlapping", "far apart", "tiny", "huge", "duplicates"]))
def test_any_holes_leave_nothing_open(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    made, _ = closed(shapes.holed(rng, shapes.WORSE[name](rng), 0.15))
    assert repair(make_mesh(*made)).edges.open == 0


def test_sizes() -> None:
    vertices, faces = shapes.cube()
    _, holes = closed(shapes.moved((vertices, faces[:-2]), 3.0))
    assert astuple(holes) == (1, 2, pytest.approx(6 * 2**0.5), pytest.approx(36))
    _, holes = closed(
        (vertices, faces[[2, 3, *range(6, 12)]])
    )  # two sides that meet at an edge are one hole, of six corners
    assert astuple(holes)[:3] == (1, 4, pytest.approx(12**0.5))
    assert closed(shapes.cube())[1] == Holes()


def test_loops_end_where_they_meet_themselves() -> None:
    """Two triangles with a common vertex, and a square through one of them."""
    runs = np.array([[4, 0], [0, 1], [1, 4], [4, 2], [2, 3], [3, 4], [1, 7], [7, 8], [8, 1]])
    found = {tuple(sorted(loop.tolist())) for loop in loops_of(np.random.default_rng().permutation(runs))}
    assert found == {(0, 1, 4), (2, 3, 4), (1, 7, 8)}


def jump(field: Field) -> float:
    """The largest difference of two values along a leaf's edge, less the edge's length; in allowed errors."""
    arrays = field._arrays_on(select_backend("cpu"))
    value = np.asarray(arrays["value"])[arrays["leaf_corner"]].reshape(-1, 8)
    edge = field.domain.length * 0.5 ** field.leaf_level.astype(np.float64)
    pairs = [(k, k | bit) for k in range(8) for bit in (1, 2, 4) if not k & bit]
    tolerance, band, unit = field.info["parameters"]["tolerance"], 0.02, field.info["mesh"]["diagonal"]
    allowed = tolerance * unit * np.maximum(np.abs(value).min(axis=1) / (band * unit), 1)
    return float(max(((np.abs(value[:, a] - value[:, b]) - edge) / allowed).max() for a, b in pairs))


@settings(max_examples=3, deadline=None)
@given(SEEDS)
def test_fields_do_not_jump_and_have_the_distances_of_the_closed_mesh(seed: int) -> None:
    rng = np.random.default_rng(seed)
    given, tolerance = scan(rng, 2), 5e-3
    field = sdfcli.build(given, holes="cap", tolerance=tolerance, device="cpu", threads=2)
    made, holes = closed(given)
    unit = field.info["mesh"]["diagonal"]
    assert field.info["holes"] == asdict(holes)
    assert field.info["jump_leaves"] == 0
    assert jump(field) <= 2
    assert jump(sdfcli.build(given, tolerance=tolerance, device="cpu", threads=2)) > 2
    low, high = given[0].min(axis=0), given[0].max(axis=0)
    points = rng.uniform(low, high, (3000, 3))
    exact = oracle.distance(points, shapes.triangles(made))
    exact[oracle.winding(points, shapes.triangles(made)) > 0.5] *= -1
    error = np.abs(field.sample(points) - exact) / np.maximum(np.abs(exact) / (0.02 * unit), 1)
    assert error.max() <= 1.5 * tolerance * unit
    index = sdfcli.MeshDistance(given, holes="cap", device="cpu")
    assert np.allclose(index.signed_distance(points), exact, atol=1e-6 * unit)
    assert (index.closest(points)[1] >= len(given[1])).any()


def test_closed_meshes_keep_their_bits(backend: Backend) -> None:
    shape, options = shapes.star(np.random.default_rng(), 2), {"tolerance": 1e-2, "device": backend.name}
    one, two = sdfcli.build(shape, **options), sdfcli.build(shape, holes="cap", **options)  # type: ignore[arg-type]
    assert one.content_sha256 == two.content_sha256
    assert two.info["holes"]["count"] == 0
    assert "holes" not in sdfcli.build(shape, holes="open", **options).info  # type: ignore[arg-type]


def test_any_device_gives_the_same_bits(backend: Backend) -> None:
    given = scan(np.random.default_rng())
    one, _ = capped(make_mesh(*given))
    two, _ = capped(make_mesh(*given).on(backend))
    assert one.faces.tobytes() == two.faces.tobytes()
