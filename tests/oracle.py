"""Slow, simple float64 references for the kernels, independent of sdfcli's code."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.field.field import Field
from sdfcli.mesh.mesh import Domain

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

LATTICE_BITS = 20


def dot(a: Numbers, b: Numbers) -> Numbers:
    """Dot products over the last axis."""
    return np.asarray((a * b).sum(axis=-1))


def _over_length(vector: Numbers, length: Numbers) -> Numbers:
    return np.asarray(vector / np.where(length > 0, length, 1.0)[..., None])


def distances(points: Numbers, triangles: Numbers) -> Floats:
    """Distances (n, m) of points (n, 3) to triangles (m, 3, 3)."""
    return pair_distances(np.asarray(points)[:, None], np.asarray(triangles)[None])


def pseudonormals(triangles: Numbers, welded: Numbers) -> Floats:
    """Pseudonormals (f, 7, 3) of triangles (f, 3, 3) with vertex ids (f, 3): angle-weighted at a, b, c, at the edges
    ab, bc, ca, and of the triangle."""
    side = np.roll(triangles, -1, axis=1) - triangles
    normal = np.cross(side[:, 0], -side[:, 2])
    unit = _over_length(normal, np.linalg.norm(normal, axis=1))
    angle = np.arctan2(np.linalg.norm(normal, axis=1)[:, None], dot(side, -np.roll(side, 1, axis=1)))
    result = np.empty((len(triangles), 7, 3))
    result[:, 6] = unit
    ends = np.sort(np.stack([welded, np.roll(welded, -1, axis=1)], axis=2).reshape(-1, 2), axis=1)
    for first, numbers, weight in (
        (0, welded.ravel(), angle.ravel()),
        (3, np.unique(ends, axis=0, return_inverse=True)[1].ravel(), np.ones(3 * len(triangles))),
    ):
        total = np.zeros((numbers.max() + 1, 3))
        np.add.at(total, numbers, weight[:, None] * np.repeat(unit, 3, axis=0))
        result[:, first : first + 3] = total[numbers].reshape(-1, 3, 3)
    return result


def pair_distances(points: Numbers, triangles: Numbers) -> Floats:
    """Distances of points (..., 3) to triangles (..., 3, 3), broadcast.

    The nearest point of a triangle is a corner, the perpendicular foot on an edge's line if between its ends, or the
    foot on the plane if inside the triangle: the minimum over the existing ones of these seven. The foot on the plane
    is computed in plane coordinates with axes along ab and perpendicular to it (Gram-Schmidt).
    """
    p = np.asarray(points, np.float64)
    corner = np.asarray(triangles, np.float64)
    best = np.min([np.linalg.norm(p - corner[..., k, :], axis=-1) for k in range(3)], axis=0)
    for k in range(3):
        start, end = corner[..., k, :], corner[..., (k + 1) % 3, :]
        length = np.linalg.norm(end - start, axis=-1)
        along = _over_length(end - start, length)
        t = dot(p - start, along)
        off = np.linalg.norm(p - start - t[..., None] * along, axis=-1)
        best = np.where((length > 0) & (t > 0) & (t < length), np.minimum(best, off), best)
    a, b, c = (corner[..., k, :] for k in range(3))
    width = np.linalg.norm(b - a, axis=-1)
    x = _over_length(b - a, width)
    side = dot(c - a, x)
    across = c - a - side[..., None] * x
    height = np.linalg.norm(across, axis=-1)
    y = _over_length(across, height)
    px, py = dot(p - a, x), dot(p - a, y)
    flat = height <= 1e-12 * np.linalg.norm(c - a, axis=-1)
    w = py / np.where(flat, 1.0, height)
    v = (px - w * side) / np.where(width > 0, width, 1.0)
    off = np.linalg.norm(p - a - px[..., None] * x - py[..., None] * y, axis=-1)
    return np.asarray(np.where(~flat & (v >= 0) & (w >= 0) & (v + w <= 1), np.minimum(best, off), best))


def distance(points: Numbers, triangles: Numbers) -> Floats:
    """Each point's distance to the nearest triangle: (n,)."""
    parts = np.array_split(np.asarray(points), max(1, len(points) * len(triangles) // 200_000))
    return np.concatenate([distances(part, triangles).min(axis=1) for part in parts])


def pairs_within(points: Numbers, triangles: Numbers, reach: Numbers) -> tuple[Ints, Ints, Floats]:
    """All pairs of a point (n, 3) and a triangle (m, 3, 3) within the point's reach (n,): point, triangle and distance,
    (p,) each, sorted by point, distance and triangle.

    Boxes of 64 triangles, then of single ones, are tested against all points; triangles within reach, exactly.
    """
    together = 64
    middle = triangles.mean(axis=1)
    low, extent = middle.min(axis=0), np.ptp(middle, axis=0).max() or 1.0
    cell = (255 * (middle - low) / extent).astype(np.int64)
    code = sum((cell[:, axis] >> bit & 1) << (3 * bit + axis) for axis in range(3) for bit in range(8))
    order = np.argsort(code, kind="stable")
    lower, upper = triangles.min(axis=1), triangles.max(axis=1)
    starts = np.arange(0, len(order), together)
    box = np.minimum.reduceat(lower[order], starts), np.maximum.reduceat(upper[order], starts)
    found = []
    for part in np.array_split(np.arange(len(points)), max(1, len(points) * len(starts) // 4_000_000)):
        point, block = np.nonzero(_gaps(points[part, None], box[0], box[1]) <= reach[part, None])
        slot = together * np.repeat(block, together) + np.tile(np.arange(together), len(block))
        point = part[np.repeat(point, together)][slot < len(order)]
        face = order[slot[slot < len(order)]]
        near = _gaps(points[point], lower[face], upper[face]) <= reach[point]
        point, face = point[near], face[near]
        far = pair_distances(points[point], triangles[face])
        inside = far <= reach[point]
        found.append((point[inside], face[inside], far[inside]))
    point, face, far = (np.concatenate(column) for column in zip(*found, strict=True))
    row = np.lexsort((face, far, point))
    return point[row], face[row], far[row]


def _gaps(points: Numbers, low: Numbers, high: Numbers) -> Floats:
    """Distances of points to boxes, rounded slightly down."""
    total = 0.0
    for axis in range(3):
        p = points[..., axis]
        off = np.maximum(np.maximum(low[..., axis] - p, p - high[..., axis]), 0.0)
        total = total + off * off
    return np.asarray(np.sqrt(total) * (1 - 1e-12))


def winding(points: Numbers, triangles: Numbers) -> Floats:
    """Generalised winding number (n,): the sum of all solid angles (van Oosterom and Strackee 1983) over 4 pi."""
    corner, p = np.asarray(triangles, np.float64)[None], np.asarray(points, np.float64)[:, None]
    a, b, c = (corner[:, :, k] - p for k in range(3))
    la, lb, lc = (np.sqrt(dot(v, v)) for v in (a, b, c))
    angle = np.arctan2(dot(a, np.cross(b, c)), la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb)
    return np.asarray(angle.sum(axis=1) / (2 * np.pi))


def interleave(x: int, y: int, z: int) -> int:
    """Morton code bit by bit, x lowest."""
    return sum(((c >> bit) & 1) << (3 * bit + axis) for axis, c in enumerate((x, y, z)) for bit in range(21))


def deinterleave(key: int) -> tuple[int, int, int]:
    """The inverse of `interleave`."""
    x, y, z = (sum(((key >> (3 * bit + axis)) & 1) << bit for bit in range(22)) for axis in range(3))
    return x, y, z


def lattice(keys: Numbers) -> npt.NDArray[np.int64]:
    """Lattice coordinates (n, 3) of Morton codes: a vectorised `deinterleave`."""
    bits = np.asarray(keys, np.uint64)[:, None] >> np.arange(66, dtype=np.uint64).clip(max=63) & np.uint64(1)
    bits[:, 64:] = 0
    weight = 2 ** np.arange(22, dtype=np.int64)
    return np.stack([bits[:, axis::3].astype(np.int64) @ weight for axis in range(3)], axis=1)


def random_field(
    rng: np.random.Generator, splits: int, origin: npt.ArrayLike = 0.0, length: float = 1.0, deep: bool = False
) -> Field:
    """A field over an octree with randomly split cells and random values, which are not distances.

    deep: split the most recent cells first.
    """
    leaves = [(0, 0, 0, 0)]
    for _ in range(splits):
        x, y, z, level = leaves.pop(rng.integers(max(0, len(leaves) - 8) if deep else 0, len(leaves)))
        if level == 16:
            leaves.append((x, y, z, level))
        else:
            leaves += [(2 * x + i, 2 * y + j, 2 * z + k, level + 1) for i, j, k in np.ndindex(2, 2, 2)]
    sized = [(2 ** (LATTICE_BITS - level), level, x, y, z) for x, y, z, level in leaves]
    cells = sorted((interleave(size * x, size * y, size * z), level) for size, level, x, y, z in sized)
    corners = {
        interleave(size * (x + i), size * (y + j), size * (z + k))
        for size, _, x, y, z in sized
        for i, j, k in np.ndindex(2, 2, 2)
    }
    return Field(
        Domain(np.zeros(3) + origin, length),
        np.array([key for key, _ in cells], np.uint64),
        np.array([level for _, level in cells], np.uint8),
        np.array(sorted(corners), np.uint64),
        (length * rng.normal(size=len(corners))).astype(np.float32),
        {"note": "made for a test", "numbers": [1, 2.5, None]},
    )


class Trilinear:
    """A stored field, evaluated by brute force over all leaves per point and all corners per leaf."""

    def __init__(self, field: Any) -> None:
        self.origin, self.length = np.asarray(field.domain.origin, np.float64), float(field.domain.length)
        self.low = lattice(field.leaf_key)
        self.size = 2 ** (LATTICE_BITS - field.leaf_level.astype(np.int64))
        value = {tuple(at): float(d) for at, d in zip(lattice(field.corner_key).tolist(), field.distance, strict=True)}
        corners = self.low[:, None] + self.size[:, None, None] * np.array(
            [[c & 1, c >> 1 & 1, c >> 2] for c in range(8)]
        )
        self.corner = np.array([[value[tuple(at)] for at in leaf] for leaf in corners.tolist()])

    def leaf(self, points: Numbers) -> npt.NDArray[np.int64]:
        """The leaf that contains each point of the domain; at a common face the upper one."""
        u = np.clip(self._unit(points), 0, 1) * 2.0**LATTICE_BITS
        u = np.minimum(np.floor(u), 2**LATTICE_BITS - 1)[:, None]
        holds = ((u >= self.low) & (u < self.low + self.size[:, None])).all(axis=2)
        assert (holds.sum(axis=1) == 1).all()
        return np.asarray(holds.argmax(axis=1))

    def in_leaf(self, leaf: Numbers, points: Numbers) -> tuple[Floats, Floats]:
        """Values (n,) and gradients (n, 3) of the given leaves' polynomials at points of the domain."""
        return self._polynomial(leaf, self._unit(points))

    def __call__(self, points: Numbers) -> tuple[Floats, Floats]:
        """Values and gradients anywhere: outside the domain, the distance to the domain is added."""
        unit = self._unit(points)
        inside = np.clip(unit, 0, 1)
        beyond = unit - inside
        far = np.linalg.norm(beyond, axis=1)
        value, slope = self._polynomial(self.leaf(points), inside)
        away = beyond / np.where(far > 0, far, 1)[:, None]
        return value + far * self.length, np.where(beyond != 0, away, slope)

    def _unit(self, points: Numbers) -> Floats:
        return np.asarray((points - self.origin) / self.length)

    def _polynomial(self, leaf: Numbers, unit: Numbers) -> tuple[Floats, Floats]:
        t = (unit * 2.0**LATTICE_BITS - self.low[leaf]) / self.size[leaf, None]
        value, slope = np.zeros(len(unit)), np.zeros((len(unit), 3))
        for c in range(8):
            bits = [c & 1, c >> 1 & 1, c >> 2]
            weight = [t[:, k] if bits[k] else 1 - t[:, k] for k in range(3)]
            value += self.corner[leaf, c] * weight[0] * weight[1] * weight[2]
            for k in range(3):
                others = weight[(k + 1) % 3] * weight[(k + 2) % 3]
                slope[:, k] += self.corner[leaf, c] * others * (1 if bits[k] else -1)
        return value, slope / (self.length * 0.5**LATTICE_BITS * self.size[leaf, None])
