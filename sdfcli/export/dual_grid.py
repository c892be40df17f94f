"""Hermite data on a sparse grid: where lattice edges cross a mesh, with normals, as in dual contouring (Ju et al.
2002, section 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.mesh import Mesh, face_normals
from sdfcli.mesh.vectors import length
from sdfcli.query.mesh_distance import MeshDistance

MOST = 1 << 21
"""Lattice lines tested at a time."""
ROUNDING = 4e-7
"""Distance, in domain edges, within which signs may be wrong, as distances are in single precision. Crossings so near
to each other count as one; so near to a lattice point, for the edges on both sides, of which the signs choose one."""
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))
"""Cells around an edge, in steps down its two other axes."""


class DualGrid(NamedTuple):
    """The lattice edges that lead from inside to outside or back, and the cells around them.

    The lattice divides the mesh's domain, a cube, into `cells` per axis; edge (i, j, k, axis) leads from the lattice
    point (i, j, k) to the next one along the axis. Sorted by axis, then k, j, i.

    edge     (n, 3) uint16 lattice coordinates of the lower ends.
    axis     (n,) uint8: 0, 1 or 2.
    share    (n,) float32: where the mesh crosses the edge, from 0 at the lower end to 1.
    normal   (n, 3) float32, the crossed face's unit normal, oriented like the signs: outwards.
    inside   (n,) bool: whether the lower end is inside.
    cell     (c, 3) uint16 lattice coordinates of the cells with such edges; sorted by k, j, i.
    vertex   (c, 3) float32 the mean of a cell's crossings, from 0 to 1 in the cell.
    origin   (3,) float64: the lattice point (0, 0, 0), in the samples' units.
    step     () float64: edge of the cells, in the samples' units.
    """

    edge: npt.NDArray[np.uint16]
    axis: npt.NDArray[np.uint8]
    share: npt.NDArray[np.float32]
    normal: npt.NDArray[np.float32]
    inside: npt.NDArray[np.bool_]
    cell: npt.NDArray[np.uint16]
    vertex: npt.NDArray[np.float32]
    origin: Floats
    step: Floats


class _Crossings(NamedTuple):
    """Crossings of lattice edges and faces, (n,) each.

    edge   number of the edge: ((axis * (cells + 1) + k) * (cells + 1) + j) * (cells + 1) + i.
    share  from 0 to 1 along the edge.
    face   the face.
    """

    edge: Ints
    share: Floats
    face: Ints


def dual_grid(index: MeshDistance, cells: int, placed: Callable[[Floats], Floats]) -> DualGrid:
    """The grid of a mesh with signs. placed: from points (n, 3) in the mesh's units to the samples' units.

    Where an edge crosses the mesh several times, the first crossing counts beyond which the sign differs from the lower
    end's. Edges through holes, where the sign changes without a face, are left out.
    """
    mesh, points = index.mesh, cells + 1
    none = _Crossings(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64))
    parts = [none, *(each for axis in range(3) for each in _crossings(mesh, cells, axis))]
    found = _Crossings(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    order = np.lexsort((found.face, found.share, found.edge))
    edge, share = found.edge[order], found.share[order]
    apart = (np.diff(edge, prepend=-1) > 0) | (np.diff(share, prepend=0.0) > ROUNDING * cells)
    found = _Crossings(edge[apart], share[apart], found.face[order[apart]])
    first = np.flatnonzero(np.diff(found.edge, prepend=-1))
    last = np.append(first[1:], len(found.edge))[: len(first)] - 1
    at, axis = _lattice(found.edge[first], points)
    inside, there = (_inside(index, at, axis, share, cells) for share in (0.0, 1.0))
    turned = inside != there
    first, last, at, axis, inside = first[turned], last[turned], at[turned], axis[turned], inside[turned]
    chosen = first.copy()
    left = np.flatnonzero(first < last)
    while len(left):
        here = chosen[left]
        middle = (found.share[here] + found.share[here + 1]) / 2
        same = _inside(index, at[left], axis[left], middle, cells) == inside[left]
        left = left[same]
        chosen[left] += 1
        left = left[chosen[left] < last[left]]
    share, normal = found.share[chosen], _unit_normals(mesh, found.face[chosen])
    cell, vertex = _cells(at, axis, share, cells)
    low, high = placed(mesh.domain.origin + np.array([[0.0], [mesh.domain.length]]))
    return DualGrid(
        at.astype(np.uint16),
        axis.astype(np.uint8),
        share.astype(np.float32),
        normal.astype(np.float32),
        inside,
        cell.astype(np.uint16),
        vertex.astype(np.float32),
        low,
        np.asarray((high[0] - low[0]) / cells),
    )


def _crossings(mesh: Mesh, cells: int, axis: int) -> Iterator[_Crossings]:
    """All crossings of faces with lattice edges along an axis, in batches."""
    u, v = (axis + 1) % 3, (axis + 2) % 3
    corner = mesh.domain.to_unit(mesh.vertices) * cells
    flat = corner[mesh.faces]  # (f, 3, 3)
    low = np.ceil(flat[:, :, [u, v]].min(axis=1)).astype(np.int64)
    many = np.floor(flat[:, :, [u, v]].max(axis=1)).astype(np.int64) - low + 1
    rows = np.where(many[:, 1] > 0, np.maximum(many[:, 0], 0), 0)
    row_face = np.repeat(np.arange(len(flat)), rows)
    row = np.arange(len(row_face)) - np.repeat(np.cumsum(rows) - rows, rows) + low[row_face, 0]
    ends = np.cumsum(many[row_face, 1])
    begin = 0
    while begin < len(row_face):
        done = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + MOST, side="right")))
        face, size = row_face[begin:end], many[row_face[begin:end], 1]
        column = np.arange(int(ends[end - 1] - done)) - np.repeat(ends[begin:end] - size - done, size)
        face, at_u = np.repeat(face, size), np.repeat(row[begin:end], size)
        yield _met(flat, face, at_u, column + low[face, 1], cells, (axis, u, v))
        begin = end


def _met(flat: Floats, face: Ints, at_u: Ints, at_v: Ints, cells: int, axes: tuple[int, int, int]) -> _Crossings:
    """Crossings of faces with lattice lines at (at_u, at_v), one line per face."""
    axis, u, v = axes
    weight = []
    for k in range(3):
        one, two = flat[face, (k + 1) % 3], flat[face, (k + 2) % 3]
        # A shared side has the same rounding in both faces, so no line slips through.
        swap = (one[:, u] > two[:, u]) | ((one[:, u] == two[:, u]) & (one[:, v] > two[:, v]))
        a, b = np.where(swap[:, None], two, one), np.where(swap[:, None], one, two)
        side = (b[:, u] - a[:, u]) * (at_v - a[:, v]) - (b[:, v] - a[:, v]) * (at_u - a[:, u])
        weight.append(np.where(swap, -side, side))
    total = weight[0] + weight[1] + weight[2]
    within = ((weight[0] >= 0) & (weight[1] >= 0) & (weight[2] >= 0)) | (
        (weight[0] <= 0) & (weight[1] <= 0) & (weight[2] <= 0)
    )
    hit = np.flatnonzero(within & (total != 0))
    height = flat[face[hit], :, axis]
    x = weight[0][hit] * height[:, 0] + weight[1][hit] * height[:, 1] + weight[2][hit] * height[:, 2]
    x = np.clip(x / total[hit], height.min(axis=1), height.max(axis=1))
    step = np.clip(np.floor(x).astype(np.int64), 0, cells - 1)
    share, near = x - step, ROUNDING * cells
    both = np.concatenate((np.flatnonzero(share < near), np.flatnonzero(share > 1 - near)))
    moved = np.where(share[both] < near, -1, 1)
    step, hit = np.concatenate((step, step[both] + moved)), np.concatenate((hit, hit[both]))
    share = np.concatenate((share, np.where(moved < 0, 1.0, 0.0)))
    place = {axis: step, u: at_u[hit], v: at_v[hit]}
    points = cells + 1
    kept = (step >= 0) & (step < cells)
    edge = ((axis * points + place[2]) * points + place[1]) * points + place[0]
    return _Crossings(edge[kept], share[kept], face[hit][kept])


def _lattice(edge: Ints, points: int) -> tuple[Ints, Ints]:
    """Lower ends (n, 3) and axes (n,) of numbered edges."""
    rest, i = np.divmod(edge, points)
    rest, j = np.divmod(rest, points)
    axis, k = np.divmod(rest, points)
    return np.stack((i, j, k), axis=1), axis


def _inside(index: MeshDistance, at: Ints, axis: Ints, share: float | Floats, cells: int) -> npt.NDArray[np.bool_]:
    """Whether points on edges are inside."""
    unit = at.astype(np.float64)
    unit[np.arange(len(at)), axis] += share
    domain = index.mesh.domain
    return np.asarray(index.signed_distance(domain.origin + unit * (domain.length / cells)) < 0)


def _unit_normals(mesh: Mesh, face: Ints) -> Floats:
    normal = face_normals(mesh.domain.to_unit(mesh.vertices[mesh.faces[face]]).reshape(-1, 9))
    return np.asarray(normal / length(normal)[:, None])


def _cells(at: Ints, axis: Ints, share: Floats, cells: int) -> tuple[Ints, Floats]:
    """The cells (c, 3) around edges, and the means of their crossings, in the cell. No edge is on the domain's border,
    as the mesh is not."""
    rows, step = np.arange(len(at)), np.array([1, cells, cells * cells])
    number = at[:, 0] + step[1] * at[:, 1] + step[2] * at[:, 2]
    one, two = (axis + 1) % 3, (axis + 2) % 3
    around = [number - a * step[one] - b * step[two] for a, b in CORNERS]
    known = np.sort(np.concatenate(around))
    known = known[np.diff(known, prepend=-1) > 0]
    count, total = np.zeros(len(known)), np.zeros((len(known), 3))
    for (a, b), cell in zip(CORNERS, around, strict=True):
        which = np.searchsorted(known, cell)
        place = np.empty(at.shape)
        place[rows, axis], place[rows, one], place[rows, two] = share, a, b
        count += np.bincount(which, minlength=len(known))
        total += np.stack([np.bincount(which, values, minlength=len(known)) for values in place.T], axis=1)
    rest, i = np.divmod(known, cells)
    k, j = np.divmod(rest, cells)
    return np.stack((i, j, k), axis=1), total / count[:, None]
