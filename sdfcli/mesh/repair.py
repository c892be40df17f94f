"""Consistent face orientation, and the faces that count for winding numbers where a surface is doubled.

No vertex is moved and no face removed, so distances do not change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from sdfcli.mesh.arrays import Bools, Faces, Floats, Ints
from sdfcli.mesh.axis_lines import boxes_within, hits, lines_through, middles, ranges
from sdfcli.mesh.connectivity import Connectivity, LooseSides
from sdfcli.mesh.mesh import Mesh, face_normals
from sdfcli.mesh.topology import connected

THIN = 1e-7
"""Approximate minimum volume / area of a closed body with an inside, in domain edges: float32 rounding."""

FLAT = 1e-4
"""Approximate minimum volume / area^(3/2) of an open body with an inside."""

WIDE_OPEN = 0.25
"""Maximum hole area of a body with an inside, as a fraction of its own area; above, the body is a sheet."""

MOST_MEETING = 64
"""Maximum open edges at a vertex for pairwise comparison."""

CRACK = 0.1
"""Approximate maximum angle, in radians, between edges that coincide up to rounding."""

TINY = 1e-9
"""Approximate minimum volume of an open body with an inside, as a fraction of the domain: a cube with 1/1000 of its
edge."""


@dataclass(frozen=True)
class Repaired:
    """A mesh with consistently oriented faces.

    edges      connectivity of the counted faces, as oriented.
    left_out   (k,) faces that do not count for winding numbers; None: all count.
    repeated   (k,) counted faces that stand for several with the same vertices and direction.
    inverted   number of shells turned because they were oriented inwards.
    encloses   whether any part has an inside.
    one_sided  (k,) non-orientable shells; None without any.
    notes      changes, in words.
    """

    mesh: Mesh
    edges: Connectivity
    left_out: Ints | None = None
    repeated: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    inverted: int = 0
    encloses: bool = False
    one_sided: Ints | None = None
    notes: list[str] = field(default_factory=list)

    def turned(self, turn: Bools) -> Repaired:
        """This result with the chosen faces (f,) reversed."""
        faces = self.mesh.faces.copy()
        for corner, other in ((1, 2), (2, 1)):
            np.copyto(faces[:, corner], self.mesh.faces[:, other], where=turn)
        return replace(self, edges=self.edges.turned(turn))._with_faces(self.mesh, faces)

    def following(self, mesh: Mesh) -> Repaired:
        """The same changes, applied to a mesh with the same original faces and other positions."""
        faces = self.mesh.faces
        return replace(self, mesh=mesh) if np.array_equal(faces, mesh.faces) else self._with_faces(mesh, faces)

    def _with_faces(self, mesh: Mesh, faces: Faces) -> Repaired:
        """This result with `mesh`'s vertices and the oriented `faces`."""
        turned = mesh.with_faces(faces)
        if self.left_out is None:
            turned.__dict__["connectivity"] = self.edges
        if "degenerate" in mesh.__dict__:
            turned.__dict__["degenerate"] = mesh.degenerate
        return replace(self, mesh=turned)


Orient = Callable[[Mesh], Repaired]


def repair(mesh: Mesh, orient: Orient | None = None) -> Repaired:
    """Counts doubled faces once, orients each patch's faces consistently, and turns inward shells outwards.

    orient: replaces `oriented` if its result is known.
    """
    return _turned_outwards(mesh, (orient or oriented)(mesh))


def oriented(mesh: Mesh) -> Repaired:
    """The connectivity-dependent part of `repair`; positions matter only at cracks."""
    found = Repaired(mesh, mesh.connectivity)
    if len(found.edges.doubled.face):
        found = _without_duplicates(found)
    if found.edges.inconsistent:
        found = _oriented_alike(found)
    return found


