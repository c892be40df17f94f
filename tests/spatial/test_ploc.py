"""The tree by locally-ordered clustering: against the method restated one cluster at a time, and its laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import shapes
from sdfcli.apps.bench.workload import VARIANTS
from sdfcli.backend import Backend, select_backend
from sdfcli.mesh.load import make_mesh
from sdfcli.spatial.morton import Order, morton_order
from sdfcli.spatial.ploc import RADIUS, build_ploc
from sdfcli.spatial.radix_tree import Bvh, refit
from trees import make_bvh, nearest

backend, grids = backends.backend, backends.grids

Numbers = oracle.Numbers
LEAF, NONE = 2**31, 2**32 - 1
HEIGHT = 95  # a traversal's stack has 96 entries: a node for each level, and its sibling for the last
MARGIN = np.float32(2.0**-20)


def leaf_boxes(bvh: Bvh, backend: Backend) -> Numbers:
    corner = backend.to_host(bvh.order.triangle).reshape(-1, 3, 3)
    return np.concatenate([corner.min(axis=1) - MARGIN, corner.max(axis=1) + MARGIN], axis=1)


def both(a: Numbers, b: Numbers) -> Numbers:
    return np.concatenate([np.minimum(a[:3], b[:3]), np.maximum(a[3:], b[3:])])


def surface(box: Numbers) -> np.float32:
    x, y, z = box[3:] - box[:3]
    assert x.dtype == np.float32
    return np.float32(x * y + y * z + z * x)


def restated(leaves: Numbers, radius: int) -> tuple[list[list[int]], list[Numbers]]:
    """Children and boxes of the nodes: Meister and Bittner's algorithm, with the tie-break and the limit of height."""
    clusters = [(LEAF + slot, box) for slot, box in enumerate(leaves)]
    merged: list[tuple[int, int, Numbers]] = []
    for rounds in range(HEIGHT, 0, -1):
        count = len(clusters)
        if count == 1:
            break
        if count > 2 ** (rounds - 1):
            best = [i ^ 1 for i in range(count)]
        else:
            best = []
            for i, (_, own) in enumerate(clusters):
                near = [j for j in range(max(0, i - radius), min(count, i + radius + 1)) if j != i]
                best.append(min(near, key=lambda j: (surface(both(own, clusters[j][1])), i ^ j)))
        after = []
        for i, (node, box) in enumerate(clusters):
            j = best[i]
            if j >= count or best[j] != i:
                after.append((node, box))
            elif i < j:
                merged.append((node, clusters[j][0], both(box, clusters[j][1])))
                after.append((len(leaves) - 1 - len(merged), merged[-1][2]))
        clusters = after
    assert len(clusters) == 1
    return [[left, right] for left, right, _ in reversed(merged)], [box for _, _, box in reversed(merged)]


def height(child: list[list[int]]) -> int:
    """Steps from the root to the deepest leaf; parents come before their children."""
    depth = [0] * len(child)
    for node, pair in enumerate(child):
        for c in pair:
            if c < LEAF:
                assert c > node
                depth[c] = depth[node] + 1
    return max(depth) + 1


def check(backend: Backend, bvh: Bvh) -> int:
    """A binary tree over all triangles, whose boxes hold what is below them, to the bit. Returns its height."""
    n, child = len(bvh.order), backend.to_host(bvh.child).tolist()
    held = [c for pair in child for c in pair]
    assert sorted(held) == [*range(1, n - 1), *range(LEAF, LEAF + n)]
    parent = {c: node for node, pair in enumerate(child) for c in pair}
    assert backend.to_host(bvh.leaf_parent).tolist() == [parent[LEAF + slot] for slot in range(n)]
    assert backend.to_host(bvh.node_parent).tolist() == [NONE, *(parent[node] for node in range(1, n - 1))]
    box, leaves = backend.to_host(bvh.box), leaf_boxes(bvh, backend)
    for node, pair in enumerate(child):
        left, right = (leaves[c - LEAF] if c >= LEAF else box[c] for c in pair)
        assert np.array_equal(box[node], both(left, right))
    found = height(child)
    assert found <= HEIGHT
    return found


def check_restated(backend: Backend, order: Order, radius: int = RADIUS) -> int:
    bvh = build_ploc(backend, order, radius)
    child, box = restated(leaf_boxes(bvh, backend), radius)
    assert backend.to_host(bvh.child).tolist() == child
    assert np.array_equal(backend.to_host(bvh.box), box)
    return check(backend, bvh)


def order_of(backend: Backend, shape: shapes.Shape) -> Order:
    return morton_order(backend, make_mesh(*shape).unit_triangles)


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(sorted(set(shapes.ANY) - {"one"})),
    seed=st.integers(0, 2**32 - 1),
    radius=st.sampled_from([1, 2, 8, RADIUS]),
)
def test_meshes(backend: Backend, kind: str, seed: int, radius: int) -> None:
    check_restated(backend, order_of(backend, shapes.ANY[kind](np.random.default_rng(seed))), radius)


