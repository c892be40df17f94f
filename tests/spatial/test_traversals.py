"""The thesis's traversals, restated in Python from its text: what they test, and in which order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pytest

import backends
import oracle
import shapes
from sdfcli.apps.bench.workload import VARIANTS
from sdfcli.backend import Backend
from sdfcli.spatial.binary import BinaryIndex
from sdfcli.spatial.radix_tree import Bvh
from trees import index_of, make_bvh

backend = backends.backend

LEAF = 1 << 31
MARGIN = 2.0**-20
LITERAL, LEAVES_FIRST, CLOSER = "literal", "leaves first", "closer child"
WALKS = {
    **dict.fromkeys(("baseline", "vectors", "soa", "components"), LITERAL),
    "deferred": LEAVES_FIRST,
    "cct": CLOSER,
}
BOX_LOADS = {
    "baseline": lambda row, rows: range(32 * row, 32 * row + 32, 4),
    "vectors": lambda row, rows: range(32 * row, 32 * row + 32, 16),
    "deferred": lambda row, rows: range(32 * row, 32 * row + 24, 4),
    "soa": lambda row, rows: range(24 * row, 24 * row + 24, 4),
    "cct": lambda row, rows: range(24 * row, 24 * row + 24, 4),
    "components": lambda row, rows: range(4 * row, 24 * rows, 4 * rows),
}
CHILD_LOADS = {
    "baseline": lambda row, rows: (),
    "vectors": lambda row, rows: (),
    "deferred": lambda row, rows: (32 * row + 24, 32 * row + 28),
    "soa": lambda row, rows: (8 * row,),
    "cct": lambda row, rows: (8 * row,),
    "components": lambda row, rows: (4 * (6 * rows + row), 4 * (7 * rows + row)),
}
"""Addresses loaded for a row of a tree with so many rows, from the start of its array."""


class Walk:
    """One point's traversal by one query: counts boxes and triangles, and lists each step's loads by site."""

    def __init__(self, bvh: Bvh, backend: Backend, points: oracle.Numbers, index: int, query: str) -> None:
        point, self.query = points[index], query
        self.child = backend.to_host(bvh.child).astype(int)
        self.id = backend.to_host(bvh.order.triangle_id)
        corner = backend.to_host(bvh.order.triangle).reshape(-1, 3, 3).astype(np.float64)
        leaf = np.concatenate([corner.min(axis=1) - MARGIN, corner.max(axis=1) + MARGIN], axis=1)
        box = np.concatenate([backend.to_host(bvh.box).astype(np.float64), leaf])
        outside = np.maximum(np.maximum(box[:, :3] - point, point - box[:, 3:]), 0)
        self.box = (outside**2).sum(axis=1) * (1 - 2.0**-20)
        self.triangle = oracle.distances(point[None].astype(np.float64), corner)[0] ** 2
        self.boxes, self.tests = 0, 0
        self.best, self.slot = np.inf, -1
        self.steps: list[dict[str, list[int]]] = [{}]
        self.load("point", range(12 * index, 12 * index + 12, 4))
        if WALKS[query] == LITERAL:
            self.literal()
        else:
            self.leaves_first(WALKS[query] == CLOSER)

    def load(self, site: str, addresses: Iterable[int]) -> None:
        self.steps[-1][site] = list(addresses)

    def far(self, child: int) -> bool:
        self.steps.append({})
        return self.measured(child, "node") > self.best

    def measured(self, child: int, site: str) -> float:
        row = len(self.child) + child - LEAF if child >= LEAF else child  # leaves follow the inner nodes
        self.boxes += 1
        self.load(site, BOX_LOADS[self.query](row, 2 * len(self.child) + 1))
        return float(self.box[row])

    def children(self, node: int) -> list[int]:
        self.load("children", CHILD_LOADS[self.query](node, 2 * len(self.child) + 1))
        return list(self.child[node])

    def test(self, leaf: int, site: str) -> None:
        slot = leaf - LEAF
        self.tests += 1
        self.load(site, range(36 * slot, 36 * slot + 36, 4))
        distance = self.triangle[slot]
        if distance == self.best:
            self.load(site + ": its id", [4 * slot])
            self.load(site + ": best id", [4 * self.slot])
        if distance < self.best or (distance == self.best and self.id[slot] < self.id[self.slot]):
            self.best, self.slot = distance, slot

    def literal(self) -> None:
        """Section 3.4.1: pop; drop what is farther than the best; test a leaf, push a node's children; left first."""
        stack = [0]
        while stack:
            node = stack.pop()
            if self.far(node):
                continue
            if node >= LEAF:
                self.test(node, "left")
            else:
                left, right = self.children(node)
                stack += [right, left]

    def leaves_first(self, closer: bool) -> None:
        """Algorithm 1; without `closer`, both inner children are pushed, left then right."""
        stack = [0]
        while stack:
            node = stack.pop()
            if self.far(node):
                continue
            pair = dict(zip(("left", "right"), self.children(node), strict=True))
            for side, child in pair.items():
                if child >= LEAF:
                    self.test(child, side)
            inner = {side: child for side, child in pair.items() if child < LEAF}
            if not closer:
                stack += inner.values()
                continue
            near = {side: self.measured(child, f"{side} box") for side, child in inner.items()}
            first = ["right", "left"] if near.get("left", np.inf) < near.get("right", np.inf) else ["left", "right"]
            stack += [inner[side] for side in first if side in inner and near[side] <= self.best]


