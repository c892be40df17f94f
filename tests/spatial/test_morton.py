"""Morton codes bit by bit, and triangles in their order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import shapes
from sdfcli.backend import Backend
from sdfcli.spatial.morton import morton_keys, morton_order

backend = backends.backend

CELLS = 2**21


def cells_of(points: shapes.Floats) -> list[tuple[int, int, int]]:
    """In which of 2^21 cells along each axis points lie; those outside of the unit cube in the last one."""
    clipped = np.clip(np.floor(points * CELLS), 0, CELLS - 1)
    return [(int(x), int(y), int(z)) for x, y, z in clipped]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_keys_are_interleaved_cells(backend: Backend, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.random((40, 3))
    points[:10] = np.round(points[:10] * CELLS) / CELLS  # on the borders of cells
    points[10:20] *= 2.0 ** -rng.integers(0, 30, (10, 3))
    points[20:25] = rng.uniform(-1e3, 1e3, (5, 3))
    points[25:29] = [[0, 0, 0], [1, 1, 1], [np.nextafter(1, 0), 0, 1], [-0.0, 0.5, 0.25]]
    keys = backend.to_host(morton_keys(backend, backend.from_host(points)))
    assert keys.tolist() == [oracle.interleave(*cell) for cell in cells_of(points)]
    assert [oracle.deinterleave(int(key)) for key in keys] == cells_of(points)


def test_each_bit_of_a_key(backend: Backend) -> None:
    # 63 points, one for each bit: 2^-21 along x comes first, 1/2 along z last.
    points = np.zeros((63, 3))
    bit, axis = np.divmod(np.arange(63), 3)
    points[np.arange(63), axis] = 2.0 ** (bit - 21)
    keys = backend.to_host(morton_keys(backend, backend.from_host(points)))
    assert keys.tolist() == [1 << k for k in range(63)]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_keys_of_corners_are_decoded_and_encoded(backend: Backend, seed: int) -> None:
    # The kernel that finds a leaf's corners decodes the leaf's key, adds to its coordinates, and encodes the sums.
    rng = np.random.default_rng(seed)
    level = rng.integers(0, 21, 20)
    size = 2 ** (oracle.LATTICE_BITS - level)
    low = rng.integers(0, 2 ** level[:, None], (20, 3)) * size[:, None]
    offsets = np.array([[c & 1, c >> 1 & 1, c >> 2] for c in range(8)])
    wanted = [
        [oracle.interleave(*at) for at in leaf] for leaf in (low[:, None] + size[:, None, None] * offsets).tolist()
    ]
    corner_key = np.unique(np.array(wanted, np.uint64))
    dropped = rng.integers(len(corner_key))
    corner_key = np.delete(corner_key, dropped) if seed % 2 else corner_key
    found = backend.xp.empty((20, 8), np.uint32)
    backend.run(
        "sdf_field_corners",
        20,
        corners=len(corner_key),
        leaf_key=backend.from_host(np.array([oracle.interleave(*at) for at in low.tolist()], np.uint64)),
        leaf_level=backend.from_host(level, np.uint8),
        corner_key=backend.from_host(corner_key),
        leaf_corner=found,
    )
    place = {int(key): k for k, key in enumerate(corner_key)}
    assert backend.to_host(found).tolist() == [[place.get(key, 0xFFFFFFFF) for key in leaf] for leaf in wanted]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), different=st.sampled_from([1, 2, 30, 10**9]), count=st.integers(1, 3000))
def test_order_is_sorted_and_stable(backend: Backend, seed: int, different: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    centres = rng.random((min(different, count), 1, 3))[rng.integers(0, min(different, count), count)]
    sides = 1e-9 * rng.normal(size=(count, 2, 3))
    unit = np.concatenate((centres, centres + sides), axis=1).reshape(-1, 9)
    order = morton_order(backend, unit)
    keys, number, corners = (backend.to_host(a) for a in (order.keys, order.triangle_id, order.triangle))
    assert len(order) == count
    assert (keys.dtype, number.dtype, corners.dtype) == (np.uint64, np.uint32, np.float32)
    expected = [oracle.interleave(*cell) for cell in cells_of((unit[:, 0:3] + unit[:, 3:6] + unit[:, 6:9]) / 3)]
    # Python's sort is stable: equal keys keep the order of the mesh.
    assert number.tolist() == sorted(range(count), key=expected.__getitem__)
    assert keys.tolist() == sorted(expected)
    assert np.array_equal(corners, unit[number].astype(np.float32))


@pytest.mark.parametrize("different", [1, 2, 7, 100, 2**62])
@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
def test_sort_of_any_keys(backend: Backend, different: int, kind: type) -> None:
    rng = np.random.default_rng(different)
    some = rng.integers(0, np.iinfo(kind).max, min(different, 5000), kind, endpoint=True)
    keys = some[rng.integers(0, len(some), 5000)]
    on_device = backend.from_host(keys.copy())
    order = backend.to_host(backend.sort(on_device))
    assert order.tolist() == sorted(range(5000), key=keys.tolist().__getitem__)
    assert backend.to_host(on_device).tolist() == sorted(keys.tolist())
    assert len(backend.sort(on_device[:0])) == 0


def test_the_hilbert_curve_goes_from_neighbour_to_neighbour(backend: Backend) -> None:
    # At each of the coarser levels the curve visits all cells, and each step leads to a cell with a common face.
    for level in (1, 2, 3, 4):
        cells = [(x, y, z) for x, y, z in np.ndindex(*[2**level] * 3)]
        keys = backend.xp.empty(len(cells), np.uint32)
        points = backend.from_host((np.array(cells) + 0.5) / 2**level, np.float32)
        backend.run("sdf_curve", len(cells), points=points, keys=keys)
        place = backend.to_host(keys)
        assert sorted((place >> np.uint32(3 * (10 - level))).tolist()) == list(range(8**level))
        walk = np.array(cells)[np.argsort(place)]
        assert np.all(np.abs(np.diff(walk, axis=0)).sum(axis=1) == 1)
