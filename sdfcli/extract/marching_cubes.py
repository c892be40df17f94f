"""Marching cubes over several devices.

The grid's bricks are sorted by number. Each device processes contiguous parts of this order, and creates vertices and
triangles for the bricks in them. To index vertices shared with later bricks, it also counts cells in later adjacent
bricks, which requires signs in the bricks adjacent to these. Vertex indices therefore do not depend on the devices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend
from sdfcli.backend.timing import Stages
from sdfcli.errors import InputError, OutOfMemoryError
from sdfcli.extract.scan import Counts, at_once, check_total, split, start_scan
from sdfcli.extract.sources import BRICK, WORDS, Source
from sdfcli.extract.tables import MOST_TRIANGLES, triangle_table
from sdfcli.mesh.arrays import Faces, Floats

if TYPE_CHECKING:
    from sdfcli.extract.proven import ProvenDistance
    from sdfcli.extract.sharp import SharpParts

PART = 1 << 19
"""Bricks per part on a device: up to about 2 GB."""

MOST_VERTICES = (1 << 31) - 1
"""Maximum vertex count in mesh files."""

SPARE = 1.2
"""Memory reserved for a surface, of what its first parts lead to expect; unused memory is never touched."""

STAGES = ("source", "flags", "flag_scan", "cases", "count_scan", "polygons", "copy")
"""Stages of an extraction. The five in the middle are the method; the other two get its input and return its output."""


def scan_share(seconds: dict[str, float]) -> float:
    """The two scans' share of the method's five stages, from seconds by STAGES."""
    return (seconds["flag_scan"] + seconds["count_scan"]) / sum(seconds[name] for name in STAGES[1:-1])


@functools.cache
def _table_on(backend: Backend) -> Array:
    return backend.from_host(triangle_table())


@dataclass(frozen=True)
class Surface:
    """An indexed triangle mesh.

    Attributes:
        vertices: (v, 3) float64, each on a grid edge, unless sharp.
        faces: (f, 3) uint32, counter-clockwise seen from the side with larger values.
        cut: whether the surface meets the grid's border; otherwise it is closed.
        proven: its proven distance from the mesh, from a field with proven bounds; else None.
        sharp: its sharp parts, if it was made sharp; else None.
    """

    vertices: Floats
    faces: Faces
    cut: bool
    proven: ProvenDistance | None = None
    sharp: SharpParts | None = None

    def __repr__(self) -> str:
        kind = "open" if self.cut else "closed"
        return f"<Surface: {len(self.vertices):,} vertices, {len(self.faces):,} faces, {kind}>"


def extract(
    source: Source,
    backends: Sequence[Backend],
    *,
    weights: Sequence[float] | None = None,
    part: int = PART,
    to_host: bool = True,
    seconds: dict[str, float] | None = None,
) -> Surface:
    """Extracts a source's level set; values below the level are inside. The mesh does not depend on devices or parts.

    weights: relative device speeds; default: equal. part: bricks per part. to_host: False leaves the mesh on the
    device, for one device only. seconds: receives seconds by STAGES, on the devices' clocks, summed over parts.

    Raises InputError without a surface, or if values next to it are not finite; OutOfMemoryError for more than
    MOST_VERTICES vertices.
    """
    count = max(1, -(-len(source) // (part * len(backends))))
    pieces: list[tuple[Array, Array]] = []  # on the device, or the only one
    vertices_there, faces_there = _Rows(np.float64), _Rows(np.uint32)
    cut, made = False, 0
    for first, last in split(len(source), [1.0] * count, source.granularity):
        shares = split(last - first, weights or [1.0] * len(backends), source.granularity)
        parts = [
            Part(backend, source, first + start, first + end, len(backends) > 1, seconds is not None)
            for backend, (start, end) in zip(backends, shares, strict=True)
            if end > start
        ]
        if not parts:
            continue
        at_once(Part.count, parts)
        vertices, triangles = _scan_counts(parts, made)
        if made + vertices > MOST_VERTICES:
            raise OutOfMemoryError(f"more than {MOST_VERTICES} vertices; use a smaller --cells")
        if not to_host or count == len(parts) == 1:
            pieces.append(parts[0].mesh(to_host))
        else:
            done = last / len(source)
            to_vertices, to_faces = vertices_there.add(vertices, done), faces_there.add(triangles, done)
            for each in parts:
                own_vertices = slice(*(end - made for end in each.vertex_range))
                each.out = to_vertices[own_vertices], to_faces[slice(*each.triangle_range)]
            at_once(Part.mesh, parts)
        made += vertices
        cut = cut or any(each.cut for each in parts)
        if seconds is not None:
            for name in STAGES:
                seconds[name] = seconds.get(name, 0.0) + sum(each.seconds[name] for each in parts)
    if made == 0:
        raise source.nothing_there()
    if not pieces:
        return Surface(vertices_there.rows, faces_there.rows, cut)
    join = backends[0].xp.concatenate
    positions, faces = pieces[0] if len(pieces) == 1 else (join(arrays) for arrays in zip(*pieces, strict=True))
    return Surface(positions, faces, cut)


class _Rows:
    """Rows (n, 3) on the host, filled part by part. The first parts tell how much memory to reserve for all: joining
    parts afterwards would take as long as copying them from the devices."""

    def __init__(self, dtype: Any) -> None:
        self._reserved, self._used = np.empty((0, 3), dtype), 0

    def add(self, count: int, done: float) -> npt.NDArray[Any]:
        """Adds and returns `count` rows, undefined yet. done: these and earlier rows' share of all, as far as known."""
        used = self._used + count
        if used > len(self._reserved):
            spare = SPARE if done < 1 else 1.0
            grown = np.empty((int(spare * used / done), 3), self._reserved.dtype)
            grown[: self._used] = self._reserved[: self._used]
            self._reserved = grown
        found = self._reserved[self._used : used]
        self._used = used
        return found

    @property
    def rows(self) -> npt.NDArray[Any]:
        """All rows."""
        return self._reserved[: self._used]


