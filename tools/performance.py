"""Complete builds as users run them: seconds, memory, file. `python tools/performance.py MESH... [--device cuda]`.

Each build is a separate `sdfcli build MESH` process, timed with its start, reading, checks and writing. Prints a CSV
row per mesh: median wall-clock seconds, median processor seconds of all threads, maximum resident host memory (MB),
leaves, and file size (MB). Each mesh's first run is discarded: it reads the file from disk, and on a GPU may compile
kernels.
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
    """Runs one build and returns its figures."""
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
    given, options = parser.parse_known_args()  # the rest goes to the build: --device, --tolerance ...
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
