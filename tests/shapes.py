"""Test meshes, with NumPy only. Each is (vertices, faces); faces are counter-clockwise seen from outside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Shape = tuple[Floats, Ints]


def tetrahedron() -> Shape:
    """Four corners of the cube from -1 to 1."""
    vertices = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], np.float64)
    return vertices, np.array([[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]])


def octahedron() -> Shape:
    """Vertices at distance 1 on the axes; each face is tilted against all axes."""
    vertices = np.concatenate((np.eye(3), -np.eye(3)))
    upper = np.array([[0, 1, 2], [1, 3, 2], [3, 4, 2], [4, 0, 2]])
    lower = np.array([[1, 0, 5], [3, 1, 5], [4, 3, 5], [0, 4, 5]])
    return vertices, np.concatenate((upper, lower))


def cube() -> Shape:
    """The cube from -1 to 1, two triangles per side."""
    vertices = np.array([[x, y, z] for z in (-1, 1) for y in (-1, 1) for x in (-1, 1)], np.float64)
    sides = [(0, 4, 6, 2), (1, 3, 7, 5), (0, 1, 5, 4), (2, 6, 7, 3), (0, 2, 3, 1), (4, 5, 7, 6)]
    return vertices, np.array([t for a, b, c, d in sides for t in ((a, b, c), (a, c, d))])


def box(low: npt.ArrayLike, high: npt.ArrayLike) -> Shape:
    """The box between two corners."""
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    vertices, faces = cube()
    return (low + high) / 2 + vertices * (high - low) / 2, faces


def prism(outline: npt.ArrayLike, length: float) -> Shape:
    """A counter-clockwise convex polygon (n, 2), extruded from z = 0 to z = length."""
    low = np.pad(np.asarray(outline, np.float64), ((0, 0), (0, 1)))
    n, i = len(low), np.arange(len(low))
    j, k = (i + 1) % n, np.arange(1, n - 1)
    sides = [np.stack((i, j, n + j), 1), np.stack((i, n + j, n + i), 1)]
    ends = [np.stack((0 * k, k + 1, k), 1), np.stack((0 * k + n, n + k, n + k + 1), 1)]
    return np.concatenate((low, low + np.array([0, 0, length]))), np.concatenate((*sides, *ends))


def ring(corners: int, radius: float) -> Floats:
    """A regular counter-clockwise polygon (corners, 2)."""
    angle = np.arange(corners) * 2 * np.pi / corners
    return radius * np.stack((np.cos(angle), np.sin(angle)), axis=1)


def bored(outer: Floats, inner: Floats, height: float) -> Shape:
    """A prism over a counter-clockwise polygon (n, 2), with a hole along z over an inner polygon (n, 2)."""
    n, i = len(outer), np.arange(len(outer))
    rings = [np.pad(ring, ((0, 0), (0, 1)), constant_values=z) for z in (0.0, height) for ring in (inner, outer)]
    low_in, low_out, high_in, high_out = (np.stack((i, (i + 1) % n)) + k * n for k in range(4))
    bands = ((low_out, low_in), (high_in, high_out), (low_in, high_in), (high_out, low_out))
    faces = [np.stack(each, 1) for (a, b), (c, d) in bands for each in ((a, c, d), (a, d, b))]
    return np.concatenate(rings), np.concatenate(faces)


def perforated(cells: int, thickness: float) -> Shape:
    """A square plate of edge 1, of cells x cells squares (an odd number), with every second square of every second row
    cut out."""
    full = np.ones((cells + 2, cells + 2), bool)
    full[[0, -1]] = full[:, [0, -1]] = False
    full[2:-2:2, 2:-2:2] = False
    quads = []
    for x, y in np.argwhere(full):
        low = np.array([[x, y, 0], [x + 1, y, 0], [x + 1, y + 1, 0], [x, y + 1, 0]])
        high = low + np.array([0, 0, 1])
        quads += [low[::-1], high]
        for k, (i, j) in enumerate(((0, -1), (1, 0), (0, 1), (-1, 0))):
            if not full[x + i, y + j]:
                n = (k + 1) % 4
                quads.append(np.array([low[k], low[n], high[n], high[k]]))
    corners, number = np.unique(np.concatenate(quads), axis=0, return_inverse=True)
    a, b, c, d = number.reshape(-1, 4).T
    return corners * np.array([1 / cells, 1 / cells, thickness]), np.concatenate(
        (np.stack((a, b, c), 1), np.stack((a, c, d), 1))
    )


def refined(shape: Shape) -> Shape:
    """Each triangle split into four at its edge midpoints, shared with neighbours."""
    vertices, faces = shape
    sides = np.sort(np.stack((faces, np.roll(faces, -1, axis=1)), axis=2), axis=2)
    pairs, number = np.unique(sides.reshape(-1, 2), axis=0, return_inverse=True)
    middle = len(vertices) + number.reshape(-1, 3)
    a, b, c = faces.T
    ab, bc, ca = middle.T
    smaller = [np.stack(t, axis=1) for t in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))]
    return np.concatenate((vertices, vertices[pairs].mean(axis=1))), np.concatenate(smaller)


def icosphere(rounds: int) -> Shape:
    """Sphere of 20 x 4^rounds triangles and radius 1."""
    g = (1 + 5**0.5) / 2
    rectangle = [(s, t * g) for s in (1, -1) for t in (1, -1)]
    vertices = [(0.0, s, t) for s, t in rectangle] + [(s, t, 0.0) for s, t in rectangle]
    vertices += [(t, 0.0, s) for s, t in rectangle]
    corner = np.array(vertices)
    near = np.abs(np.linalg.norm(corner[:, None] - corner, axis=2) - 2) < 1e-9
    triples = [
        (i, j, k) for i in range(12) for j in range(i) for k in range(j) if near[i, j] and near[j, k] and near[k, i]
    ]
    faces = np.array(triples)
    a, b, c = (corner[faces[:, k]] for k in range(3))
    inwards = np.einsum("nx,nx->n", a, np.cross(b - a, c - a)) < 0
    faces[inwards] = faces[inwards, ::-1]
    shape: Shape = (corner, faces)
    for _ in range(rounds):
        shape = refined(shape)
    return shape[0] / np.linalg.norm(shape[0], axis=1, keepdims=True), shape[1]


def star(rng: np.random.Generator, rounds: int) -> Shape:
    """A rough closed surface, met once by each ray from the origin."""
    vertices, faces = icosphere(rounds)
    return vertices * rng.uniform(0.5, 1.0, (len(vertices), 1)), faces


def torus(around: int, across: int) -> Shape:
    """Torus of 2 x around x across triangles; radii 1 and 0.4, axis along z."""
    u, v = np.meshgrid(*(np.arange(n) * 2 * np.pi / n for n in (around, across)), indexing="ij")
    ring = 1 + 0.4 * np.cos(v)
    vertices = np.stack((ring * np.cos(u), ring * np.sin(u), 0.4 * np.sin(v)), axis=-1).reshape(-1, 3)
    i, j = (k.ravel() for k in np.indices((around, across)))
    here, right = i * across + j, (i + 1) % around * across + j
    up, both = i * across + (j + 1) % across, (i + 1) % around * across + (j + 1) % across
    return vertices, np.concatenate((np.stack((here, right, both), 1), np.stack((here, both, up), 1)))


def sheet(rng: np.random.Generator, cuts: int) -> Shape:
    """An open hilly square of 2 x cuts^2 triangles, its upper side outside."""
    x, y = np.meshgrid(*(np.linspace(-1, 1, cuts + 1),) * 2, indexing="ij")
    vertices = np.stack((x, y, 0.1 * rng.normal(size=x.shape)), axis=-1).reshape(-1, 3)
    i, j = (k.ravel() for k in np.indices((cuts, cuts)))
    a = i * (cuts + 1) + j
    b, c, d = a + cuts + 1, a + cuts + 2, a + 1
    return vertices, np.concatenate((np.stack((a, b, c), 1), np.stack((a, c, d), 1)))


def soup(rng: np.random.Generator, count: int, size: float) -> Shape:
    """Triangles without shared vertices, at random positions in the unit cube."""
    corners = rng.random((count, 1, 3)) + size * rng.normal(size=(count, 3, 3))
    return corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3)


def very_many(mirrored: bool) -> Shape:
    """A triangle whose box contains 4,913 others, two of which cross each other."""
    at = np.stack(np.meshgrid(*[np.linspace(0, 0.29, 17)] * 3), axis=-1).reshape(-1, 1, 3)
    small = at + np.array([[0, 0, 0], [0.004, 0, 0], [0, 0.004, 0.004]])
    small[100] = small[99].mean(axis=0) + np.array([[0, -0.001, 0.001], [0, 0.001, -0.001], [0.002, 0.001, 0]])
    triangles = np.concatenate([1 - small if mirrored else small, np.eye(3)[None]]).reshape(-1, 3)
    return triangles, np.arange(len(triangles)).reshape(-1, 3)


def zoo(rng: np.random.Generator, count: int) -> Shape:
    """Triangles of every degenerate kind, and regular ones between them; one in ten is duplicated."""
    corners = rng.random((count, 3, 3))
    kind = rng.integers(0, 6, count)
    corners[kind == 1] = corners[kind == 1][:, [0, 0, 0]]  # a point
    corners[kind == 2] = corners[kind == 2][:, [0, 1, 1]]  # a segment
    corners[kind == 3] = corners[kind == 3][:, [1, 0, 1]]
    on_line = kind == 4
    way = rng.uniform(-1, 2, (int(on_line.sum()), 1))
    corners[on_line, 2] = corners[on_line, 0] + way * (corners[on_line, 1] - corners[on_line, 0])
    corners[kind == 5] = np.round(4 * corners[kind == 5]) / 4  # on a coarse lattice: equal corners, equal triangles
    again = rng.integers(0, count, count // 10)
    corners = np.concatenate((corners, corners[again]))
    return corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3)


def inside_out(shape: Shape) -> Shape:
    """The shape with opposite orientation."""
    return shape[0], shape[1][:, ::-1].copy()


def moved(shape: Shape, scale: float = 1.0, offset: npt.ArrayLike = 0.0, turn: npt.ArrayLike | None = None) -> Shape:
    """The shape rotated by a matrix, then scaled, then translated."""
    vertices = shape[0] if turn is None else shape[0] @ np.asarray(turn).T
    return scale * vertices + np.asarray(offset, np.float64), shape[1]


def hollow(outer: Shape, inner: Shape) -> Shape:
    """The space between two surfaces, the second inside the first."""
    return joined(outer, inside_out(inner))


def turn(rng: np.random.Generator) -> Floats:
    """A random rotation."""
    axes, upper = np.linalg.qr(rng.normal(size=(3, 3)))
    axes *= np.sign(np.diag(upper))
    return np.asarray(axes * np.sign(np.linalg.det(axes)))


def joined(*shapes: Shape) -> Shape:
    """All shapes in one mesh."""
    first = np.concatenate(([0], np.cumsum([len(vertices) for vertices, _ in shapes])))
    faces = [start + faces for start, (_, faces) in zip(first[:-1], shapes, strict=True)]
    return np.concatenate([vertices for vertices, _ in shapes]), np.concatenate(faces)


def shells(rounds: int) -> Shape:
    """A ball with a cavity, and a smaller ball in the cavity: closed, winding number 0 or 1."""
    ball = icosphere(rounds)
    return joined(ball, inside_out(moved(ball, 0.7)), moved(ball, 0.4))


def overlapping(rng: np.random.Generator, rounds: int) -> Shape:
    """Two intersecting closed surfaces: the winding number is 2 where they overlap."""
    return joined(star(rng, rounds), moved(star(rng, rounds), 0.9, [0.5, 0.2, 0.1], turn(rng)))


def holed(rng: np.random.Generator, shape: Shape, share: float) -> Shape:
    """The shape without a random share of its faces; at least one face stays."""
    keep = rng.random(len(shape[1])) >= share
    keep[rng.integers(len(keep))] = True
    return shape[0], shape[1][keep]


def shuffled(rng: np.random.Generator, shape: Shape) -> Shape:
    """Faces in random order, each starting at a random corner."""
    faces = shape[1][rng.permutation(len(shape[1]))]
    start = rng.integers(0, 3, (len(faces), 1))
    return shape[0], np.take_along_axis(faces, (start + np.arange(3)) % 3, axis=1)


def triangles(shape: Shape) -> Floats:
    """Corners (f, 3, 3)."""
    return np.asarray(shape[0][shape[1]])


CLOSED: dict[str, Callable[[np.random.Generator], Shape]] = {
    "tetrahedron": lambda rng: tetrahedron(),
    "cube": lambda rng: cube(),
    "turned cube": lambda rng: moved(cube(), turn=turn(rng)),
    "octahedron": lambda rng: octahedron(),
    "star": lambda rng: star(rng, 2),
    "torus": lambda rng: torus(16, 9),
    "shells": lambda rng: shells(1),
}
"""Closed and oriented outwards, without contact between parts: pseudonormals are safe."""

ANY: dict[str, Callable[[np.random.Generator], Shape]] = {
    **CLOSED,
    "one": lambda rng: soup(rng, 1, 0.3),
    "two": lambda rng: soup(rng, 2, 0.3),
    "overlapping": lambda rng: overlapping(rng, 1),
    "holed star": lambda rng: holed(rng, star(rng, 2), 0.1),
    "holed torus": lambda rng: holed(rng, torus(16, 9), 0.5),
    "sheet": lambda rng: sheet(rng, 9),
    "soup": lambda rng: soup(rng, 150, 0.2),
    "small soup": lambda rng: soup(rng, 300, 0.02),
    "zoo": lambda rng: zoo(rng, 120),
    "far": lambda rng: moved(star(rng, 1), 1e3, 1e7),
    "tiny": lambda rng: moved(star(rng, 1), 1e-9),
    "huge": lambda rng: moved(torus(9, 5), 1e9, 1e12),
}
"""Meshes as users have them."""

WORSE: dict[str, Callable[[np.random.Generator], Shape]] = {
    **ANY,
    "one": lambda rng: (rng.random((3, 3)), np.array([[0, 1, 2]])),
    "duplicates": lambda rng: joined(*[star(rng, 1)] * 3),
    "degenerate": lambda rng: (rng.random((30, 3)), rng.integers(0, 30, (60, 3))),
    "large and tiny": lambda rng: joined(
        soup(rng, 20, 1.0), moved(star(rng, 2), 10.0 ** -rng.uniform(2, 6), rng.random(3))
    ),
    "far apart": lambda rng: joined(*[moved(star(rng, 1), 1e-3, offset) for offset in rng.random((6, 3))]),
}
"""Those, and worse: equal and degenerate triangles, sizes and gaps far apart."""
