"""Octrees as sorted lists of the cells that are split: which leaves and corners there are, and whose they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.spatial.morton import LATTICE_BITS

NONE = 0xFFFFFFFF
POINTS = 27
"""Of a split cell: the corners of its children."""
KIN = 15
"""Rows of what is known of split cells, as in octree/cells.h."""


@dataclass(frozen=True)
class Corners:
    """The corners of an octree: first those of the domain, then level by level and cell by cell those that split cells
    bring.

    cell (s,) uint64: the split cells, as `split_cells` gives them.
    point (s, 27) uint32: which corners the points of the split cells are, x fastest.
    position (m, 3) float32: in the unit cube.
    near (m,) uint32: for each corner one of a level above nearby, 0xffffffff for those of the domain.
    code (m,): Morton codes on the lattice of 2^20 without the lowest bits, which are 0, in 32 bits where that is
        possible for an octree down to level `depth`: they are sorted twice as fast.
    ends: where the corners of each level of split cells end.
    """

    cell: Array
    point: Array
    position: Array
    near: Array
    code: Array
    ends: list[int]
    depth: int


class SplitCells:
    """The cells above level `depth` in which two or more of sorted Morton codes (n,) uint64 lie.

    They are counted at once, and listed when they are asked for: in between there is time for other work.

    A cell is its Morton code on the lattice, shifted by 4 bits, plus its level (geometry/lattice.h). A cell holds two
    codes where two neighbours among them have its prefix in common, so all levels are read off at once.
    """

    def __init__(self, backend: Backend, keys: Array, depth: int) -> None:
        self.depth, self.keys = depth, len(keys)
        self._backend, self._keys = backend, keys
        self._end = backend.xp.empty(max(0, len(keys) - 1), np.uint32)
        backend.run("sdf_split_count", len(self._end), keys=keys, depth=depth, count=self._end)
        backend.inclusive_scan(self._end)
        self._count = backend.copy_async(self._end[-1:])

    def cells(self) -> Array:
        """(s,) uint64, sorted."""
        cell = self._backend.xp.empty(int(self._count().sum()), np.uint64)
        arrays = {"keys": self._keys, "end": self._end, "cell": cell}
        self._backend.run("sdf_split_cells", len(self._end), depth=self.depth, **arrays)
        return cell


def split_cells(backend: Backend, keys: Array, depth: int) -> Array:
    """`SplitCells` without anything in between."""
    return SplitCells(backend, keys, depth).cells()


def leaves_of(backend: Backend, cell: Array) -> tuple[Array, Array, Array]:
    """The leaves of an octree with these split cells, along the Morton curve: their keys (n,) uint64 on the lattice,
    their levels (n,) uint8, and which children they are (n,) uint32: 8 x split cell + octant."""
    xp = backend.xp
    n = 7 * len(cell) + 1
    new = xp.empty if len(cell) else xp.zeros  # the root alone
    key, level, child = new(n, np.uint64), new(n, np.uint8), new(n, np.uint32)
    backend.run(
        "sdf_split_leaves",
        8 * len(cell),
        splits=len(cell),
        cell=cell,
        leaf_key=key,
        leaf_level=level,
        leaf_child=child,
    )
    return key, level, child


class OwnedPoints:
    """Whose the points of split cells (s,) above level `depth` are.

    kin (15, s) uint32: each cell's neighbours towards the origin, its parent, and its points (octree/cells.h).
    end (depth, s) uint32: how many points each cell owns in the row of its level, and 0 else, summed up row after row.
    Where each level ends is on its way when this is made.
    """

    def __init__(self, backend: Backend, cell: Array, depth: int) -> None:
        self.cell, self.depth = cell, depth
        self.kin, self.end = (backend.xp.empty((rows, len(cell)), np.uint32) for rows in (KIN, depth))
        backend.run("sdf_split_own", len(cell), depth=depth, cell=cell, kin=self.kin, count=self.end)
        backend.inclusive_scan(self.end.reshape(-1))
        self._ends = backend.copy_async(self.end[:, -1:])

    def ends(self) -> list[int]:
        """How many points the split cells of each level own, and those of the levels above."""
        ends: list[int] = self._ends().ravel().tolist()
        return ends


def root_positions(backend: Backend) -> Array:
    """The corners (8, 3) float32 of the domain, x fastest."""
    return backend.from_host(np.arange(8)[:, None] >> np.arange(3) & 1, np.float32)


def root_keys(backend: Backend) -> Array:
    """Their keys (8,) uint64 on the lattice of 2^20."""
    return backend.xp.arange(8, dtype=np.uint64) << np.uint64(3 * LATTICE_BITS)


def _points(backend: Backend, owned: OwnedPoints, **arrays: Array | None) -> None:
    splits = len(owned.cell)
    known = {"splits": splits, "cell": owned.cell, "kin": owned.kin, "end": owned.end}
    backend.run("sdf_split_points", POINTS * splits, **known, **arrays)


def _codes(code: Array, depth: int) -> dict[str, Any]:
    """What kernels are told of the codes of corners."""
    short = code.dtype == np.uint32
    low_bits = 3 * (LATTICE_BITS - depth)
    return {"low_bits": low_bits, "short_code": code if short else None, "code": None if short else code}


def _code_type(depth: int) -> Any:
    return np.uint32 if 3 * (depth + 1) <= 32 else np.uint64


def corners_of(backend: Backend, owned: OwnedPoints) -> Corners:
    """The corners of an octree, from the points of its split cells."""
    xp, cell, depth = backend.xp, owned.cell, owned.depth
    point, kind = xp.empty((len(cell), POINTS), np.uint32), _code_type(depth)
    if len(cell) == 0:
        code = xp.arange(8, dtype=kind) << kind(3 * depth)
        return Corners(cell, point, root_positions(backend), xp.full(8, NONE, np.uint32), code, [8], depth)
    ends = owned.ends()
    m = ends[-1]
    position, near, code = xp.empty((m, 3), np.float32), xp.empty(m, np.uint32), xp.empty(m, kind)
    _points(backend, owned, point=point, near=near, position=position, **_codes(code, depth))
    return Corners(cell, point, position, near, code, ends, depth)


def cell_corners(backend: Backend, cell: Array, depth: int) -> Array:
    """The keys (m,) uint64, sorted, of the corners of an octree with these split cells, none below level `depth`."""
    if len(cell) == 0:
        return root_keys(backend)
    owned = OwnedPoints(backend, cell, depth)
    code = backend.xp.empty(owned.ends()[-1], _code_type(depth))
    codes = _codes(code, depth)
    _points(backend, owned, point=None, near=None, position=None, **codes)
    code.sort()
    return code.astype(np.uint64) << np.uint64(codes["low_bits"])


def sort_corners(backend: Backend, corners: Corners) -> tuple[Array, Array]:
    """The keys (m,) uint64 of the corners in Morton order, and each one's place (m,) uint32 in it. Their codes are
    sorted in place."""
    xp, code = backend.xp, corners.code
    key, place = xp.empty(len(code), np.uint64), xp.empty(len(code), np.uint32)
    arrays = {"order": backend.sort(code), "corner_key": key, "place": place, **_codes(code, corners.depth)}
    backend.run("sdf_corner_sorted", len(code), **arrays)
    return key, place


def place_corners(
    backend: Backend, place: Array, distance: Array, slot: Array, triangle_id: Array
) -> tuple[Array, Array]:
    """What is known of corners, in Morton order: distance (m,) float32, and the number (m,) uint32 of the triangle in
    slot (m,)."""
    placed, nearest = backend.xp.empty(len(place), np.float32), backend.xp.empty(len(place), np.uint32)
    arrays = {"place": place, "distance": distance, "slot": slot, "triangle_id": triangle_id}
    backend.run("sdf_corner_placed", len(place), placed_distance=placed, nearest=nearest, **arrays)
    return placed, nearest


def leaf_corners_of(backend: Backend, leaf_child: Array, point: Array, place: Array) -> Array:
    """The places (n, 8) uint32 of the leaves' corners in Morton order. leaf_child: (n,), as `leaves_of` gives it;
    point: of Corners; place: as `sort_corners` gives it."""
    if len(point) == 0:
        return backend.xp.arange(8, dtype=np.uint32)[None]
    leaf_corner = backend.xp.empty((len(leaf_child), 8), np.uint32)
    arrays = {"leaf_child": leaf_child, "point": point, "place": place}
    backend.run("sdf_split_leaf_corners", leaf_corner.size, leaf_corner=leaf_corner, **arrays)
    return leaf_corner