def _without_duplicates(found: Repaired) -> Repaired:
    """Counts faces with the same three vertices once, or not at all if both orientations are equally frequent.

    Two faces back to back are a wall inside a solid and do not bound it. But where most of the surface is doubled, it
    was modelled with two sides, and one side counts.
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
    repeated = doubled[stands[np.abs(net[group[stands]]) > 1]]
    note = (
        "the two sides of each face counted once"
        if two_sided
        else f"{len(left_out):,} doubled face{'s' if len(left_out) > 1 else ''} not counted"
    )
    edges, notes = found.edges.without(left_out), [*found.notes, note]
    return replace(found, edges=edges, left_out=left_out, repeated=repeated, notes=notes)


def _side(faces: Faces) -> Ints:
    """Orientation (f,) of faces: 1 for a cyclic shift of ascending vertices, -1 for descending ones; 1 for a face with
    fewer than three vertices."""
    a, b, c = faces.T
    return np.where((a > b).astype(np.int64) + (b > c) + (c > a) > 1, -1, 1)


def _oriented_alike(found: Repaired) -> Repaired:
    """Turns faces to agree with their neighbours, in every orientable patch (a Moebius strip is not).

    Each face is two nodes in a graph, as given and reversed; nodes are joined if they agree across an edge. A patch is
    not orientable if both nodes of a face are connected.
    """
    faces = len(found.mesh.faces)
    label = found.edges.orientations(_cracks(found.mesh, found.edges))
    as_is, other = label[:faces], label[faces:]
    patch = np.minimum(as_is, other)
    # Choose the orientation that turns fewer faces.
    vote = np.bincount(patch, weights=np.where(as_is == patch, 1, -1), minlength=faces)
    turn = (as_is != other) & ((as_is == patch) != (vote[patch] >= 0))
    one_sided = np.unique(found.edges.shell_of()[as_is == other])
    notes = list(found.notes)
    if len(one_sided):
        notes.append(f"{len(one_sided):,} part{'s' if len(one_sided) > 1 else ''} that cannot be oriented")
        found = replace(found, one_sided=one_sided)
    if not turn.any():
        return replace(found, notes=notes)
    turned = int(turn.sum())
    notes.append(f"{turned:,} face{'s' if turned > 1 else ''} turned to agree with their neighbours")
    return replace(found.turned(turn), notes=notes)


def _cracks(mesh: Mesh, edges: Connectivity) -> Ints:
    """Edges (k, 2) with two faces in the same direction, and an open edge along them in the opposite direction.

    Two of the edge's four faces have a vertex on it that the others lack: a crack, where no face needs turning.
    """
    ends, excess = edges.open_edges
    runs = np.where(excess[:, None] > 0, ends, ends[:, ::-1])
    pairs = np.abs(excess) == 2
    return ends[np.unique(_along(mesh, runs, np.flatnonzero(pairs))[0])] if pairs.any() else ends[:0]


def _along(mesh: Mesh, runs: Ints, some: Ints) -> tuple[Ints, Ints]:
    """Pairs (p,) of directed edges (e, 2): one from `some` (k,), and one running back along it, from its end or to its
    start. Vertices with more than MOST_MEETING edges are skipped."""
    found = [np.empty((2, 0), np.int64)]
    for at, far in ((0, 1), (1, 0)):
        order = np.argsort(runs[:, far], kind="stable")
        back, here = runs[order], runs[some, at]
        first, last = (np.searchsorted(back[:, far], here, side) for side in ("left", "right"))
        last = np.where(last - first > MOST_MEETING, first, last)
        for number, place in ranges(first, last):
            corner, way, other = (
                mesh.vertices[each] for each in (here[number], runs[some[number], far], back[place, at])
            )
            way, other = way - corner, other - corner
            length = (way**2).sum(axis=1) * (other**2).sum(axis=1)
            beside = (np.cross(way, other) ** 2).sum(axis=1)
            along = ((way * other).sum(axis=1) > 0) & (beside < CRACK**2 * length)
            found.append(np.stack([some[number[along]], order[place[along]]]))
    one, other = np.concatenate(found, axis=1)
    return one, other


def _turned_outwards(mesh: Mesh, found: Repaired) -> Repaired:
    """Turns the bodies with a negative winding number in front of their faces: a solid has none, neither in its
    cavities nor outside. If any is turned, bodies that enclose nothing are turned if their own volume is negative, and
    flat bodies if all others are turned. mesh: before repair."""
    bodies = _Bodies(found)
    solid, outwards = bodies.solid, bodies.volume > 0
    found = replace(found, encloses=bool(solid.any()))
    turn = np.zeros(bodies.count, bool)
    if (solid & ~outwards).any():
        around = bodies.around(np.flatnonzero(solid))
        turn = solid & np.where(outwards, around < 0, around <= 0)
        if turn.any():
            turn |= ~(solid | bodies.flat | outwards)
            turn |= bodies.flat & turn[~bodies.flat].all()
    between = bodies.settle_walls(turn)
    if turn.any():
        found = _inverted(found, bodies, turn)
    return _without_walls(mesh, found, np.flatnonzero(bodies.faces(between))) if between.any() else found


def _inverted(found: Repaired, bodies: _Bodies, turn: Bools) -> Repaired:
    """`found` with the chosen bodies (count,) turned."""
    inverted = int((turn & bodies.solid).sum())
    if not inverted:  # walls alone are turned
        return found.turned(bodies.faces(turn))
    note = (
        "was oriented inwards, turned"
        if turn.all()
        else f"{inverted:,} shell{'s' if inverted > 1 else ''} oriented inwards, turned"
    )
    return replace(found.turned(bodies.faces(turn)), inverted=inverted, notes=[*found.notes, note])


def _without_walls(mesh: Mesh, found: Repaired, walls: Ints) -> Repaired:
    """`found` without faces (k,) that are walls within a solid after turning. mesh: before repair."""
    left_out = walls if found.left_out is None else np.union1d(walls, found.left_out)
    edges = mesh.connectivity.without(left_out).turned((found.mesh.faces != mesh.faces).any(axis=1))
    note = f"{len(walls):,} face{'s' if len(walls) > 1 else ''} between solids not counted"
    return replace(found, edges=edges, left_out=left_out, notes=[*found.notes, note])


class _Bodies:
    """Shells joined across cracks, across edges with more than two faces that no shell closes alone, and where they
    bound one cell with walls; each body is closed by walls, then by cones over its remaining open edges.

    Walls are shells of repeated faces between others, from solids that each had a copy. Solids closed by their common
    walls do not overlap. Closed by cones they could: holes that meet at a vertex have one apex, so the cones of a solid
    around two such holes differ from the cones of the solids in them.

    of_shell  (shells,) each shell's body.
    closings  walls that close bodies.
    caps      (c, 9) triangles that close bodies, unit cube coordinates: walls, then cones.
    of_cap    (c,) each cap's body.
    volume    (count,) six times the body's volume, negative if oriented inwards.
    wall      (count,) whether the body is a wall.
    flat      (count,) whether the volume is too small for an inside.
    solid     (count,) whether the body has an inside.
    """

    def __init__(self, found: Repaired) -> None:
        self.mesh, self.edges = found.mesh, found.edges
        loose = found.edges.loose
        rim = _unbalanced(loose.ends, loose.shell)
        wall = _walls(found, rim)
        self.of_shell, rim = _joined(found.mesh, rim, wall)
        self.closings = _Closings(*np.empty((3, 0), np.int64))
        if wall.any():
            self.of_shell, self.closings = _closed(found.mesh, loose, self.of_shell, wall)
            rim = _rim_left(loose, self.of_shell, self.closings)
        self.count = int(self.of_shell.max(initial=-1)) + 1
        self.wall = np.zeros(self.count, bool)
        self.wall[self.of_shell[wall]] = True
        walls, of_wall = self._wall_triangles()
        ends, of_cone = (np.repeat(each, rim.uses, axis=0) for each in (rim.ends[:, ::-1], rim.part))
        position = self.mesh.domain.to_unit(self.mesh.vertices[ends])
        hole = holes(ends + len(self.mesh.vertices) * of_cone[:, None])  # one vertex in two bodies counts twice
        self.caps = np.concatenate([walls, cones(hole, position[:, 0], position[:, 1])])
        self.of_cap = np.concatenate([of_wall, of_cone])
        normals = face_normals(self.caps)
        area, volume = (self._sums(self.of_shell, values) for values in self.mesh.shell_sums(self.edges))
        # Hole areas projected along their axes: a crack has none, though its cones do.
        facing = np.stack([np.bincount(hole, weights=normals[len(walls) :, k]) for k in range(3)], axis=1)
        of_hole = np.zeros(len(facing), np.int64)
        of_hole[hole] = of_cone
        missing = self._sums(of_hole, np.linalg.norm(facing, axis=1))
        self.volume = volume + self._sums(self.of_cap, _volumes(self.caps, normals))
        closed = np.bincount(of_cone, minlength=self.count) == 0
        least = np.where(closed, THIN * area, np.maximum(FLAT * area**1.5, TINY))
        self.flat = np.abs(self.volume) <= least
        self.solid = ~self.flat & (missing <= WIDE_OPEN * area) & ~self.wall
        if found.one_sided is not None:
            self.solid[self.of_shell[found.one_sided]] = False

    def _sums(self, body: Ints, values: Floats) -> Floats:
        """Sums (count,) per body."""
        return np.bincount(body, weights=values, minlength=self.count).astype(np.float64)

    def _wall_triangles(self) -> tuple[Floats, Ints]:
        """Triangles (t, 9) of the walls that close bodies, oriented to close them, and each triangle's body (t,)."""
        if not len(self.closings.wall):
            return np.empty((0, 9)), self.closings.body
        of_face = np.append(self.of_shell, -1)[np.minimum(self.edges.shell_of(), self.edges.shells)]
        closing, face = _members(of_face, self.closings.wall)
        triangles = self.mesh.triangles(face)
        back = self.closings.way[closing] < 0
        triangles[back] = triangles[back][:, [0, 1, 2, 6, 7, 8, 3, 4, 5]]
        return triangles, self.closings.body[closing]

    def faces(self, bodies: Bools) -> Bools:
        """Whether each face (f,) belongs to a chosen body (count,)."""
        shell = self.edges.shell_of()  # left-out faces have higher ids
        return np.asarray(np.append(bodies[self.of_shell], False)[np.minimum(shell, self.edges.shells)])

    def settle_walls(self, turn: Bools) -> Bools:
        """Sets `turn` (count,) for walls, to match the bodies that they close after turning. Returns the redundant
        walls (count,), where these close each other."""
        body, wall, way = self.closings
        needed = self._sums(wall, np.where(turn[body], -way, way))
        turn[wall] = needed[wall] < 0
        between = np.zeros(self.count, bool)
        between[wall] = needed[wall] == 0
        return between

    def around(self, bodies: Ints) -> Ints:
        """Winding number (count,) around each body, queried inside it, from the larger ones among `bodies` (k,) whose
        boxes contain its box."""
        around = np.zeros(self.count, np.int64)
        if len(bodies) < 2:
            return around
        triangles, of = self._triangles(np.isin(np.arange(self.count), bodies))
        low, high = np.full((self.count, 3), np.inf), np.full((self.count, 3), -np.inf)
        np.minimum.at(low, of, triangles.min(axis=1))
        np.maximum.at(high, of, triangles.max(axis=1))
        inner, outer = boxes_within(low[bodies], high[bodies])
        size = np.abs(self.volume[bodies])
        larger = size[outer] > size[inner]  # a cavity may extend as far as the solid around it
        inner, outer = inner[larger], outer[larger]
        if len(inner) == 0:
            return around
        pairs = np.unique(bodies[inner] * self.count + bodies[outer])
        wanted = np.zeros(self.count, bool)
        wanted[np.concatenate(np.divmod(pairs, self.count))] = True
        triangles, of = triangles[wanted[of]], of[wanted[of]]
        inner, around_some = np.unique(bodies[inner]), np.isin(of, bodies[outer])
        line = lines_through(triangles, of, inner)
        for axis in range(3):
            body, point = (each[line.axis == axis] for each in (inner, line.point))
            if len(body) == 0:
                continue
            number = np.full(self.count, len(body))
            number[body] = np.arange(len(body))
            own = number[of] < len(body)
            found = hits(point, triangles[own], axis, number[of[own]])
            middle = middles(found.line, found.height, found.way, len(body))
            found = hits(point, triangles[around_some], axis)
            pair = body[found.line] * self.count + of[around_some][found.triangle]
            holds = np.isin(pair, pairs) & (found.height > middle[found.line])
            np.add.at(around, body[found.line[holds]], found.way[holds])
        return around

    def _triangles(self, bodies: Bools) -> tuple[Floats, Ints]:
        """Triangles (t, 3, 3) of the chosen bodies (count,), faces before caps; and each triangle's body (t,)."""
        chosen, cap = self.faces(bodies), bodies[self.of_cap]
        triangles = np.concatenate([self.mesh.triangles(chosen), self.caps[cap]]).reshape(-1, 3, 3)
        return triangles, np.concatenate([self.of_shell[self.edges.shell_of()[chosen]], self.of_cap[cap]])


