"""Octrees from lists of split cells, against plain recursion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
from sdfcli.backend import Backend
from sdfcli.octree.cells import SplitCells, leaves_of, split_cells
from sdfcli.octree.corners import (
    Corners,
    by_level,
    corner_keys,
    corners_of,
    leaf_corners_of,
    place_corners,
    sort_corners,
)
from sdfcli.octree.density import points_of

backend = backends.backend
warps = backends.warps

Numbers = oracle.Numbers
FULL = 2**oracle.LATTICE_BITS
NONE = 0xFFFFFFFF


def some_keys(rng: np.random.Generator, count: int, spread: float) -> Numbers:
    """Sorted Morton codes of points around a few others, at the faces of the cube too; some are there several times."""
    centre = rng.integers(0, 2**21, (max(1, count // 20), 3))
    at = centre[rng.integers(0, len(centre), count)] + rng.normal(scale=2**21 * spread, size=(count, 3)).astype(int)
    x, y, z = np.clip(at, 0, 2**21 - 1).T
    keys = [oracle.interleave(*map(int, p)) for p in zip(x, y, z, strict=True)]
    return np.array(sorted(keys), np.uint64)


def octree(keys: list[int], depth: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Split cells and leaves (key on the lattice, level), both depth first: cells with two keys are split."""
    split, leaves = [], []

    def visit(code: int, level: int, inside: list[int]) -> None:
        own = (code << 3 * (20 - level), level)
        if level == depth or len(inside) < 2:
            leaves.append(own)
            return
        split.append(own)
        for octant in range(8):
            child = 8 * code + octant
            visit(child, level + 1, [key for key in inside if key >> 3 * (20 - level) == child])

    visit(0, 0, keys)
    return split, leaves


def octree_of(backend: Backend, keys: Numbers, depth: int) -> Corners:
    return corners_of(backend, points_of(backend, SplitCells(backend, backend.from_host(keys), depth)))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(0, 300),
    spread=st.sampled_from([0.3, 0.01, 1e-4, 0.0]),
    depth=st.integers(1, 20),
)
def test_octrees_of_keys(backend: Backend, seed: int, count: int, spread: float, depth: int) -> None:
    keys = some_keys(np.random.default_rng(seed), count, spread)
    split, leaves = octree(keys.tolist(), depth)
    cell = backend.to_host(split_cells(backend, backend.from_host(keys), depth))
    assert cell.tolist() == [key << 4 | level for key, level in split]
    tree = octree_of(backend, keys, depth)
    on_device = leaves_of(backend, tree.cell)
    key, level, _ = map(backend.to_host, on_device)
    assert list(zip(key.tolist(), level.tolist(), strict=True)) == leaves
    size = FULL >> level.astype(np.int64)
    offset = np.arange(8)[:, None] >> np.arange(3) & 1
    corner = oracle.lattice(key)[:, None] + size[:, None, None] * offset
    expected = sorted({oracle.interleave(*p) for p in corner.reshape(-1, 3).tolist()})
    corner_key, place = sort_corners(backend, tree)
    assert backend.to_host(corner_key).tolist() == expected
    at = oracle.lattice(np.array(expected, np.uint64))
    assert np.array_equal(at[backend.to_host(leaf_corners_of(backend, on_device[2], tree.point, place))], corner)
    assert backend.to_host(corner_keys(backend, *on_device[:2])).tolist() == expected
    assert np.array_equal(backend.to_host(tree.position), (at / FULL).astype(np.float32)[backend.to_host(place)])


def test_what_is_known_of_corners_comes_into_their_order(backend: Backend) -> None:
    rng = np.random.default_rng(1)
    place, slot, number = rng.permutation(50), rng.integers(0, 9, 50), rng.permutation(9)
    distance = rng.random(50).astype(np.float32)
    on_device = [backend.from_host(array, np.uint32) for array in (place, slot, number)]
    found = place_corners(backend, on_device[0], backend.from_host(distance), *on_device[1:])
    placed, nearest = map(backend.to_host, found)
    assert np.array_equal(placed[place], distance)
    assert np.array_equal(nearest[place], number[slot])


def levels(at: Numbers) -> Numbers:
    """The first level on whose lattice points (m, 3) lie."""
    return np.array([next(k for k in range(21) if not np.any(p % (FULL >> k))) for p in at])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(2, 300), depth=st.integers(1, 20))
def test_corners_by_level(backend: Backend, seed: int, count: int, depth: int) -> None:
    keys = some_keys(np.random.default_rng(seed), count, 0.01)
    tree = octree_of(backend, keys, depth)
    at, near = np.round(backend.to_host(tree.position).astype(float) * FULL).astype(int), backend.to_host(tree.near)
    level = levels(at)
    assert np.array_equal(near == NONE, level == 0)
    rest = level > 0
    assert np.all(level[near[rest]] < level[rest])
    assert np.all(np.abs(at[near[rest]] - at[rest]).max(axis=1) == FULL >> level[rest])
    brought_by = np.maximum(level, 1) - 1  # the root brings the corners of the domain, too
    assert np.all(np.diff(brought_by.astype(int)) >= 0)
    assert tree.ends[-1] == len(level)
    assert all(end == np.sum(brought_by <= k) for k, end in enumerate(tree.ends))


@pytest.mark.parametrize("count", [1, 31, 32, 33, 255, 256, 257, 1000])
def test_order_of_any_number_of_levels(backend: Backend, warps: Backend, count: int) -> None:
    level = np.random.default_rng(count).integers(0, 18, count)
    for device in (backend, warps):
        order, ends = device.counting_sort(device.from_host(level, np.uint8), 18)
        assert device.to_host(order).tolist() == np.argsort(level, kind="stable").tolist()
        assert device.to_host(ends).tolist() == [int(np.sum(level <= k)) for k in range(18)]


@pytest.mark.parametrize("splits", [0, 5, 40])
def test_levels_of_corners(backend: Backend, splits: int) -> None:
    key = oracle.random_field(np.random.default_rng(splits), splits).corner_key
    level, before = levels(oracle.lattice(key)), 0
    for first, own, corners in by_level(backend, backend.from_host(key)):
        assert first == before
        assert backend.to_host(corners).tolist() == np.flatnonzero(level == own).tolist()
        before += len(corners)
    assert before == len(key)
