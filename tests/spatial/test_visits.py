"""What the counting kernels count, against walks of the same trees in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from sdfcli.spatial.radix_tree import Bvh
from sdfcli.spatial.wide import WideIndex
from trees import make_bvh, nearest, visits

backend = backends.backend

Numbers = oracle.Numbers
F = np.float32

LEAF, NONE = 0x80000000, 0xFFFFFFFF
MARGIN, SHRINK = F(2.0**-20), F(1 - 2.0**-20)
INFINITE = F(3.402823466e38)


def dot(a: Numbers, b: Numbers) -> Numbers:
    return np.asarray(a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1] + a[..., 2] * b[..., 2])


def cross(a: Numbers, b: Numbers) -> Numbers:
    (ax, ay, az), (bx, by, bz) = np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0)
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)


def inverse(x: Numbers) -> Numbers:
    return np.where(x > 0, F(1) / np.where(x > 0, x, F(1)), F(0))


def segment(p: Numbers, e: Numbers) -> Numbers:
    r = p - np.clip(dot(p, e) * inverse(dot(e, e)), F(0), F(1))[..., None] * e
    return dot(r, r)


def triangle_distances(p: Numbers, corner: Numbers) -> Numbers:
    """Squared distances (n,) of a point (3,) to triangles (n, 3, 3), operation by operation as geometry/triangle.h."""
    a, b, c = corner[:, 0], corner[:, 1], corner[:, 2]
    ab, ac, ap = b - a, c - a, p - a
    n = cross(ab, ac)
    edges = np.minimum(segment(ap, ab), np.minimum(segment(ap, ac), segment(p - b, c - b)))
    over = inverse(dot(n, n))
    v, w = dot(cross(ap, ac), n) * over, dot(cross(ab, ap), n) * over
    r = (ap - v[:, None] * ab) - w[:, None] * ac
    v2, w2 = dot(cross(r, ac), n) * over, dot(cross(ab, r), n) * over
    r = (r - v2[:, None] * ab) - w2[:, None] * ac
    v, w = v + v2, w + w2
    face = dot(r, r)
    return np.where((v >= 0) & (w >= 0) & (v + w <= 1) & (face < edges), face, edges)


def box_distances(p: Numbers, low: Numbers, high: Numbers) -> Numbers:
    off = np.maximum(np.maximum(low - p, p - high), F(0))
    with np.errstate(over="ignore"):  # an empty box is infinitely far away
        return np.asarray(dot(off, off) * SHRINK)


class Walk:
    """One query: the best so far, and what was looked at."""

    def __init__(self, tree: Tree, p: Numbers, seeds: list[int], seeded: bool) -> None:
        self.tree, self.seeded = tree, seeded
        self.to_triangle = triangle_distances(p, tree.corner)
        self.to_own_box = box_distances(p, tree.corner.min(axis=1) - MARGIN, tree.corner.max(axis=1) + MARGIN)
        self.to_box = box_distances(p, tree.box[:, :3], tree.box[:, 3:])
        self.best, self.slot, self.boxes, self.tests = INFINITE, 0, 0, 0
        for place, slot in enumerate(seeds):
            if place == 0:
                self.test(slot)
            elif slot != seeds[place - 1]:
                self.test_boxed(slot)

    def test(self, slot: int) -> None:
        self.tests += 1
        d, ids = self.to_triangle[slot], self.tree.triangle_id
        if d < self.best or (d == self.best and ids[slot] < ids[self.slot]):
            self.best, self.slot = d, slot

    def test_boxed(self, slot: int) -> None:
        self.boxes += 1
        if self.to_own_box[slot] <= self.best:
            self.test(slot)

    def bound(self, node: int) -> Any:
        self.boxes += 1
        return self.to_box[node]

    def left_first(self) -> None:
        """The thesis's text: the box of every popped node, leaves too."""
        stack = [0]
        while stack:
            node = stack.pop()
            if node & LEAF:
                self.test_boxed(node ^ LEAF)
            elif self.bound(node) <= self.best:
                stack += self.tree.child[node][::-1]

    def leaves_first(self) -> None:
        stack = [0]
        while stack:
            node = stack.pop()
            if self.bound(node) > self.best:
                continue
            left, right = self.tree.child[node]
            for child in (left, right):
                if child & LEAF:
                    self.test(child ^ LEAF)
            stack += [child for child in (left, right) if not child & LEAF]

    def closer_child(self) -> None:
        stack = [0]
        while stack:
            node = stack.pop()
            if not self.seeded and self.bound(node) > self.best:
                continue
            for child in self.tree.child[node]:
                if child & LEAF:
                    self.test(child ^ LEAF)
            inner = [(self.bound(child), child) for child in self.tree.child[node] if not child & LEAF]
            if len(inner) == 2 and inner[0][0] < inner[1][0]:
                inner.reverse()  # the nearer one last; of equals the second
            stack += [child for bound, child in inner if bound <= self.best]


