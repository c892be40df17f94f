"""`sdfcli bench`: stage and query times, compared with the thesis's figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.bench_options import Repeat
from sdfcli.cli.output import error_text, human_bytes, print_json, print_lines, print_table, progress
from sdfcli.cli.records import Amount, Count, Line, OctreeDepth, Seconds, items, keyed
from sdfcli.errors import CheckFailedError, UsageError
from sdfcli.params import BuildParams

if TYPE_CHECKING:
    from sdfcli.backend import Backend


def _sub_commands(incomplete: str) -> list[str]:
    from sdfcli.cli.registry import sub_commands

    return [name for name in sub_commands("bench") if incomplete and name.startswith(incomplete)]


Meshes = Annotated[
    list[str],
    typer.Argument(
        metavar="MESH...",
        help="Triangle meshes; ./scan for a file named like a sub-command.",
        autocompletion=_sub_commands,
    ),
]
Depth = Annotated[
    int | None, typer.Option(help="Octree level; 9 on a GPU, 7 on the CPU by default.", show_default=False)
]
Uniform = Annotated[
    bool, typer.Option("--uniform", help="Compare octrees with uniform grids and jump flooding instead.")
]
Coherence = Annotated[
    bool,
    typer.Option("--coherence", help="Compare queries warm-started from an earlier frame's nearest triangles instead."),
]
Seeds = Annotated[
    str | None,
    typer.Option(
        **options.words("knn"),
        help="Compare queries seeded with approximate nearest neighbours instead.",
        show_default=False,
    ),
]
Builder = Annotated[
    str,
    typer.Option(**options.words("radix", "ploc"), help="Tree under the thesis's queries; ploc: a better one."),
]
FailBelow = Annotated[
    float | None,
    typer.Option(
        metavar="RATIO", help="Minimum speed-up of --query over baseline; exit code 6 below it.", show_default=False
    ),
]
Csv = Annotated[Path | None, typer.Option(help="CSV file with a row per mesh and query.")]


class QueriesTimed(Line, title="bench", shared="input triangles device"):
    """A line per mesh."""

    points: Annotated[str, "`--points`"]
    depth: OctreeDepth
    count: Annotated[Count, "number of query points"]
    query: Annotated[str, "query algorithm used in `stages_ms`"]
    builder: Annotated[str, "`--builder`"]
    tree: Annotated[
        dict[str, float],
        keyed(Amount, "ms sah overlap levels"),
        "the tree under the thesis's queries: `ms` to build it, its [measures](commands/bench.md)",
    ]
    stages_ms: Annotated[dict[str, Amount], "milliseconds per stage, and `total`"]
    queries: Annotated[
        dict[str, Annotated[dict[str, float], keyed(Amount, "ms million_per_second boxes tests ratio")]],
        "`ms`, `million_per_second`, `boxes`, `tests`, `ratio` of [each query](commands/bench.md)",
    ]


class GridsCompared(Line, title="bench --uniform", shared="input device"):
    """A line per mesh."""

    depth: OctreeDepth
    methods: Annotated[
        list[Any], items("sdfcli.apps.bench.uniform:Row", seconds=Seconds), "a [row](commands/bench.md) per method"
    ]


class CoherenceCompared(Line, title="bench --coherence", shared="input triangles device"):
    """A line per mesh."""

    depth: OctreeDepth
    rows: Annotated[
        list[Any],
        items("sdfcli.apps.bench.coherence:Row"),
        "one per motion, query and seed: `motion`, `amount` (fraction of the diagonal), `query`, `seed` (`cold`, "
        "`earlier`, `exact`), `points`, `milliseconds`, `boxes`, `tests` (per point)",
    ]
    lead: Annotated[
        list[Annotated[dict[str, Any], keyed(Amount, "amount cold earlier exact gain")]],
        "one per `amount`: `cold`, `earlier`, `exact`: speed-up of `cct` over `baseline` from that seed; `gain`: "
        "speed-up of `cct` from the earlier triangle over cold; geometric means over the motions",
    ]


class SeedsCompared(Line, title="bench --seeds knn", shared="input triangles device"):
    """A line per mesh."""

    depth: OctreeDepth
    rows: Annotated[
        list[Any],
        items("sdfcli.apps.bench.seeds:Seeded"),
        "one per query and [seed](commands/bench.md): `query`, `seed`, `points`, `milliseconds`, `boxes`, `tests` (per "
        "point)",
    ]


def bench(
    meshes: Meshes,
    points: options.Points = "octree",
    depth: Depth = None,
    uniform: Uniform = False,
    coherence: Coherence = False,
    seeds: Seeds = None,
    query: options.Query = BuildParams.query,
    builder: Builder = "radix",
    repeat: Repeat = 5,
    fail_below: FailBelow = None,
    csv: Csv = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Time every build stage, and compare the distance queries with each other and with the thesis.

    With --coherence: queries on a moved mesh, cold and warm-started from the previous frame.
    With --seeds knn: queries without seeds, and seeded with shifted sort candidates.
    With --uniform: memory, queries, time and errors of an octree and of a uniform grid at the same resolution.

    Sub-commands, with options of their own (sdfcli bench scan --help):
    `flood`: jump flooding's orders of passes, by grid size and by seed count.
    `scan`: the exclusive scan on one, two and four devices.
    `surface`: marching cubes by stage on volumes of metaballs, with the scans' share.
    `sequence`: moving meshes' frames per second, by four build methods.
    `knn`: nearest neighbours by the shifted sort, compared with its paper's figures and exact results.
    `scale`: whole builds of a mesh's copies and subdivisions, and their growth.
    `flow`: particle layouts, compared with their paper's figures.

    Example: sdfcli bench bunny.ply dragon.ply --depth 9
    """
    from sdfcli.apps.bench.points import OCTREES, check_points
    from sdfcli.apps.bench.trees import check_builder
    from sdfcli.backend import select_backend
    from sdfcli.runtime.files import check_ending, check_target

    BuildParams(query=query)
    check_points(points)
    check_builder(builder)
    _check_options(uniform, coherence, seeds, builder, fail_below, csv)
    if csv is not None:
        check_ending(csv, "", ".csv")
        check_target(csv, force, *meshes)
    backend = select_backend(device, threads)
    level = depth if depth is not None else 7 if backend.name == "cpu" else 9
    reports = []
    for mesh in meshes:
        if uniform:
            _compare_with_grids(mesh, level, backend.name, threads, repeat, json, quiet)
        elif coherence:
            _compare_seeds(mesh, level, backend, repeat, json, quiet)
        elif seeds:
            from sdfcli.apps.bench.commands.knn import measure_seeds

            measure_seeds(mesh, level, backend, repeat, json, quiet)
        else:
            reports.append(_time_queries(mesh, backend, points, level, query, builder, repeat, json, quiet))
    if reports and points in OCTREES and not json and not quiet:
        _print_thesis(reports)
    if csv is not None:
        _write_csv(csv, reports, force)
    if fail_below is not None:
        _fail_slow(reports, query, fail_below)


