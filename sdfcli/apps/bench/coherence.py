"""Benchmark of frame coherence: distance queries that start from the earlier frame's nearest triangles.

The thesis (2.3.4, Algorithm 1) starts a query from the same corner's nearest triangle in the previous frame, and gives
no figure for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from statistics import geometric_mean
from typing import Any

import numpy as np

from sdfcli.apps.bench.motions import MOTIONS
from sdfcli.apps.bench.seeds import measure_seeds
from sdfcli.backend import Array, Backend
from sdfcli.errors import UsageError
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import Domain, Mesh
from sdfcli.octree.density import bvh_octree, measured
from sdfcli.params import MAX_DEPTH
from sdfcli.query.warm_start import WarmStart
from sdfcli.scene import Scene

MOVED = ("turn", "bend", "inflation")
AMOUNTS = (0.001, 0.01, 0.05)
"""Maximum displacements, as fractions of the diagonal."""
SEEDS = ("cold", "earlier", "exact")
"""Query seeds: none; the earlier frame's nearest triangle, lookup time included; the nearest triangle itself, without a
lookup, an upper bound for any earlier frame."""


@dataclass(frozen=True)
class Row:
    """One query for the thesis's octree corners over a moved mesh.

    motion        in MOVED, or `none`.
    amount        maximum displacement since the earlier frame, as a fraction of the diagonal.
    query, seed   in seeds.THESIS and SEEDS.
    points        corner count.
    milliseconds  median run.
    boxes, tests  mean box and triangle counts measured per point.
    """

    motion: str
    amount: float
    query: str
    seed: str
    points: int
    milliseconds: float
    boxes: float
    tests: float


def compare(
    mesh: Mesh, backend: Backend, depth: int, repeat: int = 5, progress: Callable[[str], None] | None = None
) -> Iterator[Row]:
    """All queries with all seeds, without motion and after each motion by each amount. The earlier frame is the mesh at
    rest. All frames share a domain.

    Raises UsageError for an invalid depth.
    """
    if not 1 <= depth <= MAX_DEPTH:
        raise UsageError(f"--depth {depth}: use 1 to {MAX_DEPTH}")
    cases = [("none", 0.0), *((motion, amount) for motion in MOVED for amount in AMOUNTS)]
    frames = [_moved(mesh, motion, amount) for motion, amount in cases]
    corners = np.concatenate([(frame.min(axis=0), frame.max(axis=0)) for frame in frames])
    domain = Domain.around(np.array([corners.min(axis=0), corners.max(axis=0)]))

    def scene_of(vertices: Floats) -> Scene:
        placed = make_mesh(vertices, mesh.faces).placed(domain, mesh.diagonal)
        return Scene.of(placed, "none", backend)

    rest = scene_of(mesh.vertices)
    before = measured(rest, lambda: bvh_octree(backend, rest.order, depth))
    for (motion, amount), vertices in zip(cases, frames, strict=True):
        if progress:
            progress(f"{motion} {100 * amount:g} %")
        scene = scene_of(vertices)
        yield from _compare_queries(
            scene, WarmStart.from_arrays(backend, scene.order, before), depth, repeat, motion, amount
        )


def _moved(mesh: Mesh, motion: str, amount: float) -> Floats:
    return MOTIONS[motion](mesh.vertices, amount * mesh.diagonal) if amount else mesh.vertices


def _compare_queries(
    scene: Scene, start: WarmStart, depth: int, repeat: int, motion: str, amount: float
) -> Iterator[Row]:
    """Rows for one moved mesh."""
    tree = bvh_octree(scene.backend, scene.order, depth)
    points = tree.position

    def starts(nearest: Array) -> dict[str, Callable[[], Array | None]]:
        return dict(zip(SEEDS, (lambda: None, lambda: start.seeds(points), lambda: nearest), strict=True))

    for found in measure_seeds(scene, tree, starts, repeat):
        yield Row(motion, amount, **asdict(found))


def lead(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Closer-child traversal's lead over baseline and its gain from coherence, by amount: geometric mean time ratios
    over the motions.

    Each row: `amount`; `cold`, `earlier`, `exact`: cct's speed-up over baseline with this seed; `gain`: cct's speed-up
    by the earlier frame's triangle over a cold start.
    """
    by_amount: dict[float, dict[str, dict[tuple[str, str], float]]] = {}
    for row in rows:
        by_amount.setdefault(row.amount, {}).setdefault(row.motion, {})[row.query, row.seed] = row.milliseconds
    return [
        {
            "amount": amount,
            **{
                seed: geometric_mean(times["baseline", seed] / times["cct", seed] for times in motions.values())
                for seed in SEEDS
            },
            "gain": geometric_mean(times["cct", "cold"] / times["cct", "earlier"] for times in motions.values()),
        }
        for amount, motions in by_amount.items()
    ]


def finding(leads: list[dict[str, Any]]) -> str:
    """One sentence on coherence's effect on closer-child traversal's lead over baseline. leads: from `lead`."""
    cold = geometric_mean(row["cold"] for row in leads)
    exact = geometric_mean(row["exact"] for row in leads)
    moved = ", ".join(f"{row['earlier']:.2f}x at {100 * row['amount']:g} %" for row in leads)
    fate = "is gone" if exact <= 1 else "shrinks" if exact < cold else "does not shrink"
    return (
        f"Closer-child traversal's lead over baseline {fate} with coherence: {cold:.2f}x cold; {moved} "
        f"from the earlier frame's triangle; {exact:.2f}x from the exact one."
    )
