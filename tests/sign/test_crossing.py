"""Faces that cross others: where pseudonormals mislead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import shapes
from sdfcli import scene as scene_module
from sdfcli.backend import Backend
from sdfcli.mesh.load import make_mesh
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.scene import Scene
from sdfcli.sign import choice as choice_module
from sdfcli.sign.diagnose import crossing_faces
from sdfcli.spatial.morton import morton_order
from sdfcli.spatial.radix_tree import build_bvh, refit

backend = backends.backend


def crossing(backend: Backend, shape: shapes.Shape) -> int:
    mesh = make_mesh(*shape)
    order = morton_order(backend, mesh.unit_triangles)
    first, again = (refit(backend, build_bvh(backend, order)) for _ in range(2))
    number = crossing_faces(backend, first, lambda: again)
    first.child.fill(0)  # as if its memory were used for something else, as soon as it may be
    first.box.fill(0)
    return number()


def pierced(triangles: Any) -> Any:
    """(n, n): whether an edge of one triangle passes through the other's inside. By the signs of volumes."""

    def volume(a: Any, b: Any, c: Any, d: Any) -> Any:
        return np.linalg.det(np.stack(np.broadcast_arrays(b - a, c - a, d - a), axis=-2))

    t = np.asarray(triangles, np.float64)
    a, b, c = (t[None, :, k] for k in range(3))
    found = np.zeros((len(t), len(t)), bool)
    for k in range(3):
        p, q = t[:, None, k], t[:, None, (k + 1) % 3]
        across = volume(a, b, c, p) * volume(a, b, c, q) < 0
        around = [np.sign(volume(p, q, u, v)) for u, v in ((a, b), (b, c), (c, a))]
        found |= across & (around[0] == around[1]) & (around[1] == around[2])
    return (found | found.T) & ~np.eye(len(t), dtype=bool)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.floats(0.02, 0.5), count=st.integers(1, 80))
def test_crossing_triangles_of_a_soup(backend: Backend, seed: int, size: float, count: int) -> None:
    shape = shapes.soup(np.random.default_rng(seed), count, size)
    unit = make_mesh(*shape).unit_triangles.astype(np.float32).reshape(-1, 3, 3)
    assert crossing(backend, shape) == pierced(unit).any(axis=1).sum()


