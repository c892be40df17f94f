"""Topology of faces: welded vertices, half-edges, edges, neighbours, connected components, duplicates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.mesh.arrays import Bools, Floats, Ints, pieces


@dataclass(frozen=True)
class Uses:
    """The half-edges of faces, sorted by edge; those between equal vertices are left out.

    number     (u,) sorted: 2 (low count + high) + direction, of the edge's vertices low < high; direction 1: high to
               low.
    half_edge  (u,) 3 face + the corner where it starts.
    """

    number: Ints
    half_edge: Ints
    count: int
    faces: int

    @cached_property
    def first(self) -> Ints:
        """The first use (e,) of each edge."""
        begins = np.ones(len(self.number), bool)
        for part in pieces(len(self.number) - 1):
            begins[1:][part] = (self.number[1:][part] ^ self.number[:-1][part]) > 1
        return np.flatnonzero(begins)

    def of(self, faces: Bools) -> Uses:
        """The half-edges of the faces where `faces` (f,) is true, renumbered."""
        number, half_edge, end = np.empty_like(self.number), np.empty_like(self.half_edge), 0
        before = np.cumsum(~faces)
        for part in pieces(len(number)):
            face = self.half_edge[part] // 3
            kept = np.flatnonzero(faces[face])
            here, end = slice(end, end + len(kept)), end + len(kept)
            number[here], half_edge[here] = self.number[part][kept], (self.half_edge[part] - 3 * before[face])[kept]
        return Uses(number[:end], half_edge[:end], self.count, int(faces.sum()))


@dataclass(frozen=True)
class Edges:
    """The undirected edges of faces, without those between equal vertices.

    number             (e,) sorted: low count + high, of the edge's vertices low < high.
    forward, backward  (e,) number of half-edges from low to high, and from high to low.
    """

    number: Ints
    count: int
    forward: Ints
    backward: Ints

    def ends(self, chosen: Any = slice(None)) -> Ints:
        """Vertices (k, 2), low and high, of the chosen edges; default: all."""
        return np.stack(np.divmod(self.number[chosen], self.count), axis=1)


@dataclass(frozen=True)
class Neighbours:
    """Pairs of faces that share an edge with no third face.

    pairs  (p, 2) faces.
    alike  (p,) whether their orientations agree: their half-edges have opposite directions.
    loose  (f, 3) whether a half-edge has no neighbour with the same orientation.
    """

    pairs: Ints
    alike: Bools
    loose: Bools


def uses_of(corners: Ints) -> Uses:
    """The half-edges of faces (f, 3) of vertex numbers below 2^31."""
    count = int(corners.max()) + 1
    sides, real = np.empty(corners.shape, np.int64), np.empty(corners.shape, bool)
    for part in pieces(len(corners)):
        start, end = corners[part], np.roll(corners[part], -1, axis=1)
        sides[part] = (np.minimum(start, end) * count + np.maximum(start, end)) * 2 + (start > end)
        real[part] = start != end
    number, half_edge = sides.ravel(), np.flatnonzero(real)
    if len(half_edge) < len(number):
        number = number[half_edge]
    bits = (3 * len(corners)).bit_length()
    if (2 * count**2) << bits < 2**63:  # sorted with its half-edge, as one number: much faster than argsort
        number <<= bits
        number |= half_edge
        number.sort()
        np.bitwise_and(number, (1 << bits) - 1, out=half_edge)
        number >>= bits
        return Uses(number, half_edge, count, len(corners))
    order = np.argsort(number, kind="stable")
    return Uses(number[order], half_edge[order], count, len(corners))


def edges_of(uses: Uses) -> Edges:
    """The undirected edges."""
    number = np.diff(uses.first, append=len(uses.number))
    backward = np.add.reduceat(uses.number & 1, uses.first) if len(number) else number
    return Edges(uses.number[uses.first] >> 1, uses.count, number - backward, backward)


def edge_numbers(faces: Ints) -> Ints:
    """Edge numbers (f, 3) from each corner of faces (f, 3) to the next."""
    start, end = faces, faces[:, [1, 2, 0]]
    count = int(faces.max()) + 1
    _, edge = np.unique(np.minimum(start, end) * count + np.maximum(start, end), return_inverse=True)
    return edge.reshape(-1, 3)


def neighbours_of(uses: Uses) -> Neighbours:
    """The pairs of faces that share an edge with no third one."""
    pair = uses.first[np.diff(uses.first, append=len(uses.number)) == 2]
    alike = (uses.number[pair] ^ uses.number[pair + 1]) & 1 == 1
    loose = np.zeros(3 * uses.faces, bool)
    loose[uses.half_edge] = True
    for of_pair in (pair, pair + 1):
        loose[uses.half_edge[of_pair[alike]]] = False
    return Neighbours(
        np.stack([uses.half_edge[pair], uses.half_edge[pair + 1]], axis=1) // 3, alike, loose.reshape(-1, 3)
    )


def connected(count: int, pairs: Ints) -> Ints:
    """Connected components of the graph of 0 .. count - 1 with edges `pairs` (p, 2): the smallest member of each
    one's component, (count,)."""
    label = np.arange(count)
    a, b = pairs[:, 0], pairs[:, 1]
    while len(a):
        # Hook each root to the smallest adjacent root, then compress paths.
        np.minimum.at(label, np.maximum(a, b), np.minimum(a, b))
        above = label[label]
        while not np.array_equal(above, label):
            label, above = above, above[above]
        a, b = label[a], label[b]
        apart = a != b
        a, b = a[apart], b[apart]
    return label