WALKS: dict[str, Callable[[Walk], None]] = {
    "baseline": Walk.left_first,
    "vectors": Walk.left_first,
    "soa": Walk.left_first,
    "components": Walk.left_first,
    "deferred": Walk.leaves_first,
    "cct": Walk.closer_child,
}


class Tree:
    """The arrays of a tree on the host."""

    def __init__(self, backend: Backend, bvh: Bvh) -> None:
        self.corner = backend.to_host(bvh.order.triangle).reshape(-1, 3, 3)
        self.triangle_id = backend.to_host(bvh.order.triangle_id)
        self.child = backend.to_host(bvh.child).tolist()
        self.box = backend.to_host(bvh.box)


def check_visits(backend: Backend, bvh: Bvh, points: Numbers, seed: Numbers | None) -> dict[str, tuple[float, float]]:
    """Counts and distances are those of the walks. Returns the means of boxes and triangles by query."""
    tree = Tree(backend, bvh)
    at = backend.from_host(points)
    seeds = None if seed is None else backend.from_host(seed)
    means = {}
    for query, run in WALKS.items():
        distance, slot = (backend.to_host(a) for a in nearest(backend, bvh, at, seeds, query))
        boxes, tests = (backend.to_host(a) for a in visits(backend, bvh, at, seeds, query))
        for i, p in enumerate(points):
            given_seeds = [] if seed is None else [int(s) for s in seed[i]]
            if NONE in given_seeds:
                given_seeds = given_seeds[: given_seeds.index(NONE)]
            walk = Walk(tree, p, given_seeds, seed is not None and seed.shape[1] > 0)
            if len(tree.corner) == 1:
                walk.test(0)
            else:
                run(walk)
            assert (walk.boxes, walk.tests) == (boxes[i], tests[i]), (query, i)
            assert np.sqrt(walk.best) == distance[i]
            assert walk.slot == slot[i]
        means[query] = float(boxes.mean()), float(tests.mean())
    assert means["baseline"] == means["soa"]
    return means


@settings(max_examples=15, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), number=st.integers(0, 2**32 - 1), width=st.integers(0, 9))
def test_visits(backend: Backend, kind: str, number: int, width: int) -> None:
    rng = np.random.default_rng(number)
    bvh = make_bvh(backend, make_mesh(*shapes.ANY[kind](rng)).unit_triangles)
    count = len(bvh.order)
    corner = backend.to_host(bvh.order.triangle).reshape(-1, 3)
    near = corner[rng.integers(0, len(corner), 10)] + rng.normal(size=(10, 3)) * 0.02
    points = np.concatenate((rng.random((10, 3)), near, corner[:2])).astype(np.float32)
    seed = rng.integers(0, count, (len(points), width)).astype(np.uint32) if width else None
    if seed is not None:
        seed[rng.random(seed.shape) < 0.2] = NONE
    check_visits(backend, bvh, points, seed)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_visits_of_few_triangles(backend: Backend, count: int) -> None:
    rng = np.random.default_rng(count)
    check_visits(backend, make_bvh(backend, rng.random((count, 9))), rng.random((20, 3)).astype(np.float32), None)


def test_the_closer_child_first_visits_less(backend: Backend) -> None:
    rng = np.random.default_rng(1)
    bvh = make_bvh(backend, make_mesh(*shapes.icosphere(3)).unit_triangles)
    means = check_visits(backend, bvh, rng.random((30, 3)).astype(np.float32), None)
    assert means["cct"][0] < means["baseline"][0]
    assert means["cct"][1] < means["baseline"][1]
    # A first bound that is nearly the answer spares more.
    points = rng.random((30, 3)).astype(np.float32)
    _, slot = nearest(backend, bvh, backend.from_host(points))
    seeded = check_visits(backend, bvh, points, backend.to_host(slot)[:, None])
    unseeded = check_visits(backend, bvh, points, None)
    for query in WALKS:
        assert seeded[query][0] < unseeded[query][0]


