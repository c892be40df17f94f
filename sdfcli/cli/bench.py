"""`sdfcli bench`: how fast the stages and the queries are here, beside the thesis's figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.output import print_json, print_table, progress
from sdfcli.errors import CheckFailedError, UsageError

if TYPE_CHECKING:
    from sdfcli.backend import Backend


def bench(
    meshes: Annotated[list[str], typer.Argument(metavar="MESH...", help="Triangle meshes.")],
    points: options.Points = "octree",
    depth: Annotated[
        int | None, typer.Option(help="Of the octree: 9 on a GPU, 7 on the CPU.", show_default=False)
    ] = None,
    query: options.Query = "fast",
    repeat: Annotated[int, typer.Option(min=1, help="Runs after the one to warm up; medians are shown.")] = 5,
    fail_below: Annotated[
        float | None,
        typer.Option(
            metavar="RATIO", help="Exit code 6 if --query is not RATIO times as fast as baseline.", show_default=False
        ),
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the figures to this file, a row a mesh and query.")] = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Time every stage of a build, and compare the distance queries with each other and with the thesis.

    Example: sdfcli bench bunny.ply dragon.ply --depth 9
    """
    from sdfcli.backend import select_backend
    from sdfcli.bench.points import check_points
    from sdfcli.params import BuildParams

    BuildParams(query=query)
    check_points(points)
    if csv is not None and csv.exists() and not force:
        raise UsageError(f"{csv}: exists; use --force to replace it")
    backend = select_backend(device, threads)
    level = depth if depth is not None else 7 if backend.name == "cpu" else 9
    reports = []
    for mesh in meshes:
        with progress(mesh, quiet or json) as tell:
            report = _measure(mesh, backend, points, level, query, repeat, tell)
        reports.append(report)
        if json:
            print_json(report)
        elif not quiet:
            _print_report(report)
    if points in ("octree", "bvh") and not json and not quiet:
        _print_thesis(reports)
    if csv is not None:
        _write_csv(csv, reports)
    slow = [report for report in reports if fail_below and report["queries"][query]["ratio"] < fail_below]
    if slow:
        found = ", ".join(f"{report['mesh']} {report['queries'][query]['ratio']:.2f}" for report in slow)
        raise CheckFailedError(f"{query} is less than {fail_below:g} times as fast as baseline: {found}")


def _measure(
    path: str, backend: Backend, points: str, depth: int, query: str, repeat: int, tell: Any
) -> dict[str, Any]:
    from sdfcli.bench.workload import Workload
    from sdfcli.mesh import load_mesh
    from sdfcli.params import QUERIES

    tell("loading")
    mesh = load_mesh(path)
    workload = Workload(mesh, backend, points, depth)
    tell("stages")
    stages = workload.stage_seconds(query, repeat)
    queries = ("baseline", *(name for name in QUERIES[1:] if name != "baseline"), "fast")
    tell("queries")
    seconds = workload.query_seconds(queries, repeat)
    found = {}
    for name in queries:
        tell(f"counting what {name} visits")
        boxes, tests = workload.visits(name)
        found[name] = {
            "ms": 1e3 * seconds[name],
            "million_per_second": len(workload.points) / seconds[name] / 1e6,
            "boxes": boxes,
            "tests": tests,
            "ratio": seconds["baseline"] / seconds[name],
        }
    return {
        "mesh": path,
        "triangles": len(mesh.faces),
        "device": backend.name,
        "points": points,
        "depth": depth,
        "count": len(workload.points),
        "query": query,
        "stages_ms": {name: 1e3 * value for name, value in stages.items()},
        "queries": found,
    }


def _print_report(report: dict[str, Any]) -> None:
    asked = (
        f"{report['points']}, depth {report['depth']}" if report["points"] in ("octree", "bvh") else report["points"]
    )
    title = (
        f"{report['mesh']}: {report['triangles']:,} triangles, {report['count']:,} points ({asked}), {report['device']}"
    )
    stages = report["stages_ms"]
    print_table(title, [(name, f"{ms:.3f}") for name, ms in stages.items()], ("stage", "ms"))
    rows = [
        (
            name,
            f"{row['ms']:.3f}",
            f"{row['million_per_second']:.3g}",
            f"{row['boxes']:.1f}",
            f"{row['tests']:.1f}",
            f"{row['ratio']:.2f}",
        )
        for name, row in report["queries"].items()
    ]
    print_table("", rows, ("query", "ms", "M points/s", "boxes/point", "triangles/point", "x baseline"))


def _print_thesis(reports: list[dict[str, Any]]) -> None:
    """Tables 2.1, 4.5 and 4.6, each of our figures followed by the thesis's in brackets."""
    from sdfcli.bench import thesis

    split, speedup, whole = [], [], []
    for report in reports:
        name, model = Path(report["mesh"]).stem, thesis.model_of(report["mesh"])
        queries = report["queries"]
        rest = sum(report["stages_ms"][stage] for stage in ("morton", "sort", "tree", "refit", "octree"))
        total = {variant: rest + queries[variant]["ms"] for variant in thesis.VARIANTS}
        base, ours = queries["baseline"]["ms"], queries["cct"]["ms"]
        theirs = thesis.BUILD_MS[model] if model else None
        before, after = (theirs["baseline"], theirs["cct"]) if theirs else (None, None)
        split.append(
            (
                name,
                f"{report['triangles'] / 1000:.0f}",
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
    print_table(
        f"\nThe thesis's tables; in brackets its own figures ({thesis.GPU})\n\nTable 2.1, a build with Baseline",
        split,
        ("model", "k triangles", "whole ms", "query ms", "share"),
    )
    print_table("\nTable 4.5, the query's speed-up over Baseline", speedup, ("model", "SoA", "SoA + CCT"))
    print_table("\nTable 4.6, a build with SoA + CCT", whole, ("model", "whole ms", "query ms", "over Baseline"))


def _both(ours: float, theirs: float | None, unit: str = "") -> str:
    return f"{ours:.2f}{unit} ({'-' if theirs is None else f'{theirs:.2f}{unit}'})"


def _write_csv(path: Path, reports: list[dict[str, Any]]) -> None:
    import csv

    from sdfcli.store import written_whole

    rows = []
    for report in reports:
        common = {name: report[name] for name in ("mesh", "triangles", "device", "points", "depth", "count")}
        stages = {f"{name}_ms": ms for name, ms in report["stages_ms"].items() if name != "query"}
        rows += [{**common, "query": name, **row, **stages} for name, row in report["queries"].items()]
    with written_whole(path, force=True) as temporary, open(temporary, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
