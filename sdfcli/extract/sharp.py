"""Sharp edges and corners in an extracted surface, from the mesh; docs/internals/sharp.md explains the method."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sdfcli.backend import Array, C
from sdfcli.errors import UsageError
from sdfcli.extract.marching_cubes import Surface
from sdfcli.extract.scan import Counts
from sdfcli.extract.sources import Grid
from sdfcli.field.field import Field
from sdfcli.field.stated_error import is_unsigned
from sdfcli.query.mesh_distance import MeshDistance

ANGLE = 20.0
"""Angle between adjacent triangles' normals, in degrees, from which on their edge is sharp."""
SLIDES = 3
"""Steps of a vertex along its grid edge."""
SHARES = (0.25, 0.0625)
"""Where the planes on both sides of an edge are looked up, in shares of the way to its ends."""
SLACK, ROUNDING = 1e-5, 3e-7
"""Distance from the mesh up to which a point counts as on it: in cells, plus in domain edges, a query's rounding."""


@dataclass(frozen=True)
class SharpParts:
    """Counts of an extraction's sharp parts.

    Attributes:
        edges: vertices on sharp edges.
        corners: vertices at corners, bends and tips.
        folded: triangles that face away from the mesh beside them; the surface may cross itself there.
    """

    edges: int
    corners: int
    folded: int


def check_sharp(field: Any, iso: float) -> None:
    """Raises UsageError for a source without sharp edges: a volume, a solid or unsigned field, another level than 0."""
    if not isinstance(field, Field):
        raise UsageError("--sharp: is for fields; a volume has no mesh")
    if "solid" in field.info:
        raise UsageError("--sharp: the field's solid has no sharp edges")
    if is_unsigned(field):
        raise UsageError("--sharp: the field has no signs, hence no surface at 0")
    if iso != 0.0:
        raise UsageError(f"--sharp: is for the surface itself; use it without --iso {iso:g}")


def sharpened(surface: Surface, grid: Grid, field: Field, mesh: MeshDistance) -> Surface:
    """A surface at 0 with its vertices on the mesh, and vertices on the mesh's sharp edges and corners. Triangles are
    only subdivided: the surface stays closed and manifold. grid: of the extraction. mesh: the field's."""
    return _Sharpening(surface, grid, field, mesh).result()


