"""Exact signed distances to a mesh as given: the reference of `sdfcli verify`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sdfcli.backend import Backend
from sdfcli.mesh.arrays import Bools, Floats, Ints
from sdfcli.mesh.mesh import Mesh
from sdfcli.mesh.repair import oriented, repair
from sdfcli.quality.accuracy import corners_of, face_directions
from sdfcli.quality.reference import ExactReference

MOST_QUERIED = 8
"""Maximum faces per shell, the largest, with a winding number query in front."""

TINY = 1e-6
"""Minimum area of these faces, relative to the shell's largest."""

STEP = 1e-6
"""Distance from the query points to their faces, in face sizes."""


class TurnedShell(NamedTuple):
    """A shell that a build turns.

    faces    face count.
    at       (3,) point on the shell, in the mesh's units.
    winding  minimum winding number in front of its largest faces, with the mesh as given.
    """

    faces: int
    at: tuple[float, float, float]
    winding: float

    @property
    def confirmed(self) -> bool:
        """Whether `winding` is negative. In front of an outward-oriented solid's faces it never is."""
        return self.winding < -0.5


class GivenMesh:
    """Exact distances, with signs from exact winding numbers; an accuracy.Reference.

    As in a build, doubled faces are counted once and neighbouring faces oriented consistently. But the build's choice
    of turned shells is checked: a shell is turned only if exact winding numbers of the mesh as given confirm inward
    orientation. On a closed surface, a shell that the build failed to turn is turned here, so that the fault shows.

    surface   all faces, for distances.
    boundary  the faces that bound the inside, for winding numbers; `surface` if unsigned.
    signed    whether distances are signed.
    """

    def __init__(self, mesh: Mesh, signed: bool, backend: Backend) -> None:
        self.surface, self.signed = ExactReference(mesh.vertices, mesh.faces, backend), signed
        self._faces = mesh.faces
        self.boundary = self.surface
        self.turned: list[TurnedShell] = []
        if not signed:
            return
        found = oriented(mesh.on(backend))
        built = repair(mesh, lambda _: found)
        shell, turn = found.edges.shell_of(), (built.mesh.faces != found.mesh.faces).any(axis=1)
        if turn.any():
            given = self._bounding(found.mesh, found.left_out, backend)
            shells, self.turned = _turned_shells(given, found.mesh, shell, turn)
            turn = np.isin(shell, shells[[each.confirmed for each in self.turned]])
        turned = _with_turned(found.mesh, turn)
        self.boundary = self._bounding(turned, built.left_out, backend)
        if built.edges.open == 0:
            counted = shell < found.edges.shells
            counted[[] if built.left_out is None else built.left_out] = False
            missed = _missed(self.boundary, turned, shell, counted, backend)
            if missed.any():
                self.boundary = self._bounding(_with_turned(turned, missed), built.left_out, backend)

    def _bounding(self, mesh: Mesh, left_out: Ints | None, backend: Backend) -> ExactReference:
        """Winding number reference of a mesh without the faces `left_out` (k,)."""
        counted = mesh.faces if left_out is None else np.delete(mesh.faces, left_out, axis=0)
        return self.surface if np.array_equal(counted, self._faces) else ExactReference(mesh.vertices, counted, backend)

    @property
    def has_jumps(self) -> bool:
        """Whether the sign may change without a face: at open edges' holes."""
        return self.signed and self.boundary.boundary.values["open_edges"] > 0

    def signed_distance(self, points: Floats) -> Floats:
        """Distances (n,) at points (n, 3), in the mesh's units; all positive for an unsigned reference."""
        distance = self.surface.distance(points)
        if self.signed:
            distance[self.boundary.winding(points) > 0.5] *= -1
        return distance


def _with_turned(mesh: Mesh, turn: Bools) -> Mesh:
    """The mesh with chosen faces (f,) reversed."""
    return mesh.with_faces(np.where(turn[:, None], mesh.faces[:, ::-1], mesh.faces))


def _turned_shells(given: ExactReference, mesh: Mesh, shell: Ints, turn: Bools) -> tuple[Ints, list[TurnedShell]]:
    """Shells with faces (f,) that a build turns: ids (k,), ascending, and facts. shell: (f,) shell id by face."""
    asked = _largest(mesh, shell, turn)
    winding, at = given.winding(_in_front(mesh, asked)), corners_of(mesh, asked).mean(axis=1)
    shells, first = np.unique(shell[asked], return_index=True)
    least = [start + int(np.argmin(part)) for start, part in zip(first, np.split(winding, first[1:]), strict=True)]
    facts = zip(
        np.bincount(shell[turn])[shells].tolist(), map(tuple, at[least].tolist()), winding[least].tolist(), strict=True
    )
    return shells, [TurnedShell(*each) for each in facts]


def _missed(boundary: ExactReference, mesh: Mesh, shell: Ints, counted: Bools, backend: Backend) -> Bools:
    """The faces (f,) of a closed mesh's shells still to be turned, among the `counted` faces (f,).

    In front of them the winding number is negative, as it also is where cavities overlap. But a cavity lies in a solid,
    and not entirely in another cavity. shell: (f,) shell id by face.
    """
    asked = _largest(mesh, shell, counted)
    point = _in_front(mesh, asked)
    negative = boundary.winding(point) < -0.5
    doubtful = counted & np.isin(shell, shell[asked[negative]])
    others = counted & ~doubtful
    if not doubtful.any() or not others.any():
        return doubtful
    around = ExactReference(mesh.vertices, mesh.faces[others], backend).winding(point[negative])
    in_solid = doubtful & ~np.isin(shell, shell[asked[negative][around < 0.5]])
    if not in_solid.any():
        return doubtful
    asked = _largest(mesh, shell, in_solid, len(shell))
    cavity = np.isin(shell, shell[asked[boundary.winding(_in_front(mesh, asked)) > -0.5]])
    return doubtful & ~(in_solid & cavity)


def _largest(mesh: Mesh, shell: Ints, chosen: Bools, most: int = MOST_QUERIED) -> Ints:
    """The largest chosen faces (f,) of each shell, at most `most` and at least TINY times the largest, sorted by shell.
    shell: (f,) shell id by face."""
    faces = np.flatnonzero(chosen)
    corners = corners_of(mesh, faces)
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    order = np.lexsort((-area, shell[faces]))
    faces, area = faces[order], area[order]
    _, first, count = np.unique(shell[faces], return_index=True, return_counts=True)
    first = np.repeat(first, count)
    return np.asarray(faces[(np.arange(len(faces)) - first < most) & (area >= TINY * area[first])])


def _in_front(mesh: Mesh, face: Ints) -> Floats:
    """Points (k, 3) just in front of faces (k,)."""
    corners = corners_of(mesh, face)
    size = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) ** 0.5
    return np.asarray(corners.mean(axis=1) + STEP * size[:, None] * face_directions(mesh, face))
