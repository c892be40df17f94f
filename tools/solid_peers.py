"""Solids of soups, compared with mesh2sdf and point-cloud-utils: interleaved runs in one process, at equal resolution.

    python tools/solid_peers.py TABLE.csv MESH... [--cells N,N] [--repeat N]

The longest side of each mesh has N cells of sdfcli's finest level and of mesh2sdf's grid (`fix`, level 2 / size);
point-cloud-utils' `make_mesh_watertight` is given the leaf count for which its face count is nearest to sdfcli's.
mesh2sdf, which takes long, runs once. Output: median seconds of sdfcli, and the others' as multiples of it; their face
counts; and how many shells each leaves.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import trimesh

from sdfcli.backend import select_backend
from sdfcli.mesh.load import load_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import GAP
from sdfcli.solid.flood import CELL
from sdfcli.solid.solidify import solid_of

HALF = 0.95
"""Half the longest side in mesh2sdf's cube from -1 to 1."""
SLOW = "mesh2sdf"
LEAVES = np.array([1 / 10, 1 / 4, 1 / 2])
"""Leaf counts that are tried for point-cloud-utils, in faces."""

Surface = tuple[Any, Any]
COLUMNS = (
    "mesh",
    "cells",
    "sdfcli, s",
    "mesh2sdf",
    "point-cloud-utils",
    "faces",
    "mesh2sdf's faces",
    "point-cloud-utils' faces",
    "shells",
    "mesh2sdf's shells",
    "point-cloud-utils' shells",
)


def main() -> None:
    """Writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("meshes", type=Path, nargs="+")
    parser.add_argument("--cells", default="128,256")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with options.table.open("x", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for path in options.meshes:
            for cells in map(int, options.cells.split(",")):
                table.writerow([path.stem, cells, *compared(load_mesh(path), cells, options.repeat)])
                file.flush()


def compared(mesh: Mesh, cells: int, repeat: int) -> list[str]:
    """The rest of a row."""
    ways = methods(mesh, cells)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    made: dict[str, Surface] = {}
    for turn in range(repeat):
        for name, make in ways.items():
            if name == SLOW and turn:
                continue
            begin = time.perf_counter()
            made[name] = make()
            taken[name].append(time.perf_counter() - begin)
    own, *others = (statistics.median(each) for each in taken.values())
    row = [f"{own:.2f}", *(f"{other / own:.1f}" for other in others)]
    row += [f"{len(faces):,}" for _, faces in made.values()]
    row += [f"{shells(*each):,}" for each in made.values()]
    print(*row, file=sys.stderr, flush=True)
    return row


def methods(mesh: Mesh, cells: int) -> dict[str, Callable[[], Surface]]:
    """Functions that make the mesh's solid, by package."""
    mesh2sdf, pcu = (importlib.import_module(name) for name in ("mesh2sdf", "point_cloud_utils"))
    low, high = mesh.bounds
    side = float((high - low).max())
    vertices = (mesh.vertices - (low + high) / 2) * (2 * HALF / side)
    faces, size = mesh.faces.astype(np.int32), round(cells / HALF)
    backend, unit = select_backend("cpu"), side / cells / CELL / GAP

    def own() -> Surface:
        solid = solid_of(mesh, GAP, unit, backend, measured=False)
        return solid.vertices, solid.faces

    def grid() -> Surface:
        found = mesh2sdf.compute(vertices, faces, size, fix=True, level=2 / size, return_mesh=True)[1]
        return found.vertices, found.faces

    wanted = len(own()[1])
    off = {
        count: abs(np.log(len(pcu.make_mesh_watertight(vertices, faces, count, seed=0)[1]) / wanted))
        for count in wanted * LEAVES
    }
    leaves = min(off, key=lambda count: off[count])
    return {"sdfcli": own, "mesh2sdf": grid, "pcu": lambda: pcu.make_mesh_watertight(vertices, faces, leaves, seed=0)}


def shells(vertices: Any, faces: Any) -> int:
    """Connected parts."""
    return len(trimesh.Trimesh(vertices, faces, process=False).split(only_watertight=False))


if __name__ == "__main__":
    main()
