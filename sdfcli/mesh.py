"""From a file or an object to checked triangles, and what is wrong with them."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError
from sdfcli.memory import require, unreadable

PADDING = 0.025
"""Space around the mesh on each side, as a fraction of the longest side of its bounds."""

PIECE = 1 << 13
"""Faces that are looked at at a time."""

CHECKING = 350
"""Bytes that a triangle takes while it is checked, at least: measured on meshes of 70 thousand to a million."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Domain:
    """The cube in which a field is defined: `(position - origin) / length` lies in the unit cube."""

    origin: Floats
    length: float

    def to_unit(self, points: Any) -> Any:
        """Points (n, 3) in the mesh's units, brought into the unit cube in float64."""
        return (points - self.origin) / self.length


@dataclass(frozen=True)
class Uses:
    """How faces use edges, edge by edge.

    number  (u,) sorted: the edge's smaller vertex times `count`, plus the larger one; times 2, plus 1 where the face
            goes from the larger to the smaller. Sides between equal vertices are left out.
    place   (u,) three times the face, plus the corner that the side starts from.
    """

    number: Ints
    place: Ints
    count: int
    faces: int

    @cached_property
    def first(self) -> Ints:
        """(e,) where the uses of each edge begin."""
        begins = np.ones(len(self.number), bool)
        for part in pieces(len(self.number) - 1):
            begins[1:][part] = (self.number[1:][part] ^ self.number[:-1][part]) > 1
        return np.flatnonzero(begins)

    def of(self, faces: Bools) -> Uses:
        """By some of the faces alone."""
        number, place, end = np.empty_like(self.number), np.empty_like(self.place), 0
        before = np.cumsum(~faces)
        for part in pieces(len(number)):
            face = self.place[part] // 3
            kept = np.flatnonzero(faces[face])
            here, end = slice(end, end + len(kept)), end + len(kept)
            number[here], place[here] = self.number[part][kept], (self.place[part] - 3 * before[face])[kept]
        return Uses(number[:end], place[:end], self.count, int(faces.sum()))


@dataclass(frozen=True)
class Edges:
    """The undirected edges of the welded faces, those between equal vertices left out.

    number             (e,) sorted: the edge's smaller vertex times `count`, plus the larger one.
    forward, backward  (e,) how many faces use the edge from the smaller to the larger vertex, and the other way.
    """

    number: Ints
    count: int
    forward: Ints
    backward: Ints

    def ends(self, chosen: Any = slice(None)) -> Ints:
        """(k, 2) vertex numbers of all edges, or of some, the smaller first."""
        return np.stack(np.divmod(self.number[chosen], self.count), axis=1)


@dataclass(frozen=True)
class Neighbours:
    """Faces that share an edge which no third face uses.

    pairs  (p, 2) faces.
    alike  (p,) whether the two are oriented alike: they use their edge in opposite directions.
    loose  (f, 3) whether an edge of a face, from each corner to the next, has no such neighbour that is oriented alike.
    """

    pairs: Ints
    alike: Bools
    loose: Bools


OF_EDGES = ("uses", "neighbours", "doubled")
"""What the choice of the sign looks at, and nothing after it."""

RELEASED = ("unit_triangles", "position", "welded", "edges", "shell", "open_edges", "normals", "area_sums", *OF_EDGES)


