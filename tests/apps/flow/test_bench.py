"""The benchmark of layouts of particles."""

from __future__ import annotations

import numpy as np
import pytest

import backends
from sdfcli.apps.flow import bench, tomioka
from sdfcli.apps.flow.cases import dam_break
from sdfcli.apps.flow.run import dam_break_fluid
from sdfcli.backend import Backend
from sdfcli.errors import UsageError

backend = backends.backend


def test_rows(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "WARM", 1)
    block = None if backend.name == "cpu" else 128
    rows = list(bench.measure(backend, blocks=(block,), steps=2))
    assert [(row.order, row.layout) for row in rows] == [
        (order, layout) for order in bench.ORDERS for layout in bench.LAYOUTS
    ]
    for row in rows:
        assert row.particles == tomioka.PARTICLES
        assert row.seconds > 0
        assert all(milliseconds >= 0 for milliseconds in row.stages.values())
        assert row.stages["pressure after"] > 0
        known = block == 128 and row.order == "lattice" and row.layout in ("index", "bucket")
        assert (row.paper is not None) == known


def test_all_layouts_end_in_the_same_state(backend: Backend) -> None:
    start, fluid = dam_break(), dam_break_fluid(1)
    for shuffled in (False, True):
        number = np.arange(len(start.position), dtype=np.uint32)
        if shuffled:
            np.random.default_rng(3).shuffle(number)
        ends = set()
        for layout in bench.LAYOUTS:
            stepper = bench._stepper(backend, start, fluid, number, layout)
            for _ in range(12):
                stepper.step()
            stepper.measure()
            store = stepper.store
            ends.add(b"".join(array.tobytes() for array in store.by_number(store.position, stepper.pressure)))
        assert len(ends) == 1


def test_buckets_a_reach_wide(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less to look at, and no time of the paper's beside it: it does not say how it covers motion."""
    monkeypatch.setattr(bench, "WARM", 1)
    monkeypatch.setattr(bench, "ORDERS", ("lattice",))
    block = None if backend.name == "cpu" else 128
    rows = list(bench.measure(backend, blocks=(block,), buckets=(1.0, 1.1), steps=1))
    assert [(row.bucket, row.layout) for row in rows] == [
        (edge, layout) for edge in (1.0, 1.1) for layout in bench.LAYOUTS
    ]
    assert {row.paper for row in rows if row.bucket == 1.0} == {None}


@pytest.mark.parametrize("edge", [0.99, 4.01, float("nan")])
def test_wrong_buckets(backend: Backend, edge: float) -> None:
    with pytest.raises(UsageError, match="use 1 to 4 radii"):
        list(bench.measure(backend, buckets=(1.1, edge)))


def test_particles_by_scale() -> None:
    assert bench.finer(1) == 1
    for scale in (3, 10, 100):
        found = bench._size(bench.finer(scale))
        assert abs(found / (scale * tomioka.PARTICLES) - 1) < 0.5
    for finer in (1, 2, 3):
        assert bench._size(finer) == len(dam_break(finer).position)
    assert bench._size(1) == tomioka.PARTICLES


@pytest.mark.parametrize("scale", [0, 0.5, -1, float("nan"), 1e30])
def test_wrong_scales(scale: float) -> None:
    with pytest.raises(UsageError, match="use 1 to 10,000"):
        bench.finer(scale)
