"""Soups: furniture, vehicles and plants, about 2 wide, modelled as carelessly as meshes from the web.

Parts cross, lie within one another and share no vertices; faces are doubled and reversed; panels do not meet. All gaps
that a ball of `radius` must not pass are at most 1.5 radii wide, loose screws at least 4 radii from all else.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import shapes
from shapes import Shape, box, joined, moved

Rng = np.random.Generator
NARROW, APART = 1.5, 4.0
"""Maximum width of a gap to be closed, and minimum distance of loose parts, in radii."""


def panels(low: npt.ArrayLike, high: npt.ArrayLike, gap: float, missing: tuple[int, ...] = ()) -> Shape:
    """A box of six panels that end half a gap before its edges, in the order of `shapes.cube`, some of them missing."""
    vertices, faces = box(low, high)
    made = []
    for k in sorted({*range(6)} - {*missing}):
        side = vertices[np.unique(faces[2 * k : 2 * k + 2])]
        away = side - side.mean(axis=0)
        made.append((side - np.sign(away) * np.minimum(gap / 2, np.abs(away)), np.array([[0, 1, 3], [0, 3, 2]])))
    return joined(*made)


def walls(low: npt.ArrayLike, high: npt.ArrayLike, depth: float) -> Shape:
    """A box with one or two boxes within, the walls `depth` apart."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    within = [box(low + k * depth, high - k * depth) for k in range(3) if (high - low > 2.1 * k * depth).all()]
    return joined(*within)


def rod(start: npt.ArrayLike, end: npt.ArrayLike, radius: float, corners: int = 8, caps: bool = False) -> Shape:
    """A tube from `start` to `end`, open at both ends unless it has caps."""
    start, along = np.asarray(start, float), np.subtract(end, start)
    length = np.linalg.norm(along)
    side = np.cross(along, np.eye(3)[np.argmin(np.abs(along))])
    side /= np.linalg.norm(side)
    frame = np.stack((side, np.cross(along / length, side), along / length), axis=1)
    vertices, faces = shapes.prism(shapes.ring(corners, radius), float(length))
    return vertices @ frame.T + start, faces if caps else faces[: 2 * corners]


def wheel(centre: npt.ArrayLike, radius: float, width: float, axis: int = 1) -> Shape:
    """A tyre with a rim and a hub inside it."""
    half = np.eye(3)[axis] * width / 2
    sizes = ((1.0, 0.5), (0.8, 0.45), (0.3, 0.6))
    return joined(*(rod(centre - half * w, centre + half * w, radius * r, 12, caps=True) for r, w in sizes))


def leaf(rng: Rng, stem: npt.ArrayLike, size: float) -> Shape:
    """A sheet of four triangles with a corner at `stem`."""
    turn = shapes.turn(rng) * size
    corners = np.array([[0, 0, 0], [0.5, 0.3, 0.1], [1, 0, 0], [0.5, -0.3, 0.1], [0.5, 0, 0]])
    return corners @ turn.T + stem, np.array([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])


def screws(rng: Rng, shape: Shape, radius: float) -> Shape:
    """Two to four tiny bodies in a row below the shape, apart from it and from each other."""
    low, size = shape[0].min(axis=0), 0.3 * radius
    step = np.array([APART * radius + 2 * size, 0, 0])
    start = low + np.array([size, 0, -APART * radius - size])
    small = [moved(shapes.octahedron(), size, start + k * step) for k in range(rng.integers(2, 5))]
    return joined(*small)


def careless(rng: Rng, shape: Shape) -> Shape:
    """Unshared vertices, a quarter of the faces doubled, a third reversed, in random order."""
    faces = shape[1]
    faces = np.concatenate((faces, faces[rng.random(len(faces)) < 0.25]))
    reverse = rng.random(len(faces)) < 1 / 3
    faces[reverse] = faces[reverse, ::-1]
    vertices, faces = shapes.shuffled(rng, (shape[0], faces))
    return vertices[faces].reshape(-1, 3), np.arange(faces.size).reshape(-1, 3)


def chair(rng: Rng, radius: float) -> Shape:
    """Seat, back and four legs, one of them a sheet."""
    seat, gap = rng.uniform(-0.1, 0.1), rng.uniform(0.5, 1) * NARROW * radius
    legs = [rod([x, y, -1], [x, y, seat], 0.06) for x in (-0.5, 0.5) for y in (-0.5, 0.5)]
    back = panels([-0.6, 0.5, seat], [0.6, 0.65, 1], gap)
    return joined(walls([-0.6, -0.6, seat], [0.6, 0.6, seat + 0.15], 0.02), back, *legs[1:], _plate_leg(seat))


