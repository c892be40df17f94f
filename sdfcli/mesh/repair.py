"""Consistent orientation of faces, and the faces that count for winding numbers where a surface is doubled.

No vertex is moved and no face removed, so distances do not change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sdfcli.mesh.arrays import Bools, Faces, Floats, Ints
from sdfcli.mesh.connectivity import Connectivity
from sdfcli.mesh.mesh import Mesh, face_normals
from sdfcli.mesh.topology import connected

FLAT = 1e-4
"""Minimum volume / area^(3/2), about, of a shell with an inside."""

WIDE_OPEN = 0.25
"""Maximum share of its area that closes a shell with an inside; with more, it is a sheet."""

TINY = 1e-9
"""Minimum volume, about, of a shell with an inside, as a fraction of the domain: the cube of 1/1000 of its edge."""

MOST_SHELLS = 200
"""Maximum number of inverted shells that are examined one by one, the largest first."""


@dataclass(frozen=True)
class Repaired:
    """A mesh with consistently oriented faces.

    edges     the connectivity of the faces that count, as they are oriented.
    left_out  (k,) the faces that do not count for winding numbers; None: all do.
    inverted  number of shells that were oriented inwards, and turned.
    notes     the changes, in words.
    """

    mesh: Mesh
    edges: Connectivity
    left_out: Ints | None = None
    inverted: int = 0
    notes: list[str] = field(default_factory=list)

    def turned(self, turn: Bools) -> Repaired:
        """With the faces (f,) that are chosen turned."""
        faces = self.mesh.faces.copy()
        for corner, other in ((1, 2), (2, 1)):
            np.copyto(faces[:, corner], self.mesh.faces[:, other], where=turn)
        return replace(self, edges=self.edges.turned(turn))._with_faces(self.mesh, faces)

    def following(self, mesh: Mesh) -> Repaired:
        """The same changes to a mesh with the faces that this one had, and other positions."""
        faces = self.mesh.faces
        return replace(self, mesh=mesh) if np.array_equal(faces, mesh.faces) else self._with_faces(mesh, faces)

    def _with_faces(self, mesh: Mesh, faces: Faces) -> Repaired:
        """With a mesh of turned faces in place of another one's."""
        turned = mesh.with_faces(faces)
        if self.left_out is None:
            turned.__dict__["connectivity"] = self.edges
        if "degenerate" in mesh.__dict__:
            turned.__dict__["degenerate"] = mesh.degenerate
        return replace(self, mesh=turned)


Orient = Callable[[Mesh], Repaired]


def repair(mesh: Mesh, orient: Orient | None = None) -> Repaired:
    """Counts doubled faces once, orients the faces of each patch consistently, and turns shells that point inwards.

    orient: in place of `oriented`, where its result is known.
    """
    return _turned_outwards((orient or oriented)(mesh))


def oriented(mesh: Mesh) -> Repaired:
    """The part of `repair` that depends on connectivity alone."""
    found = Repaired(mesh, mesh.connectivity)
    if len(found.edges.doubled.face):
        found = _without_duplicates(found)
    if found.edges.inconsistent:
        found = _oriented_alike(found)
    return found


def _without_duplicates(found: Repaired) -> Repaired:
    """Counts faces with the same three vertices once, or not at all where both orientations are equally frequent.

    Two faces back to back are a wall inside a solid, which does not bound it. But where most of the surface is doubled,
    it was modelled with two sides, and one of them counts.
    """
    doubled, corner, again = found.edges.doubled
    faces = len(found.mesh.faces)
    first = np.flatnonzero(~again)
    group = np.cumsum(~again) - 1
    side = _side(corner)
    net = np.add.reduceat(side, first)
    groups = faces - len(doubled) + len(net)
    two_sided = 2 * int(groups - np.sum(net == 0)) < groups
    # The first face with the more frequent orientation represents its group.
    wanted = np.where((net == 0) & two_sided, side[first], np.sign(net))
    right = np.flatnonzero(side == wanted[group])
    stands = right[np.diff(group[right], prepend=-1) > 0]
    left_out = np.delete(doubled, stands)
    if len(left_out) == faces:
        return found
    note = (
        "the two sides of each face counted once"
        if two_sided
        else f"{len(left_out):,} doubled face{'s' if len(left_out) > 1 else ''} not counted"
    )
    return replace(found, edges=found.edges.without(left_out), left_out=left_out, notes=[*found.notes, note])


