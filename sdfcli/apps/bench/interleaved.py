"""Medians over interleaved timed runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import TypeVar

from sdfcli.backend import Backend
from sdfcli.backend.timing import Stages

Case = TypeVar("Case")


def median_seconds(
    backend: Backend, cases: Mapping[Case, Callable[[], object]], repeat: int, skip: int = 1
) -> dict[Case, float]:
    """Median seconds per case over `repeat` interleaved runs by the device's clock, after `skip` warm-up runs."""
    seconds: dict[Case, list[float]] = {case: [] for case in cases}
    for turn in range(skip + repeat):
        for case, run in cases.items():
            stages = Stages()
            with stages("run", backend):
                run()
            if turn >= skip:
                seconds[case].append(stages.seconds()["run"])
    return {case: median(runs) for case, runs in seconds.items()}
