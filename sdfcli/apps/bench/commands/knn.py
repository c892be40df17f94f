"""`sdfcli bench knn`: neighbours by the shifted sort; and the tables of `sdfcli bench --seeds knn`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.bench_options import Repeat, check_block
from sdfcli.cli.output import print_json, print_lines, print_table, progress
from sdfcli.cli.records import Count, Line, items

if TYPE_CHECKING:
    from sdfcli.apps.bench.box_distance import Interval
    from sdfcli.apps.bench.knn import Comparison, Size, Variant
    from sdfcli.apps.bench.recall import Quality
    from sdfcli.backend import Backend


K = Annotated[int | None, typer.Option("-k", help="Number of neighbours, 1 to 32; 8 by default.", show_default=False)]
Block = Annotated[
    int | None,
    typer.Option(metavar="N", help="Threads per GPU block: a multiple of 32 up to 1024.", show_default=False),
]


class NeighboursTimed(Line, title="bench knn", shared="input triangles vertices device"):
    """A line per mesh."""

    k: Annotated[Count, "neighbour count"]
    block: Annotated[Count | None, "threads per block; null without `--block`, and on a CPU"]
    sizes: Annotated[
        list[Any],
        items("sdfcli.apps.bench.knn:Size"),
        "milliseconds per query count and form: `queries`, `form`, `search`, `joint`, `tree`, `paper`, `ann`",
    ]
    quality: Annotated[
        list[Any],
        items("sdfcli.apps.bench.recall:Quality"),
        "one per form, point set and shift count: `form`, `points`, `shifts`, `recall`, `ratio`, `ratio_median`, "
        "`ratio_most` (of 999 in 1,000), `within_5`, `within_10`, `within_50`, `within_100` (shares at most that many "
        "percent beyond), `nearest`, `bound`, `bound_median`",
    ]
    distances: Annotated[
        dict[str, Annotated[list[Any], items("sdfcli.apps.bench.box_distance:Interval")]],
        "by point set, distances to boxes by s / c from `low`: `pairs`, `root`, `series`, `size`, `minmax`, "
        "`size_wrong`, `minmax_wrong`",
    ]
    ablation: Annotated[
        list[Any],
        items("sdfcli.apps.bench.knn:Variant"),
        "one per variant and point set: `variant`, `points`, `milliseconds`, `recall`; null if not measured",
    ]


def bench_knn(
    meshes: options.Meshes,
    k: K = None,
    block: Block = None,
    repeat: Repeat = 5,
    device: options.Device = "auto",
    threads: options.Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Time nearest neighbours by the shifted sort, compared with its paper's figures and exact results.

    Example: sdfcli bench knn horse.ply -k 8
    """
    from sdfcli.apps.bench import park
    from sdfcli.backend import select_backend

    if block is not None:
        check_block(block)
    backend = select_backend(device, threads)
    for mesh in meshes:
        _measure(mesh, backend, park.K if k is None else k, block, repeat, threads, json, quiet)


def _measure(
    path: str, backend: Backend, k: int, block: int | None, repeat: int, threads: int | None, json: bool, quiet: bool
) -> None:
    from sdfcli.apps.bench.knn import Comparison
    from sdfcli.mesh.load import load_mesh

    with progress(path, quiet or json) as update:
        update("loading")
        comparison = Comparison(load_mesh(path), backend, k, block, repeat, threads, update)
        sizes = list(comparison.sizes())
        quality = list(comparison.quality())
        distances = comparison.distances()
        ablation = list(comparison.ablation())
    if json:
        print_json(
            NeighboursTimed(
                input=path,
                triangles=len(comparison.mesh.faces),
                vertices=len(comparison.mesh.vertices),
                device=backend.name,
                k=k,
                block=comparison.block,
                sizes=sizes,
                quality=quality,
                distances=distances,
                ablation=ablation,
            )
        )
    if json or quiet:
        return
    blocks = f", blocks of {comparison.block} threads" if comparison.block else ""
    print_lines(f"{path}: k = {k}, {backend.name}{blocks}")
    _print_sizes(comparison, sizes)
    _print_quality(comparison, quality)
    _print_distances(distances)
    _print_ablation(comparison, ablation)
    print_lines("", *_remarks(comparison, quality, ablation), *_caveats(comparison, block))


