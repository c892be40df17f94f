"""The two trees over the triangles: their shape, and their boxes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import shapes
from sdfcli.backend import Backend, select_backend
from sdfcli.mesh.load import make_mesh
from sdfcli.spatial.morton import Order, morton_order
from sdfcli.spatial.radix_tree import Bvh, build_bvh, refit
from sdfcli.spatial.wide import WideIndex
from trees import make_bvh, nearest

backend = backends.backend

LEAF, NONE = 2**31, 2**32 - 1
STACK = 96  # how many postponed nodes a query has room for, see trees/radix.h
MARGIN = 2e-6  # boxes are larger than what they hold by less than this
TURNED_MARGIN = 3.8e-6  # the same of bounds in the frames of blocks, and by more than half of this


def bvh_of(backend: Backend, shape: shapes.Shape) -> Bvh:
    mesh = make_mesh(*shape)
    return make_bvh(backend, mesh.unit_triangles)


def order_of_keys(backend: Backend, keys: list[int], corners: shapes.Floats | None = None) -> Order:
    """Triangles with the given keys, whatever their corners are."""
    if corners is None:
        corners = np.zeros((len(keys), 9))
    return Order(
        backend.from_host(np.array(sorted(keys), np.uint64)),
        backend.xp.arange(len(keys), dtype=np.uint32),
        backend.from_host(corners, np.float32),
    )


@dataclass
class Node:
    """What a walk from the root finds: the slots below a node, and how many steps it is away from the root."""

    first: int
    last: int
    depth: int


def walk(child: list[list[int]], leaves: int) -> tuple[dict[int, Node], int]:
    """Every internal node with its slots, which must be one range, and the depth of the deepest leaf."""
    nodes: dict[int, Node] = {}
    deepest = 0
    stack = [(0, 0, False)]
    while stack:
        node, depth, done = stack.pop()
        if done:
            ranges = []
            for c in child[node]:
                ranges.append((c - LEAF, c - LEAF) if c >= LEAF else (nodes[c].first, nodes[c].last))
            assert ranges[0][1] + 1 == ranges[1][0], "the left child's slots end where the right one's begin"
            nodes[node] = Node(ranges[0][0], ranges[1][1], depth)
            continue
        assert node not in nodes
        stack.append((node, depth, True))
        for c in child[node]:
            if c < LEAF:
                stack.append((c, depth + 1, False))
            else:
                deepest = max(deepest, depth + 1)
    assert sorted(nodes) == list(range(leaves - 1)), "every node hangs on the root"
    return nodes, deepest


def check_shape(backend: Backend, bvh: Bvh) -> tuple[dict[int, Node], int]:
    """The law of the radix tree: at each node the slots part at the first bit in which their keys differ."""
    n = len(bvh.order)
    child, node_parent, leaf_parent, keys = (
        backend.to_host(a).tolist() for a in (bvh.child, bvh.node_parent, bvh.leaf_parent, bvh.order.keys)
    )
    nodes, deepest = walk(child, n)
    assert (nodes[0].first, nodes[0].last) == (0, n - 1)
    assert node_parent[0] == NONE
    parents: dict[int, list[int]] = {}
    for node, pair in enumerate(child):
        for c in pair:
            parents.setdefault(c, []).append(node)
    assert parents == {
        **{LEAF + slot: [parent] for slot, parent in enumerate(leaf_parent)},
        **{node: [parent] for node, parent in enumerate(node_parent) if node > 0},
    }
    # The place of a triangle comes after its key, so that no two are equal.
    unique = [key << 32 | slot for slot, key in enumerate(keys)]
    for node, (left, _) in enumerate(child):
        at = nodes[node]
        split = (left - LEAF if left >= LEAF else nodes[left].last) + 1
        bit = (unique[at.first] ^ unique[at.last]).bit_length() - 1
        assert unique[split - 1] >> bit & 1 == 0
        assert unique[split] >> bit & 1 == 1
        assert unique[split - 1] >> (bit + 1) == unique[split] >> (bit + 1) == unique[at.first] >> (bit + 1)
    # A query postpones one node at each step down at most, and needs none for the leaves.
    assert max(node.depth for node in nodes.values()) < STACK
    return nodes, deepest


def check_boxes(backend: Backend, bvh: Bvh, nodes: dict[int, Node]) -> None:
    box, child = backend.to_host(bvh.box), backend.to_host(bvh.child)
    corners = backend.to_host(bvh.order.triangle).reshape(-1, 3, 3)
    low, high = corners.min(axis=1), corners.max(axis=1)
    for node, at in nodes.items():
        slots = slice(at.first, at.last + 1)
        below, above = low[slots].min(axis=0) - box[node, :3], box[node, 3:] - high[slots].max(axis=0)
        assert (below > 0).all()
        assert (above > 0).all()
        assert max(below.max(), above.max()) < MARGIN
        inner = box[child[node][child[node] < LEAF]]
        assert (inner[:, :3] >= box[node, :3]).all()
        assert (inner[:, 3:] <= box[node, 3:]).all()
        if len(inner) == 2:
            assert np.array_equal(box[node], [*inner[:, :3].min(axis=0), *inner[:, 3:].max(axis=0)])


@settings(max_examples=40, deadline=None)
@given(kind=st.sampled_from(sorted(set(shapes.ANY) - {"one"})), seed=st.integers(0, 2**32 - 1))
def test_tree_of_meshes(backend: Backend, kind: str, seed: int) -> None:
    bvh = bvh_of(backend, shapes.ANY[kind](np.random.default_rng(seed)))
    nodes, _ = check_shape(backend, bvh)
    check_boxes(backend, bvh, nodes)


@settings(max_examples=60, deadline=None)
@given(
    keys=st.one_of(
        st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=40),
        st.lists(st.integers(0, 3), min_size=2, max_size=40),
        st.lists(st.integers(0, 62).map(lambda k: 1 << k), min_size=2, max_size=60),
    )
)
def test_tree_of_any_keys(backend: Backend, keys: list[int]) -> None:
    check_shape(backend, build_bvh(backend, order_of_keys(backend, keys)))


@pytest.mark.parametrize("count", [2, 3, 1000, 1024, 1025])
def test_tree_of_equal_keys_is_balanced(backend: Backend, count: int) -> None:
    _, deepest = check_shape(backend, build_bvh(backend, order_of_keys(backend, [12345] * count)))
    assert deepest == (count - 1).bit_length()


def test_tree_of_identical_centroids(backend: Backend) -> None:
    # A fan of a thousand triangles turned about their common centroid.
    angle = np.linspace(0, 2 * np.pi, 1000, endpoint=False)[:, None] + np.arange(3) * 2 * np.pi / 3
    corners = np.stack((np.cos(angle), np.sin(angle), np.zeros_like(angle)), axis=-1)
    unit = (0.5 + np.round(corners * 2**18) / 2**20).reshape(-1, 9)
    unit[:, 6:9] = 1.5 - unit[:, 0:3] - unit[:, 3:6]  # exact sums
    bvh = refit(backend, build_bvh(backend, morton_order(backend, unit)))
    assert len(set(backend.to_host(bvh.order.keys).tolist())) == 1
    nodes, deepest = check_shape(backend, bvh)
    check_boxes(backend, bvh, nodes)
    assert deepest == 10


def test_the_deepest_tree_is_walked_without_overflow(backend: Backend) -> None:
    # Each bit of the keys makes one level, a thousand equal keys make ten more below the last of them.
    keys = [0] * 1000 + [1 << bit for bit in range(63)]
    rng = np.random.default_rng(1)
    corners = rng.random((len(keys), 9))
    bvh = refit(backend, build_bvh(backend, order_of_keys(backend, keys, corners)))
    nodes, deepest = check_shape(backend, bvh)
    check_boxes(backend, bvh, nodes)
    assert deepest == 73
    points = rng.random((50, 3)).astype(np.float32)
    triangles = backend.to_host(bvh.order.triangle).reshape(-1, 3, 3)
    for query in ("cct", "baseline", "deferred"):
        found, _ = nearest(backend, bvh, backend.from_host(points), query=query)
        assert np.allclose(backend.to_host(found), oracle.distance(points, triangles), rtol=0, atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 15, 16, 17, 64, 65, 255, 256, 257, 4097])
def test_wide_tree_holds_each_triangle_once(cpu: Backend, count: int) -> None:
    bvh = bvh_of(cpu, shapes.soup(np.random.default_rng(count), count, 0.05))
    wide = WideIndex(cpu, bvh.order).tree
    assert sorted(wide.block_slot.tolist()) == list(range(count))
    corners = bvh.order.triangle.reshape(-1, 3, 3)[wide.block_slot]
    blocks, rows, width = wide.block.shape
    assert (blocks, rows) == (-(-count // width), 7)

    low, high = gathered(corners.min(axis=1), width, np.min), gathered(corners.max(axis=1), width, np.max)
    starts = [*wide.level_start.tolist(), len(wide.box)]
    assert starts[0] == 0
    assert starts[-1] - starts[-2] == 1, "the last level is one root"
    for first, last in itertools.pairwise(starts):
        assert last - first == -(-len(low) // width)
        box = wide.box[first:last].transpose(0, 2, 1).reshape(-1, 6)
        below, above = low - box[: len(low), :3], box[: len(low), 3:] - high
        assert (below > 0).all()
        assert (above > 0).all()
        assert max(below.max(), above.max()) < MARGIN
        assert (box[len(low) :, :3] > box[len(low) :, 3:]).all(), "what is left over is empty"
        low, high = gathered(low, width, np.min), gathered(high, width, np.max)


def flat(rng: np.random.Generator, count: int) -> shapes.Shape:
    """Slanted triangles in a plane, and as many turned over."""
    one, two = np.linalg.qr(rng.normal(size=(3, 2)))[0].T
    place = rng.random((count, 3, 2)) * 0.02 + rng.random((count, 1, 2)) * 0.5
    corners = 0.5 + (place[..., :1] - 0.25) * one + (place[..., 1:] - 0.25) * two
    corners[::2] = corners[::2, ::-1]
    return corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3)


@pytest.mark.parametrize("make", [flat, shapes.zoo, partial(shapes.soup, size=0.05)])
def test_blocks_of_the_wide_tree_bound_their_triangles(cpu: Backend, make: Callable[..., shapes.Shape]) -> None:
    bvh = bvh_of(cpu, make(np.random.default_rng(1), 1000))
    wide = WideIndex(cpu, bvh.order).tree
    corners = bvh.order.triangle.reshape(-1, 3, 3)[wide.block_slot].astype(np.float64)
    frame = wide.block[:, 0].astype(np.float64)
    middle, half, axes = frame[:, :3], frame[:, 3:6], frame[:, 6:15].reshape(-1, 3, 3)
    assert (np.linalg.norm(axes, ord=2, axis=(1, 2)) < 1).all(), "lengths along the axes are no longer than they are"
    count = len(corners)
    block, lane = np.divmod(np.arange(16 * len(middle)), 16)
    low, high = wide.block[block, 1:4, lane], wide.block[block, 4:, lane]
    assert (low[count:] > high[count:]).all(), "what is left over is empty"
    block, low, high = block[:count], low[:count], high[:count]
    assert (np.maximum(-low, high) <= half[block]).all()
    turned = np.einsum("txk,tck->tcx", axes[block], corners - middle[block, None])
    below, above = turned.min(axis=1) - low, high - turned.max(axis=1)
    assert (below > TURNED_MARGIN / 2).all()
    assert (above > TURNED_MARGIN / 2).all()
    assert max(below.max(), above.max()) < 2 * TURNED_MARGIN
    if make is flat:
        assert half[:, 2].max() < 2 * TURNED_MARGIN, "triangles of a plane are flat in their frames"


def test_the_wide_tree_does_not_depend_on_threads() -> None:
    triangles = shapes.triangles(shapes.soup(np.random.default_rng(1), 5000, 0.05)).reshape(-1, 9)
    triangles[::3] = triangles[0]  # ties
    devices = (select_backend("cpu", threads) for threads in (1, 7))
    one, many = (WideIndex(device, morton_order(device, triangles)).tree for device in devices)
    assert np.array_equal(one.block_slot, many.block_slot)
    assert np.array_equal(one.box, many.box)
    assert np.array_equal(one.block, many.block)


def test_the_wide_tree_is_tight(cpu: Backend) -> None:
    # A lattice of 64 x 64 points in the plane: each block holds 4 x 4 of them, each node 16 x 16.
    place = np.stack(np.meshgrid(np.arange(64), np.arange(64), [32]), axis=-1).reshape(-1, 1, 3) / 64
    points = np.random.default_rng(1).permutation(place.repeat(3, axis=1).reshape(-1, 9))
    wide = WideIndex(cpu, morton_order(cpu, points)).tree
    for first, last, side in ((0, 16, 3 / 64), (16, 17, 15 / 64)):
        extent = wide.box[first:last, 3:] - wide.box[first:last, :3]
        assert np.allclose(extent[:, :2], side, rtol=0, atol=3 * MARGIN)


def gathered(values: Any, width: int, take: Callable[..., Any]) -> Any:
    """The least or the largest of each `width` rows."""
    return np.array([take(values[k : k + width], axis=0) for k in range(0, len(values), width)])