@pytest.mark.parametrize("count", [2, 3, 4, 16, 17, 18, 33, 500])
@pytest.mark.parametrize("size", [1e-6, 0.1])
def test_any_count_and_size(backend: Backend, count: int, size: float) -> None:
    rng = np.random.default_rng(count)
    check_restated(backend, morton_order(backend, shapes.triangles(shapes.soup(rng, count, size)).reshape(-1, 9)))


def test_one_triangle_has_no_node(backend: Backend) -> None:
    bvh = build_ploc(backend, morton_order(backend, np.full((1, 9), 0.5)))
    assert len(bvh.child) == len(bvh.box) == 0
    assert backend.to_host(bvh.leaf_parent).tolist() == [NONE]


@pytest.mark.parametrize("count", [2, 3, 5, 64, 1000])
def test_equal_boxes_give_a_balanced_tree(backend: Backend, count: int) -> None:
    order = morton_order(backend, np.tile(np.random.default_rng(1).random(9), (count, 1)))
    assert check_restated(backend, order) == (count - 1).bit_length()


def test_points_are_boxes_of_the_margin(backend: Backend) -> None:
    corner = np.random.default_rng(2).integers(0, 3, (200, 3)) / 2  # 27 places
    check_restated(backend, morton_order(backend, np.tile(corner, 3)))


def nested(count: int) -> Numbers:
    """Triangles about one centroid, each larger than the one before."""
    size = 2.0**-10 + np.arange(count) * 2.0**-12
    corner = np.array([[1, 0, 0], [-1, 1, 0], [0, -1, 0]]) * size[:, None, None]
    return np.asarray((0.5 + corner).reshape(-1, 9))


@pytest.mark.parametrize("count", [95, 96, 97, 300, 1000])
def test_the_height_is_limited(backend: Backend, count: int) -> None:
    # Each cluster would grow by one triangle a round.
    order = morton_order(backend, nested(count))
    assert check_restated(backend, order) == min(count - 1, HEIGHT)
    bvh, points = build_ploc(backend, order), np.random.default_rng(3).random((50, 3)).astype(np.float32)
    triangles = backend.to_host(order.triangle).reshape(-1, 3, 3)
    for query in set(VARIANTS) - {"fast"}:
        found, _ = nearest(backend, bvh, backend.from_host(points), query=query)
        assert np.allclose(backend.to_host(found), oracle.distance(points, triangles), rtol=0, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1))
def test_queries_find_the_same_over_both_trees(backend: Backend, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    triangles = make_mesh(*shapes.ANY[kind](rng)).unit_triangles
    triangles = np.concatenate([triangles, triangles[::3]])  # ties
    radix = make_bvh(backend, triangles)
    ploc = build_ploc(backend, radix.order)
    points = backend.from_host(rng.uniform(-0.2, 1.2, (60, 3)), np.float32)
    for query in set(VARIANTS) - {"fast"}:
        expected, found = (nearest(backend, bvh, points, query=query) for bvh in (radix, ploc))
        for one, other in zip(expected, found, strict=True):
            assert backend.to_host(one).tobytes() == backend.to_host(other).tobytes(), query


def test_a_refit_changes_nothing(backend: Backend) -> None:
    bvh = build_ploc(backend, order_of(backend, shapes.star(np.random.default_rng(4), 3)))
    before = backend.to_host(bvh.box).copy()
    bvh.box[...] = np.nan
    assert np.array_equal(backend.to_host(refit(backend, bvh).box), before)


def bits(backend: Backend, bvh: Bvh) -> list[bytes]:
    return [backend.to_host(a).tobytes() for a in (bvh.child, bvh.node_parent, bvh.leaf_parent, bvh.box)]


def test_threads_and_devices_give_the_same_tree(backend: Backend) -> None:
    triangles = shapes.triangles(shapes.soup(np.random.default_rng(5), 60_000, 0.02)).reshape(-1, 9)
    triangles[::3] = triangles[0]  # ties
    devices = (select_backend("cpu", 1), select_backend("cpu", 7), backend)
    one, *others = (bits(device, build_ploc(device, morton_order(device, triangles))) for device in devices)
    for other in others:
        assert one == other


@pytest.mark.parametrize("count", [2, 33, 700])
def test_a_grid_gives_the_same_tree(grids: Backend, cpu: Backend, count: int) -> None:
    triangles = shapes.triangles(shapes.soup(np.random.default_rng(count), count, 0.1)).reshape(-1, 9)
    one, other = (bits(device, build_ploc(device, morton_order(device, triangles))) for device in (cpu, grids))
    assert one == other


def test_the_tree_is_better_than_the_radix_tree(cpu: Backend) -> None:
    """By the surfaces of its boxes, which the method minimises."""
    radix = make_bvh(cpu, make_mesh(*shapes.icosphere(4)).unit_triangles)
    sums = [sum(surface(box) for box in bvh.box) for bvh in (radix, build_ploc(cpu, radix.order))]
    assert sums[1] < 0.95 * sums[0]
