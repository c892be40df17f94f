"""Packets of points, on a GPU, and on a warp of fibres of the CPU (warp.cpp)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import shapes
from sdfcli.backend import Backend
from sdfcli.mesh.load import make_mesh
from sdfcli.octree.density import bvh_octree
from sdfcli.spatial import packets
from sdfcli.spatial.morton import curve_order, morton_order
from sdfcli.spatial.packets import FIRST_LEVELS, ask, build_packets, loose_order
from sdfcli.spatial.radix_tree import Bvh
from surfaces import points_about
from trees import index_of, make_bvh, nearest, visits

Numbers = oracle.Numbers
NONE = 0xFFFFFFFF

backend = backends.warps


@pytest.fixture(params=["single", "packet"])
def together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All points one by one, or all of them in packets."""
    monkeypatch.setattr(packets, "PACKETS_FROM", 1 if request.param == "packet" else 1 << 40)


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


def hard_triangles(rng: np.random.Generator, kind: str, count: int) -> Numbers:
    """(count, 3, 3) float64 in the unit cube, of a kind that is hard to bound."""
    start, way = rng.random((count, 1, 3)), rng.normal(size=(count, 1, 3))
    size = 10.0 ** -rng.uniform(0, 8, (count, 1, 1))
    if kind == "needles":
        corner = start + size * way * [[0.0], [1.0], [rng.random()]] + 1e-4 * size * rng.normal(size=(count, 3, 3))
    elif kind == "of any size":
        corner = start + size * rng.normal(size=(count, 3, 3))
    elif kind == "segments and points":
        corner = start + way * rng.integers(0, 2, (count, 3, 1))
    elif kind == "of one plane":
        corner = np.round(4 * rng.random((count, 3, 3))) / 4
        corner[:, :, rng.integers(3)] = 0.5
    else:
        corner = 0.5 + 0.3 * way / np.linalg.norm(way, axis=2, keepdims=True) + 1e-3 * rng.normal(size=(count, 3, 3))
    return np.asarray(np.clip(corner, 0, 1))


def hard_points(rng: np.random.Generator, triangles: Numbers, kind: str, count: int) -> Numbers:
    """(count, 3) float32, an even number: far, near, and on the triangles, with the packet's middle there, too."""
    size, off = 10.0 ** -rng.uniform(0, 8), rng.normal(size=(count, 3))
    if kind == "on a triangle":
        points = rng.dirichlet([1, 1, 1], count) @ triangles[rng.integers(len(triangles))] + size * 1e-2 * off
    elif kind == "about a point of a triangle":
        off[1::2] = -off[::2]
        points = rng.dirichlet([1, 1, 1]) @ triangles[rng.integers(len(triangles))] + size * off
    elif kind == "far together":
        points = 10.0 ** rng.uniform(0, 15) * rng.normal(size=3) + 10.0 ** rng.uniform(-6, 15) * off
    elif kind == "far apart":
        points = 10.0 ** rng.uniform(0, 15, (count, 1)) * off
    else:
        points = np.full((count, 3), 0.5)
    return points.astype(np.float32)


@settings(max_examples=40, deadline=None)
@given(
    triangles=st.sampled_from(["needles", "of any size", "segments and points", "of one plane", "equally far"]),
    points=st.sampled_from(["on a triangle", "about a point of a triangle", "far together", "far apart", "one"]),
    count=st.sampled_from([1, 31, 100, 700]),
    number=st.integers(0, 2**32 - 1),
)
@pytest.mark.parametrize("packed", [False, True])
def test_hard_cases(backend: Backend, packed: bool, triangles: str, points: str, count: int, number: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packets, "PACKETS_FROM", 1 if packed else 1 << 40)
        rng = np.random.default_rng(number)
        corner = hard_triangles(rng, triangles, count)
        check(backend, make_bvh(backend, corner.reshape(-1, 9)), hard_points(rng, corner, points, 40))


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
    points = points_about(rng, some, 200)
    check(backend, bvh, points)
    check(backend, bvh, points, rng.integers(0, 800, (200, 2)))