class _Rim(NamedTuple):
    """Edges with unequal use counts in the two directions within a surface part, sorted.

    ends  (e, 2) vertices, in the more frequent direction.
    part  (e,) surface part.
    uses  (e,) difference between the two use counts.
    """

    ends: Ints
    part: Ints
    uses: Ints

    def number(self) -> Ints:
        """Edge index (e,) from 0 on: the same for all parts that use the edge."""
        return np.cumsum(_differ(*np.sort(self.ends, axis=1).T)) - 1

    def at_edge(self, values: Ints | Bools) -> Floats:
        """Sums (e,) of values (e,) over all parts that use the edge."""
        number = self.number()
        return np.asarray(np.bincount(number, values)[number], np.float64)


def _differ(*columns: Ints) -> Bools:
    """Whether each row (n,) differs from the previous row; True for the first."""
    new = np.ones(len(columns[0]), bool)
    new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return new


def _unbalanced(ends: Ints, part: Ints, uses: Ints | int = 1) -> _Rim:
    """The rim of parts (k,) with directed edges (k, 2) and use counts (k,)."""
    low, high = ends.min(axis=1), ends.max(axis=1)
    uses = np.where(ends[:, 0] == low, uses, -uses)
    order = np.lexsort((part, high, low))
    low, high, part, uses = low[order], high[order], part[order], uses[order]
    first = np.flatnonzero(_differ(low, high, part))
    total = np.add.reduceat(uses, first) if len(first) else uses
    first, total = first[total != 0], total[total != 0]
    edge = np.stack([low[first], high[first]], axis=1)
    return _Rim(np.where(total[:, None] > 0, edge, edge[:, ::-1]), part[first], np.abs(total))


