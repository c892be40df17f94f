"""Flows on several devices: the same bits as on one, whatever the particles do."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sdfcli
import shapes
from sdfcli.apps.flow import cases, run, slabs
from sdfcli.apps.flow.cases import Start
from sdfcli.apps.flow.fluid import Fluid
from sdfcli.apps.flow.layout import Grid
from sdfcli.apps.flow.run import Flow, FlowOptions, State, prepare, prepare_dam_break
from sdfcli.apps.flow.slabs import share_out
from sdfcli.backend import C, select_backend
from sdfcli.errors import UsageError
from sdfcli.field.field import Field

Arrays = np.typing.NDArray[Any]
SPACING, STEP = 0.02, 5e-4


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that sets the number of devices, all of them CPUs."""

    def chosen(count: int) -> None:
        backends = [select_backend("cpu", 1) for _ in range(count)]
        monkeypatch.setattr(run, "select_backends", lambda *_: backends)

    return chosen


def facts(state: State) -> tuple[str, int, int, int]:
    arrays = state.number, state.kind, state.place, state.velocity, state.pressure
    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
    return digest, state.lost, state.behind, state.fast


def test_a_dam_break(devices: Any) -> None:
    """Two frames: slabs are cut anew in the second."""
    options, count = FlowOptions(time=0.01, frames=2), 3
    devices(1)
    expected = list(map(facts, prepare_dam_break(options).states()))
    devices(count)
    assert list(map(facts, prepare_dam_break(options).states())) == expected


@pytest.mark.parametrize("steps", [2, 3])
def test_what_reaches_farthest(devices: Any, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pressed together, and so viscous that velocities four layers away change the pressure after a step."""
    rng = np.random.default_rng(1)
    x = 0.6 * SPACING * (cases.lattice((40, 16, 16)) + 0.5) + 0.1 * SPACING * rng.random((10_240, 3))
    u = rng.uniform(-8, 8, x.shape).astype(np.float32)
    fluid, kind = Fluid(SPACING, 22.0, STEP, (0.0, 0.0, 0.0), 0.1), np.zeros(len(x), np.uint8)
    monkeypatch.setattr(Flow, "bears", lambda *_: True)
    found = []
    for count in (1, 2):
        devices(count)
        flow = Flow(None, Start(x, kind, np.full(3, -0.1), np.full(3, 1.5)), fluid, steps, FlowOptions(frames=1))
        found.append(facts(flow.after(replace(flow.first(), velocity=u))))
    assert found[0] == found[1]


@cache
def ball() -> Field:
    return sdfcli.build(shapes.icosphere(2), device="cpu", tolerance=2e-3)


def test_in_a_field(devices: Any) -> None:
    """Slabs of fewer layers than they need of others, and a wall."""
    count = 4
    options = FlowOptions(inside=True, time=0.15, frames=2, gravity=(0.0, 0.0, -9.8))
    box = (-1, -1, -1, 1, 1, 0.2)
    devices(1)
    expected = list(map(facts, prepare(ball(), box, 0.15, options).states()))
    devices(count)
    assert list(map(facts, prepare(ball(), box, 0.15, options).states())) == expected


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 200),
    count=st.integers(2, 4),
    steps=st.integers(1, 4),
    cells=st.tuples(*[st.floats(0.3, 12)] * 3),
    speed=st.sampled_from([0, 5, 100, 1e3, 1e30]),
    walls=st.sampled_from([0, 0.5, 1]),
    clustered=st.booleans(),
)
def test_particles_anywhere(
    seed: int, n: int, count: int, steps: int, cells: tuple[float, ...], speed: float, walls: float, clustered: bool
) -> None:
    """Also those that jump over slabs, or out of the domain."""
    rng = np.random.default_rng(seed)
    size = 1.2 * 2.1 * SPACING * np.array(cells)
    x = rng.random((n, 3)) * size
    if clustered:
        x = x[:1] + 3 * SPACING * (rng.random((n, 3)) - 0.5)
        x = np.clip(x, 0, size)
    kind = np.where(rng.random(n) < walls, C.WALL, C.FLUID).astype(np.uint8)
    u = (speed * rng.uniform(-1, 1, x.shape) * (kind == C.FLUID)[:, None]).astype(np.float32)
    fluid = Fluid(SPACING, 22.0, STEP, (0.0, 0.0, -9.8), 0.05)
    found = []
    for devices in (1, count):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "select_backends", lambda *_, many=devices: [select_backend("cpu", 1)] * many)
            patch.setattr(Flow, "bears", lambda *_: True)
            flow = Flow(None, Start(x, kind, np.zeros(3), size), fluid, steps, FlowOptions(frames=1))
            found.append(facts(flow.after(replace(flow.first(), velocity=u))))
    assert found[0] == found[1]


def test_more_particles_than_a_slab_has_places_for(devices: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of them move from one slab to the other; the frame is done again with more places."""
    rng = np.random.default_rng(4)
    size = np.array([40, 2, 2]) * SPACING * 2.52
    x = rng.random((600, 3)) * [0.1, 1, 1]
    x[200:, 0] += 0.9
    x = x * size
    u = np.zeros_like(x, np.float32)
    u[:200, 0] = 0.9 * size[0] / STEP / 10
    fluid, kind = Fluid(SPACING, 22.0, STEP, (0.0, 0.0, 0.0)), np.zeros(600, np.uint8)
    monkeypatch.setattr(slabs, "LEAST", 8)
    monkeypatch.setattr(Flow, "bears", lambda *_: True)
    found, margins = [], []
    for count in (1, 2):
        devices(count)
        flow = Flow(None, Start(x, kind, np.zeros(3), size), fluid, 11, FlowOptions(frames=1))
        found.append(facts(flow.after(replace(flow.first(), velocity=u))))
        margins.append(flow._margin)
    assert found[0] == found[1]
    assert margins[1] > margins[0]


def test_equal_shares() -> None:
    grid = Grid.over(np.zeros(3), np.array([1.0, 0.5, 0.3]), 0.02)
    place = (np.random.default_rng(1).random((10_000, 3)) * [1.0, 0.5, 0.3]).astype(np.float32)
    layers, layer = share_out(grid, place, 4)
    assert {each.axis for each in layers} == {0}
    assert [each.first for each in layers] == [0, *(each.last for each in layers[:-1])]
    assert layers[-1].last == grid.across[0]
    counts = [((layer >= each.first) & (layer < each.last)).sum() for each in layers]
    assert min(counts) > 2200


def test_other_layouts_are_refused(devices: Any) -> None:
    devices(2)
    with pytest.raises(UsageError, match="--layout index: use compact on several devices"):
        prepare_dam_break(FlowOptions(time=0.01, frames=1, layout="index"))


@pytest.mark.gpu
def test_two_gpus() -> None:
    import backends

    backends.two_gpus()
    options = FlowOptions(time=0.05, frames=2, viscosity=0.05)
    cpu = list(map(facts, prepare_dam_break(replace(options, device="cpu")).states()))
    assert list(map(facts, prepare_dam_break(replace(options, device="cuda:0,1")).states())) == cpu
    box = (-1, -1, -1, 1, 1, 0.2)
    options = FlowOptions(inside=True, time=0.3, frames=2, gravity=(0.0, 0.0, -9.8))
    in_ball = [
        list(map(facts, prepare(ball(), box, 0.15, replace(options, device=d)).states())) for d in ("cpu", "cuda:0,1")
    ]
    assert in_ball[0] == in_ball[1]