@settings(max_examples=20, deadline=None)
@given(kind=st.sampled_from([*sorted(shapes.ANY), "sphere"]), number=st.integers(0, 2**32 - 1))
def test_the_tree_holds_each_triangle_once(backend: Backend, kind: str, number: int) -> None:
    mesh = shapes.icosphere(4) if kind == "sphere" else shapes.ANY[kind](np.random.default_rng(number))
    bvh = make_bvh(backend, make_mesh(*mesh).unit_triangles)
    tree = build_packets(backend, bvh.order)
    box, place = backend.to_host(tree.box), backend.to_host(tree.slot_place)
    corner = backend.to_host(bvh.order.triangle).reshape(-1, 3, 3).astype(float)
    assert sorted(place.tolist()) == list(range(len(corner)))
    start = [*backend.to_host(tree.level_start).tolist(), len(box)]
    assert_boxes_hold(backend.to_host(tree.part), place // packets.PART, corner)
    for first, last in itertools.pairwise(start):
        assert_boxes_hold(box[first:last], place, corner)
        place = place // packets.WARP
    assert not place.any(), "there is one root"
    assert start[-1] - start[-2] == 1


@pytest.mark.parametrize("spread", [1.0, 0.02, 1e-4])
@pytest.mark.parametrize("bits", [6, 7])
def test_triangles_come_along_the_hilbert_curve(
    backend: Backend, spread: float, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells of one 64th or 128th in the curve's order, the triangles of each in Morton order."""
    monkeypatch.setattr(packets, "FINE_CURVE_FROM", 0 if bits == 7 else 1 << 40)
    finer = 3 * (21 - bits)
    rng = np.random.default_rng(3)
    middle = np.clip(0.4 + spread * rng.normal(size=(3000, 1, 3)), 0.01, 0.99)
    order = morton_order(backend, (middle + rng.uniform(-1e-3, 1e-3, (3000, 3, 3))).reshape(-1, 9))
    placed: list[Numbers] = []
    run = backend.run

    def spy(kernel: str, n: int, **values: Any) -> None:
        run(kernel, n, **values)
        if kernel == "sdf_packet_centres":
            placed.append(backend.to_host(values["placed"]).copy())

    monkeypatch.setattr(backend, "run", spy)
    packets.build_packets(backend, order)
    cells = [oracle.deinterleave(key >> finer << finer) for key in backend.to_host(order.keys).tolist()]
    at = np.array(cells) / 2**21 + 0.5 / 2**bits
    keys = backend.xp.empty(3000, np.uint32)
    run("sdf_curve", 3000, points=backend.from_host(at, np.float32), keys=keys)
    expected = np.argsort(backend.to_host(keys), kind="stable")
    assert placed[0][:, 3].view(np.uint32).tolist() == expected.tolist()


def assert_boxes_hold(box: Numbers, place: Numbers, corner: Numbers) -> None:
    """Triangles (n, 3, 3) lie in the boxes at these places, whose axes stand at right angles."""
    middle, *axes = box.transpose(1, 0, 2, 3).reshape(4, -1, 4)[:, place].astype(float)
    half, axes = np.stack([axis[:, 3] for axis in axes], axis=1), np.stack([axis[:, :3] for axis in axes], axis=1)
    assert np.allclose(axes @ axes.transpose(0, 2, 1), np.eye(3) * 0.99999**2, rtol=0, atol=1e-6)
    inside = np.abs(np.einsum("nkc,nac->nka", corner - middle[:, None, :3], axes))
    assert (inside < half[:, None, :]).all()


def test_blocks_are_cut_by_medians(backend: Backend) -> None:
    """A square of 64 x 64 equal triangles falls into rectangles of 4 x 8 of them, and these into some of 2 x 2."""
    place = np.stack(np.meshgrid(range(64), range(64), [32]), axis=-1).reshape(-1, 1, 3) / 64
    corner = place + np.array([[0.1, 0.1, 0], [0.9, 0.1, 0], [0.1, 0.9, 0]]) / 64
    tree = build_packets(backend, morton_order(backend, np.random.default_rng(1).permutation(corner).reshape(-1, 9)))
    assert tree is not None
    blocks = backend.to_host(tree.box)[backend.to_host(tree.level_start)[1] :][: 4096 // 32 // 32]
    for boxes, short, long in ((blocks, 3.8, 7.8), (backend.to_host(tree.part), 1.8, 1.8)):
        sides = np.sort(2 * boxes[:, 1:, :, 3], axis=1)
        assert np.allclose(sides, np.array([0, short, long])[:, None] / 64, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("together")
def test_level_by_level(backend: Backend) -> None:
    bvh = make_bvh(backend, make_mesh(*shapes.torus(64, 24)).unit_triangles)
    tree = bvh_octree(backend, bvh.order, 6)
    assert len(tree.position) > FIRST_LEVELS / 4
    index = index_of(backend, bvh)
    found = index.nearest_by_level(tree.position, tree.near, tree.ends)
    plain = nearest(backend, bvh, tree.position, query="cct")
    assert_same(backend, found, plain)
    rng = np.random.default_rng(4)
    seed = rng.integers(0, len(bvh.order), (len(tree.position), 1)).astype(np.uint32)
    seed[rng.random(len(seed)) < 0.3] = NONE
    found = index.nearest_by_level(tree.position, tree.near, tree.ends, backend.from_host(seed))
    assert_same(backend, found, plain)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 500])
def test_points_are_counted_into_order(backend: Backend, count: int) -> None:
    """Each comes once, and those of a cell of the coarser lattice together, along the Hilbert curve."""
    points = backend.from_host(np.random.default_rng(count).random((count, 3)) ** 3, np.float32)
    order = backend.to_host(loose_order(backend, points))
    assert sorted(order.tolist()) == list(range(count))
    bits = min(packets.MOST_BITS, -(-count.bit_length() // 3))
    place = np.empty(count, np.uint32)
    place[backend.to_host(curve_order(backend, points))] = range(count)
    cell = np.floor(backend.to_host(points) * 2**bits).astype(int)[order]
    changes = np.append(np.flatnonzero((np.diff(cell, axis=0) != 0).any(axis=1)) + 1, count)
    start = 0
    for end in changes:
        assert set(place[order[start:end]].tolist()) == set(range(start, end))
        start = end


@pytest.mark.usefixtures("together")
def test_points_in_any_order(backend: Backend) -> None:
    rng = np.random.default_rng(5)
    bvh = make_bvh(backend, make_mesh(*shapes.icosphere(3)).unit_triangles)
    points = backend.from_host(rng.random((1100, 3)), np.float32)  # samples are sampled, too
    order = backend.to_host(curve_order(backend, points))
    assert sorted(order.tolist()) == list(range(1100))
    found, plain = index_of(backend, bvh).nearest_in_any_order(points), nearest(backend, bvh, points, query="cct")
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


def test_samples_that_leap_start_near(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packets, "PACKETS_FROM", 1)
    monkeypatch.setattr(packets, "EVERY", (16, 16))
    rng = np.random.default_rng(7)
    bvh = make_bvh(backend, make_mesh(*shapes.icosphere(4)).unit_triangles)
    tree = build_packets(backend, bvh.order)
    pole = np.where(np.arange(64) % 16 < 8, 0.05, 0.95)  # all samples at the first
    points = backend.from_host(
        np.stack([rng.uniform(0.45, 0.55, 64), rng.uniform(0.45, 0.55, 64), pole], 1), np.float32
    )
    expected = nearest(backend, bvh, points, query="cct")
    measured = []
    for sampled in (False, True):
        answer, slot, boxes, tests = backend.xp.empty((4, 64), np.uint32)
        distance = answer.view(np.float32)
        ask(backend, tree, points, distance, slot, boxes=boxes, tests=tests, sampled=sampled)
        measured.append(int(tests.sum()))
        if not sampled:
            assert_same(backend, (distance, slot), expected)
    assert 0 < 2 * measured[1] < measured[0]