def _walls(found: Repaired, rim: _Rim) -> Bools:
    """Whether each shell (shells,) is a wall: only repeated faces, and a rim shared with other shells. rim: the shells'
    rim."""
    wall = np.zeros(found.edges.shells + 1, bool)  # last entry: faces without a shell
    if len(found.repeated):
        wall[rim.part] = True
        wall[rim.part[rim.at_edge(np.ones_like(rim.part)) == 1]] = False
        wall[np.minimum(np.delete(found.edges.shell_of(), found.repeated), found.edges.shells)] = False
    return wall[:-1]


def _joined(mesh: Mesh, rim: _Rim, wall: Bools) -> tuple[Ints, _Rim]:
    """Each shell's body (shells,), and the bodies' rim. rim: the shells' rim. wall: (shells,)."""
    # Shells that use an edge in opposite directions close each other.
    able = ~wall[rim.part]
    number, part, upwards = rim.number()[able], rim.part[able], (rim.ends[:, 0] < rim.ends[:, 1])[able]
    ways = np.zeros((2, int(number.max(initial=-1)) + 1), bool)
    ways[upwards.astype(np.int64), number] = True
    join = np.flatnonzero(~_differ(number) & (ways[0] & ways[1])[number])
    of_shell = _numbered(connected(len(wall), np.stack([part[join - 1], part[join]], axis=1)))
    rim = _unbalanced(rim.ends, of_shell[rim.part], rim.uses)
    # So do shells on the two sides of a crack.
    able = ~np.isin(rim.part, of_shell[wall])
    one, other = _along(mesh, rim.ends, np.flatnonzero(able))
    pairs = np.stack([rim.part[one], rim.part[other]], axis=1)[able[other]]
    body = _numbered(connected(int(of_shell.max(initial=-1)) + 1, pairs))
    return body[of_shell], rim._replace(part=body[rim.part])


