"""Which way round faces are: one orientation for every shell, and the faces that count where a surface is doubled.

Nothing here moves a vertex or drops a face from the surface: distances stay those of the mesh as it came. Faces are
turned, and some are left out when winding numbers are summed up.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sdfcli.mesh.arrays import Bools, Floats, Ints
from sdfcli.mesh.mesh import OF_EDGES, Mesh, face_normals
from sdfcli.mesh.topology import connected

FLAT = 1e-4
"""A shell whose volume is less than about this times its area to the power of 3/2 has no inside to speak of."""

WIDE_OPEN = 0.25
"""Nor has one that it takes more than this part of its area to close: it is a sheet."""

TINY = 1e-9
"""Nor has one that holds less than about this part of the domain: a thousandth of its edge, to the power of 3."""

MOST_SHELLS = 200
"""Of more inverted shells, only the largest are looked at one by one."""


@dataclass(frozen=True)
class Repaired:
    """A mesh whose faces are turned where that makes it sound.

    counted   (f,) whether a face counts for winding numbers; None: all do.
    inverted  how many shells were oriented inwards, and turned.
    notes     what was done, in words.
    """

    mesh: Mesh
    counted: Bools | None = None
    inverted: int = 0
    notes: list[str] = field(default_factory=list)

    @cached_property
    def boundary(self) -> Mesh:
        """The faces that count, in the same domain: what inside and outside are told from."""
        if self.counted is None:
            return self.mesh
        return self.mesh.subset(self.counted)


def repair(mesh: Mesh) -> Repaired:
    """Takes doubled faces for one, orients the faces of each patch alike, and turns shells that point inwards."""
    found = Repaired(mesh)
    if mesh.health.duplicate_faces:
        found = _without_duplicates(found)
    if found.boundary is not mesh:
        mesh.release((*OF_EDGES, "edges", "shell"))
    if not found.boundary.neighbours.alike.all():
        found = _oriented_alike(found)
    return _turned_outwards(found)


def _without_duplicates(found: Repaired) -> Repaired:
    """Faces with the same three vertices count once; as many of one side as of the other, not at all.

    Two faces back to back are a wall inside of a solid, and have no say. But where they are most of the surface, it was
    modelled with two sides, and one of them counts.
    """
    faces = found.mesh.welded
    doubled, again = found.mesh.doubled
    first = np.flatnonzero(~again)
    group = np.cumsum(~again) - 1
    side = _side(faces[doubled])
    net = np.add.reduceat(side, first)
    groups = len(faces) - len(doubled) + len(net)
    two_sided = 2 * int(groups - np.sum(net == 0)) < groups
    # The first face that looks to the side of the most stands for its group.
    wanted = np.where((net == 0) & two_sided, side[first], np.sign(net))
    right = np.flatnonzero(side == wanted[group])
    stands = right[np.diff(group[right], prepend=-1) > 0]
    counted = np.ones(len(faces), bool)
    counted[doubled] = False
    counted[doubled[stands]] = True
    if not counted.any():
        return found
    left_out = int(np.sum(~counted))
    note = (
        "the two sides of each face counted once"
        if two_sided
        else f"{left_out:,} doubled face{'s' if left_out > 1 else ''} not counted"
    )
    return replace(found, counted=counted, notes=[*found.notes, note])


def _side(faces: Ints) -> Ints:
    """(f,) 1 where the vertices are a cyclic shift of ascending ones, -1 where they are one of descending ones, and 1
    for a face with less than three vertices."""
    a, b, c = faces.T
    return np.where((a > b).astype(np.int64) + (b > c) + (c > a) > 1, -1, 1)


def _oriented_alike(found: Repaired) -> Repaired:
    """Turns faces so that neighbours agree, where a patch can be oriented at all (a Moebius strip cannot).

    Every face stands for two nodes, as it is and turned. Across an edge of two faces the nodes that agree are joined:
    the two nodes of a face are connected where the patch has one side only.
    """
    boundary = found.boundary
    faces = len(boundary.faces)
    pairs = boundary.neighbours.pairs
    turned = np.where(boundary.neighbours.alike, 0, faces)
    doubled = np.concatenate(
        [
            np.stack([pairs[:, 0], pairs[:, 1] + turned], axis=1),
            np.stack([pairs[:, 0] + faces, pairs[:, 1] + faces - turned], axis=1),
        ]
    )
    label = connected(2 * faces, doubled)
    as_is, other = label[:faces], label[faces:]
    patch = np.minimum(as_is, other)
    # Of the two ways round, the one that turns fewer faces.
    vote = np.bincount(patch, weights=np.where(as_is == patch, 1, -1), minlength=faces)
    turn = (as_is != other) & ((as_is == patch) != (vote[patch] >= 0))
    one_sided = len(np.unique(patch[as_is == other]))
    notes = list(found.notes)
    if one_sided:
        notes.append(f"{one_sided:,} part{'s' if one_sided > 1 else ''} that cannot be oriented")
    if not turn.any():
        return replace(found, notes=notes)
    notes.append(f"{int(turn.sum()):,} faces turned to agree with their neighbours")
    return replace(_turned(found, turn), notes=notes)


def _turned_outwards(found: Repaired) -> Repaired:
    """Turns the shells that hold a negative volume, unless they are cavities: then they lie within another shell."""
    shells = _Shells(found.boundary)
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
    return replace(_turned(found, turn[shells.of_face]), inverted=inverted, notes=[*found.notes, note])


def _turned(found: Repaired, turn: Bools) -> Repaired:
    """With those faces turned that count and are in `turn`."""
    if found.counted is not None:
        every = np.zeros(len(found.mesh.faces), bool)
        every[np.flatnonzero(found.counted)[turn]] = True
        turn = every
    faces = np.where(turn[:, None], found.mesh.faces[:, [0, 2, 1]], found.mesh.faces)
    return replace(found, mesh=found.mesh.with_faces(faces))


class _Shells:
    """The parts of a surface that are connected across edges of two faces, each closed by cones over its open edges."""

    def __init__(self, mesh: Mesh) -> None:
        self.of_face = mesh.shell
        self.count = int(self.of_face.max()) + 1
        face, corner = np.nonzero(mesh.neighbours.loose)
        after = (corner + 1) % 3
        first = self.of_face[face] * (int(mesh.welded.max()) + 1)  # a vertex of two shells is two
        position = mesh.unit_triangles.reshape(-1, 3, 3)
        ends = np.stack([first + mesh.welded[face, after], first + mesh.welded[face, corner]], axis=1)
        self.faces = mesh.unit_triangles
        self.cones, self.of_cone = cones(ends, position[face, after], position[face, corner]), self.of_face[face]
        normals = face_normals(self.cones)
        self.area, self.missing = self._sums(np.linalg.norm(mesh.normals, axis=1), np.linalg.norm(normals, axis=1))
        self.volume = np.add(*self._sums(_volumes(self.faces, mesh.normals), _volumes(self.cones, normals)))

    def _sums(self, of_faces: Floats, of_cones: Floats) -> tuple[Floats, Floats]:
        """(count,) twice: values summed up over every shell's faces, and over its cones."""
        faces: Floats = np.bincount(self.of_face, weights=of_faces, minlength=self.count).astype(np.float64)
        return faces, np.bincount(self.of_cone, weights=of_cones, minlength=self.count).astype(np.float64)

    @cached_property
    def triangles(self) -> Floats:
        """(t, 3, 3): faces, then cones."""
        return np.concatenate([self.faces, self.cones]).reshape(-1, 3, 3)

    @cached_property
    def of_triangle(self) -> Ints:
        """(t,) the shell of each triangle."""
        return np.concatenate([self.of_face, self.of_cone])

    @cached_property
    def boxes(self) -> tuple[Floats, Floats]:
        """(count, 3) each: the lower and the upper corners."""
        low, high = np.full((self.count, 3), np.inf), np.full((self.count, 3), -np.inf)
        np.minimum.at(low, self.of_triangle, self.triangles.min(axis=1))
        np.maximum.at(high, self.of_triangle, self.triangles.max(axis=1))
        return low, high

    def around(self, shell: int) -> Ints:
        """The other shells whose boxes hold this one's."""
        low, high = self.boxes
        holds = (low <= low[shell]).all(axis=1) & (high >= high[shell]).all(axis=1)
        holds[shell] = False
        return np.flatnonzero(holds)

    def winding(self, shells: Ints, sign: Ints, inner: int) -> float:
        """The winding number of shells, each counted with its sign, at a point of another one.

        What a ray crosses, along each of the axes; the median, since one of the three may graze an edge.
        """
        weight = np.zeros(self.count)
        weight[shells] = sign
        chosen = np.flatnonzero(weight[self.of_triangle])
        triangles, weight = self.triangles[chosen], weight[self.of_triangle[chosen]]
        own = np.flatnonzero(self.of_face == inner)
        at = np.array([0.397, 0.331, 0.272]) @ self.triangles[own[len(own) // 2]]
        return float(np.median([crossings(at, triangles, weight, axis) for axis in range(3)]))


def _volumes(triangles: Floats, normals: Floats) -> Floats:
    """(m,) six times those of the tetrahedra from the middle of the unit cube to triangles (m, 9)."""
    volume: Floats = np.einsum("ij,ij->i", triangles[:, :3] - 0.5, normals)
    return volume


def crossings(point: Floats, triangles: Floats, weight: Floats, axis: int) -> float:
    """How often a ray from a point along an axis leaves triangles (m, 3, 3), less how often it enters, each counted
    with its weight (m,)."""
    u, v = (axis + 1) % 3, (axis + 2) % 3
    low, high = triangles.min(axis=1), triangles.max(axis=1)
    near = (low[:, u] <= point[u]) & (high[:, u] > point[u]) & (low[:, v] <= point[v]) & (high[:, v] > point[v])
    near &= high[:, axis] > point[axis]
    corner, weight = triangles[near] - point, weight[near]
    # Twice the areas of the three triangles that the point forms with the edges, seen along the axis.
    a, b = corner, corner[:, [1, 2, 0]]
    area = (a[..., u] * b[..., v] - a[..., v] * b[..., u])[:, [1, 2, 0]]
    within = (area > 0).all(axis=1) | (area < 0).all(axis=1)
    total = area[within].sum(axis=1)
    height = (area[within] * corner[within, :, axis]).sum(axis=1) / total
    return float((weight[within] * np.sign(total))[height > 0].sum())


def cones(ends: Ints, start: Floats, end: Floats) -> Floats:
    """(c, 9): a triangle for each directed edge, with an apex in the middle of all those that are connected with it.

    ends (c, 2): the vertices of each edge by number; start, end (c, 3): their positions. Where the edges are the
    boundary of a surface, backwards, the cones close it as an oriented whole.
    """
    if len(ends) == 0:
        return np.empty((0, 9))
    number, vertex = np.unique(ends, return_inverse=True)
    vertex = vertex.reshape(-1, 2)
    loop = connected(len(number), vertex)[vertex[:, 0]]
    size = np.maximum(np.bincount(loop), 1)
    apex = np.stack([np.bincount(loop, weights=start[:, k]) / size for k in range(3)], axis=1)
    return np.concatenate([apex[loop], start, end], axis=1)
