"""`solidify`: any triangles as a closed, oriented, manifold mesh."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend, select_backend
from sdfcli.errors import InputError, UsageError
from sdfcli.mesh.arrays import Faces, Floats
from sdfcli.mesh.load import MeshSource, load_mesh
from sdfcli.mesh.mesh import Domain, Mesh
from sdfcli.octree.grown import Progress
from sdfcli.params import AUTO, GAP, check_scale, parse_gap, parse_size, whole
from sdfcli.quality.accuracy import on_surface
from sdfcli.runtime.log import LOG
from sdfcli.runtime.memory import memory_errors
from sdfcli.solid.fewer import fewer_faces
from sdfcli.solid.flood import Unsigned
from sdfcli.solid.gap import holding, smallest
from sdfcli.solid.surface import TINY, boundary, moved_back, outward, unsigned

THICKNESS = 0.2
"""Distance between the surface and the mesh, in radii, at most in default radii: half a sheet's minimum thickness."""
SEEN = 1.25
"""Maximum distance between the flood and a point that it sees, in radii."""
ROOM = 0.01
"""Minimum room volume, in bounding box volumes; smaller spaces are in furniture and walls."""
POINTS = 30_000
"""Random points at which the solid is compared with the mesh."""


@dataclass(frozen=True)
class SeenDistance:
    """Distances from random points of the mesh that the flood sees to the solid, in the mesh's units.

    Attributes:
        seen: share of the mesh's area that the flood sees.
        mean: mean distance.
        most: the distance that 99 % of the points keep.
        largest: the largest distance.
    """

    seen: float
    mean: float
    most: float
    largest: float


@dataclass(frozen=True, repr=False)
class Solid:
    """A closed, oriented, manifold mesh. Lengths are in the mesh's units.

    Attributes:
        vertices: (v, 3) float64.
        faces: (f, 3) uint32, counter-clockwise seen from outside.
        gap: the ball's radius.
        thickness: minimum thickness of a sheet; the surface lies half of it outside the mesh.
        volume: enclosed volume.
        shells: connected parts.
        leak: a larger radius that keeps a volume from the outside which `gap` lets in; None if none is known.
        distance: distances from the mesh; None unless measured.
        unit: the mesh's bounding box diagonal.
        units: the coordinates' unit; None if unknown.
        device: the device that computed it.
        notes: parts of the mesh's file that were skipped or reinterpreted.
    """

    vertices: Floats
    faces: Faces
    gap: float
    thickness: float
    volume: float
    shells: int
    leak: float | None
    distance: SeenDistance | None
    unit: float
    units: str | None
    device: str
    notes: list[str]

    def __repr__(self) -> str:
        return f"<Solid: {len(self.faces):,} faces, {self.shells:,} shells, volume {self.volume:.4g}>"


@memory_errors("use a larger --gap")
def solidify(
    source: MeshSource,
    *,
    gap: float | str | None = None,
    faces: int | None = None,
    scale: float | None = None,
    units: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    max_memory: int | str | None = None,
    progress: Progress | None = None,
) -> Solid:
    """Makes a solid from any triangles: open, doubled, crossing, or walls within walls.

    A ball floods the outside from far away; all else is solid. Gaps up to two radii wide are closed, and hidden
    faces are dropped.

    Args:
        source: a path, a `trimesh.Trimesh`, or a pair of arrays: vertices (v, 3) and faces (f, 3).
        gap: the ball's radius, as a fraction of the mesh's bounding box diagonal; or `auto`: the smallest, from 0.005
            on, of which no larger one keeps more of the inside. None: 0.005.
        faces: maximum face count, by edge collapses; None: all that the flood gives.
        scale: factor for the mesh's coordinates.
        units: unit to which a file's coordinates are converted, as for `sdfcli.build`.
        device: `auto`, `cpu`, `cuda` or `cuda:N`. The solid does not depend on it.
        threads: CPU thread count; default: all CPUs available to the process.
        max_memory: maximum memory on the device, in bytes or as text: `800M`, `4G`.
        progress: called with a short description when a stage begins; default: it is logged, at DEBUG.

    Raises:
        InputError: the mesh cannot be read or used.
        UsageError: a parameter is out of range.
        DeviceError: the device or its software, or manifold3d for `faces`, is missing.
        OutOfMemoryError: the flood does not fit into memory.
    """
    chosen = GAP if gap is None else parse_gap(gap)
    check_scale(scale, units)
    if faces is not None and not whole(faces) >= 4:
        raise UsageError(f"--faces {faces}: use a whole number, 4 or more")
    backend, report = select_backend(device, threads), progress or LOG.debug
    report("loading")
    mesh = load_mesh(source, scale=scale, units=units)
    return solid_of(mesh, chosen, mesh.diagonal, backend, parse_size(max_memory), faces, report)