def requests_and_sectors(warp: list[Walk]) -> tuple[int, int]:
    """Loads of threads that meet again after each step: of one site and step, each is one request of all threads."""
    requests, sectors = 0, 0
    for step in itertools.zip_longest(*(walk.steps for walk in warp), fillvalue={}):
        for site in set().union(*step):
            loads = list(zip(*(thread[site] for thread in step if site in thread), strict=True))
            requests += len(loads)
            sectors += sum(len({address // 32 for address in load}) for load in loads)
    return requests, sectors


def doubled_soup(backend: Backend, count: int) -> Bvh:
    """Triangles at random, each twice: every nearest one is a tie."""
    corners = shapes.triangles(shapes.soup(np.random.default_rng(3), count, 0.1)).reshape(-1, 9)
    return make_bvh(backend, corners.repeat(2, axis=0))


@pytest.mark.parametrize("query", WALKS)
def test_what_is_visited(backend: Backend, query: str) -> None:
    bvh = doubled_soup(backend, 150)
    points = np.random.default_rng(4).random((40, 3)).astype(np.float32)
    boxes, tests = map(backend.to_host, index_of(backend, bvh, query).visits(backend.from_host(points)))
    walks = [Walk(bvh, backend, points, i, query) for i in range(len(points))]
    assert boxes.tolist() == [walk.boxes for walk in walks]
    assert tests.tolist() == [walk.tests for walk in walks]


@pytest.mark.parametrize("query", WALKS)
def test_what_is_loaded(backend: Backend, query: str) -> None:
    """A warp and a part of one, whose threads begin together and part."""
    bvh = doubled_soup(backend, 60)
    rng = np.random.default_rng(5)
    points = (rng.random((2, 1, 3)) + 0.05 * rng.random((2, 32, 3))).reshape(-1, 3)[:43].astype(np.float32)
    index = index_of(backend, bvh, query)
    assert isinstance(index, BinaryIndex)
    found = index.traffic(backend.from_host(points))
    walks = [Walk(bvh, backend, points, i, query) for i in range(len(points))]
    warps = walks[:32], walks[32:]
    expected = [requests_and_sectors(warp) for warp in warps]
    assert found.requests.tolist() == [requests for requests, _ in expected]
    assert found.sectors.tolist() == [sectors for _, sectors in expected]
    assert found.steps.tolist() == [max(len(walk.steps) for walk in warp) - 1 for warp in warps]
    assert found.active.tolist() == [sum(len(walk.steps) - 1 for walk in warp) for warp in warps]


def test_loads_of_a_single_triangle(backend: Backend) -> None:
    """It has no tree: the point and the triangle."""
    bvh = make_bvh(backend, np.random.default_rng(1).random((1, 9)))
    index = index_of(backend, bvh, "soa")
    assert isinstance(index, BinaryIndex)
    found = index.traffic(backend.from_host(np.zeros((32, 3), np.float32)))
    assert (found.requests.tolist(), found.sectors.tolist()) == ([12], [3 * 12 + 9])
    assert (found.steps.tolist(), found.active.tolist()) == ([0], [0])


def test_every_variant_is_restated() -> None:
    assert {*WALKS, "fast"} == set(VARIANTS)
