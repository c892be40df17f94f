"""`thickness`: a mesh's wall thickness at faces or vertices, and its distribution by area."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, select_backend
from sdfcli.errors import UsageError
from sdfcli.mesh.arrays import Faces, Floats, Ints
from sdfcli.mesh.load import MeshSource, load_mesh
from sdfcli.octree.grown import Progress
from sdfcli.params import whole
from sdfcli.quality.wall_points import FacePoints, corner_points
from sdfcli.runtime.log import LOG
from sdfcli.runtime.memory import memory_errors
from sdfcli.scene import Scene
from sdfcli.spatial.morton import Order
from sdfcli.spatial.radix_tree import Bvh, refit

AT = ("faces", "vertices")
SAMPLES = 100_000
"""Default point count; see FacePoints."""
MOST_SAMPLES = 1 << 28
BATCH = 1 << 17
"""Points per launch."""
NONE = 1e29
"""Kernels report larger lengths for points without a thickness."""
RESOLUTION = 2e-7
"""Error of lengths, in domain edges, as SDF_WALL_TOUCH in kernels/verify/walls.h."""


class Thinnest(NamedTuple):
    """The thinnest place.

    thickness  in the mesh's units, as are all lengths.
    opposite   there; NaN without an opposite side.
    point      (x, y, z).
    face       the point's face.
    """

    thickness: float
    opposite: float
    point: tuple[float, float, float]
    face: int


class WallSamples(NamedTuple):
    """Measurements at points on the whole surface, at least one per face, with equal areas within a face.

    thickness  (n,) float64, NaN where no side opposes the point.
    opposite   (n,) float64, NaN where no side lies behind the point.
    area       (n,) float64, share of the surface.
    face       (n,) int64.
    """

    thickness: Floats
    opposite: Floats
    area: Floats
    face: Ints


@dataclass(frozen=True, repr=False)
class Thickness:
    """A mesh's wall thickness. Lengths are in the mesh's units.

    Attributes:
        at: `faces` or `vertices`.
        thickness: (k,) float64, per face or vertex the smallest diameter of a ball that touches the surface there and
            the opposite side; NaN where no side opposes.
        opposite: (k,) float64, the smallest distance to the other side along the inward normal; NaN without one.
        thinnest: the thinnest place; None without any thickness.
        samples: measurements by area, from which the methods below compute.
        vertices: (v, 3) float64, without unused ones.
        faces: (f, 3) uint32, as given.
        resolution: the lengths' error; a thickness counts as below another if it is smaller by more.
        encloses: whether the mesh has an inside; if not, lengths are measured behind the faces as they are oriented.
        units: the lengths' unit, as `mm`, if the mesh's file names one.
        notes: facts about the mesh that affect the result, and what was skipped or reinterpreted in its file.
    """

    at: str
    thickness: Floats
    opposite: Floats
    thinnest: Thinnest | None
    samples: WallSamples
    vertices: Floats
    faces: Faces
    resolution: float
    encloses: bool
    units: str | None
    notes: list[str]

    def __repr__(self) -> str:
        least = "no walls" if self.thinnest is None else f"{self.thinnest.thickness:.6g} at the thinnest"
        return f"<Thickness: {least}, {len(self.thickness):,} {self.at}>"

    @property
    def opposed(self) -> float:
        """Share of the surface that has a thickness: some side opposes it."""
        missing = np.isnan(self.samples.thickness)
        return 0.0 if missing.all() else 1.0 - self._share(missing)

    def share_below(self, limit: float) -> float:
        """Share of the surface with a thickness below a limit."""
        return self._share(self.samples.thickness < limit - self.resolution)

    def _share(self, chosen: npt.NDArray[np.bool_]) -> float:
        return min(1.0, math.fsum(self.samples.area[chosen]))

    def quantile(self, share: float) -> float:
        """The thickness that a share of the opposed surface does not exceed; NaN without any."""
        thick, area = self.samples.thickness, self.samples.area
        order = np.argsort(thick, kind="stable")  # NaN last
        order = order[: np.count_nonzero(~np.isnan(thick))]
        if len(order) == 0:
            return math.nan
        sums = np.cumsum(area[order])
        place = int(np.searchsorted(sums, share * sums[-1]))
        return float(thick[order[min(place, len(order) - 1)]])

    def histogram(self, edges: npt.ArrayLike) -> Floats:
        """Surface shares (b,) with a thickness between ascending edges (b + 1,), lower edges included."""
        bounds = np.asarray(edges, np.float64)
        thick = self.samples.thickness + self.resolution
        number = np.searchsorted(bounds, thick, side="right") - 1
        chosen = (number >= 0) & (thick < bounds[-1])
        return np.minimum(np.bincount(number[chosen], self.samples.area[chosen], len(bounds) - 1), 1.0)

    def save(self, path: str | PathLike[str], *, force: bool = False) -> None:
        """Writes the mesh with `thickness` and `opposite` per face or vertex: .vtp for ParaView, or .ply, in which a
        missing thickness is NaN; whole or not at all.

        Raises UsageError for another ending, if the file exists and `force` is not set, or if it cannot be written.
        """
        from pathlib import Path

        from sdfcli.export.wall_map import write_wall_map

        write_wall_map(Path(path), self, force)

    def picture(
        self,
        *,
        width: int = 800,
        height: int = 600,
        view: str | tuple[float, float] = "-30,20",
        up: str = "y",
        limit: float | None = None,
        device: str = "auto",
        threads: int | None = None,
    ) -> npt.NDArray[np.uint8]:
        """Renders the mesh coloured by `thickness`, with a scale at the right: (height, more than width, 3) uint8.

        Args:
            width: width in pixels, without the scale.
            height: height in pixels.
            view: as for `sdfcli.render`.
            up: as for `sdfcli.render`.
            limit: required thickness: smaller ones are red, larger ones yellow to blue. None: from red to blue.
            device: `auto`, `cpu`, `cuda` or `cuda:N`. The picture does not depend on it.
            threads: CPU thread count; default: all CPUs available to the process.

        Raises the errors of `sdfcli.render`.
        """
        from sdfcli.pictures.wall_picture import wall_picture

        return wall_picture(
            self, width=width, height=height, view=view, up=up, limit=limit, device=device, threads=threads
        )


@memory_errors()
def thickness(
    source: MeshSource,
    *,
    at: str = "faces",
    samples: int = SAMPLES,
    scale: float | None = None,
    units: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Thickness:
    """Measures a mesh's wall thickness, by two methods.

    `thickness` is the diameter of the largest ball that touches the surface at a point from inside, and contains no
    part of a side that opposes the point: of faces that meet the point's plane at 50 degrees or less. A plate with
    sharp edges has its thickness up to these edges, since side faces do not oppose it; an edge of less than 50 degrees
    thins to nothing. `opposite` is the distance to the first face through which the inward normal leaves the solid.

    Points lie on all faces, one or more on each, so that they are about uniform by area. A face's values are the
    smallest of its points; a vertex's are measured on its largest face, or on all its faces if it lies on a crease.
    Lengths are exact to about 1e-7 of the mesh's size; thinner walls have thickness 0.

    Args:
        source: a path, a `trimesh.Trimesh`, or a pair of arrays: vertices (v, 3) and faces (f, 3).
        at: `faces` or `vertices`.
        samples: approximate number of points on the surface, 1 or more.
        scale: factor for the mesh's coordinates.
        units: unit to which a mesh file's coordinates are converted.
        device: `auto`, `cpu`, `cuda` or `cuda:N`. Results do not depend on it.
        threads: CPU thread count; default: all CPUs available to the process.
        progress: called with a short description as points are done; default: it is logged, at DEBUG.

    Raises:
        InputError: the mesh cannot be read or used.
        UsageError: a parameter is out of range.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the mesh does not fit into memory.
    """
    if at not in AT:
        raise UsageError(f"--at {at}: use {' or '.join(AT)}")
    if not 1 <= whole(samples) <= MOST_SAMPLES:
        raise UsageError(f"--samples {samples}: use a whole number, 1 to {MOST_SAMPLES}")
    backend = select_backend(device, threads)
    given = load_mesh(source, backend, scale, units)
    scene = Scene.of(given, "auto", backend)
    walls = Walls(scene)
    points = FacePoints.of(scene.mesh, int(samples))
    wanted, report = len(points), progress or LOG.debug
    corners = corner_points(scene.mesh) if at == "vertices" else None
    if corners:
        wanted += len(corners[0])
    done = 0
    for first in range(0, len(points), BATCH):
        done = min(first + BATCH, len(points))
        walls.measure(*points.batch(first, done))
        report(f"{done:,} of {wanted:,} points")
    thick, opposite = walls.results()
    by = WallSamples(thick, opposite, points.areas(), points.faces())
    if corners is None:
        values = points.smallest(thick), points.smallest(opposite)
    else:
        vertex, face, weight = corners
        for first in range(0, len(vertex), BATCH):
            part = slice(first, first + BATCH)
            walls.measure(face[part], weight[part])
            report(f"{done + min(first + BATCH, len(vertex)):,} of {wanted:,} points")
        starts = np.flatnonzero(np.diff(vertex, prepend=-1))
        values = tuple(np.fmin.reduceat(each, starts) for each in walls.results())  # type: ignore[assignment]
    notes = [*given.notes, *_notes(scene)]
    return Thickness(
        at,
        *values,
        walls.thinnest,
        by,
        given.vertices,
        given.faces,
        RESOLUTION * scene.mesh.domain.length,
        scene.choice.method != "none",
        given.units,
        notes,
    )


def _notes(scene: Scene) -> list[str]:
    """Facts about the mesh that affect its thickness."""
    _ = scene.signer  # which settles the choice
    choice, open_edges = scene.choice, scene.mesh.health.open_edges
    notes = []
    if choice.method == "none":
        notes.append("the mesh has no inside: thickness is measured behind its faces, as they are oriented")
    elif open_edges:
        notes.append(f"the mesh is open, at {open_edges:,} edges: opposite sides may be missing")
    if choice.crossing or "in other solids" in choice.reason:
        notes.append("parts of the mesh overlap: each is measured by itself, they are not united")
    return notes


class Walls:
    """A mesh prepared for measurements, and their results in order; see kernels/verify/walls.h.

    thinnest  the thinnest place so far.
    """

    def __init__(self, scene: Scene) -> None:
        self._backend, self._mesh = scene.backend, scene.mesh
        bvh = scene.bvh
        order, xp = bvh.order, self._backend.xp
        self._surface = {"vertices": len(self._mesh.vertices), "vertex": self._mesh.vertex, "face": self._mesh.face}
        normal = xp.empty((len(order), 9), np.float32)
        self._backend.run("sdf_wall_normals", len(order), **self._surface, triangle_id=order.triangle_id, normal=normal)
        # Refitted to normals in place of corners, the tree's boxes bound the directions of the faces below a node.
        directions = Order(order.keys, order.triangle_id, normal)
        box = xp.empty((len(order) - 1, 6), np.float32)
        refit(self._backend, Bvh(directions, bvh.child, bvh.node_parent, bvh.leaf_parent, box))
        self._tree = {
            "triangles": len(order),
            "mesh": self._backend.group(
                "Shapes",
                count=len(order),
                triangle=order.triangle,
                triangle_id=order.triangle_id,
                normal=None,
                child=bvh.child,
                box=bvh.box,
                x=0.0,
                y=0.0,
                z=0.0,
                edge=1.0,
            ),
            "facing": normal,
            "range": box,
        }
        self.thinnest: Thinnest | None = None
        self._found: list[tuple[Floats, Floats]] = []

    def measure(self, face: npt.NDArray[np.uint32], weight: Floats) -> None:
        """Measures at points on faces (k,) with barycentric weights (k, 3)."""
        backend, domain, count = self._backend, self._mesh.domain, len(face)
        point, normal = backend.xp.empty((count, 3)), backend.xp.empty((count, 3))
        backend.run(
            "sdf_wall_points",
            count,
            **self._surface,
            faces=len(self._mesh.faces),
            domain=domain.group(backend),
            on=backend.from_host(face),
            weight=backend.from_host(weight),
            point=point,
            normal=normal,
        )
        thick, opposite = (
            np.where(lengths < NONE, lengths * domain.length, np.nan) for lengths in self._lengths(point, normal)
        )
        self._found.append((thick, opposite))
        if np.isnan(thick).all():
            return
        place = int(np.nanargmin(thick))
        if self.thinnest is None or thick[place] < self.thinnest.thickness:
            x, y, z = (backend.to_host(point[place]) * domain.length + domain.origin).tolist()
            self.thinnest = Thinnest(float(thick[place]), float(opposite[place]), (x, y, z), int(face[place]))

    def _lengths(self, point: Array, normal: Array) -> tuple[Floats, Floats]:
        """Thickness and opposite distance (k,) at points (k, 3) with normals (k, 3), in the unit cube."""
        thick, opposite = self._backend.xp.empty(len(point)), self._backend.xp.empty(len(point))
        self._backend.run(
            "sdf_wall_thickness",
            len(point),
            **self._tree,
            point=point,
            normal=normal,
            thickness=thick,
            opposite=opposite,
        )
        return self._backend.to_host(thick), self._backend.to_host(opposite)

    def results(self) -> tuple[Floats, Floats]:
        """Thickness and opposite distance (n,) at all points measured since the last call, in the mesh's units; NaN for
        none."""
        found, self._found = self._found, []
        thick, opposite = zip(*found, strict=True)
        return np.concatenate(thick), np.concatenate(opposite)
