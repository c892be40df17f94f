"""Counters of the thesis's Tables 4.1 to 4.4 without a profiler: loads counted by a kernel of our own."""

from __future__ import annotations

from collections.abc import Mapping

from sdfcli.apps.bench.ncu import Figures
from sdfcli.spatial.binary import Traffic


def figures(traffic: Traffic | None) -> Figures:
    """One launch's figures by name, as those of ncu.py; None for queries whose loads are not counted.

    active_threads_per_step  mean active threads per warp and step.
    warp_requests_min, _mean, _max  load requests per warp.
    """
    names = ("load_requests", "load_sectors", "sectors_per_request", "active_threads_per_step")
    if traffic is None:
        return dict.fromkeys((*names, "warp_requests_min", "warp_requests_mean", "warp_requests_max"))
    requests, sectors, steps, active = (
        int(count.sum()) for count in (traffic.requests, traffic.sectors, traffic.steps, traffic.active)
    )
    values = (float(requests), float(sectors), sectors / requests, active / steps if steps else None)
    return {
        **dict(zip(names, values, strict=True)),
        "warp_requests_min": float(traffic.requests.min()),
        "warp_requests_mean": requests / len(traffic.requests),
        "warp_requests_max": float(traffic.requests.max()),
    }


def with_times(seconds: Mapping[str, float], counted: Mapping[str, Traffic | None]) -> dict[str, Figures]:
    """Figures by query, with milliseconds."""
    return {query: {"ms": 1e3 * seconds[query], **figures(counted[query])} for query in seconds}