def _side(faces: Faces) -> Ints:
    """Orientation (f,) of faces: 1 for a cyclic shift of ascending vertices, -1 of descending ones; 1 for a face with
    fewer than three vertices."""
    a, b, c = faces.T
    return np.where((a > b).astype(np.int64) + (b > c) + (c > a) > 1, -1, 1)


def _oriented_alike(found: Repaired) -> Repaired:
    """Turns faces so that neighbours agree, in patches that can be oriented (a Moebius strip cannot).

    In a graph of two nodes per face, as it is and turned, nodes that agree across an edge are joined: both nodes of a
    face are connected where the patch cannot be oriented.
    """
    faces = len(found.mesh.faces)
    label = found.edges.orientations()
    as_is, other = label[:faces], label[faces:]
    patch = np.minimum(as_is, other)
    # Of the two orientations, the one that turns fewer faces.
    vote = np.bincount(patch, weights=np.where(as_is == patch, 1, -1), minlength=faces)
    turn = (as_is != other) & ((as_is == patch) != (vote[patch] >= 0))
    one_sided = len(np.unique(patch[as_is == other]))
    notes = list(found.notes)
    if one_sided:
        notes.append(f"{one_sided:,} part{'s' if one_sided > 1 else ''} that cannot be oriented")
    if not turn.any():
        return replace(found, notes=notes)
    notes.append(f"{int(turn.sum()):,} faces turned to agree with their neighbours")
    return replace(found.turned(turn), notes=notes)


def _turned_outwards(found: Repaired) -> Repaired:
    """Turns shells of negative volume, except cavities, which lie within another shell."""
    shells = _Shells(found)
    volume = shells.volume.copy()
    turn = np.zeros(len(volume), bool)
    solid = (np.abs(volume) > np.maximum(FLAT * shells.area**1.5, TINY)) & (shells.missing < WIDE_OPEN * shells.area)
    if volume[solid].sum() < 0:
        turn[:] = True
        volume = -volume
    doubtful = np.flatnonzero(solid & (volume < 0))
    largest = doubtful[np.argsort(volume[doubtful])][:MOST_SHELLS]
    for shell in largest:
        around = shells.around(int(shell))
        if len(around) and shells.winding(around, np.where(turn[around], -1, 1), int(shell)) > 0.5:
            continue
        turn[shell] = not turn[shell]
    if not (turn & solid).any():
        return found
    inverted = int((turn & solid).sum())
    every = turn[solid].all()
    note = (
        "was oriented inwards, turned"
        if every
        else f"{inverted:,} shell{'s' if inverted > 1 else ''} oriented inwards, turned"
    )
    return replace(found.turned(shells.faces(turn)), inverted=inverted, notes=[*found.notes, note])


