"""Hausdorff distances compared with other programs: same meshes, interleaved runs.

    python tools/hausdorff_peers.py MESH... [--points N] [--repeat N] [--limit S] [--csv FILE]

Uses libigl, PyMeshLab, cascading_upper_bounds (Sacht, Jacobson 2024) and fast-simplification where installed; needs
none. Each mesh is compared with a tenth of its triangles (`tenth`, with fast-simplification), with a copy whose
vertices are moved by a thousandth of the diagonal on average (`noisy`), and with one whose triangles are split into
four (`split`). libigl and PyMeshLab measure the distances of all vertices and of --points random points of either mesh
to the other, and take the largest: a lower bound. `cascading` has bounds as far apart as sdfcli's. Each run is a
process of its own, ended after --limit seconds. Times are medians, in seconds, from arrays to the result in both
directions, trees included, with all CPUs where the library uses them. Output: the bounds, the others' lower bounds, and
times.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.util
import math
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sdfcli
from sdfcli.mesh.load import load_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.quality.accuracy import on_surface

NOISE = 1e-3
"""Mean displacement of `noisy` vertices, in diagonals."""

Shape = tuple[Any, Any]
"""Vertices (v, 3) float64 and faces (f, 3) int32."""


def shapes_near(mesh: Mesh) -> Iterator[tuple[str, Shape]]:
    """The meshes to compare with."""
    vertices, faces = np.asarray(mesh.vertices), mesh.faces.astype(np.int32)
    if importlib.util.find_spec("fast_simplification"):
        simplify = importlib.import_module("fast_simplification").simplify
        fewer, of_fewer = simplify(vertices.astype(np.float32), faces, 0.9)
        yield "tenth", (fewer.astype(np.float64), of_fewer.astype(np.int32))
    noise = np.random.default_rng(0).normal(size=vertices.shape)
    yield "noisy", (vertices + NOISE * mesh.diagonal / np.linalg.norm(noise, axis=1).mean() * noise, faces)
    yield "split", split(vertices, faces)


def split(vertices: Any, faces: Any) -> Shape:
    """Each triangle as four, with vertices at the middles of edges."""
    sides = np.sort(np.stack((faces, np.roll(faces, -1, axis=1)), axis=2), axis=2)
    pairs, number = np.unique(sides.reshape(-1, 2), axis=0, return_inverse=True)
    (a, b, c), (ab, bc, ca) = faces.T, (len(vertices) + number.reshape(-1, 3)).T
    smaller = [np.stack(each, axis=1) for each in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))]
    return np.concatenate((vertices, vertices[pairs].mean(axis=1))), np.concatenate(smaller).astype(np.int32)


def points_of(shape: Shape, count: int) -> Any:
    """A mesh's vertices and random points on it."""
    return np.concatenate((shape[0], on_surface(load_mesh(shape), count, np.random.default_rng(1))))


def of_sdfcli(a: Shape, b: Shape, _: int) -> Any:
    """This package."""
    found = sdfcli.compare(a, b, sign="none", device="cpu")
    return found.lower, found.upper


def of_libigl(a: Shape, b: Shape, count: int) -> Any:
    """libigl: a binary tree of boxes."""
    measure = importlib.import_module("igl").point_mesh_squared_distance
    ways = ((points_of(a, count), b), (points_of(b, count), a))
    return max(float(np.sqrt(measure(points, *target)[0].max())) for points, target in ways), math.inf


def of_pymeshlab(a: Shape, b: Shape, count: int) -> Any:
    """PyMeshLab: a uniform grid."""
    library = importlib.import_module("pymeshlab")
    meshes = library.MeshSet()
    for vertices, faces in (a, b):
        meshes.add_mesh(library.Mesh(vertices, faces))
    sampled = {"samplevert": True, "sampleedge": False, "sampleface": True, "samplenum": count}
    ways = ({"sampledmesh": 0, "targetmesh": 1}, {"sampledmesh": 1, "targetmesh": 0})
    return max(float(meshes.get_hausdorff_distance(**way, **sampled)["max"]) for way in ways), math.inf


