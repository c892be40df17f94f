"""Connectivity of faces: their edges and shells, by kernels."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from sdfcli.backend import Array, Backend, C
from sdfcli.mesh.arrays import Bools, Ints
from sdfcli.mesh.topology import twins


class Sides(NamedTuple):
    """Half-edges in sorted buckets; see kernels/mesh/edges.h. Half-edge 3 f + k runs from corner k of face f to the
    next one.

    welded         (f, 3) uint32: the faces of welded vertices.
    first          (v + 1,) uint32: where the bucket of each vertex begins.
    side           (3 f,) uint64: the sides.
    maybe_doubled  (f,) uint8: whether a face may have the vertices of another one; set by the first Connectivity.
    counts         (6,) uint32: those of the first Connectivity.
    """

    welded: Array
    first: Array
    side: Array
    maybe_doubled: Array
    counts: Array

    @staticmethod
    def of(backend: Backend, face: Array, position: Array) -> Sides:
        """The half-edges of faces (f, 3) uint32, after welding each vertex to `position` (v,) uint32."""
        xp, faces, vertices = backend.xp, len(face), len(position)
        corners, first = xp.zeros(vertices, np.uint32), xp.zeros(vertices + 1, np.uint32)
        found = Sides(
            xp.empty((faces, 3), np.uint32),
            first,
            xp.empty(3 * faces, np.uint64),
            xp.zeros(faces, np.uint8),
            xp.zeros(6, np.uint32),
        )
        welded = {"welded": found.welded, "corners": corners}
        backend.run("sdf_weld_faces", 3 * faces, face=face, position=position, **welded)
        marks = {"maybe_doubled": found.maybe_doubled, "counts": found.counts}
        backend.run("sdf_side_count", 3 * faces, first=first, **welded, **marks)
        backend.inclusive_scan(first)
        backend.run("sdf_side_enter", 3 * faces, first=first, side=found.side, **welded)
        backend.run("sdf_side_sort", vertices, first=first, side=found.side)
        return found


class OpenEdges(NamedTuple):
    """Edges with different numbers of uses in their two directions.

    ends    (e, 2) welded vertices, low and high; sorted.
    excess  (e,) how many more uses run from low to high than back.
    """

    ends: Ints
    excess: Ints


class Connectivity:
    """Edges and shells of faces with welded vertices. A shell is a set of faces connected across edges of two faces.

    Attributes:
        open, non_manifold, inconsistent: numbers of edges; see Health.
        shell: (f,) uint32: the number of each face's shell, by the shells' first faces; C.NONE for a face that is left
            out.
        shells: their number.
    """

    def __init__(self, backend: Backend, sides: Sides, state: Array | None = None) -> None:
        """state: (f,) uint8, of each face: C.FACE_TURNED, C.FACE_LEFT_OUT; default: all count as they are."""
        self.backend, self._sides, self._state = backend, sides, state
        xp, (faces, _) = backend.xp, sides.welded.shape
        counts = sides.counts if state is None else xp.zeros(6, np.uint32)
        self.shell = xp.arange(faces, dtype=np.uint32)
        self._run(
            "sdf_edges",
            welded=sides.welded if state is None else None,
            maybe_doubled=sides.maybe_doubled,
            parent=self.shell,
            counts=counts,
        )
        number = xp.empty(faces, np.uint32)
        backend.run("sdf_shell_roots", faces, state=state, parent=self.shell, number=number)
        backend.inclusive_scan(number)
        backend.run("sdf_shell_number", faces, state=state, number=number, shell=self.shell, counts=counts)
        found = backend.to_host(counts).tolist()
        self.open, self.non_manifold, self.inconsistent, self._loose, self._maybe_doubled, self.shells = found

    @staticmethod
    def of(backend: Backend, face: Array, position: Array) -> Connectivity:
        """That of faces (f, 3) uint32, after welding each vertex to `position` (v,) uint32."""
        return Connectivity(backend, Sides.of(backend, face, position))

    def among(self, counted: Bools) -> Connectivity:
        """That of the faces that count (f,), with the same numbers."""
        state = (~counted).astype(np.uint8) * np.uint8(C.FACE_LEFT_OUT)
        return self._with(self.backend.from_host(state))

    def turned(self, turn: Bools) -> Connectivity:
        """That of the same faces, of which those chosen (f,) have their corners in the other order."""
        state = self.backend.from_host(turn.astype(np.uint8) * np.uint8(C.FACE_TURNED))
        return self._with(state if self._state is None else self._state ^ state)

    def _with(self, state: Array) -> Connectivity:
        found = Connectivity(self.backend, self._sides, state)
        found.__dict__["doubled"] = self.doubled
        return found

    @cached_property
    def doubled(self) -> tuple[Ints, Bools]:
        """The faces that have the vertices of another one, whether they count or not; see `twins`."""
        if not self._maybe_doubled:
            return np.empty(0, np.int64), np.empty(0, bool)
        [chosen] = self.backend.compact(self._sides.maybe_doubled)
        faces = self.backend.to_host(chosen).astype(np.int64)
        found, again = twins(self.welded(faces))
        return faces[found], again

    @cached_property
    def open_edges(self) -> OpenEdges:
        """The open edges."""
        return self._listed[0]

    def loose(self) -> tuple[Ints, Ints]:
        """The half-edges without a neighbour whose orientation agrees: their faces (k,), ascending, and the welded
        vertices (k, 2) from which and to which they run."""
        half_edge = self._listed[1]
        face, corner = np.divmod(half_edge, 3)
        ends = np.stack([corner, (corner + 1) % 3], axis=1)
        if self._state is not None:
            turned = self.backend.to_host(self._state[self.backend.from_host(face)]) & C.FACE_TURNED > 0
            ends[turned] = ends[turned, ::-1]
        return face, np.take_along_axis(self.welded(face), ends, axis=1)

    def welded(self, faces: Ints) -> Ints:
        """The corners (k, 3) of faces (k,) after welding, as they were before any was turned."""
        return np.asarray(self.backend.to_host(self._sides.welded[self.backend.from_host(faces)]), np.int64)

    def shell_of(self, faces: Ints | None = None) -> Ints:
        """The shells (k,) of faces (k,); default: of all."""
        chosen = self.shell if faces is None else self.shell[self.backend.from_host(faces)]
        return np.asarray(self.backend.to_host(chosen), np.int64)

    def orientations(self) -> Ints:
        """Of each face as it is, and then of each one turned, (2 f,), the first face with the same label: labels are
        joined across the edges of two faces where the orientations agree."""
        xp, (faces, _) = self.backend.xp, self._sides.welded.shape
        parent = xp.arange(2 * faces, dtype=np.uint32)
        self._run("sdf_edges_alike", faces=faces, parent=parent)
        self.backend.run("sdf_shell_roots", 2 * faces, state=None, parent=parent, number=None)
        return self.backend.to_host(parent).astype(np.int64)

    @cached_property
    def _listed(self) -> tuple[OpenEdges, Ints]:
        """Open and loose edges, sorted."""
        if not self._loose:  # nor is there an open edge
            return OpenEdges(np.empty((0, 2), np.int64), np.empty(0, np.int64)), np.empty(0, np.int64)
        xp, to_host = self.backend.xp, self.backend.to_host
        open_edge, excess = xp.empty(self.open, np.uint64), xp.empty(self.open, np.int32)
        loose = xp.empty(self._loose, np.uint32)
        listed = xp.zeros(2, np.uint32)
        self._run("sdf_edges_listed", open_edge=open_edge, excess=excess, loose=loose, listed=listed)
        edges = to_host(open_edge).astype(np.int64)
        order = np.argsort(edges)
        ends = np.stack(np.divmod(edges[order], 1 << 32), axis=1)
        return OpenEdges(ends, to_host(excess).astype(np.int64)[order]), np.sort(to_host(loose)).astype(np.int64)

    def _run(self, kernel: str, **values: object) -> None:
        """Runs a kernel for the buckets of sides."""
        first, side = self._sides.first, self._sides.side
        self.backend.run(kernel, len(first) - 1, first=first, side=side, state=self._state, **values)
