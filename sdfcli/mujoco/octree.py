"""Octree: a field as simulators with octrees of their own store it: nodes level by level, children together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.backend import any_backend
from sdfcli.errors import InputError
from sdfcli.field.field import Field
from sdfcli.spatial.morton import LATTICE_BITS

MOST_NODES = 2**31 - 8
"""Maximum node count: children are numbered by int32."""
OFFSETS = np.array([[k & 1, k >> 1 & 1, k >> 2] for k in range(8)], np.float64)
"""The children's lower corners, in halves of their parent's edge: x in the lowest bit."""


class Arrays(NamedTuple):
    """An octree as MuJoCo stores it.

    child  (n, 8) int32: the children's indices, x in the lowest bit; -1 in leaves.
    aabb   (n, 6) float64: centre and half sizes of the node's cube.
    coeff  (n, 8) float64: distances at a leaf's corners; 0 in other nodes.
    depth  (n,) int32: the root's is 0.
    """

    child: npt.NDArray[np.int32]
    aabb: npt.NDArray[np.float64]
    coeff: npt.NDArray[np.float64]
    depth: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Octree:
    """Nodes in breadth-first order: level by level, in a level along the Morton curve. The children of the k-th split
    node, from 0, are nodes 8 k + 1 to 8 k + 8.

    origin  (3,) float64: lower corner of the root's cube.
    length  the cube's edge.
    split   (n,) bool: whether a node has children.
    value   (leaves, 8) float32: distances at each leaf's corners, in the nodes' order; negative inside.
    """

    origin: npt.NDArray[np.float64]
    length: float
    split: npt.NDArray[np.bool_]
    value: npt.NDArray[np.float32]

    @staticmethod
    def of(field: Field) -> Octree:
        """A field's octree. Raises InputError for a field without an inside, or with too many leaves."""
        backend = any_backend()
        corner, value = field._leaf_values(backend)
        values = backend.to_host(value if corner is None else value[corner])
        if not (values < 0).any():
            raise InputError("the field has no inside: build it with signs (--sign auto), from a mesh that has one")
        if len(values) > MOST_NODES // 8 * 7:
            raise InputError(f"the field has {len(values):,} leaves; simulators' octrees hold {MOST_NODES // 8 * 7:,}")
        level = field.leaf_level
        order = np.argsort(level, kind="stable")
        code: npt.NDArray[np.uint64] = np.zeros(1, np.uint64)
        split = []
        for at in range(int(level.max()) + 1):
            leaves = field.leaf_key[level == at] >> np.uint64(3 * (LATTICE_BITS - at))
            found = np.ones(len(code), np.bool_)
            found[np.searchsorted(code, leaves)] = False
            split.append(found)
            code = (code[found][:, None] << np.uint64(3) | np.arange(8, dtype=np.uint64)).reshape(-1)
        return Octree(field.domain.origin, field.domain.length, np.concatenate(split), values[order])

    @cached_property
    def levels(self) -> list[slice]:
        """The nodes of each level. Raises InputError if a node would be its own ancestor."""
        found, first, last = [], 0, 1
        before = np.concatenate(([0], np.cumsum(self.split)))
        while first < last:
            found.append(slice(first, last))
            first, last = last, 1 + 8 * int(before[last])
            if last > len(self.split):
                raise InputError("the octree's nodes are out of order: children missing")
        if last != len(self.split):
            raise InputError("the octree's nodes are out of order: nodes without a parent")
        return found

    def _lower_corners(self) -> Iterator[tuple[slice, float, npt.NDArray[np.float64]]]:
        """Each level's nodes, their edge, and their lower corners (3, k) in edges, which are exact."""
        low: npt.NDArray[np.float64] = np.zeros((3, 1))
        for at, nodes in enumerate(self.levels):
            yield nodes, self.length * 0.5**at, low
            low = (2 * low[:, self.split[nodes], None] + OFFSETS.T[:, None]).reshape(3, -1)

    @cached_property
    def box(self) -> npt.NDArray[np.float64]:
        """Lower and upper corner (2, 3) float64 of the box around the leaves that the solid meets."""
        met = np.zeros(len(self.split), np.bool_)
        met[~self.split] = (self.value <= 0).any(axis=1)
        bounds = [np.full(3, np.inf), np.full(3, -np.inf)]
        for nodes, edge, low in self._lower_corners():
            if (inside := met[nodes]).any():
                corners = low[:, inside]
                bounds[0] = np.minimum(bounds[0], self.origin + edge * corners.min(axis=1))
                bounds[1] = np.maximum(bounds[1], self.origin + edge * (corners.max(axis=1) + 1))
        return np.array(bounds)

    def sample(self, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Signed distances (n,) at points (n, 3), as `Field.sample`."""
        unit = (points - self.origin) / self.length
        at = np.clip(unit, 0, 1)
        beyond = np.linalg.norm(unit - at, axis=1)
        first = 1 + 8 * (np.cumsum(self.split) - 1)
        node = np.zeros(len(at), np.int64)
        while (inner := self.split[node]).any():
            upper = at[inner] >= 0.5
            at[inner] = 2 * at[inner] - upper
            node[inner] = first[node[inner]] + upper @ [1, 2, 4]
        leaf = node - np.cumsum(self.split)[node]
        weight = np.where(OFFSETS, at[:, None], 1 - at[:, None]).prod(axis=2)
        return np.asarray((weight * self.value[leaf]).sum(axis=1) + beyond * self.length)

    def arrays(self) -> Arrays:
        """The octree as MuJoCo stores it."""
        n = len(self.split)
        child = np.full((n, 8), -1, np.int32)
        child[self.split] = np.arange(1, n, dtype=np.int32).reshape(-1, 8)
        aabb, depth = np.empty((n, 6)), np.empty(n, np.int32)
        for at, (nodes, edge, low) in enumerate(self._lower_corners()):
            aabb[nodes, :3] = self.origin + edge * (low.T + 0.5)
            aabb[nodes, 3:] = edge / 2
            depth[nodes] = at
        coeff = np.zeros((n, 8))
        coeff[~self.split] = self.value
        return Arrays(child, aabb, coeff, depth)