class _Closings(NamedTuple):
    """Walls that close bodies.

    body  (k,) body.
    wall  (k,) wall.
    way   (k,) 1 if the wall closes the body as oriented, -1 if reversed.
    """

    body: Ints
    wall: Ints
    way: Ints


def _closed(mesh: Mesh, loose: LooseSides, of_shell: Ints, wall: Bools) -> tuple[Ints, _Closings]:
    """Each shell's body (shells,) after joining across cells, and the walls that close bodies. of_shell: (shells,)
    bodies before. wall: (shells,).

    A cell is the space between faces that follow each other in the radial order around an edge. Shells that bound a
    cell by the same side, front or back, belong to one body; the cell's walls close it.
    """
    shell, back = np.divmod(np.arange(2 * len(wall)), 2)
    cell = connected(len(shell), _neighbours(mesh, loose, wall))
    walls = np.flatnonzero(wall[shell])
    bounds = np.flatnonzero(~wall[shell] & np.isin(cell, cell[walls]))
    bounds = bounds[np.lexsort((back[bounds], cell[bounds]))]
    new = _differ(cell[bounds], back[bounds])
    same = np.flatnonzero(~new)
    pairs = of_shell[shell[np.stack([bounds[same - 1], bounds[same]], axis=1)]]
    of_shell = _numbered(connected(int(of_shell.max()) + 1, pairs)[of_shell])
    bounds = bounds[new]  # one shell per cell and side
    closing, member = _members(cell[bounds], cell[walls])
    one, other = bounds[member], walls[closing]
    way = np.where(back[one] == back[other], 1, -1)
    return of_shell, _Closings(*np.unique([of_shell[shell[one]], of_shell[shell[other]], way], axis=1))


