"""`sdfcli bench scan`: the exclusive scan on one, two and four devices."""

from __future__ import annotations

from typing import Annotated

from sdfcli.cli import options
from sdfcli.cli.bench_options import Repeat
from sdfcli.cli.output import print_json, print_table
from sdfcli.cli.records import Amount, Count, Line


class ScanTimed(Line, title="bench scan", shared="device"):
    """A line per measurement."""

    what: Annotated[str, "`scan`, `library` or `copy`"]
    where: Annotated[str, "`host to host` or `on devices`"]
    devices: Annotated[Count, "device count"]
    elements: Annotated[Count, "32-bit element count"]
    milliseconds: Annotated[Amount, "median milliseconds"]
    fastest: Annotated[Amount, "lower quartile, in milliseconds"]
    slowest: Annotated[Amount, "upper quartile, in milliseconds"]
    gigabytes: Annotated[Amount, "GB/s, counting one read and one write per element"]
    speed_up: Annotated[Amount, "speed-up over one device"]
    paper: Annotated[Amount | None, "the paper's milliseconds, or null"]


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
    rows = []
    for row in measure_scan(backends, on_devices=sizes, repeat=repeat):
        if json:
            print_json(ScanTimed(device=names, **vars(row)))
        rows.append(
            (
                row.what,
                row.where,
                f"{row.devices}",
                f"{row.elements:,}",
                f"{row.milliseconds:.4g}",
                f"{row.fastest:.4g} to {row.slowest:.4g}",
                f"{row.gigabytes:,.0f}",
                f"{row.speed_up:.2f}",
                "-" if row.paper is None else f"{row.paper:.2f}",
            )
        )
    if not json and not quiet:
        header = ("", "", "devices", "elements", "ms", "quartiles", "GB/s", "x one device", "paper's ms")
        print_table(f"exclusive scan of 32-bit numbers, {names}", rows, header)