def measure_seeds(path: str, depth: int, backend: Backend, repeat: int, json: bool, quiet: bool) -> None:
    """`bench --seeds knn` for one mesh."""
    from sdfcli.apps.bench.commands.bench import SeedsCompared
    from sdfcli.apps.bench.knn_seeds import SEEDS, SEEDS_FORM, SEEDS_K, compare_seeds, finding
    from sdfcli.apps.bench.seeds import THESIS
    from sdfcli.mesh.load import load_mesh

    with progress(path, quiet or json) as update:
        update("loading")
        mesh = load_mesh(path)
        update("queries")
        found = list(compare_seeds(mesh, backend, depth, repeat))
    if json:
        head: dict[str, Any] = {"input": path, "triangles": len(mesh.faces), "device": backend.name, "depth": depth}
        print_json(SeedsCompared(**head, rows=found))
    if json or quiet:
        return
    rows = {(row.query, row.seed): row for row in found}
    lines = []
    for query in THESIS:
        for seed in SEEDS:
            row = rows[query, seed]
            lines.append((query, seed, f"{row.milliseconds:.3f}", f"{row.boxes:.1f}", f"{row.tests:.1f}"))
    asked = f"{found[0].points:,} points, depth {depth}, {backend.name}"
    title = f"{path}: {len(mesh.faces):,} triangles, {asked}; {SEEDS_K} candidates of {SEEDS_FORM}"
    header = ("query", "from", "ms", "boxes/point", "triangles/point")
    print_table(title, lines, header)
    print_lines(finding(found))


def _number(value: float | None) -> str:
    """Four significant digits, or more before the point, and at most two after it."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 999.95 else f"{value:.1f}" if value >= 99.995 else f"{value:.2f}"


def _beyond(ratio: float) -> str:
    """A ratio's percentage above one, mostly in four characters."""
    percent = 100 * (ratio - 1)
    return f"{percent:.0f}" if percent >= 99.95 else f"{percent:.1f}" if percent >= 9.995 else f"{percent:.2f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _print_sizes(comparison: Comparison, sizes: Sequence[Size]) -> None:
    from sdfcli.apps.bench.knn import EQUAL, TABLES, TOP

    data = {
        name: f"{len(comparison.forms[name].data):,} {kind}"
        for name, kind in zip(TABLES, ("boxes", "vertices"), strict=True)
    }
    for name, label in TABLES.items():
        rows = [
            (f"{row.queries:,}", *map(_number, (row.search, row.joint, row.paper, row.tree, row.ann)))
            for row in sizes
            if row.form == name
        ]
        header = ("queries", "search", "joint sort", "the paper's", "k-d tree", "the paper's ANN")
        print_table(f"Table 4, {label}: {data[name]}, ms", rows, header, apart=True)
    table = {(row.queries, row.form): row for row in sizes}
    one, other = TABLES
    ratios: dict[str, tuple[str, str, Callable[[Size], float | None]]] = {
        "search": (one, other, lambda row: row.search),
        "joint sort": (one, other, lambda row: row.joint),
        "search, 7 curves": (one, EQUAL, lambda row: row.search),
        "joint, 7 curves": (one, EQUAL, lambda row: row.joint),
        "joint, 7 curves, 64 bits": (TOP, EQUAL, lambda row: row.joint),
        "the paper's": (one, other, lambda row: row.paper),
    }
    rows = []
    for count in dict.fromkeys(row.queries for row in sizes):
        pairs = [(of(table[count, upper]), of(table[count, lower])) for upper, lower, of in ratios.values()]
        rows.append((f"{count:,}", *(f"{a / b:.2f}" if a and b else "-" for a, b in pairs)))
    print_table("Table 5: 6-D by 3-D", rows, ("queries", *ratios), apart=True)


BY_SHIFTS: dict[str, Callable[[Quality], str]] = {
    "Recall, %": lambda row: _percent(row.recall),
    "Found distances beyond the exact ones, %": lambda row: _beyond(row.ratio),
    "Points whose nearest triangle is among the k, %": lambda row: _percent(row.nearest),
    "Least distance to the k beyond that to the mesh, %": lambda row: _beyond(row.bound),
}
"""Tables by shift count."""


def _print_quality(comparison: Comparison, quality: Sequence[Quality]) -> None:
    from sdfcli.apps.bench.box_encodings import FORMS
    from sdfcli.apps.bench.knn import PLACES, SHIFTS
    from sdfcli.apps.bench.recall import BEYOND

    table = {(row.form, row.points, row.shifts): row for row in quality}
    kinds = [(form, points) for points in PLACES for form in FORMS]
    for title, figure in BY_SHIFTS.items():
        rows = [
            (f"{form}, {points}", *(figure(table[form, points, each]) for each in SHIFTS)) for form, points in kinds
        ]
        print_table(f"{title}, by number of shifts", rows, ("", *map(str, SHIFTS)), apart=True)
    rows = []
    for form, points in kinds:
        row = table[form, points, comparison.forms[form].sort.shifts]
        ratios = (row.ratio, row.ratio_median, row.ratio_most, row.bound, row.bound_median)
        shares = (getattr(row, f"within_{percent}") for percent in BEYOND)
        rows.append(
            (f"{form}, {points}", f"{row.shifts}", *(f"{value:.3f}" for value in ratios), *map(_percent, shares))
        )
    title = "By default: found distances by exact ones (ratio), the least by that to the mesh (bound); % within (2)"
    within = (f"{1 + percent / 100:g} times" for percent in BEYOND)
    print_table(title, rows, ("", "shifts", "ratio", "median", "99.9 %", "bound", "median", *within), apart=True)