class PacketWalk:
    """Sixteen points' walk of the wide tree, as distance/simd.h has it: `best`, `slot`, and what was looked at."""

    def __init__(self, tree: Tree, wide: Any, points: Numbers, before: Numbers) -> None:
        self.wide, self.ids = wide, tree.triangle_id
        self.p = points[np.minimum(np.arange(16), len(points) - 1)]
        self.to_triangle = np.array([triangle_distances(p, tree.corner) for p in self.p])
        self.low, self.high = tree.corner.min(axis=1) - MARGIN, tree.corner.max(axis=1) + MARGIN
        self.best, self.slot = np.full(16, INFINITE), np.zeros(16, int)
        self.boxes = self.tests = 0
        self.pairs: list[tuple[int, int]] = []
        self.test_triangles(dict.fromkeys(before.tolist()))
        self.walk()
        while self.pairs:
            self.test_pairs()

    def from_points(self, low: Numbers, high: Numbers) -> Numbers:
        return np.array([box_distances(p, low, high) for p in self.p])

    def from_all(self, low: Numbers, high: Numbers) -> Numbers:
        gap = np.maximum(np.maximum(low - self.p.max(axis=0), self.p.min(axis=0) - high), F(0))
        with np.errstate(over="ignore"):
            return np.asarray(dot(gap, gap) * SHRINK)

    def test(self, k: int, slot: int) -> None:
        d = self.to_triangle[k, slot]
        known = self.best[k] < INFINITE
        if d < self.best[k] or (known and d == self.best[k] and self.ids[slot] < self.ids[self.slot[k]]):
            self.best[k], self.slot[k] = d, slot

    def test_triangles(self, slots: Iterable[int]) -> None:
        for slot in slots:
            self.boxes += 1
            if (self.from_points(self.low[slot], self.high[slot]) <= self.best).any():
                self.tests += 1
                for k in range(16):
                    self.test(k, slot)

    def test_pairs(self) -> None:
        self.tests += 1
        self.pairs, last = self.pairs[:-16], self.pairs[-16:]
        for pair in last:
            self.test(*pair)

    def block(self, number: int, points: Numbers) -> None:
        frame, bounds = self.wide.block[number, 0], self.wide.block[number, 1:]
        middle, half, *axes = frame[:15].reshape(5, 3)
        turned = np.stack([dot(self.p - middle, axis[None]) for axis in axes], axis=-1)
        self.boxes += 1
        wanting = [k for k in points if box_distances(turned[k], -half[None], half[None])[0] <= self.best[k]]
        self.boxes += len(wanting)
        near = {
            k: np.flatnonzero(box_distances(turned[k], bounds[:3].T, bounds[3:].T) <= self.best[k]) for k in wanting
        }
        slots = self.wide.block_slot[16 * number :]
        triangles = sorted({lane for lanes in near.values() for lane in lanes})
        if sum(map(len, near.values())) > 8 + 3 * len(triangles):
            self.test_triangles(int(slots[lane]) for lane in triangles)
            return
        for k, lanes in near.items():
            self.pairs += [(k, int(slots[lane])) for lane in lanes]
            if len(self.pairs) >= 16:
                self.test_pairs()

    def walk(self) -> None:
        starts = self.wide.level_start
        centre = F(0.5) * (self.p.min(axis=0) + self.p.max(axis=0))
        stack: list[tuple[Any, Any, int, int]] = [(F(0), F(0), 0, len(starts) - 1)]
        while stack:
            bound, _, node, level = stack.pop()
            if bound > self.best.max():
                continue
            if level + 1 < len(starts) and len(self.near(level + 1, node)) == 0:
                continue
            box = self.wide.box[starts[level] + node]
            self.boxes += 1
            bounds, order = self.from_all(box[:3].T, box[3:].T), box_distances(centre, box[:3].T, box[3:].T)
            near = [k for k in range(16) if bounds[k] <= self.best.max()]
            if level == 0:
                for block in (16 * node + k for k in near):
                    if len(points := self.near(0, block)) > 0:
                        self.block(block, points)
                continue
            entries = [(bounds[k], order[k], 16 * node + k, level - 1) for k in near]
            stack += sorted(entries, key=lambda entry: -entry[1])

    def near(self, level: int, child: int) -> Numbers:
        """Which points are near enough to a child of a node of this level."""
        own = self.wide.box[self.wide.level_start[level] + child // 16, :, child % 16]
        self.boxes += 1
        return np.flatnonzero(self.from_points(own[:3], own[3:]) <= self.best)


@pytest.mark.parametrize("count", [5, 300, 3000])
def test_visits_of_the_wide_tree(cpu: Backend, count: int) -> None:
    rng = np.random.default_rng(2)
    bvh = make_bvh(cpu, rng.random((count, 1, 3)).repeat(3, axis=1).reshape(-1, 9) + 0.05 * rng.random((count, 9)))
    tree, wide = Tree(cpu, bvh), WideIndex(cpu, bvh.order).tree
    apart, together = rng.random((35, 3)), 0.5 + 0.05 * rng.random((35, 3))
    for points in (apart.astype(np.float32), together.astype(np.float32)):
        distance, slot = nearest(cpu, bvh, points)
        boxes, tests = visits(cpu, bvh, points)
        before = np.zeros(0, np.uint32)
        for first in range(0, len(points), 16):
            own = slice(first, min(first + 16, len(points)))
            walk = PacketWalk(tree, wide, points[own], before)
            assert (boxes[own] == walk.boxes).all()
            assert (tests[own] == walk.tests).all()
            assert np.array_equal(np.sqrt(walk.best)[: own.stop - own.start], distance[own])
            assert np.array_equal(walk.slot[: own.stop - own.start], slot[own])
            before = slot[own][::-1]
