"""Makes a solid of each mesh with the command line, checks it, and writes a table row per mesh.

    python tools/measure_solids.py TABLE.csv FOLDER|MESH... [--build] [--keep FOLDER]

One command at a time, with default parameters. Each solid is judged without sdfcli: `manifold` by manifold3d; `nested`
counts shells whose winding number in another shell is not 0. Distances are in diagonals, from random points of the mesh
that the outside sees. `CPU, s`: the sum over all threads. Refused meshes are left out; their messages are printed.
--build: also times `build --sign flood`. --keep: folder for the solids.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import manifold3d
import numpy as np
import trimesh

SUFFIXES = {".3mf", ".glb", ".gltf", ".obj", ".off", ".ply", ".stl"}
COLUMNS = (
    "mesh",
    "faces",
    "solid's faces",
    "closed",
    "manifold",
    "shells",
    "nested",
    "seen",
    "mean",
    "99 %",
    "s",
    "CPU, s",
    "MiB",
)
BUILDS = ("build, s", "build, CPU s", "build, MiB")


def main() -> None:
    """Writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("meshes", type=Path, nargs="+")
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with options.table.open("x", newline="") as file, tempfile.TemporaryDirectory() as scratch:
        table = csv.writer(file, lineterminator="\n")
        columns = COLUMNS + BUILDS if options.build else COLUMNS
        table.writerow(columns)
        for mesh in found(options.meshes):
            row = measured(mesh, options.keep or Path(scratch), options.build)
            if len(row) > 1:
                table.writerow([row.get(name, "") for name in columns])
                file.flush()
            print(*row.values(), file=sys.stderr, flush=True)


def found(given: list[Path]) -> list[Path]:
    """Meshes given, and those in folders given."""
    return [
        path
        for each in given
        for path in (sorted(each.iterdir()) if each.is_dir() else [each])
        if path.suffix.lower() in SUFFIXES
    ]


def measured(mesh: Path, folder: Path, build: bool) -> dict[str, Any]:
    """A row of the table."""
    solid, field = folder / f"{mesh.stem}_solid.ply", folder / "field.h5"
    made, costs = ran("solidify", mesh, "-o", solid)
    if not made:
        return {"error": costs[0]}
    seen = made["seen_distance"] or {}
    away = {"mean": seen.get("mean"), "99 %": seen.get("most")}
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # a child's peak memory includes its parent's
        facts = pool.apply(judged, (mesh, solid))
    return {
        "mesh": mesh.name,
        **facts,
        "seen": f"{seen['seen']:.2f}" if seen else "",
        **{name: f"{value / made['diagonal']:.5f}" for name, value in away.items() if seen},
        **dict(zip(COLUMNS[-3:], costs, strict=True)),
        **(dict(zip(BUILDS, ran("build", mesh, "--sign", "flood", "-o", field)[1], strict=False)) if build else {}),
    }


def ran(command: str, mesh: Path, *rest: str | Path) -> tuple[dict[str, Any], list[str]]:
    """A command's JSON, and its seconds, those of all threads, and its peak memory in MiB; {} and its error if it
    fails."""
    line = [sys.executable, "-m", "sdfcli", command, mesh, *rest, "--json", "--force", "--device", "cpu"]
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(list(map(str, line)), stdout=out, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        taken, busy = time.perf_counter() - begin, usage.ru_utime + usage.ru_stime
        out.seek(0), errors.seek(0)
        if process.returncode:
            return {}, [errors.read().decode().strip()]
        return json.loads(out.read()), [f"{taken:.1f}", f"{busy:.1f}", f"{usage.ru_maxrss // 1024:,}"]


def judged(mesh: Path, solid: Path) -> dict[str, Any]:
    """Facts about a mesh and its solid."""
    made = trimesh.load_mesh(solid, process=False)
    vertices, faces = np.asarray(made.vertices, np.float64), np.asarray(made.faces)
    start, end = faces.ravel().astype(np.int64), np.roll(faces, -1, axis=1).ravel().astype(np.int64)
    edge, opposite = start * len(vertices) + end, end * len(vertices) + start
    closed = len(np.unique(edge)) == len(edge) and np.array_equal(np.sort(edge), np.sort(opposite))
    whole = manifold3d.Manifold(manifold3d.Mesh(vertices.astype(np.float32), faces.astype(np.uint32)))
    manifold = whole.status() == manifold3d.Error.NoError
    shells = [part.to_mesh() for part in whole.decompose()]
    return {
        "faces": f"{len(trimesh.load_mesh(mesh, process=False).faces):,}",
        "solid's faces": f"{len(faces):,}",
        "closed": "yes" if closed else "no",
        "manifold": "yes" if manifold else "no",
        "shells": len(shells),
        "nested": nested([shell.vert_properties[shell.tri_verts].astype(np.float64) for shell in shells]),
    }


def nested(shells: list[Any]) -> int:
    """How many of the shells, triangles (f, 3, 3), lie in others."""
    low = np.array([shell.min(axis=(0, 1)) for shell in shells])
    high = np.array([shell.max(axis=(0, 1)) for shell in shells])
    count = 0
    for i, shell in enumerate(shells):
        around = (low < low[i]).all(axis=1) & (high > high[i]).all(axis=1)
        count += any(abs(winding(shells[j], shell[0, 0])) > 0.5 for j in np.flatnonzero(around))
    return count


def winding(corners: Any, point: Any) -> float:
    """Winding number of triangles (f, 3, 3) around a point."""
    a, b, c = np.moveaxis(corners - point, 1, 0)
    x, y, z = (np.linalg.norm(each, axis=1) for each in (a, b, c))
    top = np.einsum("ij,ij->i", a, np.cross(b, c))
    low = x * y * z + np.einsum("ij,ij->i", a, b) * z + np.einsum("ij,ij->i", b, c) * x
    low += np.einsum("ij,ij->i", c, a) * y
    return float(np.arctan2(top, low).sum() / (2 * np.pi))


if __name__ == "__main__":
    main()
