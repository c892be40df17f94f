"""Benchmark for marching cubes by stage, on volumes of metaballs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.extract.marching_cubes import STAGES, extract, scan_share
from sdfcli.extract.metaballs import density
from sdfcli.extract.scan import Counts
from sdfcli.extract.sources import VolumeSource

SIZES = (128, 256, 512, 1024)
SIZES_CPU = (64, 128)
"""Nodes along an axis."""

BALLS, RADIUS = 40, 0.3
LEVEL = -0.5
"""Balls in the unit cube, their radius, and the surface's level, with the density negated."""

SEED = 1985


@dataclass(frozen=True)
class Row:
    """One volume, from and to the device's memory.

    nodes         along each axis.
    triangles     in the surface.
    milliseconds  median run, by the host's clock.
    stages        milliseconds by stage, medians, by the device's clock.
    scan_share    the two scans' share of the five stages.
    cell_scan     milliseconds of the first scan with a flag per cell, as in the paper: the library's, by median.
    """

    nodes: int
    triangles: int
    milliseconds: float
    stages: dict[str, float]
    scan_share: float
    cell_scan: float


def metaball_volume(backend: Backend, nodes: int) -> Array:
    """A volume (nodes, nodes, nodes) of BALLS metaballs, which do not touch its border."""
    centre = np.random.default_rng(SEED).uniform(RADIUS, 1 - RADIUS, (BALLS, 3))
    return density(backend, centre, RADIUS, 1 / (nodes - 1), (nodes, nodes, nodes))


def measure_surface(
    backend: Backend, sizes: Sequence[int], repeat: int, update: Callable[[str], None]
) -> Iterator[Row]:
    """A row per volume size: medians of `repeat` runs, after one warm-up run."""
    for nodes in sizes:
        update(f"{nodes} nodes along an axis")
        source = VolumeSource(metaball_volume(backend, nodes), LEVEL, 1 / (nodes - 1))
        whole, parts = [], []
        for _ in range(repeat + 1):
            seconds: dict[str, float] = {}
            backend.synchronize()
            start = time.perf_counter()
            surface = extract(source, [backend], to_host=False, seconds=seconds)
            backend.synchronize()
            whole.append(time.perf_counter() - start)
            parts.append(seconds)
        stages = {name: 1e3 * float(np.median([each[name] for each in parts[1:]])) for name in STAGES[:-1]}
        median = 1e3 * float(np.median(whole[1:]))
        yield Row(nodes, len(surface.faces), median, stages, scan_share(stages), _cell_scan(backend, nodes, repeat))


def _cell_scan(backend: Backend, nodes: int, repeat: int) -> float:
    """Milliseconds of a scan of one number per cell, by median."""
    flags, seconds = Counts(backend, (nodes - 1) ** 3), []
    for _ in range(repeat + 1):
        flags.values[:] = 0
        start = backend.record_event()
        flags.start()
        seconds.append(backend.elapsed(start, backend.record_event()))
    return 1e3 * float(np.median(seconds[1:]))