def _plate_leg(seat: float) -> Shape:
    corners = np.array([[-0.55, -0.5, -1], [-0.45, -0.5, -1], [-0.45, -0.5, seat], [-0.55, -0.5, seat]])
    return corners, np.array([[0, 1, 2], [0, 2, 3]])


def table(rng: Rng, radius: float) -> Shape:
    """A top, legs, and drawers in a case, whose fronts leave gaps."""
    count = int(rng.integers(2, 4))
    rows = np.linspace(-0.2, 0.6, count + 1)
    drawers = [walls([0.05, -0.55, a], [0.85, 0.5, b], 0.05) for a, b in zip(rows, rows[1:] - radius, strict=False)]
    case = panels([0, -0.6, -0.25], [0.9, 0.6, 0.7], 0.0, missing=(2,))  # open where the drawers are
    legs = [rod([x, y, -1], [x, y, 0.7], 0.07, 6) for x in (-0.85, 0.85) for y in (-0.5, 0.5)]
    return joined(box([-1, -0.7, 0.65], [1, 0.7, 0.75]), case, *drawers, *legs)


def shelf(rng: Rng, radius: float) -> Shape:
    """Sheets as boards between two sides, a back of one sheet, books that cross."""
    z = np.linspace(-0.9, 0.9, int(rng.integers(3, 5)))
    boards = [panels([-0.8, -0.3, h], [0.8, 0.3, h + 0.01], 0.0, missing=(0, 1, 2, 3, 5)) for h in z]
    sides = [walls([x, -0.3, -1], [x + 0.08, 0.3, 1], 0.03) for x in (-0.85, 0.78)]
    back = panels([-0.85, 0.3, -1], [0.85, 0.31, 1], 0.0, missing=(0, 1, 2, 4, 5))
    books = [box([x, -0.2, z[0] - 0.01], [x + 0.1, 0.2, z[0] + 0.3]) for x in rng.uniform(-0.7, 0.5, 5)]
    return joined(*boards, *sides, back, *books)


def sofa(rng: Rng, radius: float) -> Shape:
    """Cushions in a frame of panels with springs inside."""
    gap = NARROW * radius * rng.uniform(0.3, 0.9)
    frame = [panels([-1, -0.5, -0.5], [1, 0.5, 0], gap), panels([-1, 0.3, -0.5], [1, 0.55, 0.6], gap)]
    arms = [walls([x, -0.5, -0.5], [x + 0.25, 0.5, 0.25], 0.05) for x in (-1.1, 0.85)]
    springs = [rod([x, 0, -0.4], [x, 0, -0.05], 0.05) for x in rng.uniform(-0.8, 0.8, 4)]
    cushions = [box([x, -0.48, -0.05], [x + 0.8, 0.35, 0.15]) for x in (-0.84, -0.02)]
    return joined(*frame, *arms, *springs, *cushions)


def car(rng: Rng, radius: float) -> Shape:
    """A body and a cabin of panels, seats inside, wheels on axles."""
    gap = NARROW * radius * rng.uniform(0.3, 0.9)
    roof = rng.uniform(0.45, 0.6)
    body = [panels([-1, -0.45, -0.25], [1, 0.45, 0.15], gap), panels([-0.6, -0.42, 0.1], [0.6, 0.42, roof], gap)]
    seats = [walls([x, y, -0.1], [x + 0.2, y + 0.25, 0.3], 0.04) for x in (-0.4, 0.1) for y in (-0.35, 0.1)]
    wheels = [wheel([x, y, -0.3], 0.22, 0.15) for x in (-0.6, 0.6) for y in (-0.48, 0.48)]
    axles = [rod([x, -0.48, -0.3], [x, 0.48, -0.3], 0.04) for x in (-0.6, 0.6)]
    return joined(*body, *seats, *wheels, *axles)


def truck(rng: Rng, radius: float) -> Shape:
    """A cabin, an open bed of sheets, wheels."""
    bed = panels([-1, -0.4, -0.1], [0.35, 0.4, rng.uniform(0.25, 0.4)], 0.0, missing=(5,))
    cab = panels([0.4, -0.4, -0.3], [1, 0.4, 0.5], NARROW * radius * 0.8)
    frame = box([-1, -0.2, -0.25], [0.9, 0.2, -0.08])
    wheels = [wheel([x, y, -0.35], 0.2, 0.18) for x in (-0.7, -0.2, 0.7) for y in (-0.4, 0.4)]
    axles = [rod([x, -0.4, -0.35], [x, 0.4, -0.35], 0.12) for x in (-0.7, -0.2, 0.7)]
    return joined(bed, cab, frame, *wheels, *axles)