def _check_options(
    uniform: bool, coherence: bool, seeds: str | None, builder: str, fail_below: float | None, csv: Path | None
) -> None:
    """Raises UsageError for impossible values and incompatible options."""
    if seeds not in (None, "knn"):
        raise UsageError(f"--seeds {seeds}: use knn")
    if fail_below is not None and not fail_below > 0:
        raise UsageError(f"--fail-below {fail_below:g}: use a ratio above 0")
    compared = uniform + coherence + (seeds is not None)
    if compared > 1 or (compared and (csv is not None or fail_below is not None or builder != "radix")):
        raise UsageError(
            "--uniform, --coherence and --seeds go with none of --csv, --fail-below, --builder, nor with each other"
        )


def _time_queries(
    mesh: str,
    backend: Backend,
    points: str,
    depth: int,
    query: str,
    builder: str,
    repeat: int,
    json: bool,
    quiet: bool,
) -> QueriesTimed:
    with progress(mesh, quiet or json) as update:
        report = _measure(mesh, backend, points, depth, query, builder, repeat, update)
    if json:
        print_json(report)
    elif not quiet:
        _print_report(report)
    return report


def _fail_slow(reports: list[QueriesTimed], query: str, least: float) -> None:
    """Raises CheckFailedError if the query is less than `least` times as fast as baseline."""
    ratios = [(report.input, report.queries[query]["ratio"]) for report in reports]
    slow = ", ".join(f"{path} {ratio:.2f}" for path, ratio in ratios if ratio < least)
    if slow:
        raise CheckFailedError(f"{query} is less than {least:g} times as fast as baseline: {slow}")


