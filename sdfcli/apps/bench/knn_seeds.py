"""Benchmark for nearest-triangle queries that start from approximate nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sdfcli.apps.bench.box_encodings import Form
from sdfcli.apps.bench.seeds import Seeded, Starts, measure_seeds
from sdfcli.backend import Array, Backend
from sdfcli.errors import UsageError
from sdfcli.mesh.mesh import Mesh
from sdfcli.octree.density import bvh_octree
from sdfcli.params import MAX_DEPTH
from sdfcli.scene import Scene
from sdfcli.spatial.shifted_sort import default_shifts

SEEDS_FORM, SEEDS_K, SEEDS_SHIFTS = "ball", 2, default_shifts(4)
SEEDS = (
    "none",
    *(f"{each}{given}" for each in ("1 shift", f"{SEEDS_SHIFTS} shifts") for given in ("", ", given")),
    "exact",
)
"""Query seeds: none; SEEDS_K candidates in SEEDS_FORM along one curve or all, found within the measured time or given;
the nearest triangle, given."""


def compare_seeds(mesh: Mesh, backend: Backend, depth: int, repeat: int = 5) -> Iterator[Seeded]:
    """Queries from seeds.py with each seed in SEEDS, for the thesis's octree corners.

    Raises UsageError for an invalid depth.
    """
    if not 1 <= depth <= MAX_DEPTH:
        raise UsageError(f"--depth {depth}: use 1 to {MAX_DEPTH}")
    scene = Scene.of(mesh, "none", backend)
    form, tree = Form(scene, SEEDS_FORM), bvh_octree(backend, scene.order, depth)

    def slots(shifts: int | None) -> Array:
        return form.sort.candidates(form.queries(tree.position), SEEDS_K, shifts)[1]

    def starts(nearest: Array) -> Starts:
        one, all_of_them = slots(1), slots(None)
        made = (lambda: None, lambda: slots(1), lambda: one, lambda: slots(None), lambda: all_of_them, lambda: nearest)
        return dict(zip(SEEDS, made, strict=True))

    yield from measure_seeds(scene, tree, starts, repeat)


def finding(rows: Sequence[Seeded]) -> str:
    """One sentence on when an initial bound from kANN pays. rows: from `compare_seeds`."""
    times = {(row.query, row.seed): row.milliseconds for row in rows}
    gains: dict[bool, list[str]] = {True: [], False: []}
    for query in dict.fromkeys(query for query, _ in times):
        cold = times[query, "none"]
        gain, given = (max(cold / times[query, f"{seed}{end}"] for seed in SEEDS[1:4:2]) for end in ("", ", given"))
        exact = cold / times[query, "exact"]
        gains[gain > 1].append(f"{query} ({gain:.2f}x as fast; given {given:.2f}x, exact {exact:.2f}x)")
    parts = [
        f"{verb} {' and '.join(gains[pays])}"
        for pays, verb in ((True, "pays for"), (False, "does not pay for"))
        if gains[pays]
    ]
    return f"A first bound by kANN, its own time included, {', and '.join(parts)}."
