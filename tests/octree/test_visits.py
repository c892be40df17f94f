"""Visits of an octree's levels by a kernel: the octree of the host's own visits, wherever the kernel has to stop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import backends
import shapes
from sdfcli.backend import Backend, select_backend
from sdfcli.mesh.load import make_mesh
from sdfcli.octree import adaptive
from sdfcli.octree.grown import Grown, Limits
from sdfcli.octree.visits import Visited, Visits
from sdfcli.scene import Scene

grids = backends.grids

BALL = shapes.icosphere(2)
PLATE = shapes.joined(shapes.box((0, 0, 0), (1, 1, 0.01)), shapes.moved(BALL, 0.2, (0.5, 0.5, 0.6)))
SHAPES: dict[str, Callable[[np.random.Generator], shapes.Shape]] = {
    "ball": lambda rng: shapes.moved(BALL, 1.0, (0.0, 0.0, 0.0), shapes.turn(rng)),
    "open": lambda rng: shapes.holed(rng, BALL, 0.1),
    "plate": lambda rng: PLATE,
    "soup": lambda rng: shapes.soup(rng, 20, 0.7),
    "zoo": lambda rng: shapes.zoo(rng, 20),
    "overlapping": lambda rng: shapes.overlapping(rng, 1),
}


def grow(backend: Backend, shape: shapes.Shape, sign: str, tolerance: float) -> Grown:
    scene = Scene.of(make_mesh(*shape), sign, backend)
    return adaptive.build(scene, Limits(depth=4, tolerance=tolerance, band=0.05, thin=2e-3, thin_depth=5))


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(SHAPES)),
    sign=st.sampled_from(["auto", "winding", "pseudonormal", "none"]),
    most=st.sampled_from([1, 6, 40, 1024]),
    gradients=st.sampled_from([0, 300, 1 << 22]),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_octree_is_the_same(grids: Backend, kind: str, sign: str, most: int, gradients: int, seed: int) -> None:
    stops: list[Visited] = []
    run = Visits.run

    def told(self: Visits, *args: int, **options: int) -> Visited:
        stops.append(run(self, *args, **options))
        return stops[-1]

    shape = SHAPES[kind](np.random.default_rng(seed))
    plain = grow(select_backend("cpu"), shape, sign, 2e-2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adaptive, "MOST", most)
        patch.setattr(adaptive, "GRADIENTS", gradients)
        patch.setattr(Visits, "run", told)
        found = grow(grids, shape, sign, 2e-2)
    assert len(stops) > 0
    assert found.queries == plain.queries
    for name, array in plain.arrays.items():
        assert np.array_equal(grids.to_host(found.arrays[name]), array), name


@pytest.mark.parametrize("most", [1, 6, 1024])
def test_the_kernel_stops_where_there_is_no_room(grids: Backend, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[Visited] = []
    run = Visits.run

    def told(self: Visits, *args: int, **options: int) -> Visited:
        stops.append(run(self, *args, **options))
        return stops[-1]

    monkeypatch.setattr(adaptive, "MOST", most)
    monkeypatch.setattr(Visits, "run", told)
    grow(grids, PLATE, "auto", 2e-2)
    assert any(stop.visit is not None for stop in stops) == (most < 1024)
    assert any(stop.split for stop in stops) == (most == 1024)  # before the finest level for the tolerance
    assert sum(stop.queries for stop in stops) > 0