@dataclass(frozen=True)
class Mesh:
    """Triangles: vertices (v, 3) float64 in the mesh's units, faces (f, 3) int64. Every vertex is finite and used."""

    vertices: Floats
    faces: Ints

    @cached_property
    def bounds(self) -> Floats:
        """(2, 3): the lower and the upper corner."""
        return _bounds(self.vertices)

    @cached_property
    def diagonal(self) -> float:
        """Length of the diagonal of the bounds: the unit of tolerances."""
        return float(np.linalg.norm(self.bounds[1] - self.bounds[0]))

    @cached_property
    def domain(self) -> Domain:
        """The padded cube around the bounds."""
        low, high = self.bounds
        length = float((high - low).max()) * (1 + 2 * PADDING)
        return Domain((low + high) / 2 - length / 2, length)

    @cached_property
    def unit_triangles(self) -> Floats:
        """(f, 9) float64: the corners of each triangle in the unit cube."""
        return np.take(self.domain.to_unit(self.vertices), self.faces, axis=0).reshape(-1, 9)

    @cached_property
    def welded(self) -> Ints:
        """(f, 3): the faces with vertices at equal positions taken for one."""
        return np.take(self.position, self.faces)

    @cached_property
    def position(self) -> Ints:
        """(v,) for each vertex the number of the first vertex at its position."""
        return _weld(self.vertices)

    @cached_property
    def uses(self) -> Uses:
        """How the welded faces use edges."""
        return uses_of(self.welded)

    @cached_property
    def edges(self) -> Edges:
        """The undirected edges of the welded faces."""
        return edges_of(self.uses)

    @cached_property
    def neighbours(self) -> Neighbours:
        """Which faces lie side by side."""
        return neighbours_of(self.uses)

    @cached_property
    def shell(self) -> Ints:
        """(f,) for each face the number of its shell: the faces that are connected across edges of two faces."""
        first = connected(len(self.faces), self.neighbours.pairs)
        number: Ints = (np.cumsum(first == np.arange(len(first))) - 1)[first]
        return number

    @cached_property
    def doubled(self) -> tuple[Ints, Bools]:
        """The faces that have the vertices of another one, see `twins`."""
        return twins(self.welded)

    @cached_property
    def normals(self) -> Floats:
        """(f, 3): the faces' normals in the unit cube, twice as long as their area is large."""
        return face_normals(self.unit_triangles)

    @cached_property
    def area_sums(self) -> Floats:
        """(f,): twice the area of each face and of all before it, in the unit cube."""
        return np.cumsum(np.linalg.norm(self.normals, axis=1))

    @cached_property
    def health(self) -> Health:
        """What is wrong with the mesh. Raises OutOfMemoryError where finding it takes more than there is."""
        require(CHECKING * len(self.faces), f"checking {len(self.faces):,} triangles")
        with ThreadPoolExecutor(2) as helpers:  # NumPy lets other threads run
            degenerate = helpers.submit(lambda: degenerate_faces(self.unit_triangles, self.normals))
            helpers.submit(lambda: self.doubled)
            edges, shells = self.edges, int(self.shell.max()) + 1
        uses = edges.forward + edges.backward
        balanced = edges.forward == edges.backward
        return Health(
            triangles=len(self.faces),
            vertices=len(self.vertices),
            shells=shells,
            open_edges=int(np.sum(~balanced)),
            non_manifold_edges=int(np.sum(uses > 2)),
            inconsistent_edges=int(np.sum((uses == 2) & ~balanced)),
            degenerate_faces=degenerate.result(),
            duplicate_faces=int(self.doubled[1].sum()),
        )

    @cached_property
    def open_edges(self) -> Ints:
        """(e, 2): the ends of the edges whose uses in the two directions differ; none on a closed surface."""
        return self.edges.ends(self.edges.forward != self.edges.backward)

    def release(self, names: tuple[str, ...] = RELEASED) -> None:
        """Frees what was computed for checks and can be computed again."""
        for name in names:
            self.__dict__.pop(name, None)

    def with_faces(self, faces: Ints) -> Mesh:
        """Other faces of the same vertices, in the same domain."""
        mesh = Mesh(self.vertices, faces)
        mesh.__dict__.update(domain=self.domain, position=self.position)
        return mesh

    def subset(self, faces: Bools) -> Mesh:
        """Some of the faces, in the same domain."""
        chosen = np.flatnonzero(faces)
        mesh = self.with_faces(np.take(self.faces, chosen, axis=0))
        for name in "unit_triangles", "normals", "welded":
            mesh.__dict__[name] = np.take(getattr(self, name), chosen, axis=0)
        mesh.__dict__["uses"] = self.uses.of(faces)
        return mesh

    @cached_property
    def sha256(self) -> str:
        """Of the vertices and faces, whatever file they came from."""
        digest = hashlib.sha256(np.ascontiguousarray(self.vertices, "<f8").data)
        digest.update(np.ascontiguousarray(self.faces, "<i8").data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Health:
    """Counts of what is wrong with a mesh, after welding vertices at equal positions.

    A shell is connected across edges of two faces. An edge is open where its uses in the two directions differ: a mesh
    without open edges bounds a volume, and its winding number is a whole number everywhere.
    """

    triangles: int
    vertices: int
    shells: int
    open_edges: int
    non_manifold_edges: int
    inconsistent_edges: int
    degenerate_faces: int
    duplicate_faces: int

    @property
    def watertight(self) -> bool:
        """No open edges."""
        return self.open_edges == 0

    @property
    def faults(self) -> list[str]:
        """What keeps pseudonormals from being safe, in words; empty for a clean closed mesh."""
        names = ("open_edges", "non_manifold_edges", "degenerate_faces", "duplicate_faces")
        return [count_text(getattr(self, name), name) for name in names if getattr(self, name)]


def count_text(count: int, name: str) -> str:
    """`3 open edges` from 3 and `open_edges`."""
    words = name.replace("_", " ")
    return f"{count:,} {words[:-1] if count == 1 else words}".replace("non manifold", "non-manifold")


def face_normals(triangles: Floats) -> Floats:
    """(m, 3): normals of triangles (m, 9), twice as long as their area is large."""
    normals = np.empty((len(triangles), 3))
    for part in pieces(len(triangles)):
        t = np.ascontiguousarray(triangles[part].T)
        u, v = t[3:6] - t[0:3], t[6:9] - t[0:3]
        for k, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
            normals[part, k] = u[i] * v[j] - u[j] * v[i]
    return normals


def degenerate_faces(triangles: Floats, normals: Floats) -> int:
    """How many of triangles (m, 9), with normals (m, 3), have no direction of their own: their height is below the
    rounding of their corners."""
    count = 0
    for part in pieces(len(triangles)):
        t = np.ascontiguousarray(triangles[part].T)
        sides = t[3:6] - t[0:3], t[6:9] - t[3:6], t[0:3] - t[6:9]
        longest = np.maximum.reduce([(side * side).sum(axis=0) for side in sides])
        count += int(np.sum((normals[part].T ** 2).sum(axis=0) <= (1e-7**2) * longest))
    return count


def pieces(count: int) -> list[slice]:
    """Parts of arrays that stay in the cache, whose intermediate results take no memory that is new."""
    return [slice(first, first + PIECE) for first in range(0, count, PIECE)]


def uses_of(corners: Ints) -> Uses:
    """How faces (f, 3), given by the numbers of their vertices, use edges. Numbers are below 2^31."""
    count = int(corners.max()) + 1
    sides, real = np.empty(corners.shape, np.int64), np.empty(corners.shape, bool)
    for part in pieces(len(corners)):
        start, end = corners[part], np.roll(corners[part], -1, axis=1)
        sides[part] = (np.minimum(start, end) * count + np.maximum(start, end)) * 2 + (start > end)
        real[part] = start != end
    number, place = sides.ravel(), np.flatnonzero(real)
    if len(place) < len(number):
        number = number[place]
    bits = (3 * len(corners)).bit_length()
    if (2 * count**2) << bits < 2**63:  # sorted together with its place, as one number: much faster than argsort
        number <<= bits
        number |= place
        number.sort()
        np.bitwise_and(number, (1 << bits) - 1, out=place)
        number >>= bits
        return Uses(number, place, count, len(corners))
    order = np.argsort(number, kind="stable")
    return Uses(number[order], place[order], count, len(corners))


def edges_of(uses: Uses) -> Edges:
    """The undirected edges."""
    number = np.diff(uses.first, append=len(uses.number))
    backward = np.add.reduceat(uses.number & 1, uses.first) if len(number) else number
    return Edges(uses.number[uses.first] >> 1, uses.count, number - backward, backward)


def neighbours_of(uses: Uses) -> Neighbours:
    """Which of the faces lie side by side."""
    pair = uses.first[np.diff(uses.first, append=len(uses.number)) == 2]
    alike = (uses.number[pair] ^ uses.number[pair + 1]) & 1 == 1
    loose = np.zeros(3 * uses.faces, bool)
    loose[uses.place] = True
    for of_pair in (pair, pair + 1):
        loose[uses.place[of_pair[alike]]] = False
    return Neighbours(np.stack([uses.place[pair], uses.place[pair + 1]], axis=1) // 3, alike, loose.reshape(-1, 3))


def connected(count: int, pairs: Ints) -> Ints:
    """(count,) the smallest member of the connected component of each of 0 .. count - 1; pairs (p, 2) are joined."""
    label = np.arange(count)
    a, b = pairs[:, 0], pairs[:, 1]
    while len(a):
        # Roots take the smallest root that they are joined with, then everything takes its root's root.
        np.minimum.at(label, np.maximum(a, b), np.minimum(a, b))
        above = label[label]
        while not np.array_equal(above, label):
            label, above = above, above[above]
        a, b = label[a], label[b]
        apart = a != b
        a, b = a[apart], b[apart]
    return label


def _weld(vertices: Floats) -> Ints:
    """For each vertex the number of the first vertex at its position."""
    number = np.arange(len(vertices))
    place, again = equal_triples(*(vertices + 0.0).T)  # + 0.0 turns -0.0 into 0.0
    number[place] = place[~again][np.cumsum(~again) - 1]
    return number


def twins(faces: Ints) -> tuple[Ints, Bools]:
    """The faces (k,) of (f, 3) that have the vertices of another one, see `equal_triples`."""
    a, b, c = faces.T
    low, high = np.minimum(np.minimum(a, b), c), np.maximum(np.maximum(a, b), c)
    return equal_triples(low, a + b + c - low - high, high)


def equal_triples(x: Any, y: Any, z: Any) -> tuple[Ints, Bools]:
    """The places (k,) of triples of 64-bit numbers, (n,) each, that come up more than once: equal ones one after the
    other, in ascending order. And (k,) whether a triple equals the one before."""
    values = np.stack([x, y, z])
    bits = np.uint64(len(x).bit_length())
    # Sorted by as much of a hash as there is room for beside the place: much faster than argsort.
    both = np.sort(_hashed(values.view(np.uint64)) >> bits << bits | np.arange(len(x), dtype=np.uint64))
    place, hashes = (both & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64), both >> bits
    same = hashes[1:] == hashes[:-1]
    place = place[np.append(same, False) | np.insert(same, 0, False)]
    again = _again(values[:, place])
    if int(same.sum()) != int(again.sum()):  # different ones with one hash
        place = place[np.lexsort(values[:, place])]
        again = _again(values[:, place])
    more = again | np.append(again[1:], False)[: len(again)]
    return place[more], again[more]


def _again(values: Any) -> Bools:
    """(k,) whether a triple of (3, k) equals the one before."""
    result = np.zeros(values.shape[1], bool)
    result[1:] = (values[:, 1:] == values[:, :-1]).all(axis=0)
    return result


def _hashed(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """(n,) equal for equal triples (3, n), and rarely for others."""
    mixed = bits * np.array([[0x9E3779B97F4A7C15], [0xC2B2AE3D27D4EB4F], [0x165667B19E3779F9]], np.uint64)
    mixed ^= mixed >> np.uint64(29)
    result: npt.NDArray[np.uint64] = (mixed[0] * np.uint64(31) + mixed[1]) * np.uint64(37) + mixed[2]
    return result


def make_mesh(vertices: npt.ArrayLike, faces: npt.ArrayLike, name: str = "mesh") -> Mesh:
    """A checked mesh from arrays (v, 3) and (f, 3). Vertices that no face uses are dropped.

    Raises InputError where there are no faces, a face names a vertex that is not there, a used vertex is not finite,
    or the mesh has no extent or one beyond what float64 can square.
    """
    points = np.ascontiguousarray(unmasked(vertices, f"{name}: vertices"), dtype=np.float64)
    named = np.asarray(unmasked(faces, f"{name}: faces"))
    triangles = np.ascontiguousarray(named, dtype=np.int64)
    if named.dtype.kind not in "iu" and not np.array_equal(named, triangles):
        raise InputError(f"{name}: faces must be whole numbers, which name vertices")
    if triangles.ndim != 2 or triangles.shape[-1] != 3 or points.ndim != 2 or points.shape[-1] != 3:
        raise InputError(f"{name}: vertices must be (n, 3) and faces (m, 3), not {points.shape} and {triangles.shape}")
    if len(triangles) == 0:
        raise InputError(f"{name}: no faces; a surface is needed, not {len(points)} points")
    if triangles.min() < 0 or triangles.max() >= len(points):
        bad = int(np.flatnonzero((triangles < 0).any(1) | (triangles >= len(points)).any(1))[0])
        wrong = next(int(vertex) for vertex in triangles[bad] if not 0 <= vertex < len(points))
        raise InputError(f"{name}: face {bad} names vertex {wrong}, but there are {len(points)} vertices")
    used = np.zeros(len(points), bool)
    used[triangles] = True
    if not used.all():
        triangles = (np.cumsum(used) - 1)[triangles]
        points = points[used]
    if not np.isfinite(points).all():
        finite = np.isfinite(points).all(axis=1)
        place = int(np.flatnonzero(used)[np.flatnonzero(~finite)[0]])
        raise InputError(f"{name}: vertex {place} is not finite ({int((~finite).sum())} such vertices)")
    low, high = _bounds(points)
    extent, largest = float((high - low).max()), float(np.maximum(-low, high).max())
    if not 1e-30 < extent < 1e30:
        raise InputError(f"{name}: the extent of the mesh is {extent:g}; it must lie between 1e-30 and 1e30")
    if extent < largest * 1e-12:
        raise InputError(f"{name}: an extent of {extent:g} at coordinates of {largest:g} is below their precision")
    return Mesh(points, triangles)


def unmasked(values: Any, name: str) -> Any:
    """Values, as they are. Raises InputError for an array of which some are masked: nothing stands in their places."""
    if np.any(getattr(values, "mask", False)):
        raise InputError(f"{name}: some are masked; leave them out first")
    return values


def _bounds(points: Floats) -> Floats:
    """(2, 3): the lowest and highest coordinates, column by column: along rows of three NumPy takes twenty times as
    long."""
    return np.array([[column.min() for column in points.T], [column.max() for column in points.T]])


def load_mesh(source: Any) -> Mesh:
    """A checked mesh from a path, a `trimesh.Trimesh`, a (vertices, faces) pair, or a Mesh.

    Raises InputError, with the file's name, for what cannot be read or used, OutOfMemoryError.
    """
    if isinstance(source, Mesh):
        return source
    if isinstance(source, tuple):
        if len(source) != 2:
            raise InputError(f"mesh: a pair (vertices, faces) is needed, not a tuple of {len(source)}")
        return make_mesh(*source)
    if hasattr(source, "vertices") and hasattr(source, "faces"):
        return make_mesh(source.vertices, source.faces)
    path = existing_file(source)
    try:
        from sdfcli.readers import read_file

        with np.errstate(all="ignore"):  # whether vertices are finite is looked at later
            vertices, faces = read_file(path)
    except Exception as error:  # each loader of trimesh has exceptions of its own
        raise unreadable(path, "cannot be read as a mesh", error) from error
    if len(faces) == 0:
        raise InputError(f"{path}: no faces in this file; a surface is needed")
    return make_mesh(vertices, faces, str(path))


def existing_file(source: Any) -> Path:
    """The path of a file that is there. Raises InputError otherwise."""
    path = Path(source)
    try:
        if path.is_file():
            return path
        pipe = "is no plain file; save what comes out of a pipe to one first"
        fault = "is a folder" if path.is_dir() else pipe if path.exists() else "no such file"
    except OSError as error:
        fault = error.strerror or str(error)
    raise InputError(f"{path}: {fault}")
