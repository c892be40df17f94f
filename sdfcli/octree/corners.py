"""Octree corners: keys, order, and each leaf's corners."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.octree.cells import NONE, POINTS, OwnedPoints, split_cells
from sdfcli.spatial.morton import LATTICE_BITS, MORTON_BITS


@dataclass(frozen=True)
class Corners:
    """An octree's corners: the domain's, then the corners added by split cells, by level and cell.

    cell      (s,) uint64: split cells; see `SplitCells`.
    point     (s, 27) uint32: corners at the split cells' points, x fastest.
    position  (m, 3) float32 in the unit cube.
    near      (m,) uint32: a nearby corner on a coarser level; 0xffffffff for the domain's corners.
    code      (m,): Morton codes on the lattice of 2^20 without the low bits, which are 0 down to level `depth`; uint32
              where sufficient, as it sorts twice as fast as uint64.
    ends      end of the corners by the split cells' level.
    """

    cell: Array
    point: Array
    position: Array
    near: Array
    code: Array
    ends: list[int]
    depth: int


def root_positions(backend: Backend) -> Array:
    """The domain's corners (8, 3) float32, x fastest."""
    return backend.from_host(np.arange(8)[:, None] >> np.arange(3) & 1, np.float32)


def root_keys(backend: Backend) -> Array:
    """Keys (8,) uint64 of the domain's corners on the lattice of 2^20."""
    return backend.from_host(np.arange(8, dtype=np.uint64) << np.uint64(3 * LATTICE_BITS))


def _points(backend: Backend, owned: OwnedPoints, **arrays: Array | None) -> None:
    splits = len(owned.cell)
    known = {"splits": splits, "cell": owned.cell, "kin": owned.kin, "end": owned.end}
    backend.run("sdf_split_points", POINTS * splits, **known, **arrays)


def _codes(code: Array, depth: int) -> dict[str, Any]:
    """Kernel arguments for the corners' codes."""
    short = code.dtype == np.uint32
    low_bits = 3 * (LATTICE_BITS - depth)
    return {"low_bits": low_bits, "short_code": code if short else None, "code": None if short else code}


def _code_type(depth: int) -> Any:
    return np.uint32 if 3 * (depth + 1) <= 32 else np.uint64


def corners_of(backend: Backend, owned: OwnedPoints) -> Corners:
    """An octree's corners from its split cells' points."""
    xp, cell, depth = backend.xp, owned.cell, owned.depth
    point, kind = xp.empty((len(cell), POINTS), np.uint32), _code_type(depth)
    if len(cell) == 0:
        code = xp.arange(8, dtype=kind) << kind(3 * depth)
        return Corners(cell, point, root_positions(backend), backend.filled(8, NONE, np.uint32), code, [8], depth)
    ends = owned.ends()
    m = ends[-1]
    position, near, code = xp.empty((m, 3), np.float32), xp.empty(m, np.uint32), xp.empty(m, kind)
    _points(backend, owned, point=point, near=near, position=position, **_codes(code, depth))
    return Corners(cell, point, position, near, code, ends, depth)


def cell_corners(backend: Backend, cell: Array, depth: int) -> Array:
    """Sorted corner keys (m,) uint64 of an octree with these split cells, all above level `depth`."""
    if len(cell) == 0:
        return root_keys(backend)
    owned = OwnedPoints(backend, cell, depth)
    code = backend.xp.empty(owned.ends()[-1], _code_type(depth))
    codes = _codes(code, depth)
    _points(backend, owned, point=None, near=None, position=None, **codes)
    backend.sort_alone(code)
    return code.astype(np.uint64) << np.uint64(codes["low_bits"])


def sort_corners(backend: Backend, corners: Corners) -> tuple[Array, Array]:
    """Sorted corner keys (m,) uint64, and each corner's index (m,) uint32 in them. Sorts the codes in place."""
    xp, code = backend.xp, corners.code
    key, place = xp.empty(len(code), np.uint64), xp.empty(len(code), np.uint32)
    arrays = {"order": backend.sort(code), "corner_key": key, "place": place, **_codes(code, corners.depth)}
    backend.run("sdf_corner_sorted", len(code), **arrays)
    return key, place


def place_corners(
    backend: Backend, place: Array, distance: Array, slot: Array, triangle_id: Array
) -> tuple[Array, Array]:
    """Corner values in Morton order: distances (m,) float32, and the slots' face ids (m,) uint32."""
    placed, nearest = backend.xp.empty(len(place), np.float32), backend.xp.empty(len(place), np.uint32)
    arrays = {"place": place, "distance": distance, "slot": slot, "triangle_id": triangle_id}
    backend.run("sdf_corner_placed", len(place), placed_distance=placed, nearest=nearest, **arrays)
    return placed, nearest


def leaf_corners_of(backend: Backend, leaf_child: Array, point: Array, place: Array) -> Array:
    """Indices (n, 8) uint32 of the leaves' corners in Morton order. leaf_child: (n,), from `leaves_of`; point: from
    Corners; place: from `sort_corners`."""
    if len(point) == 0:
        return backend.xp.arange(8, dtype=np.uint32)[None]
    leaf_corner = backend.xp.empty((len(leaf_child), 8), np.uint32)
    arrays = {"leaf_child": leaf_child, "point": point, "place": place}
    backend.run("sdf_split_leaf_corners", leaf_corner.size, leaf_corner=leaf_corner, **arrays)
    return leaf_corner


def corner_keys(backend: Backend, leaf_key: Array, leaf_level: Array) -> Array:
    """An octree's sorted leaf corner keys (m,) uint64."""
    keys = leaf_key << np.uint64(3 * (MORTON_BITS - LATTICE_BITS))
    depth = int(leaf_level.max())
    return cell_corners(backend, split_cells(backend, keys, depth), depth)


def leaf_corners(backend: Backend, leaf_key: Array, leaf_level: Array, corner_key: Array) -> Array:
    """The leaf corners' indices (n, 8) uint32 in the sorted keys; NONE: missing."""
    leaf_corner = backend.xp.empty((len(leaf_key), 8), np.uint32)
    backend.run(
        "sdf_field_corners",
        len(leaf_key),
        corners=len(corner_key),
        leaf_key=leaf_key,
        leaf_level=leaf_level,
        corner_key=corner_key,
        leaf_corner=leaf_corner,
    )
    return leaf_corner


def corner_order(backend: Backend, corner_key: Array) -> tuple[Array, Array]:
    """Indices (m,) uint32 of sorted corners by level, each level in Morton order, and the levels' ends (21,) uint32. A
    corner's level is the coarsest level with a cell that has it."""
    level = backend.xp.empty(len(corner_key), np.uint8)
    backend.run("sdf_corner_level", len(corner_key), corner_key=corner_key, level=level)
    return backend.counting_sort(level, LATTICE_BITS + 1)


def by_level(backend: Backend, corner_key: Array) -> Iterator[tuple[int, int, Array]]:
    """Yields, by level: the number of preceding corners, the level, and its corners' indices (k,) uint32 in Morton
    order."""
    order, ends = corner_order(backend, corner_key)
    for level, (first, last) in enumerate(itertools.pairwise([0, *backend.to_host(ends).tolist()])):
        if last > first:
            yield first, level, order[first:last]
