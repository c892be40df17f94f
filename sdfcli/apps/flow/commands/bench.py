"""`sdfcli bench flow`: particle layouts, compared with their paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.bench_options import Runs, check_block, numbers
from sdfcli.cli.output import print_json, print_lines, print_table, progress
from sdfcli.cli.records import Count, Line, items
from sdfcli.errors import UsageError

if TYPE_CHECKING:
    from sdfcli.apps.flow.bench import Row
    from sdfcli.backend import Backend


Scale = Annotated[str, typer.Option(metavar="X[,X...]", help="Particle counts, in multiples of the paper's.")]
Block = Annotated[
    str | None,
    typer.Option(metavar="N[,N...]", help="Threads per GPU block: multiples of 32 up to 1024.", show_default=False),
]
Buckets = Annotated[
    str,
    typer.Option(
        metavar="X[,X...]",
        help="Bucket edges, in radii of influence; 1, the paper's, may miss neighbours that approach within a step.",
    ),
]
Steps = Annotated[
    int | None, typer.Option(help="Time steps; 2,000 on a GPU, 100 on the CPU by default.", show_default=False)
]


class LayoutsTimed(Line, title="bench flow", shared="device"):
    """One line."""

    steps: Annotated[Count, "time steps run"]
    rows: Annotated[
        list[Any],
        items("sdfcli.apps.flow.bench:Row"),
        "one per layout: `particles`, `order` (`lattice`, `shuffled`), `layout`, `block` (null on a CPU), `bucket` "
        "(edge, in radii of influence), `seconds` (for 2,000 steps), `stages` (ms per step, by name), `paper` "
        "(seconds in the paper, or null)",
    ]


def bench_flow(
    scale: Scale = "1",
    block: Block = None,
    buckets: Buckets = "1.1",
    steps: Steps = None,
    repeat: Runs = 1,
    device: options.Device = "auto",
    threads: options.Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Time particle layouts, compared with their paper's figures.

    Example: sdfcli bench flow --scale 1,10 --steps 100
    """
    from sdfcli.apps.flow import tomioka
    from sdfcli.apps.flow.bench import BLOCKS, SHORT, measure
    from sdfcli.backend import select_backend

    blocks = None if block is None else _block_sizes(block)
    backend = select_backend(device, threads)
    on_cpu = backend.name == "cpu"
    count = steps if steps is not None else SHORT if on_cpu else tomioka.STEPS
    if count < 1:
        raise UsageError(f"--steps {count}: use 1 or more")
    with progress("bench flow", quiet or json) as update:
        given = [None] if on_cpu else blocks or BLOCKS
        edges = numbers(buckets, "--buckets")
        rows = list(measure(backend, numbers(scale, "--scale"), given, edges, count, repeat, update))
    if json:
        print_json(LayoutsTimed(device=backend.name, steps=count, rows=rows))
    if json or quiet:
        return
    _print_layouts(backend, rows, count)
    _print_stages(rows)
    print_lines("", *_caveats())
    if blocks is not None and on_cpu:
        print_lines("--block is of no effect: a CPU has no blocks of threads.")


def _block_sizes(text: str) -> list[int]:
    """Parses comma-separated block sizes. Raises UsageError for impossible ones."""
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        raise UsageError(f"--block {text}: use whole numbers between commas, as in 128,256") from None
    for threads in found:
        check_block(threads)
    return found


def _print_layouts(backend: Backend, rows: Sequence[Row], steps: int) -> None:
    from sdfcli.apps.flow.tomioka import GPU, STEPS

    index = {(row.particles, row.order, row.block, row.bucket): row for row in rows if row.layout == "index"}
    lines = []
    for row in rows:
        beside = index[row.particles, row.order, row.block, row.bucket]
        paper = row.paper is not None and beside.paper is not None
        lines.append(
            (
                f"{row.particles:,}",
                row.order,
                f"{row.block or '-'}",
                f"{row.bucket:g}",
                row.layout,
                f"{row.seconds:.3f}",
                f"{beside.seconds / row.seconds:.2f}",
                f"{row.paper:.3f}" if paper else "-",
                f"{beside.paper / row.paper:.2f}" if paper else "-",  # type: ignore[operator]
            )
        )
    measured = "" if steps == STEPS else f", from {steps}"
    title = f"{STEPS:,} steps of a dam break{measured}, {backend.name}; the paper's: {GPU}"
    header = ("particles", "numbered", "block", "bucket", "layout", "s", "x index", "paper's s", "x index")
    print_table(title, lines, header)


def _print_stages(rows: Sequence[Row]) -> None:
    from sdfcli.apps.flow.step import STEPS

    names = [name for name in STEPS if any(row.stages.get(name, 0) > 0 for row in rows)]
    lines = []
    for row in rows:
        whole = sum(row.stages.values())
        cells = [f"{row.stages[name]:.3f}" for name in names]
        share = f"{100 * row.stages['sort'] / whole:.0f} %"
        lines.append(
            (f"{row.particles:,}", row.order, f"{row.block or '-'}", f"{row.bucket:g}", row.layout, *cells, share)
        )
    steps = (STEPS[name] for name in names)
    header = ("particles", "numbered", "block", "bucket", "layout", *steps, "(i) of all")
    print_table("Milliseconds a step", lines, header, apart=True)


def _caveats() -> list[str]:
    from sdfcli.apps.flow.tomioka import PARTICLES

    return [
        f"The case is inferred: a sample program of the book that the paper cites has {PARTICLES:,} particles, as the "
        "paper; 82 % of them are walls.",
        "Its particles fill 230 kB of positions, which lie in any cache of today; the order of a lattice is that of "
        "the buckets, nearly, and decays only as particles mix. So the shuffled and the finer ones say more.",
        "The numbers are float32 here; the book's program has float64, the paper does not say. Results are the same in "
        "all layouts, to the last bit.",
    ]