@settings(max_examples=40, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.CLOSED)), seed=st.integers(0, 2**32 - 1))
def test_sound_surfaces_cross_nowhere(backend: Backend, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert (
        crossing(backend, shapes.moved(shapes.CLOSED[kind](rng), 10.0 ** rng.uniform(-9, 9), turn=shapes.turn(rng)))
        == 0
    )


FLAT = np.array([[0, 0, 0], [4, 0, 0], [0, 4, 0]], np.float64)
PAIRS: dict[str, tuple[list[list[float]], bool]] = {
    "the same": ([[0, 0, 0], [4, 0, 0], [0, 4, 0]], True),
    "back to back": ([[0, 0, 0], [0, 4, 0], [4, 0, 0]], True),
    "within": ([[1, 1, 0], [2, 1, 0], [1, 2, 0]], True),
    "partly over it": ([[1, 1, 0], [9, 1, 0], [1, 9, 0]], True),
    "folded over the edge": ([[4, 0, 0], [0, 0, 0], [1, 1, 0]], True),
    "folded at the corner": ([[0, 0, 0], [1, 2, 0], [2, 1, 0]], True),
    "through it": ([[1, 1, -1], [1, 1, 1], [9, 9, 0.5]], True),
    "from a corner through the inside": ([[0, 0, 0], [2, 2, 1], [2, 2, -1]], True),
    "side by side": ([[4, 0, 0], [0, 0, 0], [1, -2, 0]], False),
    "at an edge": ([[4, 0, 0], [0, 0, 0], [1, 0, 3]], False),
    "a steep fold": ([[4, 0, 0], [0, 0, 0], [1, 1, 0.01]], False),
    "at a corner in the plane": ([[0, 0, 0], [-1, -2, 0], [-2, 1, 0]], False),
    "at a corner": ([[0, 0, 0], [1, 1, 1], [2, 1, 1]], False),
    "standing on it": ([[1, 1, 0], [1, 1, 2], [2, 1, 2]], False),
    "lying on its edge": ([[2, 0, 0], [1, -1, 0], [3, -1, 0]], False),
    "above": ([[0, 0, 0.01], [4, 0, 0.01], [0, 4, 0.01]], False),
    "far": ([[9, 9, 9], [8, 9, 9], [9, 8, 9]], False),
}


@pytest.mark.parametrize("name", PAIRS)
def test_two_triangles(backend: Backend, name: str) -> None:
    other, crosses = PAIRS[name]
    rng = np.random.default_rng(5)
    for matrix in (np.eye(3), *(shapes.turn(rng) for _ in range(20))):
        for order in ([0, 1, 2], [1, 2, 0], [2, 1, 0]):
            # A third triangle far away, that the two are not large in the unit cube.
            vertices = np.concatenate([FLAT, np.array(other)[order], FLAT + 20]) @ matrix.T
            assert crossing(backend, (vertices, np.arange(9).reshape(3, 3))) == (2 if crosses else 0)


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_box_that_meets_very_many(backend: Backend, mirrored: bool) -> None:
    """The triangle counts as one that crosses, whether it comes after or before the others; these do not, unless they
    cross each other."""
    vertices, faces = shapes.very_many(mirrored)
    assert pierced(vertices[faces[99:101]]).any(axis=1).all()
    assert crossing(backend, (vertices, faces)) == 3


@pytest.mark.parametrize("sign", ["auto", "winding", "pseudonormal"])
@pytest.mark.parametrize("one_tree", [False, True])
def test_the_number_is_known_when_the_tree_is_gone(backend: Backend, sign: str, one_tree: bool) -> None:
    for shape, expected in ((shapes.very_many(False), 3), (shapes.overlapping(np.random.default_rng(0), 2), None)):
        scene = Scene.of(make_mesh(*shape), sign, backend, trees_dominate=one_tree)
        _ = scene.index
        assert scene.choice.crossing == (expected or crossing(backend, shape)) > 0


def test_they_are_counted_once_when_somebody_asks(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []

    def counts(*of: Any) -> Any:
        counted.append(of)
        return crossing_faces(*of)

    for module in (scene_module, choice_module):
        monkeypatch.setattr(module, "crossing_faces", counts)
    shape = shapes.overlapping(np.random.default_rng(0), 2)
    distance = MeshDistance(shape, "winding", device=backend.name)
    distance.signed_distance(np.zeros((1, 3)))
    assert not counted
    assert distance.sign.crossing == distance.sign.crossing == crossing(backend, shape) > 0
    assert len(counted) == 1


def test_a_fan_of_very_many_takes_no_time(backend: Backend) -> None:
    # All boxes meet at the tip: of so many no triangle is compared with all others.
    angle = np.linspace(0, 2 * np.pi, 20_001)[:-1]
    rim = np.stack([np.cos(angle), np.sin(angle), 0.3 * np.sin(5 * angle)], axis=1)
    k = np.arange(20_000)
    faces = np.stack([np.zeros_like(k), k + 1, (k + 1) % 20_000 + 1], axis=1)
    assert crossing(backend, (np.concatenate([[[0, 0, 1.0]], rim]), faces)) > 0


def folded(turn: oracle.Numbers) -> shapes.Shape:
    """A cube, the middle of whose upper side was drawn far out of that side, within its plane: closed, oriented and
    manifold, without degenerate or equal faces, but some of them lie flat on others."""
    vertices, faces = shapes.refined(shapes.cube())
    middle = np.flatnonzero((vertices == [0, 0, 1]).all(axis=1))
    vertices = vertices.copy()
    vertices[middle] += [3, 0.7, 0]
    return vertices @ np.asarray(turn).T, faces


def test_folds_mislead_pseudonormals_and_are_seen(backend: Backend) -> None:
    # The cause of wrong signs on quantised scans: where the surface is folded back on itself, the normals around a
    # vertex cancel, and rounding decides which side the whole region is on whose nearest point the vertex is.
    rng = np.random.default_rng(6)
    wrong = 0
    for _ in range(5):
        shape = folded(shapes.turn(rng))
        mesh = make_mesh(*shape)
        assert mesh.health.faults == []
        points = rng.uniform(-4, 4, (500, 3))
        triangles = shapes.triangles(shape)
        far = oracle.distance(points, triangles) > 0.1
        points, inside = points[far], oracle.winding(points[far], triangles) > 0.5
        asked = MeshDistance(mesh, sign="pseudonormal", device=backend.name)
        wrong += int(np.sum((asked.signed_distance(points) < 0) != inside))
        chosen = MeshDistance(mesh, device=backend.name)
        assert chosen.sign.method == "winding"
        assert chosen.sign.reason.endswith("faces cross others")
        assert np.array_equal(chosen.signed_distance(points) < 0, inside)
    assert wrong > 10
