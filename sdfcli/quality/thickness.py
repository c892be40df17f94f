"""Thickness of a mesh's walls and gaps, and the surface share at which a field has lost them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdfcli.backend import Array, C, Group
from sdfcli.backend.packed import Packed
from sdfcli.mesh.arrays import Bools, Floats, Ints
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import SHEET_CELL, WIDEST_SHEET, BuildParams, depth_for_sheet
from sdfcli.quality.accuracy import Places, face_directions, surface_samples
from sdfcli.query.mesh_distance import FAR, MeshDistance

SAMPLES, SEED = 5_000, 30_000
HALVINGS = 16
"""Ball halvings, down to widths of 1e-4 tolerances: float32 resolution at the default tolerance."""
TOGETHER = 2 * SAMPLES
"""Balls tested together, over several rounds when few are left: many take hardly longer than few."""
OPPOSED, EMPTY = C.OPPOSED, 0.9
"""Maximum cosine between the directions to a sheet's two sides, as in octree/sheets.h; minimum distance from an empty
ball's centre to the surface, in radii."""
FREE = 0.75
"""Minimum distance from a sheet's middle to the surface, in half widths; 0.8 where the sides meet at 37 degrees."""
UNREFINED = 2.0
"""Thickness, in tolerances, below which a field without refinement for sheets may lose one: the error reaches its
middle."""
SPARED = 0.01
"""Share of lost sheets, the thinnest, that the remedy may miss: a blade's edge has no thickness."""


@dataclass(frozen=True)
class Sheets:
    """Walls and gaps at random surface points, uniform by area.

    samples  point count.
    sample   (k,) point index; a point may have a wall on one side and a gap on the other.
    width    (k,) thickness in the mesh's units.
    middle   (k, 3) midpoint between the two sides.
    wall     (k,) True for walls, False for gaps.
    """

    samples: int
    sample: Ints
    width: Floats
    middle: Floats
    wall: Bools

    @staticmethod
    def unknown() -> dict[str, Any]:
        """The report without a measurement."""
        return {"thinnest": None, "lost": None, "needed_thin": None, "needed_depth": None}

    def lost(self, value: Floats) -> Bools:
        """Whether a field with values (k,) at the midpoints has the wrong sign there, (k,)."""
        return np.asarray((value < 0) != self.wall)

    def may_be_lost(self, mesh: Mesh, params: BuildParams) -> Bools:
        """Whether a build may lose the wall or gap, (k,): an estimate, of more than it mostly does."""
        if params.octree == "bvh":
            return np.ones(len(self.width), bool)
        limit = params.thin_limit or UNREFINED * params.tolerance
        if params.depth is not None:
            limit = max(limit, 0.5**params.depth * mesh.domain.length / mesh.unit / SHEET_CELL)
        return np.asarray(self.width < limit * mesh.unit)

    def report(self, lost: Bools | None, mesh: Mesh, params: BuildParams) -> dict[str, Any]:
        """Entries for `sheets` in a field's info (docs/reference/file.md). Lengths are fractions of the diagonal.

        lost: (k,) whether the field has lost the wall or gap, or `may_be_lost`; None without signs. The remedy is the
        same for both: it counts sheets that were kept by chance.
        """
        width = self.width / mesh.unit
        found = self.unknown()
        if lost is not None:
            found["lost"] = len(set(self.sample[lost].tolist())) / self.samples
            if self.wall.any():
                found["thinnest"] = float(width[self.wall].min())
            if lost.any():
                thin = np.sort(width[lost | self.may_be_lost(mesh, params)])
                needed = float(f"{0.95 * thin[int(SPARED * lost.sum())]:.1e}")  # two digits, rounded down
                found["needed_thin"] = needed
                found["needed_depth"] = depth_for_sheet(needed, mesh.unit / mesh.domain.length)
        return found


def spots(mesh: Mesh) -> tuple[Floats, Floats]:
    """Surface points (n, 3) for thickness measurement, and their unit normals (n, 3)."""
    return surface_samples(mesh, _places())


@functools.cache
def _places() -> Places:
    return Places.drawn(SAMPLES, np.random.default_rng(SEED))


def find_sheets(index: MeshDistance, point: Floats, normal: Floats, tolerance: float) -> Sheets:
    """Walls and gaps thinner than WIDEST_SHEET tolerances at surface points; see find_sides."""
    sides = find_sides(index, point, normal, tolerance)
    return Sheets(*sides, index.signed_distance(sides[-1]) < 0 if len(sides[-1]) else np.empty(0, bool))


