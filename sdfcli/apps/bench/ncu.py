"""NVIDIA Nsight Compute: command line, CSV, errors, and figures from its counters."""

from __future__ import annotations

import csv
import glob
import math
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sdfcli.errors import DeviceError, SdfError
from sdfcli.runtime import processes

KERNELS = {
    "baseline": ("sdf_distance_baseline",),
    "soa": ("sdf_distance_soa",),
    "cct": ("sdf_distance_cct",),
    "vectors": ("sdf_distance_vectors",),
    "deferred": ("sdf_distance_deferred",),
    "components": ("sdf_distance_components",),
    "fast": ("sdf_distance_packet", "sdf_distance_single"),
}
"""GPU kernels of the distance query variants; small point counts may use the second. `fast`'s samples
(sdf_distance_sample) are not counted."""

TIME = "gpu__time_duration.avg"
DRAM_SECTORS = "dram__sectors_read.sum"
LOAD_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
LOAD_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
ACTIVE_THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"
L1_HITS = "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct"
L2_HITS = "lts__t_sector_op_read_hit_rate.pct"
METRICS = (TIME, DRAM_SECTORS, LOAD_REQUESTS, LOAD_SECTORS, ACTIVE_THREADS, L1_HITS, L2_HITS)
"""The thesis's metrics (section 4.2.2), the mean active threads per warp, and the hit rates of both caches."""

REDUCED = ("dram_sectors", "load_requests", "load_sectors")
"""Figures with a reported reduction."""

PLACES = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")

REFUSALS = {
    "ERR_NVGPUCTRPERM": "the driver keeps its counters from this user (ERR_NVGPUCTRPERM): run as root, in a container "
    "with --cap-add SYS_ADMIN, or load the driver with NVreg_RestrictProfilingToAdminUsers=0",
    "Failed to initialize the profiler": "Nsight Compute cannot reach the driver: run it outside of the sandbox",
    "driver resource was unavailable": "another program holds the driver's counters: stop other profilers and DCGM",
}
"""Nsight Compute's messages for inaccessible counters, with remedies."""

MISSING = (
    "there is no ncu (NVIDIA Nsight Compute, part of the CUDA toolkit) on PATH, in /usr/local/cuda*/bin or in "
    "/opt/nvidia/nsight-compute: install it for the counters"
)


class NoCountersError(DeviceError):
    """Nsight Compute is missing or cannot read the GPU's counters."""


def find() -> str | None:
    """Program path, from PATH or else the newest installed by NVIDIA; None if missing."""
    found = [path for place in PLACES for path in glob.glob(place) if os.access(path, os.X_OK)]
    newest = max(found, key=lambda path: [int(n) for n in re.findall(r"\d+", os.path.realpath(path))], default=None)
    return shutil.which("ncu") or newest


def command(
    program: str,
    mesh: str,
    *,
    points: str,
    depth: int,
    device: str,
    skip: int,
    count: int,
    kernels: str | None = None,
    metrics: Sequence[str] = (),
) -> list[str]:
    """Command line, after the thesis (section 4.2.2).

    kernels: regular expression for pipeline kernels, instead of the variants' kernels. metrics: metrics in addition to
    METRICS. The target selects the launches by starting and stopping the profiler: the thesis's -s and -c count the
    launches of all kernels together.
    """
    pattern = f"^({'|'.join(name for names in KERNELS.values() for name in names)})$" if kernels is None else kernels
    wanted = ",".join(dict.fromkeys((*METRICS, *metrics)))
    profiler = [program, "--print-summary", "per-kernel", "-k", f"regex:{pattern}", "--page", "details", "--csv"]
    profiler += ["--print-units", "base", "--metrics", wanted, "--clock-control", "none"]
    profiler += ["--profile-from-start", "off", "--target-processes", "all"]
    target = [*processes.python("sdfcli.apps.bench.target"), "--points", points, "--depth", str(depth)]
    target += ["--device", device, "--skip", str(skip), "--count", str(count)]
    return [*profiler, *target, *(["--whole"] if kernels is not None else []), "--", mesh]