def _measure(
    path: str, backend: Backend, points: str, depth: int, query: str, builder: str, repeat: int, update: Any
) -> QueriesTimed:
    from sdfcli.apps.bench.workload import VARIANTS, Workload
    from sdfcli.mesh.load import load_mesh

    update("loading")
    mesh = load_mesh(path)
    workload = Workload(mesh, backend, points, depth, builder)
    update("stages")
    stages = workload.stage_seconds(query, repeat)
    update("queries")
    seconds = workload.query_seconds(tuple(VARIANTS), repeat)
    found = {}
    for name in VARIANTS:
        update(f"counting what {name} visits")
        boxes, tests = workload.visits(name)
        found[name] = {
            "ms": 1e3 * seconds[name],
            "million_per_second": len(workload.points) / seconds[name] / 1e6,
            "boxes": boxes,
            "tests": tests,
            "ratio": seconds["baseline"] / seconds[name],
        }
    return QueriesTimed(
        input=path,
        triangles=len(mesh.faces),
        device=backend.name,
        points=points,
        depth=depth,
        count=len(workload.points),
        query=query,
        builder=builder,
        tree={"ms": 1e3 * workload.tree_seconds(repeat), **vars(workload.quality)},
        stages_ms={name: 1e3 * value for name, value in stages.items()},
        queries=found,
    )


def _compare_with_grids(
    path: str, depth: int, device: str, threads: int | None, repeat: int, json: bool, quiet: bool
) -> None:
    from sdfcli.apps.bench.uniform import compare

    with progress(path, quiet or json) as update:
        found = compare(path, depth, device=device, threads=threads, repeat=repeat, progress=update)
    if json:
        methods = [{**vars(row), "seconds": {"total": row.seconds}} for row in found]
        print_json(GridsCompared(input=path, depth=depth, device=device, methods=methods))
    if json or quiet:
        return
    rows = [
        (
            row.method,
            f"{row.seconds:.3f}",
            human_bytes(row.field_bytes),
            human_bytes(row.working_bytes),
            f"{row.nodes:,}",
            f"{row.queries:,}",
            "-" if row.seeds is None else f"{row.seeds:,}",
            error_text(row.node_max),
            error_text(row.node_rms),
            f"{100 * row.node_wrong:.2f}",
            error_text(row.max_error),
            error_text(row.rms_error),
            f"{row.lookups:.1f}",
        )
        for row in found
    ]
    title = f"{path}: cells down to 1/{2**depth} of the domain, {device}; errors as fractions of the diagonal"
    names = ("s", "field", "work space", "values", "queries", "seeds", "value max", "value rms", "% off", "field max")
    print_table(title, rows, ("method", *names, "field rms", "M lookups/s"))


def _compare_seeds(path: str, depth: int, backend: Backend, repeat: int, json: bool, quiet: bool) -> None:
    from sdfcli.apps.bench.coherence import SEEDS, compare, finding, lead
    from sdfcli.apps.bench.seeds import THESIS
    from sdfcli.mesh.load import load_mesh

    with progress(path, quiet or json) as update:
        update("loading")
        mesh = load_mesh(path)
        found = list(compare(mesh, backend, depth, repeat, update))
    leads = lead(found)
    if json:
        head: dict[str, Any] = {"input": path, "triangles": len(mesh.faces), "device": backend.name, "depth": depth}
        print_json(CoherenceCompared(**head, rows=found, lead=leads))
    if json or quiet:
        return
    figures = {(row.motion, row.amount, row.query, row.seed): row for row in found}
    lines = []
    for motion, amount in dict.fromkeys((row.motion, row.amount) for row in found):
        for query in THESIS:
            three = [figures[motion, amount, query, seed] for seed in SEEDS]
            cells = [f"{row.milliseconds:.3f}" for row in three]
            cells += [f"{row.boxes:.1f}" for row in three] + [f"{row.tests:.1f}" for row in three]
            lines.append((f"{motion} {100 * amount:g} %", query, *cells))
    title = f"{path}: {len(mesh.faces):,} triangles, depth {depth}, {backend.name}; motions in % of the diagonal"
    units = ("ms", "boxes/point", "triangles/point")
    header = ("motion", "query", *(f"{seed} {unit}" for unit in units for seed in SEEDS))
    print_table(title, lines, header)
    print_lines(finding(leads))


