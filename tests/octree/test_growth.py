"""An octree's growth by a grid: the octree of a CPU's threads, wherever the grid has to stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import backends
import shapes
from sdfcli.backend import Backend, C, select_backend
from sdfcli.mesh.load import make_mesh
from sdfcli.octree import adaptive, budget, growth
from sdfcli.octree.grown import Grown, Limits
from sdfcli.octree.levels import PIECE, Octree
from sdfcli.scene import Scene
from sdfcli.sign import signer
from sdfcli.spatial import moments, packets

grids, warps = backends.grids, backends.warps

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
    limits = Limits(depth=4, tolerance=tolerance, band=0.05, thin=2e-3, thin_depth=5, step=tolerance / 8, why=True)
    return adaptive.build(scene, limits)


@dataclass(frozen=True)
class Stops:
    """What ends launches: room for few cells, few that are opened at a time; few points, winding numbers and cells for
    each warp, and few new cells for each thread. And for how many points winding numbers are told ahead."""

    spare: int = 1 << 13
    pieces: int = 1 << 15
    single: int = 1 << 20
    windings: int = 1 << 20
    wide: int = 1 << 20
    crowd: int = 1 << 20
    ahead: int = 1

    def put(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(growth, "SPARE", self.spare)
        patch.setattr(growth, "PIECE", self.pieces)
        patch.setattr(growth, "SINGLE_PER_WARP", self.single)
        patch.setattr(growth, "WINDINGS_PER_WARP", self.windings)
        for module, most in (
            (packets, "MOST_SINGLE"),
            (growth, "MOST_WINDING_WARPS"),
        ):  # each answers several
            patch.setattr(module, most, 32)
        patch.setattr(growth, "WIDE", self.wide)
        patch.setattr(growth, "CROWD", self.crowd)
        patch.setattr(growth, "WINDINGS_AHEAD", self.ahead)


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often launches ended, by the reason; for GROWTH_TO_LAUNCH, how often they left kernels to the host."""
    counted: Counter[int] = Counter()
    take_over, launch_recorded = growth.Growth._take_over, growth.Growth._launch_recorded

    def told(self: growth.Growth, told: dict[str, int], counts: Any) -> None:
        counted[told["stop"]] += 1
        take_over(self, told, counts)

    def launched(self: growth.Growth) -> None:
        counted[C.GROWTH_TO_LAUNCH] += int(self._record[:, 0].any())
        launch_recorded(self)

    monkeypatch.setattr(growth.Growth, "_take_over", told)
    monkeypatch.setattr(growth.Growth, "_launch_recorded", launched)
    return counted


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(SHAPES)),
    sign=st.sampled_from(["auto", "winding", "pseudonormal", "none"]),
    ended=st.builds(
        Stops,
        spare=st.sampled_from([1, 6, 40, 1024]),
        pieces=st.sampled_from([3, 100, 1 << 15]),
        single=st.sampled_from([0, 30, 1 << 10]),
        windings=st.sampled_from([0, 5, 1 << 10]),
        wide=st.sampled_from([0, 2, 1 << 10]),
        crowd=st.sampled_from([0, 4, 1 << 10]),
        ahead=st.sampled_from([0, 80, 1 << 10]),
    ),
    gradients=st.sampled_from([0, 300, 1 << 22]),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_octree_is_the_same(
    grids: Backend, stops: Counter[int], kind: str, sign: str, ended: Stops, gradients: int, seed: int
) -> None:
    shape = SHAPES[kind](np.random.default_rng(seed))
    plain = grow(select_backend("cpu"), shape, sign, 2e-2)
    stops.clear()
    with pytest.MonkeyPatch.context() as patch:
        ended.put(patch)
        patch.setattr(growth, "GRADIENTS", gradients)
        found = grow(grids, shape, sign, 2e-2)
    assert stops[C.GROWTH_DONE] > 0
    assert (found.queries, found.parts) == (plain.queries, plain.parts)
    assert "leaf_cause" in plain.arrays
    for name, array in plain.arrays.items():
        assert np.array_equal(grids.to_host(found.arrays[name]), array), name


def test_the_kernel_stops_where_the_host_is_needed(
    grids: Backend, stops: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(ended: Stops, sign: str = "auto") -> Counter[int]:
        ended.put(monkeypatch)
        stops.clear()
        grow(grids, PLATE, sign, 2e-2)
        return stops.copy()

    plenty = counted(Stops())
    reasons = C.GROWTH_TO_ANSWER, C.GROWTH_TO_LAUNCH, C.GROWTH_TO_MEASURE, C.GROWTH_TO_PROBE, C.GROWTH_TO_AFFORD
    assert [plenty[reason] for reason in reasons] == [0, 0, 0, 0, 1]
    assert counted(Stops(spare=1))[C.GROWTH_NO_ROOM] > plenty[C.GROWTH_NO_ROOM]
    assert counted(Stops(single=0))[C.GROWTH_TO_ANSWER] > 0
    assert counted(Stops(windings=0), "winding")[C.GROWTH_TO_ANSWER] > 0
    assert counted(Stops(crowd=0))[C.GROWTH_TO_LAUNCH] > 0
    wide = counted(Stops(wide=0))
    assert all(wide[reason] for reason in reasons[1:])


@pytest.mark.parametrize("kind", SHAPES)
def test_the_host_launches_all_kernels_where_grids_cannot_be(warps: Backend, kind: str) -> None:
    """A growth of one block decides, as processes may share a GPU that does not hold the grids of all."""
    if warps.name.startswith("cuda"):
        pytest.skip("this GPU has grids")
    shape = SHAPES[kind](np.random.default_rng(3))
    plain, found = (grow(each, shape, "auto", 2e-2) for each in (select_backend("cpu"), warps))
    for name, array in plain.arrays.items():
        assert np.array_equal(warps.to_host(found.arrays[name]), array), name


@pytest.mark.parametrize("ahead", [0, 1 << 10])
def test_exact_winding_numbers(grids: Backend, ahead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of points at which caps change the winding number: on their edges, where that is undefined, and here anywhere."""
    for module in (moments, signer):
        monkeypatch.setattr(module, "LOST", 0.0)
    monkeypatch.setattr(growth, "WINDINGS_AHEAD", ahead)
    shape = shapes.holed(np.random.default_rng(5), BALL, 0.1)
    plain, found = (grow(each, shape, "winding", 2e-2) for each in (select_backend("cpu"), grids))
    for name, array in plain.arrays.items():
        assert np.array_equal(grids.to_host(found.arrays[name]), array), name


def test_pieces_take_little_of_the_memory(warps: Backend) -> None:
    assert budget.most_piece(select_backend("cpu"), None) == 0
    for limit in (None, 10**8, 3 * 10**9, 10**10, 10**11):
        most = budget.most_piece(warps, limit)
        assert limit is None or budget.NEW_BYTES * C.OWN_POINTS * most <= limit / budget.PIECE_SHARE
        octree = Octree(warps, 5, capped=False, most_piece=most)
        for cells in (1, PIECE, 100_000, 10**6, 10**7):
            piece = octree.piece(cells)
            assert PIECE <= piece <= max(PIECE, most, cells // 8)
            assert piece == PIECE or 8 * piece <= cells
    assert octree.piece(10**7) == budget.MOST_PIECE
