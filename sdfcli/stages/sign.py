"""Inside or outside: pseudonormals or winding numbers, and which of the two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.mesh import Floats, Mesh
from sdfcli.stages.bvh import Bvh, build_bvh, refit
from sdfcli.stages.distance import nearest
from sdfcli.stages.order import morton_order

LADDER = ((1.5, 0.15), (6.0, 0.01), (0.0, 0.0))
"""The expansions' beta, and how near to the level 0.5 their winding number is not trusted and the next rung is asked.
The last rung is the exact sum."""


@dataclass(frozen=True)
class SignChoice:
    """How signs are decided, and why, in words for the user."""

    method: str
    reason: str


def choose_sign(mesh: Mesh, asked: str) -> SignChoice:
    """The method for `auto`: pseudonormals where nothing in the mesh misleads them, else winding numbers."""
    if asked != "auto":
        return SignChoice(asked, "asked for")
    faults = mesh.health.faults
    if not faults:
        return SignChoice("pseudonormal", "closed, oriented, no degenerate or non-manifold spots")
    return SignChoice("winding", ", ".join(faults))


@dataclass(frozen=True)
class WindingIndex:
    """The BVH's moments for hierarchical winding numbers (Barill et al. 2018)."""

    bvh: Bvh
    moments: Array

    @staticmethod
    def of(backend: Backend, bvh: Bvh) -> WindingIndex:
        """Sums up every node's moments, bottom-up, as the refit does."""
        n = len(bvh.order)
        moments = backend.xp.empty((n - 1, 17), np.float32)
        if n > 1:
            backend.run(
                "sdf_winding_moments",
                n,
                triangle=bvh.order.triangle,
                child=bvh.child,
                node_parent=bvh.node_parent,
                leaf_parent=bvh.leaf_parent,
                box=bvh.box,
                arrivals=backend.xp.zeros(n - 1, np.uint32),
                moments=moments,
            )
        return WindingIndex(bvh, moments)

    def winding(self, backend: Backend, points: Array, beta: float) -> Array:
        """Winding numbers (m,) float32 of points (m, 3) float32; beta 0 sums over all triangles in float64."""
        result = backend.xp.empty(len(points), np.float32)
        backend.run(
            "sdf_winding",
            len(points),
            triangles=len(self.bvh.order),
            points=points,
            triangle=self.bvh.order.triangle,
            child=self.bvh.child,
            moments=self.moments,
            beta=beta,
            winding=result,
        )
        return result

    def inside(self, backend: Backend, points: Array) -> tuple[Array, Array]:
        """Whether the exact winding number is above 0.5 (m,) bool, and a lower bound of its distance to 0.5."""
        xp = backend.xp
        winding = self.winding(backend, points, LADDER[0][0])
        slack = xp.abs(winding - 0.5) - LADDER[0][1]
        for beta, margin in LADDER[1:]:
            doubtful = xp.flatnonzero(slack <= 0)
            if len(doubtful) == 0:
                break
            winding[doubtful] = self.winding(backend, points[doubtful], beta)
            slack[doubtful] = xp.abs(winding[doubtful] - 0.5) - margin
        return winding > 0.5, slack


def pseudonormals(mesh: Mesh) -> Floats:
    """(f, 7, 3): the outward normals at each face's vertices a, b, c (angle-weighted), edges ab, bc, ca, and of itself.

    Baerentzen and Aanaes 2005. Not normalised: only the sign of a product with them counts.
    """
    corner = mesh.unit_triangles.reshape(-1, 3, 3)
    side = np.roll(corner, -1, axis=1) - corner
    normal = np.cross(side[:, 0], side[:, 1])
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    normal /= np.where(length > 0, length, 1.0)
    back = -np.roll(side, 1, axis=1)
    cosine = np.einsum("fij,fij->fi", side, back)
    angle = np.arctan2(np.linalg.norm(np.cross(side, back), axis=2), cosine)
    by_vertex = _summed(mesh.welded, angle[..., None] * normal[:, None, :])
    by_edge = _summed(mesh.edges.of_face, np.repeat(normal[:, None, :], 3, axis=1))
    return np.concatenate([by_vertex, by_edge, normal[:, None, :]], axis=1)


