"""Packets of points, on a GPU, and on a warp that fibres of the CPU play (warp.cpp)."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import shapes
from sdfcli.backend import Backend, select_backend
from sdfcli.backend.base import KERNELS, argument_structs
from sdfcli.backend.cpu import CpuBackend
from sdfcli.mesh import make_mesh
from sdfcli.stages import packets
from sdfcli.stages.bvh import Bvh
from sdfcli.stages.bvh_octree import FIRST_LEVELS, bvh_octree, nearest_by_level
from sdfcli.stages.distance import make_bvh, nearest, nearest_in_any_order, visits
from sdfcli.stages.order import curve_order

Numbers = oracle.Numbers
NONE = 0xFFFFFFFF


class Fibres(CpuBackend):
    """The CPU, and one warp of fibres for kernels that need warps."""

    warps = True

    def __init__(self, library: Path) -> None:
        super().__init__()
        self._warp = ctypes.CDLL(str(library))

    def run(self, kernel: str, n: int, **values: Any) -> None:
        if not hasattr(self._warp, kernel):
            super().run(kernel, n, **values)
        elif n:
            struct = argument_structs()[kernel].pack({"n": n, **values}, lambda array: array.ctypes.data)
            getattr(self._warp, kernel)(struct)


@pytest.fixture(scope="session", params=["fibres", pytest.param("cuda", marks=pytest.mark.gpu)])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Backend:
    if request.param == "cuda":
        return select_backend("cuda")
    library = tmp_path_factory.mktemp("warp") / "warp.so"
    source = Path(__file__).with_name("warp.cpp")
    options = ["-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-w", f"-I{KERNELS}"]
    subprocess.run(["g++", *options, str(source), "-o", str(library)], check=True)
    return Fibres(library)


@pytest.fixture(params=["lone", "packet"])
def together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All points one by one, or all of them in packets."""
    monkeypatch.setattr(packets, "PACKETS_FROM", 1 if request.param == "packet" else 1 << 40)


def points_about(rng: np.random.Generator, triangles: Numbers, count: int) -> Numbers:
    """(count, 3) float32: in and around the cube, near triangles, and on their corners."""
    corner = triangles.reshape(-1, 3)
    near = corner[rng.integers(0, len(corner), count)] + rng.normal(size=(count, 3)) * 10.0 ** -rng.uniform(
        1, 6, (count, 1)
    )
    anywhere = rng.uniform(-0.5, 1.5, (count, 3))
    kind = rng.integers(0, 3, (count, 1))
    on = corner[rng.integers(0, len(corner), count)]
    return np.where(kind == 0, near, np.where(kind == 1, anywhere, on)).astype(np.float32)


def check(backend: Backend, bvh: Bvh, points: Numbers, seed: Numbers | None = None) -> None:
    """The distances are the oracle's, and distances and slots those of the thesis's query, bit by bit."""
    at = backend.from_host(points)
    seeds = None if seed is None else backend.from_host(seed, np.uint32)
    found = [backend.to_host(a) for a in nearest(backend, bvh, at, seeds)]
    plain = [backend.to_host(a) for a in nearest(backend, bvh, at, query="cct")]
    assert np.array_equal(found[0].view(np.uint32), plain[0].view(np.uint32))
    assert np.array_equal(found[1], plain[1])
    some = slice(0, 50)
    true = oracle.distances(points[some], backend.to_host(bvh.order.triangle).reshape(-1, 3, 3)).min(axis=1)
    assert np.allclose(found[0][some], true, rtol=1e-5, atol=1e-5)


def assert_same(backend: Backend, found: tuple[Any, Any], expected: tuple[Any, Any]) -> None:
    """Distances and slots are the same."""
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(backend.to_host(one), backend.to_host(other))


@settings(max_examples=15, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), number=st.integers(0, 2**32 - 1), seeds=st.integers(0, 3))
@pytest.mark.parametrize("packed", [False, True])
def test_any_shape(backend: Backend, packed: bool, kind: str, number: int, seeds: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packets, "PACKETS_FROM", 1 if packed else 1 << 40)
        rng = np.random.default_rng(number)
        bvh = make_bvh(backend, make_mesh(*shapes.ANY[kind](rng)).unit_triangles)
        points = points_about(rng, backend.to_host(bvh.order.triangle), int(rng.integers(1, 130)))
        seed = rng.integers(0, len(bvh.order), (len(points), seeds)).astype(np.uint32) if seeds else None
        if seed is not None:
            seed[rng.random(seed.shape) < 0.3] = NONE
        check(backend, bvh, points, seed)


