"""`sdfcli profile`: the distance kernels' hardware counters, by Nsight Compute."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.output import print_json, print_table, progress, say, show, standard_output
from sdfcli.cli.records import ABSENT, Line, Rule, one_of
from sdfcli.errors import DeviceError, UsageError
from sdfcli.params import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable

    from sdfcli.apps.bench.ncu import Figures
    from sdfcli.backend import Backend
    from sdfcli.mesh.mesh import Mesh

TITLES = {
    "baseline": "Baseline",
    "soa": "SoA",
    "cct": "SoA+CCT",
    "vectors": "Baseline, 16 B",
    "deferred": "deferred",
    "components": "complete SoA",
    "fast": "fast",
}
LABELS = {
    "ms": "time, ms",
    "dram_sectors": "DRAM sectors read",
    "load_requests": "L1 load requests",
    "load_sectors": "L1 load sectors",
    "sectors_per_request": "sectors a request",
    "active_threads": "active threads a warp",
    "active_threads_per_step": "active threads a step",
    "l1_hit_percent": "L1 hit rate of loads, %",
    "l2_hit_percent": "L2 hit rate of reads, %",
    "ms_min": "least time, ms",
    "ms_max": "most time, ms",
    "warp_requests_min": "requests a warp, least",
    "warp_requests_mean": "requests a warp, mean",
    "warp_requests_max": "requests a warp, most",
}
HEADINGS = {
    "ms": "ms",
    "dram_sectors": "DRAM\nsectors",
    "load_requests": "L1\nrequests",
    "load_sectors": "L1\nsectors",
    "sectors_per_request": "sectors a\nrequest",
    "active_threads": "active\nthreads",
    "l1_hit_percent": "L1 hit\n%",
    "l2_hit_percent": "L2 hit\n%",
    "ms_min": "least\nms",
    "ms_max": "most\nms",
}


MeshFile = Annotated[
    Path,
    typer.Argument(
        metavar="MESH|flow[:LAYOUT]",
        help="Triangle mesh, or particle time steps: flow:compact, flow:bucket or flow:index.",
    ),
]
Depth = Annotated[int, typer.Option(min=1, max=MAX_DEPTH, help="Octree level of the query points.")]
KernelName = Annotated[
    str | None,
    typer.Option("--kernel-name", "-k", help="Regular expression: profile matching kernels of the whole pipeline."),
]
Metrics = Annotated[list[str] | None, typer.Option(help="Further Nsight Compute metrics, comma-separated or repeated.")]
Skip = Annotated[int, typer.Option(min=0, help="Uncounted warm-up launches per kernel (with -k: pipeline runs).")]
Count = Annotated[int, typer.Option(min=1, help="Counted launches per kernel (with -k: pipeline runs).")]
Csv = Annotated[Path | None, typer.Option(help="CSV file with Nsight Compute's rows.")]
Gpu = Annotated[str, typer.Option(**options.words("cuda", others="cuda:N"), help="GPU; with --loads also cpu.")]
Loads = Annotated[
    bool,
    typer.Option("--loads", help="Count load requests and sectors by sdfcli's own kernel, without Nsight Compute."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the ncu command line and stop.")]


class Planned(Line, title="profile --dry-run", shared="input"):
    """One line."""

    command: Annotated[list[str], "the command line that would be run"]


AT_LEAST_0 = Rule(minimum=0)
Named = dict[str, float | None]


class Profiled(Line, title="profile", shared="input device"):
    """One line, with `variants` or `kernels`: figures by name."""

    repeat: Annotated[int, AT_LEAST_0, "counted launches"]
    measured_by: Annotated[str, one_of("ncu", "events"), "Nsight Compute, or events and a kernel that counts loads"]
    triangles: Annotated[int, AT_LEAST_0, "mesh triangles; not for `flow:LAYOUT`"] = ABSENT
    points: Annotated[str | None, "`--points`; not for `flow:LAYOUT`"] = None
    depth: Annotated[int | None, AT_LEAST_0, "`--depth`; not for `flow:LAYOUT`"] = None
    particles: Annotated[int | None, AT_LEAST_0, "particle count; for `flow:LAYOUT`"] = None
    variants: Annotated[dict[str, Named] | None, "figures by query variant"] = None
    speedup: Annotated[Named | None, "speed-up over `baseline`, by variant"] = None
    reduction_percent: Annotated[dict[str, Named] | None, "reduction against `baseline`, in percent, by variant"] = None
    model: Annotated[
        Named | None,
        "transaction reduction from `baseline` to `soa`, in percent: the thesis's model `at_p_1`, `measured` load "
        "requests, and the model's `p` at which both agree, or null",
    ] = None
    thesis: Annotated[dict[str, Any] | None, "the thesis's figures for this mesh; null if it has none"] = ABSENT
    kernels: Annotated[dict[str, Named] | None, "`launches`, and figures per launch, by kernel"] = None


def profile(
    mesh: MeshFile,
    points: options.Points = "octree",
    depth: Depth = 9,
    kernel_name: KernelName = None,
    metrics: Metrics = None,
    skip: Skip = 5,
    count: Count = 10,
    csv: Csv = None,
    loads: Loads = False,
    device: Gpu = "cuda",
    dry_run: DryRun = False,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Profile the distance query's variants with NVIDIA Nsight Compute.

    Clocks are not changed. If Nsight Compute is missing, or the driver refuses its counters, and with --loads, times
    come from CUDA events, load requests and sectors from a kernel that counts them: all but DRAM and caches.

    With `flow:LAYOUT` instead of a mesh: the kernels of the paper's dam break in a particle layout.

    Example: sdfcli profile dragon.ply
    """
    from sdfcli.apps.bench import ncu
    from sdfcli.apps.bench.points import check_points
    from sdfcli.apps.flow.bench import flow_layout
    from sdfcli.apps.flow.tomioka import PARTICLES
    from sdfcli.backend import select_backend
    from sdfcli.mesh.load import load_mesh
    from sdfcli.runtime.files import check_ending, check_target

    check_points(points)
    if loads and (kernel_name is not None or metrics or csv is not None or dry_run or flow_layout(str(mesh))):
        raise UsageError("--loads goes with a mesh, and not with -k, --metrics, --csv or --dry-run")
    if not re.fullmatch(r"cuda(:\d+)?|cpu" if loads else r"cuda(:\d+)?", device):
        raise UsageError(f"--device {device}: use cuda or cuda:N; on a CPU, --loads counts loads")
    if csv is not None:
        check_ending(csv, "", ".csv")
        check_target(csv, force, mesh)
    layout = flow_layout(str(mesh))
    if layout is not None and kernel_name is None:
        kernel_name = "^sdf_flow_"
    others = [name for words in metrics or [] for name in re.split(r"[,\s]+", words) if name]
    target: dict[str, Any] = {"points": points, "depth": depth, "device": device, "skip": skip, "count": count}
    program = ncu.find()
    command = ncu.command(program or "ncu", str(mesh), **target, kernels=kernel_name, metrics=others)
    if dry_run:
        _show_command(mesh, command, json)
        return
    backend = select_backend(device)
    facts: dict[str, Any] = {"input": str(mesh), "device": backend.name, "repeat": count}
    if layout is not None:
        with progress(f"{mesh}: counting", json):
            lines = _count(program, command, kernel_name)
        if csv is not None:
            _write(csv, lines, force)
        _show_counts({**facts, "particles": PARTICLES, "measured_by": "ncu"}, lines, others, whole=True, json=json)
        return
    source = load_mesh(mesh)
    facts |= {"triangles": len(source.faces), "points": points, "depth": depth}
    if loads:
        _show_loads(facts, source, backend, skip, count, json)
        return
    try:
        with progress(f"{mesh}: counting", json):
            lines = _count(program, command, kernel_name)
    except ncu.NoCountersError as error:
        if kernel_name is not None or csv is not None:
            raise
        say(f"sdfcli: {error}; the times come from CUDA events, the loads from a kernel that counts them")
        _show_loads(facts, source, backend, skip, count, json)
        return
    if csv is not None:
        _write(csv, lines, force)
    _show_counts({**facts, "measured_by": "ncu"}, lines, others, whole=kernel_name is not None, json=json)


