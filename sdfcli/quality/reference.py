"""ExactReference: float64 distances and winding numbers, independent of the build's code.

Tree (median splits instead of Morton order), point-triangle distance and sign are separate implementations; see
kernels/verify/exact.h.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, Group

Floats = npt.NDArray[np.float64]
Progress = Callable[[int, int], None]

CHUNK = 1 << 18
"""Points per launch."""

MOST_PER_LEAF = 8

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89)


def ray_directions() -> Floats:
    """Unit ray directions (8, 3) float64, one per octant.

    Square roots of different primes are linearly independent over the rationals, so no ray from a lattice point grazes
    an edge between lattice points.
    """
    octants = 1.0 - 2.0 * (np.arange(8)[:, None] >> np.arange(3) & 1)
    directions = octants * np.sqrt(np.reshape(PRIMES, (8, 3)))
    unit: Floats = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return unit


def weld(vertices: Floats) -> npt.NDArray[np.int64]:
    """Index (n,) int64, for each vertex, of a representative vertex at the same position."""
    order = np.lexsort(vertices.T)
    ordered = vertices[order]
    first = np.concatenate(([True], np.any(ordered[1:] != ordered[:-1], axis=1)))
    chosen = np.empty(len(vertices), np.int64)
    chosen[order] = order[first][np.cumsum(first) - 1]
    return chosen


def open_edges(corners: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The triangles' boundary: edges with unequal use counts in their two directions.

    corners: (m, 3) int64, vertex indices, below 2^31.

    Returns the edges (k, 2) int64, in the more frequent direction, and their excess uses (k,) int64 in it.
    """
    start, end = corners.ravel(), np.roll(corners, -1, axis=1).ravel()
    start, end = start[start != end], end[start != end]
    vertices = int(corners.max(initial=0)) + 1
    # One sort key per use: smaller vertex, larger vertex, direction.
    uses = np.sort((np.minimum(start, end) * vertices + np.maximum(start, end)) * 2 + (start > end))
    edge = uses >> 1
    first = np.flatnonzero(np.diff(edge, prepend=-1))
    excess = np.add.reduceat(1 - 2 * (uses & 1), first) if len(first) else np.zeros(0, np.int64)
    unbalanced = excess != 0
    ends = np.stack(np.divmod(edge[first[unbalanced]], vertices), axis=1)
    excess = excess[unbalanced]
    return np.where(excess[:, None] > 0, ends, ends[:, ::-1]), np.abs(excess)