def _summed(number: Array, values: Floats) -> Floats:
    """Values (f, 3, 3) added up over equal numbers (f, 3), and given back to each place."""
    total = [np.bincount(number.ravel(), weights=values[..., k].ravel()) for k in range(3)]
    return np.stack(total, axis=1)[number]


class PointSet(Protocol):
    """The points of a growing octree, as the sign stage needs them (arrays over all points)."""

    position: Array
    distance: Array
    slot: Array
    inside: Array
    slack: Array
    clear: Array


class Signer(Protocol):
    """Decides the sign of points."""

    def inside(self, points: Array, slot: Array) -> Array:
        """(m,) bool for points (m, 3) float32 whose nearest slots (m,) are known."""


class NoSigner:
    """Unsigned distances: nothing is inside."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def inside(self, points: Array, slot: Array) -> Array:
        """All False."""
        return self.backend.xp.zeros(len(points), bool)


class PseudonormalSigner:
    """The side of the nearest feature's pseudonormal."""

    def __init__(self, backend: Backend, mesh: Mesh, bvh: Bvh) -> None:
        self.backend, self.bvh = backend, bvh
        order = backend.to_host(bvh.order.triangle_id)
        self.normals = backend.from_host(pseudonormals(mesh)[order].reshape(-1, 21), np.float32)

    def inside(self, points: Array, slot: Array) -> Array:
        """See Signer."""
        result = self.backend.xp.empty(len(points), np.uint8)
        self.backend.run(
            "sdf_pseudonormal",
            len(points),
            points=points,
            slot=slot,
            triangle=self.bvh.order.triangle,
            normals=self.normals,
            inside=result,
        )
        return result.astype(bool)


class WindingSigner:
    """Winding numbers above 0.5; with what is needed to hand a sign on from point to point."""

    def __init__(self, backend: Backend, mesh: Mesh, bvh: Bvh) -> None:
        self.backend = backend
        self.index = WindingIndex.of(backend, bvh)
        self.change = 0.0
        if len(mesh.open_edges):
            ends = mesh.domain.to_unit(mesh.vertices)[_a_vertex_of(mesh)[mesh.open_edges]]
            # The gradient of a surface's winding number depends on its boundary alone (Biot and Savart).
            self.change = float(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1).sum() / (4 * np.pi))
            segments = np.concatenate([ends[:, 0], ends[:, 1], ends[:, 1]], axis=1)
            self.open_edges = refit(backend, build_bvh(backend, morton_order(backend, segments)))

    def inside(self, points: Array, slot: Array) -> Array:
        """See Signer."""
        return self.index.inside(self.backend, points)[0]

    def judge(self, points: Array) -> tuple[Array, Array, Array]:
        """inside (m,), and what sign_inherit needs: slack (m,) and clear (m,) float32, see octree.h."""
        inside, slack = self.index.inside(self.backend, points)
        if self.change == 0.0:
            return inside, slack, slack
        return inside, slack, nearest(self.backend, self.open_edges, points)[0]


def _a_vertex_of(mesh: Mesh) -> Array:
    """For each welded vertex number one of the vertices at that place."""
    vertex = np.empty(int(mesh.welded.max()) + 1, np.int64)
    vertex[mesh.welded.ravel()] = mesh.faces.ravel()
    return vertex


def make_signer(backend: Backend, mesh: Mesh, bvh: Bvh, method: str) -> Signer:
    """The signer for a method of SignChoice."""
    if method == "none":
        return NoSigner(backend)
    if method == "pseudonormal":
        return PseudonormalSigner(backend, mesh, bvh)
    return WindingSigner(backend, mesh, bvh)
