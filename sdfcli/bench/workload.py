"""One mesh on one device, and the points at which its distance queries are compared."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from sdfcli.backend import Array, Backend
from sdfcli.backend.timing import Marks
from sdfcli.bench.points import OCTREES, check_points, make_octree, make_points, split_cells_of
from sdfcli.errors import UsageError
from sdfcli.mesh.mesh import Mesh
from sdfcli.octree.cells import Corners, corners_of, leaf_corners_of, leaves_of, place_corners, sort_corners
from sdfcli.octree.density import nearest_by_level, points_of
from sdfcli.params import MAX_DEPTH, QUERIES
from sdfcli.sign.choice import choose_sign, settle_sign
from sdfcli.spatial.index import nearest, nearest_in_any_order, order_of, prepare, visits
from sdfcli.spatial.morton import Order, curve_order, morton, sort
from sdfcli.spatial.packets import build_packets
from sdfcli.spatial.radix_tree import build_bvh, refit

STAGES = ("morton", "sort", "tree", "refit", "octree", "query", "sign")


class Workload:
    """The thesis's pipeline over a mesh, to be run and timed as a whole or query by query.

    points: one of bench.points.POINTS. depth: of the octree whose corners are queried.

    Raises UsageError for another word, or a depth out of range.
    """

    def __init__(self, mesh: Mesh, backend: Backend, points: str = "octree", depth: int = 9) -> None:
        check_points(points)
        if not 1 <= depth <= MAX_DEPTH:
            raise UsageError(f"--depth {depth}: use 1 to {MAX_DEPTH}")
        self.backend, self.depth, self.kind = backend, depth, points
        self.mesh, choice = choose_sign(mesh, "auto")
        self.triangles = backend.from_host(self.mesh.unit_triangles)
        self.order = sort(backend, self.triangles, morton(backend, self.triangles))
        self.bvh = refit(backend, build_bvh(backend, self.order))
        for query in QUERIES:
            self.bvh = prepare(backend, self.bvh, query)
        _, self.signer = settle_sign(backend, self.mesh, self.bvh, choice)
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
        """Runs the whole pipeline once, triangles on the device to signed distances on the device; seconds by stage.

        With other points than an octree's corners, there is no octree to build, and the points are sorted instead.
        """
        backend = self.backend
        stage = Marks(backend)
        with stage("morton"):
            keys = morton(backend, self.triangles)
        with stage("sort"):
            order = sort(backend, self.triangles, keys)
        if self.kind in OCTREES and query == "fast" and backend.warps:
            self._beside(stage, order)
        else:
            self._in_order(stage, order, query)
        seconds = stage.seconds()
        return {name: seconds[name] for name in STAGES}

    def _in_order(self, stage: Marks, order: Order, query: str) -> None:
        backend = self.backend
        with stage("tree"):
            bvh = build_bvh(backend, order)
        with stage("refit"):
            bvh = prepare(backend, refit(backend, bvh), query)
        with stage("octree"):
            if self.kind in OCTREES:
                tree = make_octree(backend, order, self.kind, self.depth)
                points, place = tree.position, self._stored(tree)
            else:
                points = self.points[curve_order(backend, self.points)]
        with stage("query"):
            distance, slot = nearest(backend, bvh, points, query=query)
        with stage("sign"):
            self.signer.rebuild(bvh)
            if self.kind in OCTREES:
                distance = self.signer.sign_corners(tree, distance, slot)
                place_corners(backend, place, distance, slot, order.triangle_id)
            else:
                inside = self.signer.inside_along(points, distance, slot)
                backend.xp.where(inside, -distance, distance)

    def _beside(self, stage: Marks, order: Order) -> None:
        """The same for backends with warps: the tree of the queries is built beside the octree, and beside the queries
        what signs need and what is stored. That part of their time on which nothing waits is in no stage."""
        backend = self.backend
        with stage("octree"):
            cells = split_cells_of(backend, order, self.kind, self.depth)
        with stage("tree"), backend.beside() as tree_done:
            packets = build_packets(backend, order)
        with stage("octree"):
            tree = corners_of(backend, points_of(backend, cells))
            octree_done = backend.mark()
        with stage("query"):
            tree_done()
            distance, slot = nearest_by_level(backend, packets, tree)
        with stage("refit"), backend.beside(octree_done) as signs_begin:
            bvh = refit(backend, build_bvh(backend, order))
            self.signer.rebuild(bvh)
            room = self.signer.caps and self.signer.caps.room(tree.position)
            place = self._stored(tree)
        with stage("sign"):
            signs_begin()
            distance = self.signer.sign_corners(tree, distance, slot, room)
            place_corners(backend, place, distance, slot, order.triangle_id)

    def _stored(self, tree: Corners) -> Array:
        """Works out what a field has beside distances. Returns the places of the corners."""
        _, place = sort_corners(self.backend, tree)
        _, _, leaf_child = leaves_of(self.backend, tree.cell)
        leaf_corners_of(self.backend, leaf_child, tree.point, place)
        return place

    def stage_seconds(self, query: str, repeat: int) -> dict[str, float]:
        """Medians of `stages` over `repeat` runs after one to warm up; `total` is the sum."""
        self.stages(query)
        runs = [self.stages(query) for _ in range(repeat)]
        found = {name: median(run[name] for run in runs) for name in runs[0]}
        return {**found, "total": sum(found.values())}

    def query(self, query: str) -> None:
        """Asks for all points, once. `fast` sorts points in any order first; what lies near the corners of a level is
        known from the levels before."""
        fast = query == "fast"
        if self.kind == "levels" and fast and self.bvh.packets is not None:
            nearest_by_level(self.backend, self.bvh.packets, self.tree)
        elif self.kind == "levels":
            for points in self.points_of_levels:
                nearest(self.backend, self.bvh, points, query=query)
        elif fast and self.kind not in OCTREES:
            nearest_in_any_order(self.backend, self.bvh, self.points)
        else:
            nearest(self.backend, self.bvh, self.points, query=query)

    def query_seconds(self, queries: tuple[str, ...], repeat: int, skip: int = 1) -> dict[str, float]:
        """Medians over `repeat` launches of each query after `skip` to warm up, in turns."""
        runs: dict[str, list[float]] = {query: [] for query in queries}
        for turn in range(skip + repeat):
            for query in queries:
                stage = Marks(self.backend)
                with stage(query):
                    self.query(query)
                if turn >= skip:
                    runs[query] += stage.seconds().values()
        return {query: median(seconds) for query, seconds in runs.items()}

    def visits(self, query: str) -> tuple[float, float]:
        """Boxes and triangles that a query measures a point, on average; points come in the order in which it asks."""
        parts = self.points_of_levels if self.kind == "levels" else [self.points]
        if query == "fast" and self.kind not in OCTREES:
            parts = [self.points[order_of(self.backend, self.bvh, self.points)]]
        counts = [visits(self.backend, self.bvh, part, query=query) for part in parts]
        boxes, tests = (sum(int(count.sum()) for count in counted) for counted in zip(*counts, strict=True))
        return boxes / len(self.points), tests / len(self.points)