def weld(vertices: Floats) -> Ints:
    """For each of vertices (v, 3) the first vertex at its position, (v,)."""
    number = np.arange(len(vertices))
    index, again = equal_triples(*(vertices + 0.0).T)  # + 0.0 turns -0.0 into 0.0
    number[index] = index[~again][np.cumsum(~again) - 1]
    return number


def twins(faces: Ints) -> tuple[Ints, Bools]:
    """The faces (k,) of (f, 3) with the vertices of another one; see `equal_triples`."""
    a, b, c = faces.T
    low, high = np.minimum(np.minimum(a, b), c), np.maximum(np.maximum(a, b), c)
    return equal_triples(low, a + b + c - low - high, high)


def equal_triples(x: Any, y: Any, z: Any) -> tuple[Ints, Bools]:
    """Indices (k,) of triples of 64-bit numbers, (n,) each, that occur more than once, grouped by value and ascending
    in each group; and (k,) whether a triple equals the one before it."""
    values = np.stack([x, y, z])
    bits = np.uint64(len(x).bit_length())
    # Sorted as one number of hash bits and index: much faster than argsort.
    both = np.sort(_hashed(values.view(np.uint64)) >> bits << bits | np.arange(len(x), dtype=np.uint64))
    index, hashes = (both & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64), both >> bits
    same = hashes[1:] == hashes[:-1]
    index = index[np.append(same, False) | np.insert(same, 0, False)]
    again = _again(values[:, index])
    if int(same.sum()) != int(again.sum()):  # hash collisions
        index = index[np.lexsort(values[:, index])]
        again = _again(values[:, index])
    more = again | np.append(again[1:], False)[: len(again)]
    return index[more], again[more]


def _again(values: Any) -> Bools:
    """Whether a triple of (3, k) equals the one before it, (k,)."""
    result = np.zeros(values.shape[1], bool)
    result[1:] = (values[:, 1:] == values[:, :-1]).all(axis=0)
    return result


def _hashed(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Hashes (n,) of triples (3, n)."""
    mixed = bits * np.array([[0x9E3779B97F4A7C15], [0xC2B2AE3D27D4EB4F], [0x165667B19E3779F9]], np.uint64)
    mixed ^= mixed >> np.uint64(29)
    result: npt.NDArray[np.uint64] = (mixed[0] * np.uint64(31) + mixed[1]) * np.uint64(37) + mixed[2]
    return result