def of_cascading(a: Shape, b: Shape, _: int) -> Any:
    """Sacht and Jacobson's cascading upper bounds, within 1 % of each direction's distance, or 1e-6 of the diagonal."""
    bounds = importlib.import_module("cascading_upper_bounds").pompeiu_hausdorff
    found = []
    for source, target in ((a, b), (b, a)):
        arrays = [np.ascontiguousarray(each) for each in (*source, *target)]
        index = sdfcli.MeshDistance(target, sign="none", device="cpu")
        scale = float(index.distance(source[0]).max())  # the library takes an absolute width
        found.append(bounds(*arrays, max(0.01 * scale, 1e-6 * load_mesh(source).diagonal), 1e6, False)[:2])
    return max(low for low, _ in found), max(high for _, high in found)


PROGRAMS: dict[str, tuple[str, Callable[[Shape, Shape, int], Any]]] = {
    "sdfcli": ("sdfcli", of_sdfcli),
    "libigl": ("igl", of_libigl),
    "PyMeshLab": ("pymeshlab", of_pymeshlab),
    "cascading": ("cascading_upper_bounds", of_cascading),
}


def child(pipe: Any, program: str, *given: Any) -> None:
    """Runs a program once, and sends its bounds and seconds."""
    start = time.perf_counter()
    bounds = PROGRAMS[program][1](*given)
    pipe.send((bounds, time.perf_counter() - start))


def run(program: str, limit: float, *given: Any) -> tuple[Any, float]:
    """A program's bounds and seconds; no bounds, and an infinite time, if it takes longer than the limit, or fails."""
    forked = multiprocessing.get_context("fork")
    here, there = forked.Pipe()
    process = forked.Process(target=child, args=(there, program, *given))
    process.start()
    try:
        return here.recv() if here.poll(limit) else (None, math.inf)
    finally:
        process.kill()
        process.join()


def compared(name: str, kind: str, a: Shape, b: Shape, points: int, repeat: int, limit: float) -> dict[str, str]:
    """A row: the bounds, the others' lower bounds and all times."""
    programs = [each for each, (module, _) in PROGRAMS.items() if importlib.util.find_spec(module)]
    bounds: dict[str, Any] = {}
    seconds: dict[str, list[float]] = {each: [] for each in programs}
    for _ in range(repeat):
        for each in programs:
            if math.inf in seconds[each]:
                continue
            bounds[each], took = run(each, limit, a, b, points)
            seconds[each].append(took)
    diagonal = load_mesh(a).diagonal
    own = bounds["sdfcli"]
    ends = [number(value / diagonal) for value in own] if own else ["-", "-"]
    row = {"meshes": f"{name}, {kind}", "at least": ends[0], "at most": ends[1]}
    row["s"] = time_of(seconds["sdfcli"], limit)
    for each in programs[1:]:
        row[each] = number(bounds[each][0] / diagonal) if bounds[each] else "-"
        row[f"{each}, s"] = time_of(seconds[each], limit)
    return row


def number(value: float) -> str:
    """Four digits; 0 for less than rounding."""
    return f"{value:.3e}" if value > 1e-12 else "0"


def time_of(seconds: list[float], limit: float) -> str:
    """Median of some seconds."""
    median = statistics.median(seconds)
    return f"> {limit:.0f}" if median == math.inf else f"{median:.2f}" if median < 9.95 else f"{median:.0f}"


def main() -> int:
    """Prints a row per pair of meshes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("meshes", nargs="+")
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--csv")
    given = parser.parse_args()
    rows = []
    for path in given.meshes:
        mesh = load_mesh(path)
        a = (np.asarray(mesh.vertices), mesh.faces.astype(np.int32))
        for kind, b in shapes_near(mesh):
            rows.append(compared(Path(path).stem, kind, a, b, given.points, given.repeat, given.limit))
            print(rows[-1], flush=True)
    if given.csv:
        with open(given.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
