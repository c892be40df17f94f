"""Which points are left out of a field's error: those at a proven jump of the sign, and no others."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import sdfcli
import shapes
from sdfcli.cli.wording import kept_text
from sdfcli.mesh.load import make_mesh
from sdfcli.quality import measure
from sdfcli.quality.accuracy import Evaluated, Floats, Places, errors, errors_by_region, on_surface, surface_samples

EDGE = 0.1


@dataclass
class Turned:
    """The exact distances with the other sign, in cells of EDGE: wrong wherever the distance is not zero."""

    distance: Callable[[Floats], Floats]

    def sample(self, points: Floats) -> Floats:
        return -self.distance(points)

    def cell_at(self, points: Floats) -> tuple[Floats, Floats]:
        return np.floor(points / EDGE) * EDGE, np.full(len(points), EDGE)


@dataclass
class Exact:
    distance: Callable[[Floats], Floats]

    def signed_distance(self, points: Any) -> Floats:
        return self.distance(points)


def rim(points: Floats) -> Floats:
    """The half-plane z = 0, x < 0, below which is inside: beyond its rim the sign jumps."""
    x, _, z = points.T
    return np.where(z < 0, -1, 1) * np.hypot(np.maximum(x, 0), z)


def wall(points: Floats) -> Floats:
    """The plane z = 0, with distances as exact as those of a build."""
    noise = np.random.default_rng(1).uniform(-1e-7, 1e-7, len(points))
    return np.asarray(points[:, 2] + np.where(np.abs(points[:, 2]) > 1e-6, noise, 0))


def jumps(distance: Callable[[Floats], Floats], points: Floats) -> int:
    return errors(Turned(distance), 1.0, 1e-4, 1.0, Exact(distance), points, most_suspects=1.0).jumps


def test_points_of_a_surface_are_drawn_by_area() -> None:
    mesh = make_mesh(*shapes.star(np.random.default_rng(1), 2))
    points, normal = surface_samples(mesh, Places.drawn(5000, np.random.default_rng(2)))
    assert np.array_equal(on_surface(mesh, 5000, np.random.default_rng(2)), points)
    rng = np.random.default_rng(2)
    corner = shapes.triangles((mesh.vertices, mesh.faces))
    double = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    area = np.linalg.norm(double, axis=1)
    face = np.searchsorted(area.cumsum(), rng.random(5000) * area.sum())
    expected = (rng.dirichlet([1, 1, 1], 5000)[:, :, None] * corner[face]).sum(axis=1)
    assert np.allclose(points, expected, rtol=0, atol=1e-12)
    assert np.allclose(normal, double[face] / area[face, None], rtol=0, atol=1e-9)


def test_jumps_beside_a_rim_are_found() -> None:
    points = np.random.default_rng(0).uniform([-0.003, -1, -0.003], [0.003, 1, 0.003], (300, 3))
    points = points[np.abs(rim(points)) > 1e-4]
    assert jumps(rim, points) == len(points) > 200


def test_a_surface_is_no_jump() -> None:
    points = np.random.default_rng(0).uniform([-1, -1, -0.1], [1, 1, 0.1], (300, 3))
    assert jumps(wall, points) == 0
    assert jumps(rim, points - [2, 0, 0]) == 0


def test_regions_are_judged_by_themselves() -> None:
    rng = np.random.default_rng(0)
    regions = {
        "wrong": rng.uniform([-1, -1, -0.1], [1, 1, 0.1], (300, 3)),  # too many suspects for jumps to be looked for
        "right": np.concatenate([rng.uniform([0.2, -1, 0], [1, 1, 0], (300, 3)), [[-0.05, 0.0, 0.02]]]),
        "rim": np.concatenate([np.zeros((300, 3)), [[0.003, 0.0, 0.001]]]),
    }
    points, counts = np.concatenate([*regions.values()]), {name: len(where) for name, where in regions.items()}
    evaluated = Evaluated(counts, points, Exact(rim).signed_distance(points), Turned(rim).sample(points))
    found = errors_by_region(Turned(rim), 1.0, 1e-4, 1.0, Exact(rim), evaluated)
    assert found == {name: errors(Turned(rim), 1.0, 1e-4, 1.0, Exact(rim), where) for name, where in regions.items()}
    assert [each.samples for each in found.values()] == [300, 301, 301]
    assert found["wrong"].jumps == 0
    assert found["rim"].jumps == 1


def test_builds_say_what_limits_their_error() -> None:
    ball = shapes.icosphere(3)
    assert sdfcli.build(ball, device="cpu").info["error_limit"] is None
    assert sdfcli.build(ball, device="cpu", depth=3).info["error_limit"] == "depth"
    assert sdfcli.build(ball, device="cpu", octree="bvh", depth=4).info["error_limit"] == "triangles"


def test_an_error_at_a_hole_is_named_as_such() -> None:
    """Of a mesh that is more holes than faces: neither the depth nor the tolerance is the cause."""
    vertices, faces = shapes.icosphere(3)
    kept = faces[np.random.default_rng(0).random(len(faces)) > 0.6]
    info = sdfcli.build((vertices, kept), sign="winding", device="cpu", tolerance=5e-3).info
    assert info["error_limit"] == "jumps"
    assert "where the sign jumps across the mesh's holes" in kept_text("jumps")


def test_an_error_in_a_coarse_leaf_is_one_between_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    real = measure.errors_by_region

    def larger(*given: Any) -> Any:
        return {name: dataclasses.replace(each, largest=1.1e-3) for name, each in real(*given).items()}

    monkeypatch.setattr(measure, "errors_by_region", larger)
    assert sdfcli.build(shapes.icosphere(3), device="cpu").info["error_limit"] == "samples"


@pytest.mark.parametrize("sign", ["pseudonormal", "winding"])
@pytest.mark.parametrize("kind", ["holed", "crossing", "closed"])
def test_jumps_are_searched_wherever_the_sign_may_jump(kind: str, sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pseudonormals jump on surfaces that cross themselves, too, where they are asked for."""
    ball = shapes.icosphere(3)
    crossing = shapes.overlapping(np.random.default_rng(0), 3)
    shape = {"holed": (ball[0], ball[1][200:]), "crossing": crossing, "closed": ball}[kind]
    found = sdfcli.build(shape, device="cpu", tolerance=0.005, sign=sign).info
    monkeypatch.setattr(measure, "_may_jump", lambda _: True)
    assert sdfcli.build(shape, device="cpu", tolerance=0.005, sign=sign).info == found
    assert found["max_error"] <= 0.005


def test_squares_are_summed_one_by_one() -> None:
    """NumPy's sums have an order that depends on the machine's vectors."""
    random, exact = np.random.default_rng(4), Exact(lambda points: np.zeros(len(points)))
    for _ in range(20):
        sizes, total = random.uniform(0.1, 1, 4000) ** 9, 0.0
        for size in sizes.tolist():
            total += size * size
        found = errors(Turned(lambda points: -points[:, 0]), 1.0, 10.0, 1.0, exact, np.stack([sizes] * 3, axis=1))
        assert found.rms == math.sqrt(total / len(sizes))