def find_sides(
    index: MeshDistance, point: Floats, normal: Floats, tolerance: float
) -> tuple[int, Ints, Floats, Floats]:
    """The fields of `Sheets` at surface points, except the last, `wall`, which needs signs.

    On both sides of each point, a ball tangent to the surface is halved until it is empty. If the surface nearest to
    its centre lies opposite, the two are the sides of a sheet. If the centre lies beyond a sheet much thinner than the
    ball, the distance is almost the radius, but the nearest face has the opposite normal.
    """
    halvings, found, touching = 0, [], _Touching(index, point, normal, WIDEST_SHEET * tolerance * index.mesh.unit / 2)
    ball = np.arange(2 * len(point), dtype=np.uint32)
    while halvings < HALVINGS and len(ball):
        rounds = min(HALVINGS - halvings, max(1, TOGETHER // len(ball)))
        opposite, smaller, width = touching.judged(ball, halvings, rounds)
        halved = np.logical_and.accumulate(smaller)
        opposite[1:] &= halved[:-1]
        found.append((np.broadcast_to(ball, opposite.shape)[opposite], width[opposite]))
        ball, halvings = ball[halved[-1]], halvings + rounds
    side, width = (np.concatenate(parts) for parts in zip(*found, strict=True))
    sample = side.astype(np.int64) % len(point)
    middle = point[sample] + (width / 2)[:, None] * np.where(side < len(point), -1.0, 1.0)[:, None] * normal[sample]
    return len(point), sample, width, middle


class _Touching:
    """Balls tangent to a surface, on a device; see kernels/verify/thickness.h."""

    def __init__(self, index: MeshDistance, point: Floats, normal: Floats, widest: float) -> None:
        self._normal, self._mesh, self._nearest = normal, index.mesh, index._scene.reference
        self._backend = backend = index._backend
        self._given = {
            "point": backend.from_host(point),
            "normal": backend.from_host(normal),
            "samples": len(point),
            "widest": widest,
            "domain": index.mesh.domain.group(backend),
            "far": FAR,
        }

    def judged(self, ball: Array, halvings: int, rounds: int) -> tuple[Bools, Bools, Floats]:
        """Tests rounds of balls. Returns, (rounds, balls) each: whether a sheet's other side lies opposite, whether the
        ball must be halved, and the sheet's width."""
        backend, xp, count, order = self._backend, self._backend.xp, rounds * len(ball), self._nearest.order
        numbers = {"ball": backend.from_host(ball), "balls": len(ball), "halvings": halvings}
        balls = backend.group("TouchingBalls", **self._given, **numbers)
        centre = xp.empty((count, 3), np.float32)
        of_each = (count,)
        found = Packed(backend, width=(np.float64, of_each), face=(np.uint32, of_each), verdict=(np.uint8, of_each))
        backend.run("sdf_ball_centres", count, balls=balls, centre=centre)
        _, slot = self._nearest.nearest_in_any_order(centre)
        backend.run(
            "sdf_ball_classified",
            count,
            balls=balls,
            opposed=OPPOSED,
            empty=EMPTY,
            centre=centre,
            slot=slot,
            triangle=order.triangle,
            triangle_id=order.triangle_id,
            **found.arrays,
        )
        wide, face, said = found.to_host().values()
        opposite, smaller = said & C.BALL_OPPOSED > 0, said & C.BALL_FULL > 0
        chosen = np.flatnonzero(opposite).astype(np.uint32)
        if len(chosen):
            clear = self._clear(balls, chosen, found.arrays["width"])
            opposite[chosen] = clear >= FREE / 2 * wide[chosen]  # else the side is another sheet's
        doubtful = np.flatnonzero((said & C.BALL_DOUBTFUL > 0) & ~opposite)
        if len(doubtful):
            normal = self._normal[ball[doubtful % len(ball)] % len(self._normal)]
            smaller[doubtful] = (face_directions(self._mesh, face[doubtful]) * normal).sum(axis=1) < OPPOSED
        shape = rounds, len(ball)
        return opposite.reshape(shape), (smaller & ~opposite).reshape(shape), wide.reshape(shape)

    def _clear(self, balls: Group, chosen: Array, width: Array) -> Floats:
        """Distances (k,) to the surface from the midpoints of the chosen balls' sheets."""
        backend, xp, count = self._backend, self._backend.xp, len(chosen)
        middle, scale = xp.empty((count, 3), np.float32), xp.empty(count)
        given = {"balls": balls, "chosen": backend.from_host(chosen), "width": width}
        backend.run("sdf_ball_middles", count, middle=middle, scale=scale, **given)
        distance, _ = self._nearest.nearest_in_any_order(middle)
        return np.asarray(backend.to_host(distance) * backend.to_host(scale))
