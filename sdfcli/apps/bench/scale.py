"""Scaling benchmark: whole builds of increasingly large meshes, one process each."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from sdfcli.backend import Backend
from sdfcli.errors import SdfError, UsageError
from sdfcli.extract.marching_cubes import Surface
from sdfcli.extract.mesh_file import write_ply
from sdfcli.mesh.arrays import Faces, Floats, Ints
from sdfcli.mesh.load import load_mesh
from sdfcli.runtime import processes

SCALES = (1, 4, 16)
"""Default triangle counts, in multiples of the mesh's."""

MOST = 1 << 31
"""Maximum triangle count."""

GAP = 1.1
"""Distance between copies, in sides of the mesh's bounds."""

PARTS = {
    "start": ("start",),
    "load": ("load",),
    "check": ("check",),
    "sign": ("sign",),
    "field": ("morton", "sort", "tree", "refit", "octree", "query"),
    "measure": ("measure",),
    "write": ("write",),
}
"""Table columns, with the build stages summed in each."""

INTERVAL = 0.02
"""Seconds between device memory samples."""


@dataclass(frozen=True)
class Row:
    """One build.

    made          `given`, `copies` or `subdivided`.
    triangles     triangle count.
    read          seconds to read the file's bytes.
    seconds       process duration in seconds.
    stages        seconds, by names in PARTS.
    leaves        the field's leaf count.
    file_bytes    mesh file size.
    field_bytes   field file size.
    host_bytes    the process's peak resident memory.
    device_bytes  peak memory use on the device above its initial use; None on a CPU.
    """

    made: str
    triangles: int
    read: float
    seconds: float
    stages: dict[str, float]
    leaves: int
    file_bytes: int
    field_bytes: int
    host_bytes: int
    device_bytes: int | None


def check_scales(scales: Iterable[float]) -> list[int]:
    """Converts scales to integers from 1. Raises UsageError for others."""
    found = []
    for scale in scales:
        if not 1 <= scale < MOST or scale != int(scale):
            raise UsageError(f"--scale {scale:g}: use whole numbers from 1, times the mesh's triangles")
        found.append(int(scale))
    return found


def measure(
    path: str,
    scales: Sequence[int],
    backend: Backend,
    options: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
) -> Iterator[Row]:
    """Builds mesh copies by each scale, and subdivisions for powers of four. options: for `sdfcli build`.

    Raises InputError for an unusable mesh, UsageError for too many triangles, SdfError for a failed build.
    """
    mesh = load_mesh(path)
    vertices, faces = mesh.vertices, mesh.faces
    if max(scales) * len(faces) >= MOST:
        raise UsageError(f"--scale {max(scales)}: {max(scales) * len(faces):,} triangles are too many")
    del mesh
    with tempfile.TemporaryDirectory(prefix="sdfcli-") as folder:
        file = Path(folder) / "mesh.ply"
        for scale in scales:
            halvings = round(math.log(scale, 4))
            ways = ["given"] if scale == 1 else ["copies", *["subdivided"] * (4**halvings == scale)]
            for made in ways:
                if progress:
                    progress(f"{scale * len(faces):,} triangles, {made}")
                larger = (
                    subdivided(vertices, faces, halvings) if made == "subdivided" else copied(vertices, faces, scale)
                )
                write_ply(file, Surface(larger[0], larger[1].astype(np.uint32), cut=False), np.float32)
                del larger
                yield _built(file, made, backend, options)


def copied(vertices: Floats, faces: Faces, count: int) -> tuple[Floats, Ints]:
    """`count` mesh copies on a lattice, side by side."""
    across = math.ceil(count ** (1 / 3) - 1e-9)
    number = np.arange(count)
    place = np.stack([number % across, number // across % across, number // across**2], axis=1)
    sides = GAP * (vertices.max(axis=0) - vertices.min(axis=0))
    positions = (vertices + (place * sides)[:, None]).reshape(-1, 3)
    return positions, (faces + (len(vertices) * number)[:, None, None]).reshape(-1, 3)


def subdivided(vertices: Floats, given: Faces, times: int) -> tuple[Floats, Ints]:
    """Mesh with each triangle split into four at its edge midpoints, `times` times."""
    from trimesh.remesh import subdivide

    faces = given.astype(np.int64)
    for _ in range(times):
        vertices, faces = subdivide(vertices, faces)
    return vertices, faces


def _built(file: Path, made: str, backend: Backend, options: Sequence[str]) -> Row:
    """Builds a file and measures its cost."""
    field = file.with_suffix(".h5")
    field.unlink(missing_ok=True)
    start = perf_counter()
    file.read_bytes()
    read = perf_counter() - start
    command = [*processes.python("sdfcli.__main__"), "build", str(file), "-o", str(field), "--json"]
    with tempfile.TemporaryFile("w+") as said, _Watched(backend) as watched:
        start = perf_counter()
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=said, text=True)
        assert process.stdout
        report = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        seconds = perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SdfError(f"the build failed: {said.read().strip() or f'exit code {process.returncode}'}")
    found: dict[str, Any] = json.loads(report)
    stages = {name: sum(found["seconds"].get(stage, 0.0) for stage in of) for name, of in PARTS.items()}
    return Row(
        made=made,
        triangles=found["triangles"],
        read=read,
        seconds=seconds,
        stages=stages,
        leaves=found["leaves"],
        file_bytes=file.stat().st_size,
        field_bytes=found["bytes"],
        host_bytes=1024 * used.ru_maxrss,
        device_bytes=watched.most,
    )


class _Watched:
    """Other processes' peak memory use on a device while open. most: bytes, None on a CPU."""

    def __init__(self, backend: Backend) -> None:
        self.most: int | None = None if backend.name == "cpu" else 0
        self._backend, self._done = backend, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> _Watched:
        if self.most is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self.most is not None:
            self._thread.join()

    def _look(self) -> None:
        with self._backend.active():
            free = self._backend.memory_free()
            while not self._done.wait(INTERVAL):
                self.most = max(self.most or 0, free - self._backend.memory_free())


def exponents(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Growth exponents for seconds, stages and memory over the triangle count, for `copies` and `subdivided`, if any:
    least-squares slopes between logarithms, including the given mesh. By name: `seconds`, names in PARTS,
    `host_bytes`, `device_bytes`; quantities with zeros are left out."""
    found = {}
    for made in ("copies", "subdivided"):
        own = [row for row in rows if row.made in ("given", made)]
        triangles = np.log([row.triangles for row in own])
        if len(set(triangles.tolist())) < 2:
            continue
        columns: dict[str, list[float]] = {
            "seconds": [row.seconds for row in own],
            **{name: [row.stages[name] for row in own] for name in PARTS},
            "host_bytes": [row.host_bytes for row in own],
            "device_bytes": [row.device_bytes or 0 for row in own],
        }
        found[made] = {
            name: float(np.polyfit(triangles, np.log(values), 1)[0])
            for name, values in columns.items()
            if min(values) > 0
        }
    return found