def _scan_counts(parts: Sequence[Part], base: int) -> tuple[int, int]:
    """Scans the parts' vertex counts, from `base`, and triangle counts; returns both totals. Each part begins with the
    own cells' total of the parts before."""
    with ExitStack() as stages:
        for part in parts:
            stages.enter_context(part.stage("count_scan"))
        try:
            start_scan([part.vertices for part in parts], 3, base)
            start_scan([part.triangles for part in parts], MOST_TRIANGLES)
        except OverflowError as error:
            raise OutOfMemoryError(f"the surface is too large: {error}; use a smaller --cells") from error
    waiting = [part.read_ranges() for part in parts]
    for wait in waiting:
        wait()
    return parts[-1].vertex_range[1] - base, parts[-1].triangle_range[1]


class Part:
    """Consecutive bricks on one device. Their cells are counted; after the scan of all parts' counts, they are meshed.

    vertices, triangles            counts by active cell, also in touching bricks beyond the part's own.
    vertex_range, triangle_range   numbers of the own ones, first and last + 1, after the scan and `read_ranges`.
    out                            host arrays that receive vertices and faces; None: new ones.
    """

    vertices: Counts
    triangles: Counts
    vertex_range: tuple[int, int]
    triangle_range: tuple[int, int]
    out: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None

    def __init__(self, backend: Backend, source: Source, first: int, last: int, summed: bool, timed: bool) -> None:
        """summed: counts are summed as they are made, for the next part."""
        self.backend, self.source, self.first, self.last = backend, source, first, last
        self._summed = summed
        self._stages = Stages() if timed else None

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by STAGES, of a timed part."""
        assert self._stages
        with self.backend.active():
            return dict.fromkeys(STAGES, 0.0) | self._stages.seconds()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A stage in `seconds`, where the device is not current."""
        with self.backend.active():
            stage = self._stage(name)
            stage.__enter__()
        yield
        with self.backend.active():
            stage.__exit__(None, None, None)

    def _stage(self, name: str) -> AbstractContextManager[None]:
        return nullcontext() if self._stages is None else self._stages(name, self.backend)

    def count(self) -> None:
        """Scans flags, for active cells, and counts these cells' vertices and triangles."""
        with self.backend.active():
            self._count()

    def _count(self) -> None:
        backend, source = self.backend, self.source
        xp, grid, run = backend.xp, source.grid, backend.run
        touching = source.after(self.last)
        words, own_words = WORDS * (touching - self.first), WORDS * (self.last - self.first)
        with self._stage("source"):
            there = source.part(backend, self.first, source.after(touching))
            self.there, self.cells = there, backend.from_host(grid.cells, np.uint32)
            self.table = _table_on(backend)

        with self._stage("flags"):
            count = len(there.brick)
            self.neighbour = xp.empty((count, 8), np.uint32)
            run("sdf_brick_neighbours", count, brick=there.brick, cells=self.cells, neighbour=self.neighbour)
            inside = xp.empty(WORDS * count, np.uint64)
            bricks = backend.group("Bricks", brick=there.brick, neighbour=self.neighbour, cells=self.cells)
            which: dict[str, Any] = {"cells": self.cells}
            if there.side is not None:
                which = {"bricks": bricks, "side": there.side}
            run(f"sdf_{there.name}_inside", len(inside), iso=source.level, inside=inside, **which, **there.values)

            self.active = xp.empty(words, np.uint64)
            flags = Counts(backend, words)
            ask: dict[str, Any] = {"bricks": bricks, "inside": inside, "active": self.active}
            run("sdf_cell_flags", words, count=flags.values, **ask)

        with self._stage("flag_scan"):
            check_total(flags, 0, BRICK * BRICK)
            flags.start()
        # Reading one number back from a device costs as much as a small kernel.
        self.first_cell = flags.sums
        ends = backend.copy_async(flags.sums[own_words :: max(1, words - own_words)])()
        own, found = int(ends[0]), int(ends[-1])

        with self._stage("cases"):
            self.own_cells = own
            self.cell, self.cases = xp.empty(found, np.uint32), xp.empty(found, np.uint8)
            self.vertices, self.triangles = Counts(backend, found), Counts(backend, found)
            self.marks = xp.zeros(2, np.uint32)
            run(
                "sdf_cell_cases",
                words,
                first=self.first_cell,
                table=self.table,
                cell=self.cell,
                cases=self.cases,
                vertices=self.vertices.values,
                triangles=self.triangles.values,
                own=own_words,
                vertex_sum=self.vertices.count_sum() if self._summed else None,
                triangle_sum=self.triangles.count_sum() if self._summed else None,
                marks=self.marks,
                **ask,
            )

    def read_ranges(self) -> Callable[[], None]:
        """Starts reading vertex_range and triangle_range. Returns a function that waits for them."""
        with self.backend.active():
            ends = slice(0, self.own_cells + 1, max(1, self.own_cells))
            numbers = [self.backend.copy_async(counts.sums[ends]) for counts in (self.vertices, self.triangles)]

        def wait() -> None:
            self.vertex_range, self.triangle_range = ((int(each()[0]), int(each()[-1])) for each in numbers)

        return wait

    def mesh(self, to_host: bool = True) -> tuple[Array, Array]:
        """Vertices and faces for the part's own bricks."""
        with self.backend.active():
            with self._stage("polygons"):
                vertices, faces = self._mesh()
            cut, broken = self.backend.to_host(self.marks)
            if broken:
                raise InputError("values beside the surface are not finite")
            self.cut = bool(cut)
            del self.active, self.first_cell, self.cell, self.cases, self.vertices, self.triangles, self.neighbour
            if not to_host:
                return vertices, faces
            with self._stage("copy"):
                to_vertices, to_faces = self.out or (None, None)
                return self.backend.to_host(vertices, to_vertices), self.backend.to_host(faces, to_faces)

    def _mesh(self) -> tuple[Array, Array]:
        backend, grid = self.backend, self.source.grid
        own_vertices, own_triangles = (last - first for first, last in (self.vertex_range, self.triangle_range))
        position = backend.xp.empty((own_vertices, 3), np.float64)
        faces = backend.xp.empty((own_triangles, 3), np.uint32)
        active = backend.group("ActiveCells", cell=self.cell, cases=self.cases, first_vertex=self.vertices.sums)
        out = backend.group(
            "Vertices",
            active=active,
            brick=self.there.brick,
            cells=self.cells,
            frame=backend.from_host(grid.frame),
            reversed=grid.reversed,
            iso=self.source.level,
            marks=self.marks,
            position=position,
        )
        backend.run(f"sdf_{self.there.name}_vertices", self.own_cells, out=out, **self.there.values)
        backend.run(
            "sdf_cell_triangles",
            self.own_cells,
            active=active,
            first_triangle=self.triangles.sums,
            neighbour=self.neighbour,
            word=self.active,
            first=self.first_cell,
            table=self.table,
            triangle=faces,
            reversed=grid.reversed,
        )
        return position, faces
