"""The thesis's traversals, restated in Python from its text: what they test, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

import backends
import oracle
import shapes
from sdfcli.apps.bench.workload import VARIANTS
from sdfcli.backend import Backend
from sdfcli.spatial.radix_tree import Bvh
from trees import index_of, make_bvh

backend = backends.backend

LEAF = 1 << 31
MARGIN = 2.0**-20
IN_ORDER, CLOSER = "in order", "closer child"
WALKS = {
    **dict.fromkeys(("baseline", "vectors", "soa", "components"), "literal"),
    "deferred": IN_ORDER,
    "cct": CLOSER,
}


class Walk:
    """One point's traversal: counts boxes and triangles, and lists its steps' boxes, children and triangles."""

    def __init__(self, bvh: Bvh, backend: Backend, point: oracle.Numbers) -> None:
        self.child = backend.to_host(bvh.child).astype(int)
        corner = backend.to_host(bvh.order.triangle).reshape(-1, 3, 3).astype(np.float64)
        leaf = np.concatenate([corner.min(axis=1) - MARGIN, corner.max(axis=1) + MARGIN], axis=1)
        box = np.concatenate([backend.to_host(bvh.box).astype(np.float64), leaf])
        outside = np.maximum(np.maximum(box[:, :3] - point, point - box[:, 3:]), 0)
        self.box = (outside**2).sum(axis=1) * (1 - 2.0**-20)
        self.triangle = oracle.distances(point[None].astype(np.float64), corner)[0] ** 2
        self.count: Counter[str] = Counter()
        self.best = np.inf

    def far(self, child: int) -> bool:
        self.count["boxes"] += 1
        return bool(self.box[self.place(child)] > self.best)

    def place(self, child: int) -> int:
        """A node's row: leaves follow the inner nodes."""
        return len(self.child) + child - LEAF if child >= LEAF else child

    def test(self, leaf: int) -> None:
        self.count["tests"] += 1
        self.best = min(self.best, self.triangle[leaf - LEAF])

    def literal(self) -> None:
        """Section 3.4.1: pop; drop what is farther than the best; test a leaf, push a node's children; left first."""
        stack = [0]
        while stack:
            node = stack.pop()
            if self.far(node):
                continue
            if node >= LEAF:
                self.test(node)
            else:
                left, right = self.child[node]
                stack += [right, left]

    def leaves_first(self, closer: bool) -> None:
        """Algorithm 1; without `closer`, both inner children are pushed, left then right."""
        stack = [0]
        while stack:
            node = stack.pop()
            if self.far(node):
                continue
            for child in self.child[node]:
                if child >= LEAF:
                    self.test(child)
            inner = [child for child in self.child[node] if child < LEAF]
            if not closer:
                stack += inner
                continue
            self.count["boxes"] += len(inner)
            left, right = (self.box[child] if child < LEAF else np.inf for child in self.child[node])
            pair = [(right, 1), (left, 0)] if left < right else [(left, 0), (right, 1)]
            stack += [self.child[node][side] for distance, side in pair if distance <= self.best]


def walked(bvh: Bvh, backend: Backend, points: oracle.Numbers, query: str) -> list[Walk]:
    walks = []
    for point in points:
        walk = Walk(bvh, backend, point)
        run: Callable[[], None] = walk.literal
        if WALKS[query] != "literal":
            run = lambda walk=walk: walk.leaves_first(WALKS[query] == CLOSER)  # noqa: E731
        run()
        walks.append(walk)
    return walks


@pytest.mark.parametrize("query", WALKS)
def test_what_is_visited(backend: Backend, query: str) -> None:
    rng = np.random.default_rng(3)
    bvh = make_bvh(backend, shapes.triangles(shapes.soup(rng, 300, 0.1)).reshape(-1, 9))
    points = rng.random((40, 3)).astype(np.float32)
    boxes, tests = map(backend.to_host, index_of(backend, bvh, query).visits(backend.from_host(points)))
    walks = walked(bvh, backend, points, query)
    assert boxes.tolist() == [walk.count["boxes"] for walk in walks]
    assert tests.tolist() == [walk.count["tests"] for walk in walks]


def test_every_variant_is_restated() -> None:
    assert {*WALKS, "fast"} == set(VARIANTS)