class _Shells:
    """The shells of a surface, each closed by cones over its open edges."""

    def __init__(self, found: Repaired) -> None:
        self.mesh, self.edges, self.count = found.mesh, found.edges, found.edges.shells
        _, ends, self.of_cone = self.edges.loose
        ends = ends[:, ::-1]
        position = self.mesh.domain.to_unit(self.mesh.vertices[ends])
        apart = len(self.mesh.vertices) * self.of_cone[:, None]  # a vertex of two shells is two
        self.cones = cones(apart + ends, position[:, 0], position[:, 1])
        normals = face_normals(self.cones)
        self.area, volume = self.mesh.shell_sums(self.edges)
        self.missing = self._of_cones(np.linalg.norm(normals, axis=1))
        self.volume = volume + self._of_cones(_volumes(self.cones, normals))

    def _of_cones(self, values: Floats) -> Floats:
        """Sums (count,) of the cones' values by shell."""
        return np.bincount(self.of_cone, weights=values, minlength=self.count).astype(np.float64)

    def faces(self, shells: Bools) -> Bools:
        """Whether each face (f,) is in one of the chosen shells (count,)."""
        shell = self.edges.shell_of()
        return np.asarray(np.append(shells, False)[np.minimum(shell, self.count)])  # those left out have higher numbers

    @cached_property
    def of_face(self) -> Ints:
        """The shell of each face that counts."""
        shell = self.edges.shell_of()
        return np.asarray(shell[shell < self.count])

    @cached_property
    def triangles(self) -> Floats:
        """The faces that count, then cones (t, 3, 3)."""
        faces = self.mesh.triangles(self.edges.shell_of() < self.count)
        return np.concatenate([faces, self.cones]).reshape(-1, 3, 3)

    @cached_property
    def of_triangle(self) -> Ints:
        """The shell (t,) of each triangle."""
        return np.concatenate([self.of_face, self.of_cone])

    @cached_property
    def boxes(self) -> tuple[Floats, Floats]:
        """Lower and upper corners of the shells' boxes, (count, 3) each."""
        low, high = np.full((self.count, 3), np.inf), np.full((self.count, 3), -np.inf)
        np.minimum.at(low, self.of_triangle, self.triangles.min(axis=1))
        np.maximum.at(high, self.of_triangle, self.triangles.max(axis=1))
        return low, high

    def around(self, shell: int) -> Ints:
        """The other shells whose boxes contain the box of this one."""
        low, high = self.boxes
        holds = (low <= low[shell]).all(axis=1) & (high >= high[shell]).all(axis=1)
        holds[shell] = False
        return np.flatnonzero(holds)

    def winding(self, shells: Ints, sign: Ints, inner: int) -> float:
        """The winding number of shells, weighted by `sign`, at a point of the shell `inner`.

        Median of the crossings of three rays along the axes, as one of them may graze an edge.
        """
        weight = np.zeros(self.count)
        weight[shells] = sign
        chosen = np.flatnonzero(weight[self.of_triangle])
        triangles, weight = self.triangles[chosen], weight[self.of_triangle[chosen]]
        own = np.flatnonzero(self.of_face == inner)
        at = np.array([0.397, 0.331, 0.272]) @ self.triangles[own[len(own) // 2]]
        return float(np.median([crossings(at, triangles, weight, axis) for axis in range(3)]))


def _volumes(triangles: Floats, normals: Floats) -> Floats:
    """Six times the volumes (m,) of the tetrahedra from the centre of the unit cube to triangles (m, 9)."""
    volume: Floats = np.einsum("ij,ij->i", triangles[:, :3] - 0.5, normals)
    return volume


def crossings(point: Floats, triangles: Floats, weight: Floats, axis: int) -> float:
    """Signed crossings of a ray from a point along an axis with triangles (m, 3, 3), weighted (m,); leaving is
    positive."""
    u, v = (axis + 1) % 3, (axis + 2) % 3
    low, high = triangles.min(axis=1), triangles.max(axis=1)
    near = (low[:, u] <= point[u]) & (high[:, u] > point[u]) & (low[:, v] <= point[v]) & (high[:, v] > point[v])
    near &= high[:, axis] > point[axis]
    corner, weight = triangles[near] - point, weight[near]
    # Twice the projected areas of the triangles that the point forms with the three edges.
    a, b = corner, corner[:, [1, 2, 0]]
    area = (a[..., u] * b[..., v] - a[..., v] * b[..., u])[:, [1, 2, 0]]
    within = (area > 0).all(axis=1) | (area < 0).all(axis=1)
    total = area[within].sum(axis=1)
    height = (area[within] * corner[within, :, axis]).sum(axis=1) / total
    return float((weight[within] * np.sign(total))[height > 0].sum())


def cones(ends: Ints, start: Floats, end: Floats) -> Floats:
    """Cones (c, 9): a triangle for each directed edge, whose apex is the centre of the connected edges.

    ends (c, 2): the vertices of each edge by number; start, end (c, 3): their positions. Where the edges are the
    reversed boundary of a surface, the cones close it with consistent orientation.
    """
    if len(ends) == 0:
        return np.empty((0, 9))
    number, vertex = np.unique(ends, return_inverse=True)
    vertex = vertex.reshape(-1, 2)
    loop = connected(len(number), vertex)[vertex[:, 0]]
    size = np.maximum(np.bincount(loop), 1)
    apex = np.stack([np.bincount(loop, weights=start[:, k]) / size for k in range(3)], axis=1)
    return np.concatenate([apex[loop], start, end], axis=1)
