"""Random solids of unit voxels with known interior, and surface damage as found in files."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import shapes

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Maker = Callable[[np.random.Generator], "Solid"]
DAMAGES = ("split", "collapsed", "cracked", "soup", "inward")


class Solid(NamedTuple):
    """A surface, voxel centres (n, 3), and whether they are inside (n,)."""

    shape: shapes.Shape
    points: Floats
    inside: npt.NDArray[np.bool_]


def filled(rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Voxels (x, y, z), at least one of them full."""
    while not (voxels := _voxels(rng)).any():
        pass
    return voxels


def _voxels(rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Voxels (x, y, z) of random density, or a block with cavities, some with blocks inside, and so on."""
    sides = rng.integers(1, 7, 3)
    if rng.random() < 0.5:
        return np.asarray(rng.random(sides) < rng.uniform(0.2, 0.9))
    voxels = np.ones(sides, bool)
    for _ in range(int(rng.integers(1, 5))):
        low = rng.integers(0, sides)
        high = rng.integers(low, sides) + 1
        part = tuple(slice(int(a), int(b)) for a, b in zip(low, high, strict=True))
        voxels[part] = not voxels[part].all()
    return voxels


def surface(
    rng: np.random.Generator, voxels: npt.NDArray[np.bool_], odd: npt.NDArray[np.bool_] | None = None
) -> shapes.Shape:
    """Faces between full and empty voxels, two triangles each, outwards, in random order.

    odd: (3, x + 1, y + 1, z + 1), the diagonal that splits the face at a position, by axis; None: random.
    """
    full = np.pad(voxels, 1)
    quads, places = [], []
    for axis in range(3):
        along_axis = full.transpose(axis, (axis + 1) % 3, (axis + 2) % 3)
        for outwards in (True, False):
            behind, before = (along_axis[:-1], along_axis[1:])[:: 1 if outwards else -1]
            place = np.argwhere(behind & ~before)
            corner = np.roll(place, axis, axis=1).astype(np.float64)
            corner[:, axis] += 1
            along = np.eye(3)[[(axis + 1) % 3, (axis + 2) % 3][:: 1 if outwards else -1]]
            quads.append(corner[:, None] + np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) @ along - 1)
            places.append(np.insert(quads[-1][:, 0].astype(np.int64), 0, axis, axis=1))
    quad = np.concatenate(quads)
    chosen = rng.random(len(quad)) < 0.5 if odd is None else odd[tuple(np.concatenate(places).T)]
    quad = np.where(chosen[:, None, None], quad, np.roll(quad, 1, axis=1))
    vertices, faces = np.unique(quad.reshape(-1, 3), axis=0, return_inverse=True)
    corners = faces.reshape(-1, 4)
    return vertices, rng.permutation(np.concatenate([corners[:, [0, 1, 2]], corners[:, [0, 2, 3]]]))


def welded_solid(rng: np.random.Generator) -> Solid:
    """Blocks with separate surfaces of random orientation. Touching blocks have the same vertices on common faces."""
    return _welded(rng, (_row if rng.random() < 0.5 else _bricks)(rng))


def bent_solid(rng: np.random.Generator) -> Solid:
    """Blocks as in `welded_solid`, or two layers of bricks, with displaced vertices, rotated and scaled."""
    (vertices, faces), points, inside = _welded(rng, (_row, _bricks, _layers)[int(rng.integers(3))](rng))
    position, number = np.unique(vertices, axis=0, return_inverse=True)
    turn = shapes.turn(rng) * 10 ** rng.uniform(-3, 3)
    moved = position + rng.uniform(-0.12, 0.12, position.shape)
    return Solid(((moved @ turn.T)[number.reshape(-1)], faces), points @ turn.T, inside)


def _welded(rng: np.random.Generator, block: Ints) -> Solid:
    """Blocks with separate surfaces of random orientation. block: block ids by voxel (x, y, z), 0 for none."""
    block = block.transpose(rng.permutation(3))
    odd = rng.random((3, *np.add(block.shape, 1))) < 0.5
    parts = [surface(rng, block == number, odd) for number in np.unique(block[block > 0])]
    parts = [shapes.inside_out(part) if rng.random() < 0.5 else part for part in parts]
    vertices, faces = shapes.shuffled(rng, shapes.joined(*parts))
    full = np.pad(block, 1) > 0
    return Solid((vertices, faces), np.argwhere(np.ones_like(full)) - 0.5, full.reshape(-1))


def _row(rng: np.random.Generator) -> Ints:
    """Block ids by voxel (x, y, z), 0 for none: a row of blocks that touch along all or part of their sides."""
    lengths = rng.integers(1, 4, int(rng.integers(2, 4)))
    block = np.zeros((int(lengths.sum()), 5, 5), np.int64)
    for number, end in enumerate(np.cumsum(lengths), 1):
        low, high = rng.integers(0, 3, 2), rng.integers(3, 6, 2)
        block[end - lengths[number - 1] : end, low[0] : high[0], low[1] : high[1]] = number
    return block


def _bricks(rng: np.random.Generator) -> Ints:
    """Block ids by voxel (x, y, z): a layer of bricks, one of them surrounded by others."""
    x, y = (np.searchsorted(np.sort(rng.integers(1, 5, 2)), np.arange(5), side="right") for _ in range(2))
    return np.repeat((1 + 3 * x[:, None] + y)[..., None], int(rng.integers(1, 4)), axis=2)


def _layers(rng: np.random.Generator) -> Ints:
    """Block ids by voxel (x, y, z): two layers of bricks, so that every brick has a free side."""
    x, y, z = (np.searchsorted(np.sort(rng.integers(1, 4, many)), np.arange(4), side="right") for many in (2, 2, 1))
    return np.asarray(1 + 6 * x[:, None, None] + 2 * y[:, None] + z)


def damaged(rng: np.random.Generator, shape: shapes.Shape, damages: tuple[str, ...]) -> shapes.Shape:
    """The same surface in a damaged representation.

    split      edges have a midpoint vertex.
    collapsed  degenerate faces: with two or three equal corners, and along edges.
    cracked    edges have a midpoint vertex on one side only.
    soup       no two faces share a vertex.
    inward     reversed orientation.
    """
    vertices, faces = shape
    for damage in damages:
        if damage in ("split", "cracked"):
            vertices, faces = _split(rng, vertices, faces, both=damage == "split")
        elif damage == "collapsed":
            some = faces[rng.integers(0, len(faces), 1 + len(faces) // 8)]
            again = some[:, [[0, 0, 1], [1, 2, 1], [2, 2, 2]][int(rng.integers(3))]]
            vertices, split = _split(rng, vertices, faces, both=False, needles=True)
            faces = np.concatenate([split, again])
        elif damage == "soup":
            vertices, faces = vertices[faces].reshape(-1, 3), np.arange(3 * len(faces)).reshape(-1, 3)
        elif damage == "inward":
            faces = faces[:, ::-1]
    return vertices, rng.permutation(faces)


def _split(rng: np.random.Generator, vertices: Floats, faces: Ints, both: bool, needles: bool = False) -> shapes.Shape:
    """Inserts a midpoint vertex into some edges, in both of their faces, or in one; `needles` adds a degenerate face
    that closes the crack."""
    chosen = rng.random(len(faces)) < 0.3
    start, end, apex = faces[chosen].T
    low, high = np.minimum(start, end), np.maximum(start, end)
    edges, number = np.unique(np.stack([low, high], axis=1), axis=0, return_inverse=True)
    middle = len(vertices) + number.reshape(-1)
    vertices = np.concatenate([vertices, vertices[edges].mean(axis=1)])
    if both:
        named = {(int(a), int(b)): k for k, (a, b) in enumerate(edges, len(vertices) - len(edges))}
        rows, waiting = [], faces.tolist()
        while waiting:
            row = waiting.pop()
            for a, b, c in (row, row[1:] + row[:1], row[2:] + row[:2]):
                if (at := named.get((min(a, b), max(a, b)))) is not None:
                    waiting += [[a, at, c], [at, b, c]]
                    break
            else:
                rows.append(row)
        return vertices, np.array(rows)
    parts = [faces[~chosen], np.stack([start, middle, apex], 1), np.stack([middle, end, apex], 1)]
    if needles:
        parts.append(np.stack([start, end, middle], 1))
    return vertices, np.concatenate(parts)


def lattice_solid(rng: np.random.Generator) -> Solid:
    """A random solid."""
    voxels = filled(rng)
    some = tuple(damage for damage in DAMAGES if rng.random() < 0.3)
    shape = damaged(rng, surface(rng, voxels), some)
    full = np.pad(voxels, 1)
    return Solid(shape, np.argwhere(np.ones_like(full)) - 0.5, full.reshape(-1))


def turned_solid(rng: np.random.Generator) -> Solid:
    """A random solid, rotated, translated and scaled, with rounded vertices and thus degenerate faces."""
    (vertices, faces), points, inside = lattice_solid(rng)
    turn, scale = shapes.turn(rng), 10 ** rng.uniform(-3, 3)
    offset = rng.normal(size=3) * 10 ** rng.uniform(-1, 2)
    step = 10 ** rng.uniform(-6, -1.5)
    rounded = np.round((vertices @ turn.T + offset) / step) * step
    return Solid((rounded * scale, faces), (points @ turn.T + offset) * scale, inside)
