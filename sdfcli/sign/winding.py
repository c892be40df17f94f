"""Signs by generalised winding numbers (Barill et al. 2018), holes closed by caps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sdfcli.backend import WARP, Array, Backend
from sdfcli.mesh.arrays import Bools, Floats
from sdfcli.mesh.mesh import Mesh
from sdfcli.mesh.repair import cones
from sdfcli.sign.caps import CapGroups, reach_sq
from sdfcli.sign.signer import Signer
from sdfcli.spatial.index import make_bvh, nearest
from sdfcli.spatial.morton import Order
from sdfcli.spatial.radix_tree import Bvh, build_bvh, refit, without_nodes

BETA, LOST = 1.5, 0.1
"""How coarse the expansions of the winding number are, and how far off they may be before the exact sum is taken."""

LONE_WINDINGS = 150_000
"""Up to so many points on a GPU, a warp for each is faster than a thread, which takes as long as the longest sum."""
FEW_POINTS = 1 << 16
"""Up to so many points along a curve, warps ask for each winding number sooner than signs are handed on."""
POINTS_OF_A_WARP = 2
"""For which it sums up winding numbers at a time; as in winding/warp.h."""
MOST_WARPS = 1 << 15
"""More than run at a time on any GPU: each takes points one after the other."""
LINK_RUN = 256
"""As in sign/corners.h: so many links are looked at by a warp."""

CAP_STEPS = ((0.15, 8.0), (0.003, 16.0), (0.0003, 0.0))
"""Closer to the level 0.5 than this, the winding number of the caps of holes is summed up this finely. The expansions
are off by less than the next step's margin: about 0.09 was measured before the first, then 0.00012 and 0.00001; more
where the same open surface is there four times or more."""


@dataclass(frozen=True)
class WindingIndex:
    """The BVH's moments for hierarchical winding numbers (Barill et al. 2018). Of the BVH what they are read with.

    slots  (n,) uint32: where the n triangles that count are among those of bvh; None: these are all of them.
    """

    bvh: Bvh
    moments: Array
    slots: Array | None = None

    @property
    def triangles(self) -> int:
        """How many count."""
        return len(self.moments) + 1

    @staticmethod
    def of(backend: Backend, bvh: Bvh) -> WindingIndex:
        """Sums up every node's moments, bottom-up, as the refit does."""
        n = len(bvh.order)
        moments = backend.lines((n - 1, 16), np.float32)
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
        return WindingIndex(without_nodes(replace(bvh, order=replace(bvh.order, keys=None))), moments)

    @staticmethod
    def among(backend: Backend, order: Order, counted: Bools | None) -> WindingIndex:
        """Of triangles in Morton order, by a tree of its own. counted: (f,), the faces that count; None: all."""
        own, slots = order, None
        if counted is not None:
            slots = backend.compact(backend.from_host(counted, np.uint8)[order.triangle_id])[0]
            own = Order(order.keys[slots], order.triangle_id[slots], order.triangle[slots])
        backend.trim()
        index = WindingIndex.of(backend, refit(backend, build_bvh(backend, own)))
        return replace(index, bvh=replace(index.bvh, order=order), slots=slots)

    def winding(self, backend: Backend, points: Array, beta: float) -> Array:
        """Winding numbers (m,) float32 of points (m, 3) float32; beta 0 sums over all triangles in float64."""
        result = backend.xp.empty(len(points), np.float32)
        if backend.warps and (beta == 0 or len(points) <= LONE_WINDINGS):
            wind_alone(backend, self, points, result, beta)
            return result
        backend.run(
            "sdf_winding",
            len(points),
            triangles=self.triangles,
            points=points,
            triangle=self.bvh.order.triangle,
            slots=self.slots,
            moments=self.moments,
            beta=beta,
            winding=result,
        )
        return result


@functools.cache
def _cap_steps(backend: Backend) -> Array:
    return backend.from_host(CAP_STEPS, np.float32)


