"""Trees under the thesis's queries: locally-ordered clustering, and measures of a tree's quality."""

from __future__ import annotations

import numpy as np
import pytest

import backends
import shapes
from oracle import Numbers
from sdfcli.apps.bench.trees import BUILDERS, build_tree, quality
from sdfcli.apps.bench.workload import VARIANTS, Workload
from sdfcli.backend import Backend
from sdfcli.errors import UsageError
from sdfcli.mesh.load import make_mesh
from sdfcli.spatial.morton import Order, morton_order
from sdfcli.spatial.radix_tree import Bvh
from trees import index_of

backend = backends.backend

LEAF = 1 << 31
MARGIN = np.float32(2.0**-20)
RADIUS = 16


def soup(backend: Backend, count: int, size: float = 0.1) -> Order:
    return morton_order(
        backend, shapes.triangles(shapes.soup(np.random.default_rng(count), count, size)).reshape(-1, 9)
    )


def leaf_boxes(backend: Backend, order: Order) -> Numbers:
    corner = backend.to_host(order.triangle).reshape(-1, 3, 3)
    return np.concatenate([corner.min(axis=1) - MARGIN, corner.max(axis=1) + MARGIN], axis=1)


def union(one: Numbers, two: Numbers) -> Numbers:
    return np.concatenate([np.minimum(one[:3], two[:3]), np.maximum(one[3:], two[3:])])


def surface(box: Numbers) -> float:
    x, y, z = box[3:] - box[:3]
    return 0.0 if min(x, y, z) < 0 else x * y + y * z + z * x


def clustered(boxes: Numbers) -> list[tuple[int, int]]:
    """Children of inner nodes, by the words of Meister and Bittner (2018), section 3, on lists of clusters. Pairs of
    equal surface: the one whose numbers differ in the lowest bits."""
    clusters = [(LEAF + i, box) for i, box in enumerate(boxes)]
    nodes: list[tuple[int, int]] = []
    while len(clusters) > 1:
        count = len(clusters)
        pairs = [(i, j) for i in range(count) for j in range(i + 1, min(i + RADIUS + 1, count))]
        cost = {(i, j): (surface(union(clusters[i][1], clusters[j][1])), i ^ j) for i, j in pairs}
        best = [min((pair for pair in pairs if i in pair), key=cost.__getitem__) for i in range(count)]
        merged = [pair for pair in pairs if best[pair[0]] == best[pair[1]] == pair]
        assert merged
        gone = {j for _, j in merged}
        following = []
        for i, cluster in enumerate(clusters):
            if best[i] in merged and best[i][0] == i:
                other = clusters[best[i][1]]
                nodes.append((cluster[0], other[0]))
                following.append((-len(nodes), union(cluster[1], other[1])))
            elif i not in gone:
                following.append(cluster)
        clusters = following
    last = len(nodes)
    return [tuple(last + child if child < 0 else child for child in pair) for pair in reversed(nodes)]  # type: ignore[misc]


@pytest.mark.parametrize("count", [2, 3, 17, 40, 300])
def test_clustering_is_restated(backend: Backend, count: int) -> None:
    order = soup(backend, count)
    bvh = build_tree(backend, order, "ploc")
    assert list(map(tuple, backend.to_host(bvh.child).tolist())) == clustered(leaf_boxes(backend, order))


def check_tree(backend: Backend, bvh: Bvh) -> None:
    """Parents are those of the children, boxes those of both children, and each triangle is in the tree once."""
    child, box = backend.to_host(bvh.child).astype(int), backend.to_host(bvh.box)
    parents = {LEAF + i: node for i, node in enumerate(backend.to_host(bvh.leaf_parent).tolist())}
    parents |= dict(enumerate(backend.to_host(bvh.node_parent).tolist()))
    assert parents.pop(0) == 0xFFFFFFFF
    assert parents == {below: node for node, pair in enumerate(child) for below in pair}
    leaf = leaf_boxes(backend, bvh.order)
    for node, pair in enumerate(child):
        left, right = (leaf[each - LEAF] if each >= LEAF else box[each] for each in pair)
        assert np.array_equal(box[node], union(left, right))
    seen, stack = [], [0]
    while stack:
        node = stack.pop()
        if node >= LEAF:
            seen.append(node - LEAF)
        else:
            stack += child[node].tolist()
    assert sorted(seen) == list(range(len(bvh.order)))


@pytest.mark.parametrize("kind", sorted(set(shapes.ANY) - {"one"}))
def test_tree_of_meshes(backend: Backend, kind: str) -> None:
    mesh = make_mesh(*shapes.ANY[kind](np.random.default_rng(1)))
    check_tree(backend, build_tree(backend, morton_order(backend, mesh.unit_triangles), "ploc"))


def test_equal_triangles_make_a_balanced_tree(backend: Backend) -> None:
    triangles = np.random.default_rng(1).random((1, 9)).repeat(1024, axis=0)
    bvh = build_tree(backend, morton_order(backend, triangles), "ploc")
    check_tree(backend, bvh)
    assert quality(backend, bvh).levels == 10


@pytest.mark.parametrize("count", [1, 2, 500])
def test_answers_do_not_depend_on_the_tree(backend: Backend, count: int) -> None:
    order = soup(backend, count)
    points = backend.from_host(np.random.default_rng(2).random((200, 3)).astype(np.float32))
    expected = [
        backend.to_host(found) for found in index_of(backend, build_tree(backend, order, "radix")).nearest(points)
    ]
    bvh = build_tree(backend, order, "ploc")
    for query in set(VARIANTS) - {"fast"}:
        for found, right in zip(index_of(backend, bvh, query).nearest(points), expected, strict=True):
            assert np.array_equal(backend.to_host(found), right), query


@pytest.mark.parametrize("builder", BUILDERS)
def test_quality_is_restated(backend: Backend, builder: str) -> None:
    bvh = build_tree(backend, soup(backend, 200), builder)
    child, inner = backend.to_host(bvh.child).astype(int), backend.to_host(bvh.box).astype(np.float64)
    leaf = leaf_boxes(backend, bvh.order).astype(np.float64)
    area, shared, parents, deepest = 0.0, 0.0, 0.0, 0

    def visit(node: int, level: int) -> Numbers:
        nonlocal area, shared, parents, deepest
        if node >= LEAF:
            area += surface(leaf[node - LEAF])
            return np.asarray(leaf[node - LEAF])
        deepest = max(deepest, level)
        left, right = (visit(below, level + 1) for below in child[node])
        shared += surface(np.concatenate([np.maximum(left[:3], right[:3]), np.minimum(left[3:], right[3:])]))
        parents += surface(inner[node])
        area += surface(inner[node])
        return np.asarray(inner[node])

    root = surface(visit(0, 1))
    found = quality(backend, bvh)
    assert found.sah == pytest.approx(area / root, rel=1e-5)  # leaves' margins are rounded here
    assert found.overlap == pytest.approx(shared / parents, rel=1e-5)
    assert found.levels == deepest


def test_the_tree_of_a_workload(backend: Backend) -> None:
    mesh = make_mesh(*shapes.star(np.random.default_rng(1), 3))
    radix, ploc = (Workload(mesh, backend, "bvh", 4, builder) for builder in BUILDERS)
    assert radix.quality.sah > ploc.quality.sah
    assert radix.visits("cct") != ploc.visits("cct")
    assert radix.visits("fast") == ploc.visits("fast")
    assert ploc.tree_seconds(1) > 0
    with pytest.raises(UsageError, match="radix, ploc"):
        Workload(mesh, backend, builder="sah")