class _Sharpening:
    """Arrays of one surface, on the mesh's device.

    at, side, seat  per vertex, see kernels/surface/sharp.h.
    face            (f, 3) uint32.
    """

    def __init__(self, surface: Surface, grid: Grid, field: Field, mesh: MeshDistance) -> None:
        backend = mesh._backend
        self.surface, self.field, self.index, self.backend = surface, field, mesh, backend
        cell, exact = float(grid.frame[3:].min()), mesh.mesh.on(backend)
        with backend.active():
            self.vertex = backend.from_host(surface.vertices, np.float64)
            self.face = backend.from_host(surface.faces, np.uint32)
            self.frame = backend.from_host(grid.frame)
            self.mesh = backend.group(
                "SharpMesh",
                corner=exact.vertex,
                triangle=exact.face,
                cell=cell,
                slack=SLACK * cell + ROUNDING * mesh.mesh.domain.length,
                cosine=math.cos(math.radians(ANGLE)),
            )

    def result(self) -> Surface:
        backend = self.backend
        with backend.active():
            self._seat()
            vertices, faces, parts = self._pieces(*self._edges())
            host = isinstance(self.surface.vertices, np.ndarray)
            made = (backend.to_host(vertices), backend.to_host(faces)) if host else (vertices, faces)
        return replace(self.surface, vertices=made[0], faces=made[1], sharp=parts)

    def _run(self, kernel: str, n: int, **given: Any) -> None:
        self.backend.run(kernel, n, mesh=self.mesh, **given)

    def _nearest(self, points: Array) -> Array:
        """Nearest faces (n, ...) uint32 to points (n, ..., 3)."""
        return self.index._nearest_faces(points.reshape(-1, 3))

    def _seat(self) -> None:
        """Moves the vertices onto the mesh."""
        xp, count = self.backend.xp, len(self.vertex)
        axis, ends = xp.empty(count, np.uint8), xp.empty((count, 6), np.float64)
        self.backend.run("sdf_sharp_ends", count, frame=self.frame, vertex=self.vertex, axis=axis, ends=ends)
        value = self.backend.from_host(self.field.sample(ends.reshape(-1, 3))).reshape(-1, 2)
        self.at = self.backend.copied(self.vertex)
        on_edge = {"axis": axis, "ends": ends, "at": self.at}
        for _ in range(SLIDES):
            self._run("sdf_sharp_slide", count, face=self._nearest(self.at), **on_edge)
        self.side, self.seat = xp.empty(count, np.uint32), xp.empty(count, np.uint8)
        seats = {"side": self.side, "seat": self.seat}
        self._run("sdf_sharp_seat", count, value=value, face=self._nearest(self.at), **on_edge, **seats)
        off = self.backend.compact(self.seat)
        if len(off):
            given = {"list": off, "face": self._nearest(self.at[off]), "vertex": self.vertex, "at": self.at}
            self._run("sdf_sharp_seat_off", len(off), **given, **seats)

    def _edges(self) -> tuple[Array, dict[str, Array], Array]:
        """Edges between different sides: their keys, sorted, and arrays as SharpSplits names them; the split ones."""
        backend, xp = self.backend, self.backend.xp
        flag = xp.empty(self.face.size, np.uint8)
        self._run("sdf_sharp_flags", len(flag), face=self.face, side=self.side, seat=self.seat, flag=flag)
        listed = backend.compact(flag)
        count = len(listed)
        key, pair, x = xp.empty(count, np.uint64), xp.empty((count, 2), np.uint32), xp.empty((count, 3), np.float64)
        backend.run("sdf_sharp_keys", count, list=listed, face=self.face, key=key)
        backend.sort_alone(key)
        edges = backend.group("SharpEdges", key=key, at=self.at, own=self.side)
        two, meets = xp.empty((count, 6), np.float64), xp.empty(count, np.uint8)
        found = None
        for share in SHARES:
            lines = {"pair": pair, "x": x, "near": two, "meets": meets}
            self._run("sdf_sharp_lines", count, edges=edges, found=found, share=share, **lines)
            found = self._nearest(two)
        self._run("sdf_sharp_lines", count, edges=edges, found=found, share=0.0, **lines)
        split, faces = xp.empty(count, np.uint8), self._nearest(x)
        at = {"x": x, "trial": two, "split": split}
        self._run("sdf_sharp_corners", count, edges=edges, pair=pair, meets=meets, face=faces, **at)
        self._run("sdf_sharp_chosen", count, face=self._nearest(two), **at)
        kept = backend.compact((split > 0).astype(np.uint8))
        number = backend.filled(count, C.NONE, np.uint32)
        number[kept] = xp.arange(len(self.at), len(self.at) + len(kept), dtype=np.uint32)
        return key, {"split": split, "x": x, "pair": pair, "number": number}, kept

    def _pieces(self, key: Array, edges: dict[str, Array], split: Array) -> tuple[Array, Array, SharpParts]:
        """Vertices and faces. The arguments are from `_edges`."""
        backend, xp = self.backend, self.backend.xp
        order = backend.group("SharpEdges", key=key, at=self.at, own=self.side)
        splits = backend.group("SharpSplits", edges=len(key), edge=order, **edges)
        faces = len(self.face)
        flag = xp.empty(faces, np.uint8)
        self._run("sdf_sharp_touched", faces, face=self.face, side=self.side, seat=self.seat, flag=flag)
        listed = backend.compact(flag)
        count = len(listed)
        cut, centre, has = xp.empty((count, 3), np.uint32), xp.empty((count, 3), np.float64), xp.empty(count, np.uint8)
        of = {"splits": splits, "list": listed, "face": self.face}
        self._run("sdf_sharp_centres", count, seat=self.seat, cut=cut, centre=centre, has=has, **of)
        pieces, counts = xp.empty(count, np.uint32), Counts(backend, faces)
        near = self._nearest(centre)
        self._run("sdf_sharp_counts", count, cut=cut, centre=centre, face=near, has=has, pieces=pieces)
        backend.fill(counts.values, 1)
        counts.values[listed] = pieces
        total = counts.scan()
        kept = backend.compact(has)
        number = backend.filled(count, C.NONE, np.uint32)
        first = len(self.at) + len(split)
        number[kept] = xp.arange(first, first + len(kept), dtype=np.uint32)
        vertices = xp.concatenate((self.at, edges["x"][split], centre[kept]))
        out, folded = xp.empty((total, 3), np.uint32), xp.zeros(1, np.uint32)
        backend.run("sdf_sharp_plain", faces, face=self.face, flag=flag, first=counts.sums, out=out)
        made = {"cut": cut, "has": has, "number": number, "vertex": vertices, "out": out, "folded": folded}
        self._run("sdf_sharp_pieces", count, first=counts.sums, **of, **made)
        corners = len(kept) + int((edges["split"] == C.SPLIT_CORNER).sum())
        parts = SharpParts(len(split) + len(kept) - corners, corners, int(backend.to_host(folded)[0]))
        return vertices, out, parts
