"""Nearest-triangle queries of an octree's corners from several seeds, timed in turns and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sdfcli.apps.bench.turns import median_seconds
from sdfcli.backend import Array
from sdfcli.octree.corners import Corners
from sdfcli.params import QUERIES
from sdfcli.scene import Scene
from sdfcli.spatial.select import make_index

THESIS = (*QUERIES[1:], QUERIES[0])
"""The thesis's queries in its order, then our own."""

Starts = Mapping[str, Callable[[], Array | None]]
"""By a seed's name what makes its slots (m, s) uint32, or None, as for `DistanceIndex.nearest`, while it is timed."""


@dataclass(frozen=True)
class Seeded:
    """One query from one seed.

    query         of THESIS.
    seed          the seed's name.
    points        number of points.
    milliseconds  median of the repetitions.
    boxes, tests  mean numbers of boxes and triangles measured per point.
    """

    query: str
    seed: str
    points: int
    milliseconds: float
    boxes: float
    tests: float


def measure_seeds(scene: Scene, tree: Corners, starts: Callable[[Array], Starts], repeat: int) -> Iterator[Seeded]:
    """Each query of an octree's corners from each seed: all in turns, after one turn to warm up.

    starts: the seeds by name, given the nearest slots (m, 1) uint32 themselves.
    """
    backend, bvh, points = scene.backend, scene.bvh, tree.position
    indices = {query: make_index(backend, scene.order, query, bvh) for query in THESIS}
    seeds = starts(indices["fast"].nearest(points)[1].reshape(-1, 1))

    def asked(query: str, seed: str) -> Callable[[], object]:
        return lambda: indices[query].nearest_by_level(points, tree.near, tree.ends, seeds[seed]())

    cases = {(query, seed): asked(query, seed) for query in THESIS for seed in seeds}
    seconds = median_seconds(backend, cases, repeat)
    for query, seed in cases:
        counts = indices[query].visits(points, seeds[seed]())
        boxes, tests = (float(count.sum()) / len(points) for count in counts)
        yield Seeded(query, seed, len(points), 1e3 * seconds[query, seed], boxes, tests)