def _show_command(mesh: Path, command: list[str], json: bool) -> None:
    import shlex

    if json:
        print_json(Planned(input=str(mesh), command=command))
    else:
        with standard_output():
            show(shlex.join(command))


def _show_counts(facts: dict[str, Any], lines: list[str], others: list[str], whole: bool, json: bool) -> None:
    """Prints Nsight Compute's rows, for arbitrary pipeline kernels or the query variants."""
    from sdfcli.apps.bench import ncu

    kernels = ncu.by_kernel(ncu.parse(lines))
    if whole:
        costs = {name: (found.launches, ncu.figures(found, others)) for name, found in kernels.items()}
        _show_kernels(facts, costs, json)
    else:
        variants = {name: ncu.figures(ncu.measured(name, kernels), others) for name in ncu.KERNELS}
        _show_variants(facts, variants, json)


def _count(program: str | None, command: list[str], kernel_name: str | None) -> list[str]:
    """Nsight Compute's CSV rows, header first."""
    import subprocess

    from sdfcli.apps.bench import ncu

    if program is None:
        raise ncu.NoCountersError(ncu.MISSING)
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    error = ncu.failure(done.stdout, done.stderr, done.returncode)
    if error is not None:
        raise error
    lines = ncu.csv_lines(done.stdout)
    if not lines and kernel_name is not None:
        raise UsageError(f"-k {kernel_name}: no kernel of the pipeline matches it")
    if not lines:
        raise DeviceError("ncu printed no rows; run the command line of --dry-run to see its output")
    return lines