def failure(stdout: str, stderr: str, exit_code: int) -> SdfError | None:
    """A failed run's error: NoCountersError, the target's error with its type, or ncu's message. Without access to
    counters, the target completes uncounted."""
    lines = [*stdout.splitlines(), *stderr.splitlines()]
    output = "\n".join(lines)
    refused = next((meaning for words, meaning in REFUSALS.items() if words in output), None)
    if refused:
        return NoCountersError(refused)
    left = re.search(r"application returned an error code \((\d+)\)", output)
    if left:
        said = [line for line in stderr.splitlines() if line.strip() and not line.startswith("==")]
        kinds: dict[int, type[SdfError]] = {kind.exit_code: kind for kind in SdfError.__subclasses__()}
        return kinds.get(int(left[1]), SdfError)((said or [left[0]])[-1].removeprefix("sdfcli: "))
    if exit_code:
        errors = [line.removeprefix("==ERROR== ") for line in lines if line.startswith("==ERROR==")]
        return DeviceError("ncu: " + ("; ".join(dict.fromkeys(errors)) or f"exit code {exit_code}"))
    return None


class Row(NamedTuple):
    """CSV line: a metric's mean, minimum and maximum over a kernel's launches in one shape (block, grid, device)."""

    kernel: str
    shape: tuple[str, ...]
    launches: int
    metric: str
    value: float | None
    minimum: float | None
    maximum: float | None


_NEEDED = {"Kernel Name", "Invocations", "Metric Name", "Metric Unit", "Average"}
_SHAPE = ("Process ID", "Device", "Block Size", "Grid Size")


def csv_lines(output: str) -> list[str]:
    """CSV lines, header first, from ncu's and the target's output; empty without a CSV."""
    header: list[str] = []
    lines = []
    for line in output.splitlines():
        fields = next(csv.reader([line])) if line.startswith('"') else []
        if not header and set(fields) >= _NEEDED:
            header = fields
            lines.append(line)
        elif header and len(fields) == len(header) and fields != header:
            lines.append(line)
    return lines


def parse(lines: Sequence[str]) -> list[Row]:
    """CSV rows, by column name. Values are in seconds, sectors, requests, without prefixes."""

    def value(fields: dict[str, str], column: str) -> float | None:
        number = _number(fields.get(column, ""))
        return None if number is None else number * _factor(fields["Metric Unit"])

    return [
        Row(
            kernel=fields["Kernel Name"].split("(")[0].strip(),
            shape=tuple(fields.get(name, "") for name in _SHAPE),
            launches=int(_number(fields["Invocations"]) or 0),
            metric=fields["Metric Name"],
            value=value(fields, "Average"),
            minimum=value(fields, "Minimum"),
            maximum=value(fields, "Maximum"),
        )
        for fields in csv.DictReader(lines)
    ]


def _number(text: str) -> float | None:
    """Number with or without thousands separators; None for anything else, such as n/a."""
    plain = re.fullmatch(r"-?(\d{1,3}(,\d{3})+|\d+)(\.\d*)?(e[+-]?\d+)?", text.strip(), re.IGNORECASE)
    return float(plain[0].replace(",", "")) if plain else None


