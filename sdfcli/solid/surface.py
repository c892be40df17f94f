"""The solid's surface: the boundary of the region that the ball reaches, moved back to the mesh."""

from __future__ import annotations

import math

import numpy as np

from sdfcli.backend import Backend
from sdfcli.extract.marching_cubes import extract
from sdfcli.extract.sources import FieldSource
from sdfcli.field.field import Field
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.mesh import Mesh
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.scene import Scene

SLOPE = 0.1
WALL = 1.5
"""See `moved_back`."""
TINY = float(np.finfo(np.float64).tiny)


def boundary(field: Field, cells: int, radius: float, backend: Backend, room: bool = False) -> Mesh:
    """The closed surface where `field`, from `Unsigned.flooded` for `radius`, is 0. cells: as many as in its finest
    level, so that no passage of the flood is lost. Components that enclose nothing, or less than a ball of half the
    radius, are dropped: single corners in a passage, as a mesh has the radius around it. room: see `outward`."""
    found = extract(FieldSource(backend, field, cells, 0.0), [backend])
    return outward(Mesh(found.vertices, found.faces), backend, room, 4 / 3 * math.pi * (radius / 2) ** 3)


def outward(mesh: Mesh, backend: Backend, room: bool = False, least: float = 0.0) -> Mesh:
    """The shells of a closed mesh that enclose a volume above `least`, oriented outwards; the mesh itself if all do.
    room: only the largest one, and the cavities, whose orientation is opposite."""
    edges = mesh.on(backend).connectivity
    _, volume = mesh.shell_sums(edges)
    volume = volume * (mesh.domain.length**3 / 6)
    chosen = (volume < 0) | (np.arange(len(volume)) == volume.argmax()) if room else volume > least
    kept = chosen[edges.shell_of()]
    if kept.all():
        return mesh
    faces = mesh.faces[kept]
    used = np.zeros(len(mesh.vertices), bool)
    used[faces] = True
    number = np.cumsum(used, dtype=np.uint32) - np.uint32(1)
    return Mesh(mesh.vertices[used], number[faces])


def unsigned(mesh: Mesh, backend: Backend) -> MeshDistance:
    """Exact unsigned distances to a mesh."""
    found = MeshDistance._of(Scene.of(mesh, "none", backend))
    _ = found._scene.unsigned_index
    return found


def moved_back(vertices: Floats, distances: MeshDistance, radius: float, thickness: float, backend: Backend) -> Floats:
    """Vertices (n, 3) moved towards their nearest points on the mesh: from the distance `radius` to `thickness`.

    Vertices on one line towards the mesh stay apart: the new distance grows with the old one, relatively by SLOPE of
    it, and as fast as the old one from WALL radii on, in walls across passages that the ball cannot take.
    """
    vertex = backend.from_host(vertices)
    (nearest, _), moved = distances.closest(vertex), backend.xp.empty_like(vertex)
    lengths = {"radius": radius, "thickness": thickness, "slope": SLOPE, "wall": WALL * radius}
    backend.run("sdf_moved_back", len(vertices), nearest=nearest, vertex=vertex, moved=moved, **lengths)
    return np.asarray(backend.to_host(moved))