def _print_report(report: QueriesTimed) -> None:
    from sdfcli.apps.bench.points import OCTREES
    from sdfcli.apps.bench.workload import VARIANTS

    asked = f"{report.points}, depth {report.depth}" if report.points in OCTREES else report.points
    counts = f"{report.triangles:,} triangles, {report.count:,} points ({asked})"
    title = f"{report.input}: {counts}, {report.device}"
    stages = report.stages_ms
    print_table(title, [(name, f"{ms:.3f}") for name, ms in stages.items()], ("stage", "ms"))
    tree = report.tree
    print_lines(
        "",
        f"tree: {report.builder}, {tree['ms']:.3f} ms, {tree['levels']} levels, SAH cost {tree['sah']:.4g}, "
        f"overlap of siblings {100 * tree['overlap']:.1f} %",
    )
    rows = [
        (
            VARIANTS[name],
            f"{row['ms']:.3f}",
            f"{row['million_per_second']:.3g}",
            f"{row['boxes']:.1f}",
            f"{row['tests']:.1f}",
            f"{row['ratio']:.2f}",
        )
        for name, row in report.queries.items()
    ]
    print_table("", rows, ("query", "ms", "M points/s", "boxes/point", "triangles/point", "x baseline"))


def _print_thesis(reports: list[QueriesTimed]) -> None:
    """Prints Tables 2.1, 4.5 and 4.6, each figure followed by the thesis's in brackets."""
    from sdfcli.apps.bench import thesis

    split, speedup, whole = [], [], []
    for report in reports:
        name, model = Path(report.input).stem, thesis.model_of(report.input)
        queries = report.queries
        rest = sum(report.stages_ms[stage] for stage in ("morton", "sort", "tree", "refit", "octree"))
        total = {variant: rest + queries[variant]["ms"] for variant in thesis.VARIANTS}
        base, ours = queries["baseline"]["ms"], queries["cct"]["ms"]
        theirs = thesis.BUILD_MS[model] if model else None
        before, after = (theirs["baseline"], theirs["cct"]) if theirs else (None, None)
        split.append(
            (
                name,
                f"{report.triangles / 1000:.0f}",
                _both(total["baseline"], before and before[0]),
                _both(base, before and before[1]),
                _both(100 * base / total["baseline"], before and 100 * before[1] / before[0], "%"),
            )
        )
        speeds = thesis.QUERY_SPEEDUP[model] if model else {}
        speedup.append((name, *(_both(queries[v]["ratio"], speeds.get(v), "x") for v in ("soa", "cct"))))
        whole.append(
            (
                name,
                _both(total["cct"], after and after[0]),
                _both(ours, after and after[1]),
                _both(total["baseline"] / total["cct"], thesis.BUILD_SPEEDUP[model] if model else None, "x"),
            )
        )
    print_lines("", f"The thesis's tables; in brackets its own figures ({thesis.GPU})")
    print_table(
        "Table 2.1, a build with Baseline",
        split,
        ("model", "k triangles", "whole ms", "query ms", "share"),
        apart=True,
    )
    print_table("Table 4.5, the query's speed-up over Baseline", speedup, ("model", "SoA", "SoA + CCT"), apart=True)
    print_table(
        "Table 4.6, a build with SoA + CCT", whole, ("model", "whole ms", "query ms", "over Baseline"), apart=True
    )


def _both(ours: float, theirs: float | None, unit: str = "") -> str:
    return f"{ours:.2f}{unit} ({'-' if theirs is None else f'{theirs:.2f}{unit}'})"


def _write_csv(path: Path, reports: list[QueriesTimed], force: bool) -> None:
    import csv

    from sdfcli.runtime.files import written_whole

    rows = []
    for report in reports:
        common = {name: getattr(report, name) for name in ("input", "triangles", "device", "points", "depth", "count")}
        common |= {"builder": report.builder, **{f"tree_{name}": value for name, value in report.tree.items()}}
        stages = {f"{name}_ms": ms for name, ms in report.stages_ms.items() if name != "query"}
        rows += [{**common, "query": name, **row, **stages} for name, row in report.queries.items()]
    with written_whole(path, force) as temporary, open(temporary, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
