"""Welded vertices, edges, and the faces beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.mesh.arrays import Bools, Floats, Ints, pieces


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


def weld(vertices: Floats) -> Ints:
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