def wind_alone(
    backend: Backend,
    index: WindingIndex,
    points: Array,
    winding: Array,
    beta: float,
    link: Array | None = None,
    caps: WindingIndex | None = None,
) -> None:
    """Fills in winding numbers (m,) float32 of points (m, 3), half a warp for each; beta 0: exact.

    link: (m,) uint64, 0 for those that are asked for. caps: near the level 0.5 these decide, as WindingSigner has it.
    """
    asked = many = None
    if link is not None:
        asked, many = backend.xp.empty(len(link), np.uint32), backend.xp.zeros(1, np.uint32)
        runs = -(-len(link) // LINK_RUN)
        backend.run("sdf_sign_asked", WARP * runs, count=len(link), link=link, asked=asked, many=many)
    backend.run(
        "sdf_winding_lone",
        WARP * min(MOST_WARPS, -(-len(points) // POINTS_OF_A_WARP)),
        count=len(points),
        points=points,
        asked=asked,
        many=many,
        triangles=index.triangles,
        triangle=index.bvh.order.triangle,
        slots=index.slots,
        moments=index.moments,
        caps=0 if caps is None else caps.triangles,
        caps_triangle=None if caps is None else caps.bvh.order.triangle,
        caps_moments=None if caps is None else caps.moments,
        steps=0 if caps is None else len(CAP_STEPS),
        step=None if caps is None else _cap_steps(backend),
        beta=beta,
        lost=LOST,
        winding=winding,
    )


class WindingSigner:
    """Winding numbers above 0.5, decided exactly; and what lets a point hand its sign on to its neighbours.

    The holes of an open surface are closed by caps. The winding number of the closed whole is an integer, so rounding
    turns the approximation into the exact number: winding = round(approximation + cap) - cap, where near the
    level 0.5 the caps' own winding number is summed up exactly. On an edge between caps their solid angles are
    anything: there it may be off by up to LOST.

    guard  distance from the caps (in the unit cube) beyond which their winding number stays below 0.45, so that the
           sign changes at the surface only; 0 for a closed surface.
    """

    def __init__(self, backend: Backend, mesh: Mesh, index: WindingIndex | Callable[[], WindingIndex]) -> None:
        """index: of the mesh; or what makes it, whenever it is asked for and not there."""
        self.backend = backend
        self._make = index if callable(index) else None
        if not callable(index):
            self.index = index
        self.guard = 0.0
        self.caps: WindingIndex | None = None
        caps = cap_triangles(mesh)
        self.closed = len(caps) == 0
        if len(caps):
            self.caps = WindingIndex.of(backend, make_bvh(backend, caps))
            order = self.caps.bvh.order
            self.cap_groups = CapGroups.of(backend, backend.to_host(order.triangle).astype(np.float64))
            self.guard = float(np.sqrt(reach_sq(caps.reshape(-1, 3, 3)).sum()))

    @functools.cached_property
    def index(self) -> WindingIndex:
        """The mesh's moments."""
        assert self._make is not None
        return self._make()

    def rest(self) -> None:
        """Frees the index until it is asked for again, if it can be made again."""
        if self._make is not None:
            self.__dict__.pop("index", None)

    def inside(self, points: Array, slot: Array) -> Array:
        """See Signer."""
        return self._winding(points) > 0.5

    def _winding(self, points: Array) -> Array:
        """Winding numbers of points (m, 3) that are on the right side of 0.5, and else as near as expansions come."""
        xp = self.backend.xp
        if self.backend.warps and len(points) <= LONE_WINDINGS:
            winding = xp.empty(len(points), np.float32)
            wind_alone(self.backend, self.index, points, winding, BETA, caps=self.caps)
            return winding
        winding = self.index.winding(self.backend, points, BETA)
        if self.caps is not None:
            doubtful = xp.flatnonzero(xp.abs(winding - 0.5) < CAP_STEPS[0][0])
            if len(doubtful):
                winding[doubtful] = self._closed(self.caps, points[doubtful], winding[doubtful])
        return winding

    def _closed(self, caps: WindingIndex, points: Array, approximation: Array) -> Array:
        """Winding numbers (m,) of points near the level 0.5, from those that the expansions give."""
        xp = self.backend.xp
        (_, beta), *finer = CAP_STEPS
        of_caps = caps.winding(self.backend, points, beta)
        winding = xp.rint(approximation + of_caps) - of_caps
        for margin, beta in finer:
            doubtful = xp.flatnonzero(xp.abs(winding - 0.5) < margin)
            if len(doubtful) == 0:
                break
            of_caps = caps.winding(self.backend, points[doubtful], beta)
            winding[doubtful] = xp.rint(winding[doubtful] + of_caps) - of_caps
        # On an edge of a cap its solid angle is anything.
        lost = xp.flatnonzero(xp.abs(winding - approximation) > LOST)
        if len(lost):
            winding[lost] = self.index.winding(self.backend, points[lost], 0.0)
        return winding

    def inside_along(self, points: Array, distance: Array, slot: Array) -> Array:
        """See `inside_along` below.

        Handed on is the winding number of the closed whole, which changes at the surface and at the caps alone. From it
        and the caps' own winding number follows a point's sign, as in `inside`.
        """
        backend, xp = self.backend, self.backend.xp
        if backend.warps and len(points) <= FEW_POINTS:
            return self.inside(points, slot)
        clear = self.clear(points)
        link = xp.empty(len(points), np.uint32)
        backend.run("sdf_sign_link", len(points), points=points, distance=xp.minimum(distance, clear), link=link)
        alone = xp.flatnonzero(link == xp.arange(len(points), dtype=np.uint32))
        while True:  # to the far end of each chain
            further = link[link]
            if len(xp.flatnonzero(further != link)) == 0:
                break
            link = further
        winding = xp.empty(len(points), np.float32)
        winding[alone] = asked = self._winding(points[alone])
        if self.caps is None:
            return winding[link] > 0.5
        winding[alone] = xp.rint(asked + self.caps.winding(backend, points[alone], BETA))
        whole = winding[link]
        winding = whole.copy()
        doubtful = xp.flatnonzero(clear <= self.guard)
        for margin, beta in ((np.inf, BETA), *CAP_STEPS):
            doubtful = doubtful[xp.abs(winding[doubtful] - 0.5) < margin]
            winding[doubtful] = whole[doubtful] - self.caps.winding(backend, points[doubtful], beta)
        winding[alone] = asked
        return winding > 0.5

    def clear(self, points: Array) -> Array:
        """(m,) float32: the distance from points to the caps, or to nothing."""
        if self.caps is None:
            return self.backend.xp.full(len(points), 1e30, np.float32)
        return nearest(self.backend, self.caps.bvh, points)[0]


def inside_along(signer: Signer, points: Array, distance: Array, slot: Array) -> Array:
    """(m,) bool for points (m, 3) float32 along a curve, with their distances and nearest slots.

    The same as asking the signer for each. Winding numbers are dear: a point takes over the sign of another one nearby
    on the curve that is farther from the surface, where there is no room for surface between the two.
    """
    if isinstance(signer, WindingSigner):
        return signer.inside_along(points, distance, slot)
    return signer.inside(points, slot)


def cap_triangles(mesh: Mesh) -> Floats:
    """(c, 9) in the unit cube: cones over the loops of open edges, which close the surface as an oriented whole.

    An edge that the faces use k times more in one direction than in the other gets k triangles of the other direction.
    """
    edges = mesh.edges
    excess = edges.forward - edges.backward
    open_edges = np.flatnonzero(excess)
    ends, excess = edges.ends(open_edges), excess[open_edges]
    ends = np.repeat(np.where((excess > 0)[:, None], ends[:, ::-1], ends), np.abs(excess), axis=0)
    vertex, of_end = np.unique(ends, return_inverse=True)
    position = mesh.domain.to_unit(mesh.vertices[vertex])[of_end.reshape(-1, 2)]
    return cones(ends, position[:, 0], position[:, 1])
