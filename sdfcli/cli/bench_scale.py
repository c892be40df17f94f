"""What `sdfcli bench scale` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from sdfcli.cli.bench_flow import numbers
from sdfcli.cli.output import human_bytes, print_json, print_lines, print_table, progress
from sdfcli.errors import UsageError

if TYPE_CHECKING:
    from sdfcli.backend import Backend
    from sdfcli.bench.scale import Row


def measure_growth(
    meshes: list[str],
    scales: str | None,
    depth: int | None,
    backend: Backend,
    threads: int | None,
    json: bool,
    quiet: bool,
) -> None:
    """`bench scale` on one device. depth: of the thesis's octree; None: the adaptive one."""
    from sdfcli.bench.scale import SCALES, check_scales, exponents, measure

    if not meshes:
        raise UsageError("scale: name a mesh, as in `sdfcli bench scale dragon.ply`")
    factors = check_scales(SCALES if scales is None else numbers(scales, "--scale"))
    options = ["--device", backend.name, *([] if threads is None else ["--threads", str(threads)])]
    if depth is not None:
        options += ["--octree", "bvh", "--depth", str(depth)]
    octree = "adaptive octree" if depth is None else f"bvh to depth {depth}"
    for mesh in meshes:
        with progress(mesh, quiet or json) as update:
            rows = list(measure(mesh, factors, backend, options, update))
        slopes = exponents(rows)
        if json:
            print_json(
                {"input": mesh, "device": backend.name, "rows": [asdict(row) for row in rows], "exponents": slopes}
            )
        elif not quiet:
            _print_rows(f"{mesh}, {octree}, {backend.name}: seconds of a process", rows, slopes)


def _print_rows(title: str, rows: Sequence[Row], slopes: dict[str, dict[str, float]]) -> None:
    lines = [
        (
            f"{row.triangles:,}",
            row.made,
            f"{row.read:.3f}",
            f"{row.seconds:.2f}",
            *(f"{seconds:.3f}" for seconds in row.stages.values()),
            f"{row.leaves:,}",
            human_bytes(row.host_bytes),
            f"{row.host_bytes / row.triangles:,.0f}",
            "-" if row.device_bytes is None else human_bytes(row.device_bytes),
        )
        for row in rows
    ]
    parts = tuple(rows[0].stages)
    print_table(title, lines, ("triangles", "", "read", "all", *parts, "leaves", "host", "B/triangle", "device"))
    for made, of in slopes.items():
        words = ", ".join(f"{name.replace('_', ' ')} {slope:.2f}" for name, slope in of.items())
        print_lines(f"Exponents of growth with the triangles, {made}: {words}.")
