"""Directed Hausdorff distance between two meshes, bounded on both sides; docs/internals/hausdorff.md derives it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from sdfcli.backend import Array, Backend, C
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.mesh import Mesh
from sdfcli.octree.grown import Progress
from sdfcli.query.mesh_distance import MeshDistance

FLOOR = 1e-6
"""Minimum interval width, relative to the diagonal around both meshes: nearest faces come from float32 queries, with
errors up to a few times 1e-7."""

SMALLEST = 1e-7
"""Parts with shorter edges than this, in frame units, are not divided."""

SLACK = 2e-10
"""Allowance for a distance's rounding error, in frame units: up to 5e-11 for slivers (see ExactReference)."""

EXACT_FROM = 0.1
"""A farther point is measured exactly at once if it raises the lower bound by this share of the interval's width;
otherwise at the end."""

FAR_OUT = 1024.0
"""Maximum coordinate, in diagonals, up to which a frame only scales coordinates, by a power of two, which is exact;
above, it also moves them to the origin."""

CHUNK = 1 << 16
"""Parts divided per round."""

POINTS = 1 << 20
"""Vertices and faces per launch."""

MOST_OPEN = 1 << 22
"""Maximum part count in memory, some 110 bytes each; above it, the latest parts are divided first."""

Place = Callable[[int], tuple[Floats, int]]
"""Gives a point's position (3,) and face, by its index among several."""


@dataclass(frozen=True)
class Directed:
    """The largest distance from one mesh's points to another mesh, in mesh units, between two bounds.

    Attributes:
        lower: distance at `point`, rounded down.
        upper: no point is farther.
        point: (3,), on the first mesh.
        face: the first mesh's face with that point.
        nearest: (3,), the second mesh's point nearest to it.
        nearest_face: the second mesh's face with that point.
        parts: faces and their parts examined.
    """

    lower: float
    upper: float
    point: tuple[float, float, float]
    face: int
    nearest: tuple[float, float, float]
    nearest_face: int
    parts: int


class Frame(NamedTuple):
    """A comparison's coordinates: (position - centre) / scale. `scale` is a power of two, at least the diagonal around
    both meshes; `diagonal` is that diagonal, in these coordinates."""

    centre: Floats
    scale: float
    diagonal: float

    @classmethod
    def around(cls, *meshes: Mesh) -> Frame:
        """The frame for some meshes."""
        low = np.min([mesh.bounds[0] for mesh in meshes], axis=0)
        high = np.max([mesh.bounds[1] for mesh in meshes], axis=0)
        diagonal = math.hypot(*(high - low).tolist())
        scale = 2.0 ** math.ceil(math.log2(diagonal))
        exact = max(np.abs(low).max(), np.abs(high).max()) <= FAR_OUT * diagonal
        return cls(np.zeros(3) if exact else low + (high - low) / 2, scale, diagonal / scale)

    @property
    def exact(self) -> bool:
        """Whether coordinates are not rounded."""
        return not self.centre.any()