def bicycle(rng: Rng, radius: float) -> Shape:
    """Tubes, rims, and spokes as sheets."""
    crank, head, seat = np.array([-0.1, 0, -0.4]), np.array([0.45, 0, 0.3]), np.array([-0.3, 0, 0.35])
    hubs = [np.array([x, 0, -0.4]) for x in (-0.75, 0.75)]
    frame = [(crank, head), (crank, seat), (seat, head), (hubs[0], crank), (hubs[0], seat), (hubs[1], head)]
    parts = [rod(a, b, 0.03, 6) for a, b in frame]
    for hub in hubs:
        tyre, faces = moved(shapes.torus(24, 6), 0.3, hub, np.eye(3)[[0, 2, 1]])
        parts.append((tyre, faces))
        for angle in np.arange(6) * np.pi / 3 + rng.uniform(0, 1):
            spoke = np.array([[0, -0.02, 0], [0, 0.02, 0], [0.3 * np.cos(angle), 0, 0.3 * np.sin(angle)]])
            parts.append((hub + spoke, np.array([[0, 1, 2]])))
    bar, half = head + np.array([0, 0, 0.1]), np.array([0, 0.3, 0])
    parts += [rod(head, bar, 0.03), rod(bar - half, bar + half, 0.025)]
    return joined(*parts, moved(walls([-0.15, -0.08, -0.01], [0.15, 0.08, 0.08], 0.02), offset=seat))


def tree(rng: Rng, radius: float) -> Shape:
    """A trunk, branches, and leaves as sheets on them."""
    parts = [rod([0, 0, -1], [0, 0, 0.6], 0.08)]
    for start in np.linspace(-0.1, 0.5, int(rng.integers(5, 9))):
        angle, way = rng.uniform(0, 2 * np.pi), rng.uniform(0.4, 0.7)
        end = np.array([way * np.cos(angle), way * np.sin(angle), start + 0.3])
        parts.append(rod([0, 0, start], end, 0.03, 5))
        stems = np.array([0, 0, start]) + rng.uniform(0.4, 1, (8, 1)) * (end - [0, 0, start])
        parts += [leaf(rng, stem, 0.25) for stem in stems]
    return joined(*parts)


def bush(rng: Rng, radius: float) -> Shape:
    """Leaves on a ball of twigs."""
    ends = rng.normal(size=(30, 3))
    ends *= rng.uniform(0.5, 0.8, (30, 1)) / np.linalg.norm(ends, axis=1)[:, None]
    twigs = [rod([0, 0, 0], end, 0.02, 4) for end in ends]
    return joined(*twigs, *(leaf(rng, end, 0.4) for end in ends for _ in range(3)))


def potted_plant(rng: Rng, radius: float) -> Shape:
    """A pot of two walls, earth as a sheet, a stem, leaves."""
    pot = [rod([0, 0, -1], [0, 0, -0.3], r, 16) for r in (0.5, 0.44)]
    floor, earth = (moved(_disc(16), 0.5 - k, [0, 0, z]) for k, z in ((0.0, -1), (0.03, -0.45)))
    top = np.array([rng.uniform(-0.2, 0.2), 0, 0.6])
    stems = np.array([0, 0, -0.5]) + rng.uniform(0.5, 1, (12, 1)) * (top - [0, 0, -0.5])
    leaves = [leaf(rng, stem, 0.5) for stem in stems]
    return joined(*pot, floor, earth, rod([0, 0, -0.5], top, 0.04), *leaves)


def _disc(corners: int) -> Shape:
    vertices, faces = shapes.prism(shapes.ring(corners, 1.0), 1.0)
    return vertices[:corners], faces[2 * corners : 2 * corners + corners - 2]


MAKERS: dict[str, Callable[[Rng, float], Shape]] = {
    each.__name__: each for each in (chair, table, shelf, sofa, car, truck, bicycle, tree, bush, potted_plant)
}


def made(name: str, seed: int, radius: float) -> Shape:
    """A soup by its name."""
    rng = np.random.default_rng(seed)
    shape = MAKERS[name](rng, radius)
    return careless(rng, joined(shape, screws(rng, shape, radius)))