def median_order(centroids: Floats, leaves: int) -> npt.NDArray[np.int64]:
    """Triangle order (m,) int64 in a complete binary tree by median splits.

    A node is split at the median along the longest axis of its centroids' box. `leaves` is a power of two that
    divides m.
    """
    order = np.arange(len(centroids))
    coordinates = np.ascontiguousarray(centroids.T, np.float32)  # precise enough to choose splits
    nodes = 1
    while nodes < leaves:
        parts = coordinates.reshape(3, nodes, -1)
        axis = np.argmax(parts.max(axis=2) - parts.min(axis=2), axis=0)
        along = parts[axis, np.arange(nodes)]
        size = along.shape[1]
        split = np.argpartition(along, size // 2, axis=1)
        split += size * np.arange(nodes)[:, None]
        order = order[split.ravel()]
        coordinates = np.take(coordinates, split.ravel(), axis=1)
        nodes *= 2
    return order


def tree_boxes(triangles: Floats, leaves: int) -> Floats:
    """Tree boxes (2 leaves - 1, 6) float64 over triangles in median order: lower, then upper corner."""
    parts = triangles.reshape(leaves, -1, 3)
    levels = [np.concatenate((parts.min(axis=1), parts.max(axis=1)), axis=1)]
    while len(levels[-1]) > 1:
        low, high = levels[-1][0::2], levels[-1][1::2]
        levels.append(np.concatenate((np.minimum(low, high)[:, :3], np.maximum(low, high)[:, 3:]), axis=1))
    return np.concatenate(levels[::-1])


def nearby_order(points: Floats) -> npt.NDArray[np.int64]:
    """Point order (n,) int64 by cells, so that consecutive points share cached nodes: twice as fast."""
    cell = np.clip(16 * points + 16, 0, 31).astype(np.uint16)
    return np.argsort(cell[:, 0] << 10 | cell[:, 1] << 5 | cell[:, 2], kind="stable")


class ExactReference:
    """Exact distances and winding numbers for any triangle mesh, including open and degenerate ones.

    Float64 rounding is the only error. Distances: a few times 1e-16 of the mesh's extent or the distance; near a
    triangle thinner than 1e-8 of its length, up to 5e-11 of that length. Winding numbers: exact on a closed surface,
    about 1e-12 on an open one, in time proportional to the open edge count.

    Kernels use coordinates minus `centre` (3,), over `extent`. tree, boundary: their ExactTree and ExactBoundary.
    """

    def __init__(self, vertices: npt.ArrayLike, faces: npt.ArrayLike, backend: Backend) -> None:
        """Builds the tree on the host and copies it to the device.

        vertices: (n, 3), finite, in any unit. faces: integers (m, 3), m >= 1, counter-clockwise seen from outside.

        Raises ValueError for other shapes, IndexError for nonexistent vertices.
        """
        vertices, faces = np.asarray(vertices, np.float64), np.asarray(faces, np.int64)
        if vertices.ndim != 2 or vertices.shape[1] != 3 or faces.ndim != 2 or faces.shape[1] != 3 or len(faces) == 0:
            raise ValueError(f"vertices {vertices.shape} and faces {faces.shape} must be (n, 3) and (m, 3), m >= 1")
        triangles = vertices[faces]
        axes = [triangles[..., k] for k in range(3)]  # faster than a reduction of rows
        low, high = (np.array([find(each) for each in axes]) for find in (np.min, np.max))
        self.centre = low + (high - low) / 2
        self.extent = float((high - low).max()) or 1.0
        self._backend = backend
        corners = self._normalised(vertices)
        self.tree = self._upload_tree(corners[faces])
        self.boundary = self._upload_boundary(corners, *open_edges(weld(vertices)[faces]))

    def distance(self, points: npt.ArrayLike, progress: Progress | None = None) -> Floats:
        """Unsigned distances (n,) float64 from points to the mesh, in its units.

        points: (n, 3), finite. progress: called with the point count done, and n.

        Raises ValueError unless points are (n, 3) finite numbers.
        """
        return self._in_chunks(self._distance, points, progress)

    def winding(self, points: npt.ArrayLike, progress: Progress | None = None) -> Floats:
        """Generalised winding numbers (n,) float64 of points: integers on a closed surface, 1 inside, 0 outside;
        undefined on the surface. Arguments and errors as for `distance`."""
        return self._in_chunks(self._winding, points, progress)

    def signed_distance(self, points: npt.ArrayLike, progress: Progress | None = None) -> Floats:
        """Distances (n,) float64, negative where the winding number is above 1/2. Arguments and errors as for
        `distance`."""
        return self._in_chunks(self._signed_distance, points, progress)

    def _normalised(self, points: Floats) -> Floats:
        normalised: Floats = (points - self.centre) / self.extent
        return normalised

    def _upload_tree(self, triangles: Floats) -> Group:
        leaves = 1
        while leaves * MOST_PER_LEAF < len(triangles):
            leaves *= 2
        leaf_size = -(-len(triangles) // leaves)
        # Padding: degenerate triangles at a surface point, which change no distance or winding number.
        filler = np.broadcast_to(triangles[0, 0], (leaves * leaf_size - len(triangles), 3, 3))
        triangles = np.concatenate((triangles, filler))
        triangles = triangles[median_order(triangles.mean(axis=1), leaves)]
        triangle, box = (self._backend.from_host(each) for each in (triangles, tree_boxes(triangles, leaves)))
        return self._backend.group("ExactTree", leaves=leaves, leaf_size=leaf_size, triangle=triangle, box=box)

    def _upload_boundary(
        self, corners: Floats, edges: npt.NDArray[np.int64], multiplicity: npt.NDArray[np.int64]
    ) -> Group:
        rays = ray_directions()
        return self._backend.group(
            "ExactBoundary",
            open_edges=len(edges),
            open_edge=self._backend.from_host(corners[edges]),
            multiplicity=self._backend.from_host(multiplicity, np.float64),
            rays=len(rays),
            ray=self._backend.from_host(rays),
        )

    def _distance(self, points: Array) -> Floats:
        distance = self._backend.xp.empty(len(points))
        self._backend.run("sdf_exact_distance", len(points), points=points, tree=self.tree, distance=distance)
        return self._backend.to_host(distance) * self.extent

    def _winding(self, points: Array) -> Floats:
        winding = self._backend.xp.empty(len(points))
        given = {"tree": self.tree, "boundary": self.boundary}
        self._backend.run("sdf_exact_winding", len(points), points=points, winding=winding, **given)
        return self._backend.to_host(winding)

    def _signed_distance(self, points: Array) -> Floats:
        distance = self._distance(points)
        return np.where(self._winding(points) > 0.5, -distance, distance)

    def _in_chunks(self, answer: Callable[[Array], Floats], points: npt.ArrayLike, progress: Progress | None) -> Floats:
        points = np.asarray(points, np.float64)
        if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
            raise ValueError(f"points {points.shape} must be finite, and (n, 3)")
        answers = np.empty(len(points))
        for first in range(0, len(points), CHUNK):
            chunk = self._normalised(points[first : first + CHUNK])
            order = nearby_order(chunk)
            answers[first + order] = answer(self._backend.from_host(chunk[order]))
            if progress:
                progress(first + len(chunk), len(points))
        return answers