def _print_distances(distances: dict[str, list[Interval]]) -> None:
    rows = [
        (
            f"{place}, s/c from {row.low:g}",
            f"{row.pairs:,}",
            *("-" if value is None else f"{value:.3f}" for value in (row.root, row.series, row.size, row.minmax)),
            *map(_percent, (row.size_wrong, row.minmax_wrong)),
        )
        for place, found in distances.items()
        for row in found
    ]
    title = "Distances to boxes: D/s by (3) and (4), the forms' by those to the triangles, pairs ranked wrong"
    header = ("", "pairs", "(3)", "(4)", "size", "minmax", "size wrong %", "minmax wrong %")
    print_table(title, rows, header, apart=True)


def _print_ablation(comparison: Comparison, ablation: Sequence[Variant]) -> None:
    table = {(row.variant, row.points): row for row in ablation}
    places = list(dict.fromkeys(row.points for row in ablation))
    rows = []
    for name in dict.fromkeys(row.variant for row in ablation):
        cells = [table[name, place] for place in places]
        rows.append((name, *(text for row in cells for text in (_number(row.milliseconds), _percent(row.recall)))))
    header = ("", *(text for place in places for text in (f"{place} ms", "recall %")))
    print_table(f"Variants: {comparison.ablated:,} queries, minmax but where a form is named", rows, header, apart=True)


def _remarks(comparison: Comparison, quality: Sequence[Quality], ablation: Sequence[Variant]) -> list[str]:
    """Remarks on the method's weaknesses."""
    from sdfcli.apps.bench.knn import BRUTE, FIRST, ONE, TRIANGLES

    judged = {(row.form, row.points): row for row in quality if row.shifts == comparison.forms[row.form].sort.shifts}
    times = {(row.variant, row.points): row.milliseconds for row in ablation}

    def percents(form: str) -> str:
        return f"{_percent(judged[form, 'near'].recall)} % near, {_percent(judged[form, 'rand'].recall)} % rand"

    def ms(variant: str, points: str) -> str:
        return f"{_number(times[variant, points])} ms"

    size, minmax = (_percent(judged[form, "near"].nearest) for form in ("size", "minmax"))
    far = judged["minmax", "rand"]
    return [
        "minmax is a problem in 4-D: |a - q|^2 + |b - q|^2 = 2 |q - m|^2 + |b - a|^2 / 2, m the middle of the box. "
        "ball, which is m and half the diagonal, ranks triangles alike, by shorter codes and fewer shifts: "
        f"{ms('ball', 'near')} instead of {ms(FIRST, 'near')} near, recall {percents('ball')} instead of "
        f"{percents('minmax')}.",
        "size looks at a box's lower corner, and is off by up to its diagonal: the nearest triangle is among the k of "
        f"{size} % of the points near the surface, by minmax of {minmax} %.",
        "Far from the surface many data lie at nearly one distance, and others than the nearest are found: by minmax "
        f"{_percent(far.recall)} % of these, but at distances {_beyond(far.ratio)} % beyond theirs in the mean, and "
        f"of 999 in 1,000 at most {far.ratio_most:.2f} times as far.",
        f"Exact triangles take {ms(ONE, 'near')} near and {ms(ONE, 'rand')} rand for the nearest one, "
        f"{ms(TRIANGLES, 'near')} and {ms(TRIANGLES, 'rand')} for the k nearest: for one, ask for that. The shifted "
        "sort is for k > 1, and for points without triangles.",
        f"Brute force takes {ms(BRUTE, 'near')} near, and misses nothing.",
    ]


def _caveats(comparison: Comparison, block: int | None) -> list[str]:
    """Differences between the figures and the paper's."""
    from sdfcli.apps.bench import park

    lines = [
        f"The paper's figures: {park.GPU}, and ANN on {park.CPU}; {park.UNIT}; k = {park.K}, blocks of {park.BLOCK} "
        f"threads; a horse of {park.DATA['6-D']:,} boxes and {park.DATA['3-D']:,} vertices, so the data of 6-D and 3-D "
        "differ, too. It says neither how far it shifts nor where its queries lie: here by j/S of the cube along the "
        "diagonal (j/(S + 1) for even S), and in Tables 4 and 5 anywhere in the padded bounding box. It reports no "
        "quality.",
        "The search's data are sorted before, once a mesh; the joint sort sorts them with the queries each time. The "
        f"k-d tree is SciPy's, exact, on {comparison.threads} threads, in one run, without the time to make it.",
    ]
    if block is not None and comparison.block is None:
        lines.append(f"--block {block} is of no effect: a CPU has no blocks of threads.")
    return lines
