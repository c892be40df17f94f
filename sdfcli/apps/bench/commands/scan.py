"""`sdfcli bench scan`: the exclusive scan on one, two and four devices."""

from __future__ import annotations

from sdfcli.cli import options
from sdfcli.cli.bench_options import Repeat
from sdfcli.cli.output import print_json, print_table


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
    from dataclasses import asdict

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
            print_json({"device": names, **asdict(row)})
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
