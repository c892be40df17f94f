"""Whole builds, as a user runs them: seconds, memory, file. `python tools/performance.py MESH... [--device cuda]`.

Each build is a process of its own, `sdfcli build MESH`, whose start, reading, checking and writing count. Prints a CSV
with a row a mesh: the medians of the seconds by the clock and of the processor seconds of all threads, the largest
resident memory of the host (MB), leaves, and the size of the file (MB). The first run of a mesh is left out: it reads
the file from the disk, and on a GPU may compile kernels.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

COLUMNS = ("mesh", "triangles", "device", "seconds", "processor seconds", "host MB", "leaves", "file MB")


def build(program: str, mesh: Path, options: list[str], folder: Path) -> dict[str, Any]:
    """Figures of one build."""
    command = [program, "build", str(mesh), "-o", str(folder / "field.h5"), "--force", "--json", *options]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    report = json.loads(process.stdout.read() or "{}")
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(os.waitstatus_to_exitcode(status))
    return {
        "triangles": report["triangles"],
        "device": report["device"],
        "seconds": seconds,
        "processor seconds": usage.ru_utime + usage.ru_stime,
        "host MB": usage.ru_maxrss * 1024 / 1e6,
        "leaves": report["leaves"],
        "file MB": report["bytes"] / 1e6,
    }


def main() -> None:
    """Prints the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mesh", nargs="+", type=Path)
    parser.add_argument("--repeat", type=int, default=5, help="builds of each mesh that count")
    given, options = parser.parse_known_args()  # what is left goes to the build: --device, --tolerance ...
    program = shutil.which("sdfcli", path=str(Path(sys.executable).parent)) or "sdfcli"
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        for mesh in given.mesh:
            build(program, mesh, options, Path(folder))
            runs = [build(program, mesh, options, Path(folder)) for _ in range(given.repeat)]
            median = {name: statistics.median(run[name] for run in runs) for name in ("seconds", "processor seconds")}
            found = {**runs[-1], **median, "host MB": max(run["host MB"] for run in runs), "mesh": mesh.stem}
            rows.writerow(f"{found[name]:.3g}" if isinstance(found[name], float) else found[name] for name in COLUMNS)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
