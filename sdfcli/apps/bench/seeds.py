"""Nearest-triangle queries for an octree's corners from several seeds, timed in interleaved runs and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sdfcli.apps.bench.interleaved import median_seconds
from sdfcli.backend import Array
from sdfcli.octree.corners import Corners
from sdfcli.params import QUERIES
from sdfcli.scene import Scene
from sdfcli.spatial.select import make_index

THESIS = (*QUERIES[1:], QUERIES[0])
"""The thesis's queries in its order, then our own."""

Starts = Mapping[str, Callable[[], Array | None]]
"""Functions by seed name that return slots (m, s) uint32, or None, for `DistanceIndex.nearest`; their time counts."""


@dataclass(frozen=True)
class Seeded:
    """One query from one seed.

    query         in THESIS.
    seed          seed name.
    points        point count.
    milliseconds  median run.
    boxes, tests  mean box and triangle counts measured per point.
    """

    query: str
    seed: str
    points: int
    milliseconds: float
    boxes: float
    tests: float


def measure_seeds(scene: Scene, tree: Corners, starts: Callable[[Array], Starts], repeat: int) -> Iterator[Seeded]:
    """Each query for an octree's corners from each seed, in interleaved runs after one warm-up run.

    starts: returns the seeds by name for the nearest slots (m, 1) uint32.
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