class Located:
    """A mesh in a frame, on a device. distance: its exact distances."""

    def __init__(self, distance: MeshDistance, frame: Frame) -> None:
        self.distance, self.frame, self.mesh = distance, frame, distance.mesh
        self.backend: Backend = distance._backend
        self.vertex = self.backend.from_host((self.mesh.vertices - frame.centre) / frame.scale)
        self.face = self.backend.from_host(self.mesh.faces, np.uint32)
        self.target = self.backend.group(
            "PatchTarget",
            vertices=len(self.vertex),
            faces=len(self.face),
            vertex=self.vertex,
            face=self.face,
            slack=SLACK,
        )

    def nearest(self, points: Array) -> Array:
        """Nearest faces (n,) uint32 to points (n, 3), by float32 queries."""
        frame, xp = self.frame, self.backend.xp
        at = points * frame.scale
        if not frame.exact:
            at += xp.asarray(frame.centre)
        return self.distance._nearest_faces(at)

    def distances(self, points: Array, near: Array) -> Array:
        """Distances (n,) from points (n, 3) to a face (n,) each."""
        distance = self.backend.xp.empty(len(points))
        self.backend.run("sdf_patch_near", len(points), points=points, near=near, target=self.target, distance=distance)
        return distance

    def measured(self, points: Floats) -> Floats:
        """Distances (n,) from points (n, 3), both in mesh units on the host, to the faces that float32 queries find."""
        found = np.empty(len(points))
        for first in range(0, len(points), POINTS):
            part = slice(first, first + POINTS)
            there = self.backend.from_host((points[part] - self.frame.centre) / self.frame.scale)
            found[part] = self.backend.to_host(self.distances(there, self.nearest(there)))
        return found * self.frame.scale

    def exact(self, point: Floats, known: float) -> tuple[float, int]:
        """Distance from a point (3,) to the mesh, and the nearest face, among all faces. known: distance to a face."""
        runs = -(-len(self.face) // C.PATCH_RUN)
        squared, near = self.backend.xp.empty(runs), self.backend.xp.empty(runs, np.uint32)
        above = (known * (1 + 1e-9)) ** 2 + 1e-300
        arrays = {"target": self.target, "distance_sq": squared, "near": near}
        x, y, z = point.tolist()
        self.backend.run("sdf_patch_exact", runs, x=x, y=y, z=z, known=above, **arrays)
        least, faces = self.backend.to_host(squared), self.backend.to_host(near)
        least = np.where(faces == C.NONE, np.inf, least)
        best = int(np.argmin(least))
        return math.sqrt(least[best]), int(faces[best])


class Patches(NamedTuple):
    """Triangles, parts of faces, whose bound is too large.

    corner  (k, 9) float64, on the device.
    near    (k, 2) uint32, on the device: nearby faces, the one nearest to the centroid first.
    root    (k,) uint32: the face.
    bound   (k,) float64: no point of the part is farther.
    """

    corner: Array
    near: Array
    root: Ints
    bound: Floats


class Bounded(NamedTuple):
    """Results of a launch: distances at centroids, bounds, and longest edges, (n,) each."""

    found: Floats
    bound: Floats
    size: Floats


class _Search:
    """Branch and bound over the faces of `source`. within: relative interval width; decide: a distance, in mesh units,
    that the interval shall exclude."""

    def __init__(
        self, source: Located, target: Located, within: float, decide: float | None, progress: Progress
    ) -> None:
        self.source, self.target, self.within, self.progress = source, target, within, progress
        self.backend, self.frame = target.backend, target.frame
        self.decide = None if decide is None else decide / self.frame.scale * (1 - 1e-14)
        self.floor = FLOOR * self.frame.diagonal
        self.lower, self.upper, self.parts, self.divided = -1.0, 0.0, 0, False
        self.point, self.face, self.nearest_face = np.zeros(3), 0, 0
        self.later: tuple[float, Floats, int] | None = None  # a farther point, not measured exactly
        self.pool: list[Patches] = []

    @property
    def limit(self) -> float:
        """Bounds above it are improved."""
        limit = max(self.lower * (1 + self.within), self.lower + self.floor)
        if self.decide is not None and self.lower <= self.decide < limit + 4 * SLACK:
            return max(self.decide - 4 * SLACK, self.lower + self.floor / 2)
        return limit

    def run(self) -> None:
        """Bounds the distance."""
        backend, vertex, face = self.backend, self.source.vertex, self.source.face
        near = backend.xp.empty(len(vertex), np.uint32)
        for first in range(0, len(vertex), POINTS):
            self.progress(f"{first:,} of {len(vertex):,} vertices")
            part = slice(first, first + POINTS)
            near[part] = self.target.nearest(vertex[part])
            found = backend.to_host(self.target.distances(vertex[part], near[part]))
            self.raise_lower(found, partial(self._vertex, first))
        roots = []
        for first in range(0, len(face), POINTS):
            part = face[first : first + POINTS]
            corner, around = backend.taken(vertex, part.reshape(-1)), backend.taken(near, part.reshape(-1))
            bounded = self.bounded(corner.reshape(-1, 9), around.reshape(-1, 3))
            chosen = self.open(bounded)
            roots.append((first + chosen, bounded.bound[chosen]))
        numbers, bounds = (np.concatenate(each) for each in zip(*roots, strict=True))
        order = np.argsort(-bounds, kind="stable")
        self.descend(numbers[order], bounds[order], near)
        self.finish()

    def _vertex(self, first: int, k: int) -> tuple[Floats, int]:
        """Vertex first + k: its position, and a face with it."""
        number = first + k
        position = self.backend.to_host(self.source.vertex[number])
        return position, int(np.flatnonzero((self.source.mesh.faces == number).any(axis=1))[0])

    def descend(self, numbers: Ints, bounds: Floats, near: Array) -> None:
        """Divides faces (n,) with bounds (n,) in descending order, and their parts. near: face by vertex."""
        start = 0
        while True:
            limit = self.limit
            if start < len(numbers) and bounds[start] <= limit:
                self.close(bounds[start])  # the largest of the rest
                start = len(numbers)
            ahead = bounds[start] if start < len(numbers) else -1.0
            held = sum(len(each.bound) for each in self.pool)
            if held > MOST_OPEN:
                chosen = [self.pool.pop()]
            elif ahead >= max((each.bound.max() for each in self.pool), default=-1.0):
                if start >= len(numbers):
                    return
                part = slice(start, start + CHUNK)
                self.begin(numbers[part], bounds[part], near)
                start += CHUNK
                continue
            else:
                self.pool.sort(key=lambda each: float(each.bound.max()))
                chosen = [self.pool.pop()]
                while self.pool and sum(len(each.bound) for each in chosen) < CHUNK:
                    chosen.append(self.pool.pop())
            self.split(self.joined(chosen))
            self.progress(
                f"between {self.lower * self.frame.scale:.4g} and "
                f"{max(ahead, limit, *(each.bound.max(initial=0.0) for each in self.pool), 0.0) * self.frame.scale:.4g}"
                f", {held + len(numbers) - min(start, len(numbers)):,} parts of faces left"
            )

    def joined(self, chosen: list[Patches]) -> Patches:
        """Several lists as one, without parts that are within the limit by now."""
        xp, limit, kept = self.backend.xp, self.limit, []
        for each in chosen:
            above = each.bound > limit
            self.close(each.bound[~above].max(initial=0.0))
            kept.append(each if above.all() else self.taken(each, np.flatnonzero(above)))
        return Patches(
            xp.concatenate([each.corner for each in kept]),
            xp.concatenate([each.near for each in kept]),
            np.concatenate([each.root for each in kept]),
            np.concatenate([each.bound for each in kept]),
        )

    def taken(self, patches: Patches, number: Ints) -> Patches:
        """Some of the parts."""
        there = self.backend.from_host(number, np.uint32)
        corner, near = (self.backend.taken(each, there) for each in (patches.corner, patches.near))
        return Patches(corner, near, patches.root[number], patches.bound[number])

    def begin(self, numbers: Ints, bounds: Floats, near: Array) -> None:
        """Bounds whole faces (n,) again, with the faces nearest to their centroids."""
        backend = self.backend
        there = backend.from_host(numbers, np.uint32)
        face = backend.taken(self.source.face, there).reshape(-1)
        corner = backend.taken(self.source.vertex, face).reshape(-1, 9)
        around = backend.taken(near, face).reshape(-1, 3)
        self.examine(corner, [around], numbers, bounds)

    def examine(self, corner: Array, others: list[Array], root: Ints, above: Floats) -> None:
        """Bounds triangles (n, 9), and adds those above the limit to the pool. others: nearby faces (n, k)."""
        xp = self.backend.xp
        own = self.target.nearest((corner[:, :3] + corner[:, 3:6] + corner[:, 6:]) * (1.0 / 3.0))
        near = xp.concatenate([own[:, None], *others], axis=1)
        bounded = self.bounded(corner, near, above)

        def middle(k: int) -> tuple[Floats, int]:
            a, b, c = self.backend.to_host(corner[k]).reshape(3, 3)
            return (a + b + c) * (1.0 / 3.0), int(root[k])

        self.raise_lower(bounded.found, middle)
        chosen = self.open(bounded)
        chosen = chosen[np.argsort(-bounded.bound[chosen], kind="stable")]
        patches = Patches(corner, xp.ascontiguousarray(near[:, :2]), root, bounded.bound)
        for first in range(0, len(chosen), CHUNK):
            self.pool.append(self.taken(patches, chosen[first : first + CHUNK]))

    def bounded(self, corner: Array, near: Array, above: Floats | None = None) -> Bounded:
        """Bounds triangles (n, 9) by nearby faces (n, k)."""
        backend, n = self.backend, len(corner)
        found, bound, size = backend.xp.empty(n), backend.xp.empty(n), backend.xp.empty(n)
        backend.run(
            "sdf_patch_bound",
            n,
            candidates=near.shape[1],
            corner=corner,
            near=near,
            above=None if above is None else backend.from_host(above),
            limit=self.limit,
            target=self.target.target,
            found=None if above is None else found,
            bound=bound,
            size=size,
        )
        self.parts += n
        return Bounded(*map(backend.to_host, (found, bound, size)))

    def open(self, bounded: Bounded) -> Ints:
        """Indices of triangles to divide; the others are closed."""
        above = (bounded.bound > self.limit) & (bounded.size > SMALLEST)
        self.close(bounded.bound[~above].max(initial=0.0))
        return np.flatnonzero(above)

    def split(self, patches: Patches) -> None:
        """Divides triangles, and examines their parts."""
        backend, n = self.backend, len(patches.bound)
        if n == 0:
            return
        self.divided = True
        part = backend.xp.empty((n, C.PATCH_PARTS, 9))
        count, closed = backend.xp.empty(n, np.uint32), backend.xp.empty(n)
        backend.run(
            "sdf_patch_split",
            n,
            corner=patches.corner,
            near=patches.near,
            target=self.target.target,
            limit=self.limit,
            part=part,
            count=count,
            closed=closed,
        )
        self.close(float(backend.to_host(closed).max()))
        number = backend.to_host(count)
        parent = np.repeat(np.arange(n, dtype=np.uint32), number)
        rank = np.arange(len(parent), dtype=np.uint32) - np.repeat(np.cumsum(number) - number, number).astype(np.uint32)
        corner = backend.taken(part.reshape(-1, 9), backend.from_host(C.PATCH_PARTS * parent + rank))
        first = backend.xp.ascontiguousarray(patches.near[:, :1])
        before = backend.taken(first, backend.from_host(parent))
        self.examine(corner, [before], patches.root[parent], patches.bound[parent])

    def close(self, bound: float) -> None:
        """Records a bound for parts that are not divided."""
        self.upper = max(self.upper, float(bound))

    def raise_lower(self, found: Floats, place: Place) -> None:
        """Raises the lower bound to the largest of distances (n,) to given faces, if larger."""
        k = int(np.argmax(found)) if len(found) else -1
        known = float(found[k]) if len(found) else -1.0
        if known <= max(self.lower, self.later[0] if self.later else -1.0):
            return
        point, face = place(k)
        self.later = (known, point, face)
        if self.lower < 0 or known - self.lower > EXACT_FROM * (self.limit - self.lower):
            self.measure()

    def measure(self) -> None:
        """Measures the farther point exactly."""
        if self.later is None:
            return
        known, point, face = self.later
        self.later = None
        distance, near = self.target.exact(point, known)
        if distance > self.lower:
            self.lower, self.point, self.face, self.nearest_face = distance, point, face, near

    def finish(self) -> None:
        """Rounds both bounds away from the distance."""
        self.measure()
        zero = self.upper == 0.0 and self.frame.exact and not self.divided
        self.lower = max(0.0, self.lower - SLACK)
        self.upper = 0.0 if zero else max(self.upper, self.lower) + 2 * SLACK


def directed(source: Located, target: Located, within: float, decide: float | None, progress: Progress) -> Directed:
    """The largest distance from a mesh's points to another mesh, as an interval with the relative width `within`, or
    FLOOR times the diagonal around both meshes if wider. decide: a distance, in mesh units; the interval is narrowed
    until it excludes this distance, down to float32 resolution."""
    search = _Search(source, target, within, decide, progress)
    search.run()
    frame = search.frame
    point = search.point * frame.scale + frame.centre
    nearest = nearest_on(target.mesh, search.nearest_face, point)
    return Directed(
        lower=search.lower * frame.scale * (1 - 4e-16),
        upper=search.upper * frame.scale * (1 + 4e-16),
        point=(float(point[0]), float(point[1]), float(point[2])),
        face=search.face,
        nearest=(float(nearest[0]), float(nearest[1]), float(nearest[2])),
        nearest_face=search.nearest_face,
        parts=search.parts,
    )


def nearest_on(mesh: Mesh, face: int, point: Floats) -> Floats:
    """The point (3,) on a face nearest to a point (3,)."""
    a, b, c = mesh.vertices[mesh.faces[face]]
    found = []
    for start, end in ((a, b), (b, c), (c, a)):
        way = end - start
        size = np.abs(way).max() or 1.0
        along = way / size
        share = float(np.clip(along @ ((point - start) / size) / ((along @ along) or 1.0), 0.0, 1.0))
        found.append(start + share * way)
    size = max(np.abs(b - a).max(), np.abs(c - a).max()) or 1.0
    u, v = (b - a) / size, (c - a) / size
    normal = np.cross(u, v)
    squared = float(normal @ normal)
    if squared > 0:
        offset = (point - a) / size
        t, s = normal @ np.cross(u, offset) / squared, normal @ np.cross(offset, v) / squared
        if t >= 0 and s >= 0 and s + t <= 1:
            found.append(a + s * (b - a) + t * (c - a))
    return np.asarray(min(found, key=lambda each: float((((each - point) / size) ** 2).sum())))