@pytest.mark.usefixtures("together")
@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 1023, 1024, 1025])
def test_any_number_of_triangles(backend: Backend, count: int) -> None:
    rng = np.random.default_rng(count)
    corner = rng.random((count, 1, 3)) + 0.05 * rng.random((count, 3, 3))
    bvh = make_bvh(backend, np.clip(corner, 0, 1).reshape(-1, 9))
    check(backend, bvh, points_about(rng, corner, 65))


@pytest.mark.usefixtures("together")
def test_of_equal_triangles_the_smallest_number(backend: Backend) -> None:
    rng = np.random.default_rng(3)
    some = rng.random((20, 9))
    bvh = make_bvh(backend, np.repeat(some, 40, axis=0)[rng.permutation(800)])
    check(backend, bvh, points_about(rng, some, 200))


@pytest.mark.usefixtures("together")
def test_the_tree_holds_each_triangle_once(backend: Backend) -> None:
    bvh = make_bvh(backend, make_mesh(*shapes.icosphere(4)).unit_triangles)
    tree = bvh.packets
    assert tree is not None
    block, box = backend.to_host(tree.block), backend.to_host(tree.box)
    slots, corner = backend.to_host(tree.block_slot), backend.to_host(bvh.order.triangle)
    assert sorted(slots.tolist()) == list(range(len(corner)))
    held = block.transpose(0, 2, 1).reshape(-1, 9)
    assert np.array_equal(held[: len(corner)], corner[slots])
    triangle = held.reshape(-1, 3, 3)
    low, high = triangle.min(axis=1).reshape(-1, 32, 3).min(axis=1), triangle.max(axis=1).reshape(-1, 32, 3).max(axis=1)
    start = [*backend.to_host(tree.level_start).tolist(), len(box)]
    for first, last in itertools.pairwise(start):
        lanes = box[first:last].transpose(0, 2, 1).reshape(-1, 6)
        assert (lanes[: len(low), :3] <= low).all()
        assert (lanes[: len(low), 3:] >= high).all()
        assert (lanes[len(low) :, :3] > lanes[len(low) :, 3:]).all(), "what is left over is empty"
        pad = -len(low) % 32
        low, high = (
            np.pad(low, ((0, pad), (0, 0)), constant_values=9),
            np.pad(high, ((0, pad), (0, 0)), constant_values=-9),
        )
        low, high = low.reshape(-1, 32, 3).min(axis=1), high.reshape(-1, 32, 3).max(axis=1)
    assert start[-1] - start[-2] == 1


@pytest.mark.usefixtures("together")
def test_level_by_level(backend: Backend) -> None:
    bvh = make_bvh(backend, make_mesh(*shapes.torus(64, 24)).unit_triangles)
    tree = bvh_octree(backend, bvh.order, 6)
    assert len(tree.position) > FIRST_LEVELS / 4
    found = nearest_by_level(backend, bvh, tree)
    plain = nearest(backend, bvh, tree.position, query="cct")
    assert_same(backend, found, plain)


@pytest.mark.usefixtures("together")
def test_points_in_any_order(backend: Backend) -> None:
    rng = np.random.default_rng(5)
    bvh = make_bvh(backend, make_mesh(*shapes.icosphere(3)).unit_triangles)
    points = backend.from_host(rng.random((300, 3)), np.float32)
    order = backend.to_host(curve_order(backend, points))
    assert sorted(order.tolist()) == list(range(300))
    found, plain = nearest_in_any_order(backend, bvh, points), nearest(backend, bvh, points, query="cct")
    assert_same(backend, found, plain)


@pytest.mark.usefixtures("together")
def test_first_bounds_spare_work(backend: Backend) -> None:
    rng = np.random.default_rng(6)
    bvh = make_bvh(backend, make_mesh(*shapes.icosphere(4)).unit_triangles)
    points = backend.from_host(rng.random((64, 3)), np.float32)
    points = points[curve_order(backend, points)]
    _, slot = nearest(backend, bvh, points)
    plain, seeded = (visits(backend, bvh, points, seed) for seed in (None, slot[:, None].copy()))
    for without, bounded in zip(plain, seeded, strict=True):
        assert 0 < int(bounded.sum()) < int(without.sum())