def solid_of(
    mesh: Mesh,
    gap: float | str,
    unit: float,
    backend: Backend,
    most_memory: int | None = None,
    faces: int | None = None,
    report: Progress = LOG.debug,
    measured: bool = True,
    inside: bool = False,
    tested: bool = True,
) -> Solid:
    """`solidify` for a mesh. gap: in units; unit: in the mesh's units. measured: whether to compute `distance`. inside:
    the free space in the room, as a solid. tested: whether larger gaps are tested, for `leak`.

    Raises InputError if no room is enclosed, UsageError if a larger gap is needed for one.
    """
    default = unit * GAP
    radius = default if isinstance(gap, str) else unit * gap
    report("distances")
    found = Unsigned.of(mesh, radius, default, backend, most_memory)
    if gap == AUTO:
        report("testing radii")
        radius = smallest(found, radius, backend, inside)
    report("flood")
    with backend.active():
        root = found.components(backend, radius)
        leak = None if gap == AUTO or not tested else holding(found, radius, backend, inside)
        if inside:
            root = _room(found, root, radius, leak, unit, backend)
        fine = min(radius, default)
        if fine < radius:
            root = found.spread(backend, root, radius, fine)
        field = found.flooded(backend, root, fine)
        if inside:
            field = replace(field, distance=-field.distance)
    report("surface")
    flood = boundary(field, 1 << found.level, fine, backend, inside)
    del field, root
    half = THICKNESS * fine
    vertices = moved_back(flood.vertices, found.exact, fine, half, backend)
    made = outward(Mesh(vertices, flood.faces), backend, inside)
    if faces is not None and len(made.faces) > faces:
        report("collapsing edges")
        made = fewer_faces(made, int(faces), half)
    report("measuring")
    _, volumes = made.shell_sums(made.on(backend).connectivity)  # sixfold, in the unit cube
    volume = float(volumes.sum()) * made.domain.length**3 / 6
    seen = _seen_distance(found.mesh, flood, made, fine, backend) if measured else None
    return Solid(
        made.vertices,
        made.faces,
        radius,
        2 * half,
        volume,
        made.health.shells,
        leak,
        seen,
        unit,
        mesh.units,
        backend.name,
        mesh.notes,
    )


def _room(found: Unsigned, root: Array, radius: float, leak: float | None, unit: float, backend: Backend) -> Array:
    """Sides as from `components`, with the largest room as the outside. root: from there, for `radius`. leak: see
    Solid. Raises the errors of `solid_of`."""
    if leak is not None:
        closing = 1.005 * leak / unit  # not below it when rounded
        raise UsageError(
            f"--gap {radius / unit:.3g}: the room is open to the outside; use --gap {closing:.3g}, or --gap auto"
        )
    label, volume = found.room(backend, root, radius)
    share = volume / max(float(np.prod(found.mesh.bounds[1] - found.mesh.bounds[0])), TINY)
    if share < ROOM:
        raise InputError(
            f"--sign inside: no room is enclosed; the largest space that the flood does not reach has {share:.1%} of "
            "the bounding box's volume"
        )
    return (root != np.uint32(label)).astype(np.uint32)


def leak_text(gap: float) -> str:
    """A note on a leak. gap: a larger radius, without it."""
    return (
        f"the outside flows into a volume that a larger ball leaves solid; if that is a leak, use --gap {gap:.3g}, or "
        "--gap auto"
    )


def solid_mesh(
    mesh: Mesh,
    gap: float | str | None,
    backend: Backend,
    most_memory: int | None = None,
    inside: bool = False,
    tested: bool = True,
) -> tuple[Mesh, dict[str, Any]]:
    """A mesh's solid, with its domain and unit, and facts about it, as in a field's info. gap: in diagonals. inside,
    tested: see `solid_of`."""
    chosen = GAP if gap is None else gap
    solid = solid_of(mesh, chosen, mesh.diagonal, backend, most_memory, measured=False, inside=inside, tested=tested)
    made = Mesh(solid.vertices, solid.faces)
    domain = mesh.domain if not mesh.domain.excludes(made.bounds).any() else Domain.around(made.bounds)
    facts = {"gap": solid.gap, "thickness": solid.thickness, "volume": solid.volume, "leak": solid.leak}
    return made.placed(domain, mesh.unit), facts


def _seen_distance(mesh: Mesh, flood: Mesh, solid: Mesh, radius: float, backend: Backend) -> SeenDistance | None:
    """Distances of the points that lie no farther from the flood than the ball's radius. None if it sees none."""
    points = on_surface(mesh, POINTS, np.random.default_rng(0))
    shown = points[unsigned(flood, backend).distance(points) <= SEEN * radius]
    if not len(shown):
        return None
    off = np.sort(unsigned(solid, backend).distance(shown))
    most = float(off[int(0.99 * (len(off) - 1))])
    return SeenDistance(len(shown) / len(points), float(off.mean()), most, float(off[-1]))