def _neighbours(mesh: Mesh, loose: LooseSides, wall: Bools) -> Ints:
    """Pairs (p, 2) of shells that follow each other in the radial order around an edge, at least one of them a wall:
    2 * shell where they face each other by the front, 2 * shell + 1 by the back. wall: (shells,)."""
    low, high = loose.ends.min(axis=1), loose.ends.max(axis=1)
    order = np.lexsort((high, low))
    edge = np.cumsum(_differ(low[order], high[order])) - 1
    meets = np.bincount(edge, wall[loose.shell[order]])[edge] > 0
    order, edge = order[meets], edge[meets]
    start, end = (mesh.domain.to_unit(mesh.vertices[each[order]]) for each in (low, high))
    along = (end - start) / np.linalg.norm(end - start, axis=1)[:, None]
    towards = mesh.triangles(loose.face[order]).reshape(-1, 3, 3).mean(axis=1) - start
    first = np.searchsorted(edge, edge)  # angles are measured from an edge's first face
    right = (towards - np.einsum("ij,ij->i", towards, along)[:, None] * along)[first]
    x, y = (np.einsum("ij,ij->i", towards, each) for each in (right, np.cross(along, right)))
    x /= np.maximum(np.abs(x) + np.abs(y), np.finfo(np.float64).tiny)
    order = order[np.lexsort((np.where(y >= 0, 1 - x, 3 + x), edge))]  # by a value that ascends with the angle
    following = np.arange(1, len(order) + 1)
    last = np.searchsorted(edge, edge, side="right") == following
    following[last] = first[last]
    shell, upwards = loose.shell[order], loose.ends[order, 0] == low[order]
    pairs = np.stack([2 * shell + ~upwards, (2 * shell + upwards)[following]], axis=1)
    return np.asarray(pairs[wall[shell] | wall[shell[following]]])


def _rim_left(loose: LooseSides, of_shell: Ints, closings: _Closings) -> _Rim:
    """The bodies' rim after closing by walls. of_shell: (shells,)."""
    part = of_shell[loose.shell]
    closing, row = _members(part, closings.wall)
    ends = np.where(closings.way[closing][:, None] > 0, loose.ends[row], loose.ends[row, ::-1])
    return _unbalanced(np.concatenate([loose.ends, ends]), np.append(part, closings.body[closing]))


def _members(part: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """Pairs (p,): an index into `wanted` (k,), and a row (n,) whose part is the wanted one."""
    order = np.argsort(part, kind="stable")
    first, last = (np.searchsorted(part[order], wanted, side) for side in ("left", "right"))
    found = [np.empty((2, 0), np.int64), *(np.stack([number, order[place]]) for number, place in ranges(first, last))]
    number, row = np.concatenate(found, axis=1)
    return number, row


def _numbered(label: Ints) -> Ints:
    """Labels renumbered from 0 on."""
    return np.asarray(np.unique(label, return_inverse=True)[1])


def _volumes(triangles: Floats, normals: Floats) -> Floats:
    """Six times the volumes (m,) of tetrahedra between the unit cube's centre and triangles (m, 9)."""
    volume: Floats = np.einsum("ij,ij->i", triangles[:, :3] - 0.5, normals)
    return volume


def holes(ends: Ints) -> Ints:
    """Hole index (c,), from 0 on, of each directed edge (c, 2): a hole is a set of connected edges."""
    number, vertex = np.unique(ends, return_inverse=True)
    vertex = vertex.reshape(-1, 2)
    return _numbered(connected(len(number), vertex)[vertex[:, 0]])


def cones(hole: Ints, start: Floats, end: Floats) -> Floats:
    """Cones (c, 9): one triangle per directed edge, with its apex at the mean start point of the hole's edges.

    hole: (c,), from `holes`. start, end: (c, 3), the edges' ends. If the edges are a surface's reversed boundary, the
    cones close the surface with consistent orientation.
    """
    size = np.maximum(np.bincount(hole), 1)
    apex = np.stack([np.bincount(hole, weights=start[:, k]) / size for k in range(3)], axis=1)
    return np.concatenate([apex[hole], start, end], axis=1)
