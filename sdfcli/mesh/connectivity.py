"""Face connectivity, edges and shells, computed by kernels."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, C
from sdfcli.backend.packed import Packed
from sdfcli.mesh.arrays import Bools, Ints
from sdfcli.mesh.topology import twins


class Sides(NamedTuple):
    """Half-edges in sorted buckets; see kernels/mesh/edges.h. Half-edge 3 f + k runs from corner k of face f to the
    next corner.

    welded         (f, 3) uint32: faces with welded vertices.
    corners        (v,) uint32: corner count per vertex.
    first          (v + 1,) uint32: start of each vertex's bucket.
    side           (3 f,) uint64: half-edges.
    maybe_doubled  (f,) uint8: whether another face may have the same vertices.
    """

    welded: Array
    corners: Array
    first: Array
    side: Array
    maybe_doubled: Array

    @staticmethod
    def of(backend: Backend, face: Array, position: Array, counts: Array, parent: Array) -> Sides:
        """Half-edges of faces (f, 3) uint32, after welding each vertex to `position` (v,) uint32. counts: see
        Connectivity. parent: (f,) uint32, initialised to single-face sets."""
        xp, faces, vertices = backend.xp, len(face), len(position)
        found = Sides(
            welded=xp.empty((faces, 3), np.uint32),
            corners=xp.zeros(vertices, np.uint32),
            first=xp.zeros(vertices + 1, np.uint32),
            side=xp.empty(3 * faces, np.uint64),
            maybe_doubled=xp.zeros(faces, np.uint8),
        )
        welded, first = {"welded": found.welded, "corners": found.corners}, found.first
        backend.run("sdf_weld_faces", 3 * faces, face=face, position=position, parent=parent, **welded)
        marks = {"maybe_doubled": found.maybe_doubled, "counts": counts}
        backend.run("sdf_side_count", 3 * faces, first=first, **welded, **marks)
        backend.inclusive_scan(first)
        backend.run("sdf_side_enter", 3 * faces, first=first, side=found.side, **welded)
        backend.run("sdf_side_sort", vertices, first=first, side=found.side)
        return found


class Doubled(NamedTuple):
    """Faces with the same vertices as another face, grouped by vertices and ascending within each group.

    face    (k,) face ids.
    corner  (k, 3) welded corners, in the original orientation.
    again   (k,) whether a face has the same vertices as the previous one.
    """

    face: Ints
    corner: npt.NDArray[np.uint32]
    again: Bools


class OpenEdges(NamedTuple):
    """Edges with different use counts in their two directions.

    ends    (e, 2) welded vertices, low and high; sorted.
    excess  (e,) uses from low to high, minus uses in the other direction.
    """

    ends: Ints
    excess: Ints


class LooseSides(NamedTuple):
    """Half-edges without a consistently oriented neighbour.

    face   (k,) face ids, ascending.
    ends   (k, 2) welded start and end vertices.
    shell  (k,) the faces' shells.
    """

    face: Ints
    ends: Ints
    shell: Ints


class Connectivity:
    """Edges and shells of faces with welded vertices. A shell is a set of faces connected across edges with two faces.
    Degenerate faces, with two corners at one vertex, are excluded.

    Attributes:
        open, non_manifold, inconsistent: edge counts; see Health.
        shell: (f,) uint32: shell ids, ordered by first face; C.NONE for left-out and degenerate faces.
        shells: shell count.
    """

    def __init__(
        self, backend: Backend, sides: Sides, state: Array | None, marked: Array, counts: Array, parent: Array
    ) -> None:
        """state: (f,) uint8, per face C.FACE_TURNED, C.FACE_LEFT_OUT; None: all faces count as given. marked: (v,)
        uint8, whether a vertex owns an edge with loose sides. counts: (6,) uint32, see kernels/mesh/edges.h. parent:
        (f,) uint32, union-find parents over faces."""
        self.backend, self._sides, self._state = backend, sides, state
        self._marked, self._counts, self._parent = marked, counts, parent
        xp, faces = backend.xp, len(parent)
        number, self.shell = xp.empty(faces, np.uint32), xp.empty(faces, np.uint32)
        counted = {"state": state, "welded": sides.welded}
        backend.run("sdf_shell_roots", faces, parent=parent, number=number, **counted)
        backend.inclusive_scan(number)
        numbers = {"parent": parent, "number": number, "shell": self.shell, "counts": counts}
        backend.run("sdf_shell_number", faces, **numbers, **counted)
        found = backend.to_host(counts).tolist()
        self.open, self.non_manifold, self.inconsistent, self._loose, self._maybe_doubled, self.shells = found

    @staticmethod
    def of(backend: Backend, face: Array, position: Array) -> Connectivity:
        """Connectivity of faces (f, 3) uint32, after welding each vertex to `position` (v,) uint32."""
        xp, faces, vertices = backend.xp, len(face), len(position)
        counts, marked = xp.zeros(6, np.uint32), xp.empty(vertices, np.uint8)
        parent = xp.empty(faces, np.uint32)
        sides = Sides.of(backend, face, position, counts, parent)
        backend.run(
            "sdf_edges",
            vertices,
            first=sides.first,
            side=sides.side,
            welded=sides.welded,
            state=None,
            parent=parent,
            maybe_doubled=sides.maybe_doubled,
            marked=marked,
            counts=counts,
        )
        return Connectivity(backend, sides, None, marked, counts, parent)

    def without(self, left_out: Ints) -> Connectivity:
        """Connectivity without the doubled faces `left_out` (k,); face ids and orientations do not change."""
        backend, sides, listed = self.backend, self._sides, {"list": self._listed_doubled[0]}
        state, chosen = backend.xp.zeros(len(self.shell), np.uint8), backend.from_host(left_out, np.uint32)
        marked, counts, parent = (backend.copied(array) for array in (self._marked, self._counts, self._parent))
        changed = {"chosen": chosen, "state": state, "parent": parent}
        backend.run("sdf_faces_left_out", len(listed["list"]), many=len(chosen), **listed, **changed)
        backend.run(
            "sdf_edges_doubled",
            3 * len(listed["list"]),
            **listed,
            state=state,
            parent=parent,
            marked=marked,
            counts=counts,
            **sides._asdict(),
        )
        return self._sharing(Connectivity(backend, sides, state, marked, counts, parent))

    def turned(self, turn: Bools) -> Connectivity:
        """Connectivity with the chosen faces (f,) reversed."""
        backend, sides = self.backend, self._sides
        state = backend.from_host(turn.astype(np.uint8) * np.uint8(C.FACE_TURNED))
        if self._state is not None:
            state ^= self._state
        marked, counts = backend.xp.empty_like(self._marked), backend.xp.zeros(6, np.uint32)
        backend.run(
            "sdf_edges",
            len(marked),
            first=sides.first,
            side=sides.side,
            welded=None,
            state=state,
            parent=None,
            maybe_doubled=None,
            marked=marked,
            counts=counts,
        )
        return self._sharing(Connectivity(backend, sides, state, marked, counts, self._parent))

    def _sharing(self, other: Connectivity) -> Connectivity:
        """Another connectivity, with the cached results that do not depend on which faces count."""
        other.__dict__["doubled"] = self.doubled
        return other

    @cached_property
    def _listed_doubled(self) -> tuple[Array, npt.NDArray[np.uint32]]:
        """Candidates for doubled faces with their corners, (k, 4) uint32: on the device, in any order; on the host,
        ascending."""
        faces = len(self.shell)
        most = min(faces, self._maybe_doubled)
        found = Packed(self.backend, list=(np.uint32, (most, 4)), listed=(np.uint32, (1,)))
        found.arrays["listed"][:] = 0
        of_sides = {"maybe_doubled": self._sides.maybe_doubled, "welded": self._sides.welded}
        self.backend.run("sdf_faces_listed", faces, **found.arrays, **of_sides)
        rows, listed = found.to_host().values()
        rows = rows[: listed[0]]
        return found.arrays["list"][: len(rows)], rows[np.argsort(rows[:, 0])]

    @cached_property
    def doubled(self) -> Doubled:
        """Faces with the same vertices as another face, whether they count or not."""
        if not self._maybe_doubled:
            return Doubled(np.empty(0, np.int64), np.empty((0, 3), np.uint32), np.empty(0, bool))
        rows = self._listed_doubled[1]
        found, again = twins(rows[:, 1:])
        return Doubled(rows[found, 0].astype(np.int64), rows[found, 1:], again)

    @cached_property
    def open_edges(self) -> OpenEdges:
        """Open edges."""
        return self._listed[0]

    @property
    def loose(self) -> LooseSides:
        """Half-edges without a consistently oriented neighbour."""
        sides = self._listed[1].astype(np.int64)
        return LooseSides(sides[:, 0] // 3, sides[:, 1:3], sides[:, 3])

    def shell_of(self) -> Ints:
        """Shell id of each face, (f,); on the host."""
        return np.asarray(self.backend.to_host(self.shell), np.int64)

    def orientations(self, cracks: Ints) -> Ints:
        """Component labels (2 f,) of the faces as given, then of the reversed faces; each node's label is the first
        node in its component. Nodes are joined across edges with two faces where their orientations agree. cracks: (k,
        2) edges, low and high end, sorted, across which faces may disagree."""
        xp, (faces, _) = self.backend.xp, self._sides.welded.shape
        parent = xp.arange(2 * faces, dtype=np.uint32)
        first, side = self._sides.first, self._sides.side
        edges = {"first": first, "side": side, "state": self._state, "parent": parent}
        crack = self.backend.from_host(cracks @ [1 << 32, 1], np.uint64)
        self.backend.run("sdf_edges_alike", len(first) - 1, faces=faces, cracks=len(cracks), crack=crack, **edges)
        self.backend.run("sdf_shell_roots", 2 * faces, state=None, welded=None, parent=parent, number=None)
        return self.backend.to_host(parent).astype(np.int64)

    @cached_property
    def _listed(self) -> tuple[OpenEdges, npt.NDArray[np.uint32]]:
        """Open edges, and loose sides (k, 4): half-edge, ends and shell; sorted."""
        if not self._loose:  # hence no open edges either
            return OpenEdges(np.empty((0, 2), np.int64), np.empty(0, np.int64)), np.empty((0, 4), np.uint32)
        found = Packed(
            self.backend,
            open_edge=(np.uint64, (self.open,)),
            excess=(np.int32, (self.open,)),
            loose=(np.uint32, (self._loose, 4)),
        )
        self.backend.run(
            "sdf_edges_listed",
            len(self._marked),
            marked=self._marked,
            first=self._sides.first,
            side=self._sides.side,
            state=self._state,
            welded=self._sides.welded,
            shell=self.shell,
            **found.arrays,
            listed=self.backend.xp.zeros(2, np.uint32),
        )
        edges, excess, sides = found.to_host().values()
        order = np.argsort(edges)
        ends = np.stack(np.divmod(edges[order].astype(np.int64), 1 << 32), axis=1)
        return OpenEdges(ends, excess.astype(np.int64)[order]), sides[np.argsort(sides[:, 0])]
