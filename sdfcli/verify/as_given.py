"""Exact signed distances to a mesh as it is given: the reference of `sdfcli verify`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sdfcli.backend import Backend
from sdfcli.mesh.arrays import Bools, Faces, Floats, Ints
from sdfcli.mesh.mesh import Mesh
from sdfcli.mesh.repair import Repaired, oriented, repair
from sdfcli.verify.accuracy import corners_of, face_directions
from sdfcli.verify.reference import ExactReference

MOST_ASKED = 8
"""Faces of a shell, the largest, in front of which the winding number is asked for."""

STEP = 1e-6
"""Distance of these points from their faces, in their faces' sizes."""


class TurnedShell(NamedTuple):
    """A shell that a build turns.

    faces    their number.
    at       a point (3,) of it, in the mesh's units.
    winding  the least winding number in front of its largest faces, as the mesh is given.
    """

    faces: int
    at: tuple[float, float, float]
    winding: float

    @property
    def confirmed(self) -> bool:
        """Whether the winding number is negative there, as in front of no face of a solid that is oriented outwards."""
        return self.winding < -0.5


class GivenMesh:
    """Exact distances, and signs by exact winding numbers. See accuracy.Reference.

    Faces are counted and made to agree with their neighbours as in a build. But which shells are turned is not left to
    it: a shell is turned only where exact winding numbers of the mesh as it is confirm that it is oriented inwards; and
    on a closed surface, inside is where the winding number is not 0, so that one that should have been turned shows.
    """

    def __init__(self, mesh: Mesh, signed: bool, backend: Backend) -> None:
        self._surface, self._signed = ExactReference(mesh.vertices, mesh.faces, backend), signed
        self.turned: list[TurnedShell] = []
        if not signed:
            return
        found = oriented(mesh.on(backend))
        given = self._boundary_of(found, found.mesh.faces, backend)
        turn = (repair(mesh, lambda _: found).mesh.faces != found.mesh.faces).any(axis=1)
        self._boundary, self._closed = given, found.edges.open == 0
        if turn.any():
            shell, faces = found.edges.shell_of(), found.mesh.faces
            shells, self.turned = _turned_shells(given, found.mesh, shell, turn)
            confirmed = np.isin(shell, shells[[each.confirmed for each in self.turned]])
            self._boundary = self._boundary_of(found, np.where(confirmed[:, None], faces[:, ::-1], faces), backend)

    def _boundary_of(self, found: Repaired, faces: Faces, backend: Backend) -> ExactReference:
        counted = faces if found.left_out is None else np.delete(faces, found.left_out, axis=0)
        return ExactReference(found.mesh.vertices, counted, backend)

    def signed_distance(self, points: Floats) -> Floats:
        """(n,) at points (n, 3), in the mesh's units."""
        distance = self._surface.distance(points)
        if self._signed:
            winding = self._boundary.winding(points)
            distance[(np.abs(winding) if self._closed else winding) > 0.5] *= -1
        return distance


def _turned_shells(given: ExactReference, mesh: Mesh, shell: Ints, turn: Bools) -> tuple[Ints, list[TurnedShell]]:
    """The shells whose faces (f,) a build turns, ascending: numbers (k,), and facts. shell: (f,) of each face."""
    faces = np.flatnonzero(turn)
    corners = corners_of(mesh, faces)
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    order = np.lexsort((-area, shell[faces]))
    faces, area = faces[order], area[order]
    shells, first, count = np.unique(shell[faces], return_index=True, return_counts=True)
    largest = np.arange(len(faces)) - np.repeat(first, count) < MOST_ASKED
    faces, area = faces[largest], area[largest]
    centre = corners_of(mesh, faces).mean(axis=1)
    winding = given.winding(centre + STEP * np.sqrt(area)[:, None] * face_directions(mesh, faces))
    parts = np.split(np.arange(len(faces)), np.unique(shell[faces], return_index=True)[1][1:])
    least = [int(part[np.argmin(winding[part])]) for part in parts]
    facts = zip(count.tolist(), map(tuple, centre[least].tolist()), winding[least].tolist(), strict=True)
    return shells, [TurnedShell(*each) for each in facts]
