"""`sdfcli bench scan`: the exclusive scan on one, two and four devices."""

from __future__ import annotations

from typing import Annotated

from sdfcli.cli import options
from sdfcli.cli.bench_options import Repeat
from sdfcli.cli.output import print_json, print_table
from sdfcli.cli.records import Amount, Count, Line


class ScanTimed(Line, title="bench scan", shared="device"):
    """A line per measurement."""

    what: Annotated[str, "`scan`, `form` (the paper's), `library`, `copy` or `add`"]
    where: Annotated[str, "`host to host` or `on devices`"]
    devices: Annotated[Count, "device count"]
    elements: Annotated[Count, "32-bit element count"]
    milliseconds: Annotated[Amount, "median milliseconds"]
    fastest: Annotated[Amount, "lower quartile, in milliseconds"]
    slowest: Annotated[Amount, "upper quartile, in milliseconds"]
    gigabytes: Annotated[Amount, "GB/s, counting one read and one write per element"]
    speed_up: Annotated[Amount, "speed-up over one device"]
    paper: Annotated[Amount | None, "the paper's milliseconds, or null"]
    block: Annotated[Count | None, "threads per block of `add`; null for the others and on a CPU"]
    each: Annotated[Count | None, "elements per thread of `add`; null for the others"]


def bench_scan(
    repeat: Repeat = 5,
    device: options.Devices = "auto",
    threads: options.Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Time the exclusive scan on one, two and four devices, compared with its paper's figures.

    Example: sdfcli bench scan --device cuda:0,1
    """
    from sdfcli.startup import driver

    driver.with_cub()
    from sdfcli.apps.bench.scan import ON_DEVICES, ON_DEVICES_CPU, measure_scan
    from sdfcli.backend import all_backends, select_backends

    backends = all_backends(threads) if device == "auto" else select_backends(device, threads)
    sizes = ON_DEVICES_CPU if backends[0].name == "cpu" else ON_DEVICES
    names = ",".join(backend.name for backend in backends)
    rows, additions = [], []
    for row in measure_scan(backends, on_devices=sizes, repeat=repeat):
        if json:
            print_json(ScanTimed(device=names, **vars(row)))
        times = f"{row.milliseconds:.4g}", f"{row.fastest:.4g} to {row.slowest:.4g}", f"{row.gigabytes:,.0f}"
        if row.each is not None:
            blocks = "-" if row.block is None else f"{-(-row.elements // (row.block * row.each)):,}"
            additions.append((f"{row.elements:,}", f"{row.block or '-'}", f"{row.each}", blocks, *times))
            continue
        paper = "-" if row.paper is None else f"{row.paper:.2f}"
        rows.append((row.what, row.where, f"{row.devices}", f"{row.elements:,}", *times, f"{row.speed_up:.2f}", paper))
    if not json and not quiet:
        header = ("", "", "devices", "elements", "ms", "quartiles", "GB/s", "x one device", "paper's ms")
        print_table(f"exclusive scan of 32-bit numbers, {names}", rows, header)
        columns = ("elements", "threads per block", "elements each", "blocks", "ms", "quartiles", "GB/s")
        print_table("Adding a subtotal to all elements", additions, columns, apart=True)