def _show_loads(facts: dict[str, Any], source: Mesh, backend: Backend, skip: int, count: int, json: bool) -> None:
    """Times the variants, and counts their loads."""
    from sdfcli.apps.bench.loads import with_times
    from sdfcli.apps.bench.ncu import KERNELS
    from sdfcli.apps.bench.workload import Workload

    with progress(f"{facts['input']}: timing", json) as update:
        workload = Workload(source, backend, facts["points"], facts["depth"])
        seconds = workload.query_seconds(tuple(KERNELS), count, skip)
        counted = {}
        for variant in KERNELS:
            update(f"counting the loads of {variant}")
            counted[variant] = workload.traffic(variant)
    _show_variants({**facts, "measured_by": "events"}, with_times(seconds, counted), json)


def _write(path: Path, lines: list[str], force: bool) -> None:
    from sdfcli.runtime.files import written_whole

    with written_whole(path, force) as temporary:
        temporary.write_text("\n".join(lines) + "\n")


def _show_variants(facts: dict[str, Any], variants: dict[str, Figures], json: bool) -> None:
    """Prints the thesis's table for a mesh, with the thesis's figures below ours for its models."""
    from sdfcli.apps.bench import ncu, thesis

    model = thesis.model_of(facts["input"])
    printed: dict[str, Figures] = thesis.query(model) if model else {}
    ours = ncu.compare(variants)
    theirs = {**ncu.compare(printed), "speedup": thesis.QUERY_SPEEDUP[model]} if model else None
    if json:
        beside = {"gpu": thesis.GPU, "variants": printed, **theirs} if theirs else None
        print_json(Profiled(**facts, variants=variants, **ours, thesis=beside))
        return
    rows, under = _rows(variants, ours), _rows(printed, theirs) if theirs else {}
    shown = []
    for label, cells in rows.items():
        shown.append((label, *cells))
        if label in under:
            shown.append(("  thesis", *under[label]))
    print_table(_title(facts, "launches"), shown, ("", *TITLES.values()))
    if ours["model"]["measured"] is not None:
        with standard_output():
            show(f"model (3.1), (3.2), Baseline to SoA: {ours['model']['at_p_1']:.1f} % fewer transactions at p = 1")
            show(f"measured: {_fewer(ours['model'])}")
            if theirs:
                show(f"thesis: {_fewer(theirs['model'])}")


def _rows(variants: dict[str, Figures], comparison: dict[str, Any]) -> dict[str, list[str]]:
    """Table cells by row label."""
    from sdfcli.apps.bench.ncu import REDUCED

    def cells(values: dict[str, float | None], text: Callable[[float | None], str]) -> list[str]:
        return [text(values[name]) if name in values else "" for name in TITLES]

    def of(figure: str, table: dict[str, Figures]) -> dict[str, float | None]:
        return {name: figures[figure] for name, figures in table.items()}

    measured = variants["baseline"]
    rows = {LABELS.get(figure, figure): cells(of(figure, variants), _text) for figure in measured}
    rows["times as fast as Baseline"] = cells(comparison["speedup"], _two_decimals)
    for figure in REDUCED:
        if figure in measured:
            percents = of(figure, comparison["reduction_percent"])
            rows[f"{LABELS[figure]}, % fewer"] = cells(percents, _one_decimal)
    return rows


def _fewer(model: dict[str, Any]) -> str:
    where = "which no p gives" if model["p"] is None else f"as at p = {model['p']:.2f}"
    return f"{model['measured']:.1f} % fewer load requests, {where}"


def _show_kernels(facts: dict[str, Any], kernels: dict[str, tuple[int, Figures]], json: bool) -> None:
    """Prints launch counts and cost per launch, by kernel name."""
    if json:
        costs: dict[str, Named] = {name: {"launches": n, **figures} for name, (n, figures) in kernels.items()}
        print_json(Profiled(**facts, kernels=costs))
        return
    longest_first = sorted(kernels.items(), key=lambda item: item[1][0] * (item[1][1]["ms"] or 0), reverse=True)
    rows = [
        (name, f"{launches:,}", *(_text(value) for value in figures.values()))
        for name, (launches, figures) in longest_first
    ]
    headings = [HEADINGS.get(figure, figure) for figure in longest_first[0][1][1]]
    print_table(_title(facts, "runs"), rows, ("kernel", "launches", *headings))


def _title(facts: dict[str, Any], repeats: str) -> str:
    from sdfcli.apps.bench.points import OCTREES

    if "particles" in facts:
        return f"{facts['input']}: {facts['particles']:,} particles, {facts['repeat']} steps on {facts['device']}"
    depth = f" of depth {facts['depth']}" if facts["points"] in OCTREES else ""
    return (
        f"{facts['input']}: {facts['triangles']:,} triangles, {facts['points']} points{depth}, "
        f"{facts['repeat']} {repeats} on {facts['device']}"
    )


def _text(value: float | None) -> str:
    """Four digits or more; from ten thousand in thousands (k), from a million in millions (M)."""
    if value is None:
        return "-"
    size, suffix = (1e6, "M") if abs(value) >= 1e6 else (1e3, "k") if abs(value) >= 1e4 else (1, "")
    value /= size
    return (f"{value:,.4g}" if abs(value) < 9999.5 else f"{value:,.0f}") + suffix


def _one_decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _two_decimals(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
