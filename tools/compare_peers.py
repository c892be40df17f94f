"""Exact distances on the CPU, compared with other libraries: same points, one process, interleaved runs.

    python tools/compare_peers.py MESH... [--points N] [--repeat N] [--judged N]

Uses open3d, fcpw and libigl where installed; needs none. Points are in random order: on a lattice over the mesh's box
enlarged by a tenth (grid), on the surface with noise of half a percent of the diagonal (near), and random in the
enlarged box (rand). Each library has all CPUs, and points in its preferred layout, prepared outside the timing. Output:
million points per second, medians of interleaved runs; sdfcli's speedup; the maximum error in diagonals; and how many
of the --judged points differ in sign from the exact winding number.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import sdfcli
from sdfcli.backend import select_backend
from sdfcli.mesh.load import load_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.quality.accuracy import on_surface
from sdfcli.quality.reference import ExactReference

NOISE, AROUND, ON_SURFACE = 0.005, 0.05, 1e-6

Query = tuple[bool, Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]
"""Whether distances are signed, and functions that prepare points (n, 3) float32, query them, and read the result as
(n,)."""


def as_they_are(values: Any) -> Any:
    """The identity: nothing to prepare."""
    return values


def of_sdfcli(mesh: Mesh) -> Iterator[tuple[str, Query]]:
    """This package."""
    index = sdfcli.MeshDistance((mesh.vertices, mesh.faces), sign="winding", device="cpu")
    yield "sdfcli signed", (True, as_they_are, index.signed_distance, as_they_are)
    yield "sdfcli", (False, as_they_are, index.distance, as_they_are)


def of_open3d(mesh: Mesh) -> Iterator[tuple[str, Query]]:
    """Open3D: Embree, and ray parity."""
    tensor = importlib.import_module("open3d").core.Tensor
    scene = importlib.import_module("open3d").t.geometry.RaycastingScene(nthreads=0)
    scene.add_triangles(tensor(mesh.vertices.astype(np.float32)), tensor(mesh.faces.astype(np.uint32)))
    yield "open3d signed", (True, tensor, scene.compute_signed_distance, lambda answer: answer.numpy())
    yield "open3d", (False, tensor, scene.compute_distance, lambda answer: answer.numpy())


def of_fcpw(mesh: Mesh) -> Iterator[tuple[str, Query]]:
    """FCPW: a wide BVH by the surface area heuristic."""
    fcpw = importlib.import_module("fcpw")
    scene = fcpw.scene_3D()
    scene.set_object_count(1)
    scene.set_object_vertices(np.asfortranarray(mesh.vertices.astype(np.float32)), 0)
    scene.set_object_triangles(np.asfortranarray(mesh.faces.astype(np.int32)), 0)
    scene.build(fcpw.aggregate_type.bvh_surface_area, True)

    def ask(prepared: tuple[Any, Any]) -> Any:
        found = fcpw.interaction_3D_list()
        scene.find_closest_points(*prepared, found)
        return found

    def prepare(points: Any) -> tuple[Any, Any]:
        return np.asfortranarray(points), np.full(len(points), np.inf, np.float32)

    yield "fcpw", (False, prepare, ask, lambda found: np.array([hit.d for hit in found]))


def of_libigl(mesh: Mesh) -> Iterator[tuple[str, Query]]:
    """libigl: a binary tree of axis-aligned boxes."""
    igl = importlib.import_module("igl")
    vertices, faces = mesh.vertices, mesh.faces.astype(np.int64)
    tree = igl.AABB()
    tree.init(vertices, faces)

    def ask(points: Any) -> Any:
        return tree.squared_distance(vertices, faces, points)[0]

    yield "libigl", (False, lambda points: points.astype(np.float64), ask, np.sqrt)


LIBRARIES = {"open3d": of_open3d, "fcpw": of_fcpw, "igl": of_libigl}


def point_sets(mesh: Mesh, count: int) -> dict[str, Any]:
    """Points (n, 3) float32 by name, in random order."""
    rng = np.random.default_rng(12345)
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    low, high = low - AROUND * (high - low), high + AROUND * (high - low)
    side = round(count ** (1 / 3))
    lattice = np.stack(np.meshgrid(*[np.linspace(*ends, side) for ends in zip(low, high, strict=True)]), axis=-1)
    near = on_surface(mesh, count, rng) + rng.normal(scale=NOISE * mesh.diagonal, size=(count, 3))
    sets = {
        "grid": rng.permutation(lattice.reshape(-1, 3)),
        "near": near,
        "rand": low + rng.random((count, 3)) * (high - low),
    }
    return {name: points.astype(np.float32) for name, points in sets.items()}


def seconds(queries: dict[str, Query], points: Any, repeat: int) -> dict[str, float]:
    """Median time of each query."""
    prepared = {name: prepare(points) for name, (_, prepare, _, _) in queries.items()}
    times: dict[str, list[float]] = {name: [] for name in queries}
    for turn in range(repeat + 1):
        for name, (_, _, ask, _) in queries.items():
            start = time.perf_counter()
            ask(prepared[name])
            if turn:  # the first one warms up
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(own) for name, own in times.items()}


def compare(path: str, count: int, repeat: int, judged: int) -> None:
    """Prints one mesh's rows."""
    mesh = load_mesh(path)
    queries = dict(of_sdfcli(mesh))
    for module, library in LIBRARIES.items():
        if importlib.util.find_spec(module):
            queries.update(library(mesh))
    exact = ExactReference(mesh.vertices, mesh.faces, select_backend("cpu"))
    for kind, points in point_sets(mesh, count).items():
        took = seconds(queries, points, repeat)
        some = points[:judged]
        truth, inside = exact.distance(some), exact.winding(some) > 0.5
        off = truth > ON_SURFACE * mesh.diagonal
        for name, (signed, prepare, ask, read) in queries.items():
            answer = np.asarray(read(ask(prepare(some))), np.float64)
            error = np.abs(np.abs(answer) - truth).max() / mesh.diagonal
            wrong = str(int((((answer < 0) != inside) & off).sum())) if signed else ""
            ours = took[name] / took["sdfcli signed" if signed else "sdfcli"]
            rate = len(points) / took[name] / 1e6
            print(f"{path:24} {kind:5} {name:14} {rate:8.2f} {ours:7.2f}x {error:9.1e} {wrong:>6}", flush=True)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshes", metavar="MESH", nargs="+")
    parser.add_argument("--points", type=int, default=1_000_000, help="in each set")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--judged", type=int, default=100_000, help="points compared with float64")
    options = parser.parse_args()
    print(f"{'mesh':24} {'set':5} {'query':14} {'Mpoints/s':>9} {'sdfcli':>7} {'error':>9} {'wrong':>6}")
    for path in options.meshes:
        compare(path, options.points, options.repeat, options.judged)


if __name__ == "__main__":
    main()
