"""Benchmark for moving meshes: frames per second by four build methods."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli.apps.bench.motions import bend, cycle
from sdfcli.errors import CheckFailedError, UsageError
from sdfcli.extract.marching_cubes import Surface
from sdfcli.extract.mesh_file import write_ply
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import BuildOptions, BuildParams
from sdfcli.runtime.libraries import import_trimesh
from sdfcli.runtime.parts import parts_folder
from sdfcli.runtime.processes import python
from sdfcli.sequence.build import SequenceBuild
from sdfcli.sequence.frames import FrameFiles, find_frames
from sdfcli.sequence.save import save_sequence
from sdfcli.sequence.workers import build_rows

CYCLE, AMOUNT = 240, 0.05
"""Frames per bend cycle, and its amount as a fraction of the diagonal: at most 0.13 % per frame."""
EACH = 3
"""Maximum frames of `build, a process each`, whose frames take equally long."""
LIU_KIM = 20.0
"""Frames per second in Liu and Kim 2014: bunny is inflated and rebuilt in each step under a cloth."""
WAYS = ("build, a process each", "build FOLDER", "sequence --cold", "sequence")


@dataclass(frozen=True)
class Row:
    """One build method for the frames.

    way         in WAYS.
    octree      in params.OCTREES.
    file        whether files are written; otherwise fields are discarded.
    frames      built frame count.
    seconds     from the start, including process start-up, to the last file's end.
    per_second  frames per second over this time.
    steady      frames per second from the first frame's end to the last one's; None for a process each.
    """

    way: str
    octree: str
    file: bool
    frames: int
    seconds: float
    per_second: float
    steady: float | None


def torus() -> Mesh:
    """Closed mesh with 69,696 triangles."""
    made = import_trimesh().creation.torus(1.0, 0.4, major_sections=264, minor_sections=132)
    return make_mesh(made.vertices, made.faces)


def compare(
    mesh: Mesh,
    frames: int,
    depth: int,
    *,
    device: str = "auto",
    threads: int | None = None,
    repeat: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Iterator[Row]:
    """First frames in a bend cycle, by each method with each octree: medians over `repeat` interleaved runs. depth: for
    the octree `bvh`; `adaptive` uses its defaults.

    Raises UsageError for fewer than two frames, CheckFailedError for a failed build, and a sequence's exceptions.
    """
    if frames < 2:
        raise UsageError(f"--frames {frames}: use 2 or more")
    with tempfile.TemporaryDirectory(prefix="sdfcli-bench-") as folder:
        files = _write_frames(mesh, frames, Path(folder, "frames"))
        runs: dict[tuple[str, str, bool], list[Row]] = {}
        for turn in range(repeat):
            for octree, of_octree in (("adaptive", {}), ("bvh", {"depth": depth})):
                parameters = {"octree": octree, **of_octree}
                out = Path(folder, f"{octree}{turn}")
                for way, file, run in _ways(files, parameters, BuildOptions(device, threads), out):
                    if progress:
                        progress(f"{octree}, {way}{'' if file else ', without a file'}")
                    start = time.perf_counter()
                    ends = [end - start for end in run()]
                    seconds = time.perf_counter() - start
                    steady = None if way == WAYS[0] else (len(ends) - 1) / (ends[-1] - ends[0])
                    row = Row(way, octree, file, len(ends), seconds, len(ends) / seconds, steady)
                    runs.setdefault((way, octree, file), []).append(row)
        for rows in runs.values():
            yield sorted(rows, key=lambda row: row.seconds)[len(rows) // 2]


def _write_frames(mesh: Mesh, frames: int, folder: Path) -> FrameFiles:
    folder.mkdir()
    for number, vertices in zip(range(frames), cycle(mesh.vertices, bend, CYCLE, AMOUNT * mesh.diagonal), strict=False):
        write_ply(folder / f"frame{number:04}.ply", Surface(vertices, mesh.faces, cut=False), np.float32)
    found = find_frames([str(folder)], None)
    assert isinstance(found, FrameFiles)
    return found


Way = tuple[str, bool, Callable[[], list[float]]]
"""Method name, whether it writes files, and the run, which returns each frame's end by time.perf_counter."""


def _ways(files: FrameFiles, parameters: dict[str, Any], options: BuildOptions, out: Path) -> Iterator[Way]:
    """Build methods for one octree. Their outputs are folders with the prefix `out`."""
    params = BuildParams(**parameters)
    known = SequenceBuild(files, params, options)  # domain and unit shared by all methods
    (x, y, z), length = known.domain.origin, known.domain.length
    words = ["--domain", ",".join(repr(float(part)) for part in (x, y, z, length)), "--unit", repr(known.unit)]
    given = {**parameters, "device": options.device, "threads": options.threads}
    words += [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    single, batch = Path(f"{out}-single"), Path(f"{out}-batch")
    single.mkdir()

    def each() -> list[float]:
        some = files.files[:EACH]
        return [_build(file, "-o", str(single / f"{k}.h5"), *words)[-1] for k, file in enumerate(some)]

    yield WAYS[0], True, each
    yield WAYS[1], True, partial(_build, *files.files, "-o", f"{batch}/", *words)
    for way, cold in ((WAYS[2], True), (WAYS[3], False)):
        make = partial(SequenceBuild, files, params, options, cold)
        yield way, True, partial(_save, make, Path(f"{out}-{cold}.h5"))
        yield way, False, partial(_drop, make)


def _build(*words: str) -> list[float]:
    """Arrival times of `sdfcli build --json` lines. Raises CheckFailedError on failure."""
    with tempfile.TemporaryFile("w+") as talk:
        command = [*python("sdfcli.__main__"), "build", "--json", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=talk, text=True) as process:
            assert process.stdout
            ends = [time.perf_counter() for _ in process.stdout]
        if process.returncode:
            talk.seek(0)
            raise CheckFailedError(f"sdfcli build failed: {(talk.read().strip() or 'no message').splitlines()[-1]}")
    return ends


def _save(make: Callable[[], SequenceBuild], path: Path) -> list[float]:
    build = make()
    ends: list[float] = []
    with parts_folder(path, resume=False, force=False) as folder:
        save_sequence(
            build, np.arange(len(build)) / 24, path, folder, False, lambda _: ends.append(time.perf_counter())
        )
    return ends


def _drop(make: Callable[[], SequenceBuild]) -> list[float]:
    return [time.perf_counter() for _ in build_rows(make(), None)]