def _factor(unit: str) -> float:
    """Factor from a unit to its unprefixed form. ncu versions write ns, us, ms, s, or nsecond, usecond, msecond,
    second."""
    if time := re.fullmatch(r"([num]?)(s|second)", unit):
        return {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0}[time[1]]
    if count := re.fullmatch(r"([KMGT])(sector|request|inst|warp|cycle|byte)", unit):
        return {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[count[1]]
    return 1.0


@dataclass(frozen=True)
class Measured:
    """Kernel measurement: launch count; mean per launch, and (minimum, maximum), for metrics common to all launches."""

    launches: int
    metrics: dict[str, float]
    extremes: dict[str, tuple[float, float]]


def by_kernel(rows: Sequence[Row]) -> dict[str, Measured]:
    """Measurements by kernel, launch shapes merged, in first-row order."""
    measured = {}
    for kernel in dict.fromkeys(row.kernel for row in rows):
        own = [row for row in rows if row.kernel == kernel]
        launches = {row.shape: row.launches for row in own}
        total = sum(launches.values())
        metrics: dict[str, float] = {}
        extremes: dict[str, tuple[float, float]] = {}
        for metric in dict.fromkeys(row.metric for row in own):
            values = {row.shape: row.value for row in own if row.metric == metric and row.value is not None}
            if len(values) == len(launches) and total:
                metrics[metric] = sum(value * launches[shape] for shape, value in values.items()) / total
                known = [row for row in own if row.metric == metric]
                least = [row.minimum for row in known if row.minimum is not None]
                most = [row.maximum for row in known if row.maximum is not None]
                if least and most:
                    extremes[metric] = min(least), max(most)
        measured[kernel] = Measured(total, metrics, extremes)
    return measured


Figures = dict[str, float | None]
"""Figures per launch, by row names in thesis.py; None if not measured."""


def measured(variant: str, kernels: dict[str, Measured]) -> Measured | None:
    """A distance query variant's measurement."""
    return next((kernels[name] for name in KERNELS[variant] if name in kernels), None)


def figures(measured: Measured | None, others: Sequence[str] = ()) -> Figures:
    """Rows as in the thesis's Tables 4.1 to 4.4, active threads per warp, cache hit rates, the fastest and the slowest
    launch, and other metrics by name."""
    metrics = measured.metrics if measured else {}
    seconds, requests, sectors = (metrics.get(name) for name in (TIME, LOAD_REQUESTS, LOAD_SECTORS))
    least, most = measured.extremes.get(TIME, (None, None)) if measured else (None, None)
    return {
        "ms": None if seconds is None else seconds * 1e3,
        "dram_sectors": metrics.get(DRAM_SECTORS),
        "load_requests": requests,
        "load_sectors": sectors,
        "sectors_per_request": sectors / requests if sectors is not None and requests else None,
        "active_threads": metrics.get(ACTIVE_THREADS),
        "l1_hit_percent": metrics.get(L1_HITS),
        "l2_hit_percent": metrics.get(L2_HITS),
        "ms_min": least and least * 1e3,
        "ms_max": most and most * 1e3,
        **{name: metrics.get(name) for name in others},
    }


def reduction(before: float | None, after: float | None) -> float | None:
    """A figure's reduction in percent: the thesis's equations (4.1) and (4.2)."""
    return (1 - after / before) * 100 if before and after is not None else None


WARP, TRANSACTION, NODE, BOX = 32, 128, 32, 24
"""Threads per warp; bytes per transaction, Baseline node and SoA box."""


def transactions(size: int, p: float) -> float:
    """Transactions for a warp's access to `size` bytes per thread: the thesis's equations (3.1) and (3.2).

    p: probability that threads read neighbouring elements.
    """
    return p * math.ceil(WARP * size / TRANSACTION) + (1 - p) * WARP


def modelled_reduction(p: float) -> float:
    """Modelled transaction reduction from Baseline to SoA, in percent."""
    return (1 - transactions(BOX, p) / transactions(NODE, p)) * 100


def implied_p(percent: float | None) -> float | None:
    """The p with this modelled reduction; None if no probability gives it."""
    if percent is None or not 0 <= percent <= modelled_reduction(1):
        return None
    # WARP - p saved_by_soa = (1 - percent / 100) (WARP - p saved_by_aos), solved for p
    kept = 1 - percent / 100
    saved_by_aos, saved_by_soa = (WARP - transactions(size, 1) for size in (NODE, BOX))
    return WARP * (1 - kept) / (saved_by_soa - kept * saved_by_aos)


def compare(variants: Mapping[str, Figures]) -> dict[str, Any]:
    """Compares the variants' figures as in the thesis.

    speedup            each variant over Baseline.
    reduction_percent  each variant against Baseline: sectors read from DRAM, load requests, load sectors.
    model              transaction reduction from Baseline to SoA at p = 1, the measured load request reduction,
                       and the p that makes them equal, or None.
    """
    before = variants["baseline"]
    others = {name: variant for name, variant in variants.items() if name != "baseline"}
    speedup, reductions = {}, {}
    for name, after in others.items():
        ms = before.get("ms"), after.get("ms")
        speedup[name] = ms[0] / ms[1] if ms[0] is not None and ms[1] else None
        reductions[name] = {figure: reduction(before.get(figure), after.get(figure)) for figure in REDUCED}
    measured = reductions["soa"]["load_requests"]
    model = {"at_p_1": modelled_reduction(1), "measured": measured, "p": implied_p(measured)}
    return {"speedup": speedup, "reduction_percent": reductions, "model": model}
