"""Benchmark for one mesh on one device: the thesis's pipeline stages and distance queries."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from statistics import median

from sdfcli.apps.bench.interleaved import median_seconds
from sdfcli.apps.bench.points import OCTREES, check_points, make_octree, make_points
from sdfcli.apps.bench.trees import build_tree, check_builder, quality
from sdfcli.backend import Backend
from sdfcli.backend.timing import Stages
from sdfcli.errors import UsageError
from sdfcli.mesh.mesh import Mesh
from sdfcli.octree.corners import sort_corners
from sdfcli.octree.density import measured
from sdfcli.params import MAX_DEPTH
from sdfcli.scene import Scene
from sdfcli.sign.choice import choose_sign
from sdfcli.spatial.binary import BinaryIndex, Traffic
from sdfcli.spatial.morton import curve_order
from sdfcli.spatial.select import make_index, walks_radix_tree

STAGES = ("morton", "sort", "tree", "refit", "octree", "query", "sign")
VARIANTS = {
    "baseline": "baseline",
    "soa": "soa",
    "cct": "cct",
    "vectors": "baseline, 16-byte loads",
    "deferred": "baseline, deferred",
    "components": "soa, complete",
    "fast": "fast",
}
"""Measured queries and their labels: the thesis's (see BinaryIndex), alternatives to them, and `fast`."""


class Workload:
    """The thesis's pipeline over a mesh, timed as a whole or query by query.

    points: in points.POINTS. depth: the queried octree's finest level. builder: in trees.BUILDERS, of the tree under
    the queries; stages are those of the radix tree.

    Raises UsageError for unknown points or an invalid depth.
    """

    def __init__(
        self, mesh: Mesh, backend: Backend, points: str = "octree", depth: int = 9, builder: str = "radix"
    ) -> None:
        check_points(points)
        check_builder(builder)
        if not 1 <= depth <= MAX_DEPTH:
            raise UsageError(f"--depth {depth}: use 1 to {MAX_DEPTH}")
        self.backend, self.depth, self.kind = backend, depth, points
        self.mesh, choice = choose_sign(mesh.on(backend), "auto")
        scene = Scene(backend, self.mesh, choice)
        self.order, self.builder = scene.order, builder
        self.bvh = scene.bvh if builder == "radix" else build_tree(backend, scene.order, builder)
        self.quality = quality(backend, self.bvh)
        self.signer, self.choice = scene.signer, scene.choice
        self.indices = {
            query: make_index(backend, self.order, query, self.bvh if walks_radix_tree(query) else None)
            for query in VARIANTS
        }
        if points in OCTREES:
            self.tree = make_octree(backend, self.order, points, depth)
            position, ends = self.tree.position, self.tree.ends
            _, place = sort_corners(backend, self.tree)
            self.points = backend.xp.empty_like(position)
            self.points[place] = position
            self.points_of_levels = [position[start:end] for start, end in pairwise([0, *ends]) if end > start]
        else:
            self.points = make_points(backend, self.mesh, points)

    def stages(self, query: str = "fast") -> dict[str, float]:
        """One run's seconds by stage, from triangles to signed distances on the device, without choosing the sign
        method.

        For points other than octree corners, sorts the points and builds no octree.
        """
        backend, on_octree = self.backend, self.kind in OCTREES
        stages = Stages()
        _ = self.mesh.on_device
        scene = Scene(
            backend, self.mesh, self.choice, query, trees_dominate=on_octree, signer=self.signer, stages=stages
        )
        if on_octree:
            order = scene.order
            with stages("octree", backend):
                measured(scene, lambda: make_octree(backend, order, self.kind, self.depth))
        else:
            self._measure_points(scene)
        seconds = stages.seconds()
        return {name: seconds.get(name, 0.0) for name in STAGES}

    def _measure_points(self, scene: Scene) -> None:
        backend, index = self.backend, scene.index
        with scene.stages("octree", backend):
            points = self.points[curve_order(backend, self.points)]
        with scene.stages("query", backend):
            distance, slot = index.nearest(points)
        with scene.stages("sign", backend):
            inside = scene.signer.inside_along(points, distance, slot)
            backend.xp.where(inside, -distance, distance)

    def stage_seconds(self, query: str, repeat: int) -> dict[str, float]:
        """`stages` medians over `repeat` runs, after one warm-up run; `total` is their sum."""
        self.stages(query)
        runs = [self.stages(query) for _ in range(repeat)]
        found = {name: median(run[name] for run in runs) for name in runs[0]}
        return {**found, "total": sum(found.values())}

    def tree_seconds(self, repeat: int) -> float:
        """Median seconds to build the tree under the queries from sorted triangles, after one warm-up run."""
        cases = {self.builder: partial(build_tree, self.backend, self.order, self.builder)}
        return median_seconds(self.backend, cases, repeat)[self.builder]

    def query(self, query: str) -> None:
        """Queries all points once. `fast` sorts unordered points first; a level's corners have candidates from previous
        levels."""
        index = self.indices[query]
        if self.kind == "levels" and index.by_level:
            index.nearest_by_level(self.tree.position, self.tree.near, self.tree.ends)
        elif self.kind == "levels":
            for points in self.points_of_levels:
                index.nearest(points)
        elif self.kind not in OCTREES:
            index.nearest_in_any_order(self.points)
        else:
            index.nearest(self.points)

    def query_seconds(self, queries: tuple[str, ...], repeat: int, skip: int = 1) -> dict[str, float]:
        """Median seconds over `repeat` interleaved launches per query, after `skip` warm-up launches."""
        return median_seconds(self.backend, {query: partial(self.query, query) for query in queries}, repeat, skip)

    def traffic(self, query: str) -> Traffic | None:
        """Loads of one launch for all points in the query's order; None for queries whose loads are not counted."""
        index = self.indices[query]
        return index.traffic(index.in_its_order(self.points)) if isinstance(index, BinaryIndex) else None

    def visits(self, query: str) -> tuple[float, float]:
        """Mean box and triangle counts tested per point, with the points in the query's order."""
        index = self.indices[query]
        parts = self.points_of_levels if self.kind == "levels" else [self.points]
        if self.kind not in OCTREES:
            parts = [index.in_its_order(self.points)]
        counts = [index.visits(part) for part in parts]
        boxes, tests = (sum(int(count.sum()) for count in counted) for counted in zip(*counts, strict=True))
        return boxes / len(self.points), tests / len(self.points)
